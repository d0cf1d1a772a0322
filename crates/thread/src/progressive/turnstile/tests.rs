//! A first in line that gets no processor: it is in the line and does nothing.

use std::thread;

use super::super::base::word::{self, Base};
use super::*;

/// More than may pass a first in line whose turn is due.
const MANY: usize = 10_000;

fn turnstile() -> Turnstile<Base> {
    Turnstile::new()
}

/// Somebody stands in line, is the first, and does not run. The place, to leave with.
fn stand_idle(turnstile: &Turnstile<Base>, begun: Instant) -> Place {
    let show = |closes| turnstile.show_line(closes);
    turnstile.line.stand(begun, QUANTUM, None, show).expect("there is no deadline")
}

fn leave(turnstile: &Turnstile<Base>, place: &Place, had_its_turn: bool) {
    turnstile.line.leave(place, QUANTUM, had_its_turn, |closes| turnstile.show_line(closes));
}

fn pass(turnstile: &Turnstile<Base>) -> bool {
    let is_in = turnstile.try_enter(word::write, Ordering::Acquire).is_some();
    if is_in {
        turnstile.trade(word::WRITE, 0, Ordering::Release);
    }
    is_in
}

/// How many arrivals in a row pass.
fn passes(turnstile: &Turnstile<Base>) -> usize {
    (0..MANY).take_while(|_| pass(turnstile)).count()
}

#[test]
fn plock_p8_a_first_in_line_without_a_processor_is_not_passed_without_end() {
    let turnstile = turnstile();
    let place = stand_idle(&turnstile, Instant::now());
    // The quantum may be over by now, or not; after it at most one reading of the clock is left.
    passes(&turnstile);
    thread::sleep(2 * QUANTUM);
    assert!(passes(&turnstile) <= 15, "arrivals pass a first in line whose turn is due");
    leave(&turnstile, &place, false);
    assert_eq!(passes(&turnstile), MANY, "nobody is in line any more");
    turnstile.assert_at_rest();
}

#[test]
fn plock_p8_a_reader_does_not_become_the_seeker_past_a_first_whose_turn_is_due() {
    let raw = super::super::base::RawLock::new();
    raw.read();
    assert!(raw.try_read_to_seek());
    raw.seek_to_read();
    let place = stand_idle(raw.turnstile(), Instant::now() - QUANTUM);
    assert!(!raw.try_read_to_seek(), "the first in line may want to seek");
    leave(raw.turnstile(), &place, false);
    assert!(raw.try_read_to_seek());
    raw.seek_done();
    raw.assert_at_rest();
}

#[test]
fn plock_p8_arrivals_pass_again_for_a_quantum_after_a_turn_of_the_line() {
    let turnstile = turnstile();
    let long_ago = Instant::now() - Duration::from_secs(1);
    let first = stand_idle(&turnstile, long_ago);
    assert_eq!(passes(&turnstile), 0, "it has been due for long");
    thread::scope(|scope| {
        // Nobody wakes it to act: it gets its place, is the first later, and leaves.
        let second = scope.spawn(|| stand_idle(&turnstile, long_ago));
        while turnstile.line.len() < 2 {
            thread::yield_now();
        }
        leave(&turnstile, &first, true);
        let second = second.join().unwrap();
        thread::sleep(2 * QUANTUM);
        assert!(passes(&turnstile) <= 15, "the second is now the first, and due");
        leave(&turnstile, &second, true);
    });
    assert!(pass(&turnstile), "the line is empty");
    turnstile.assert_at_rest();
}

#[test]
fn plock_p8_an_arrival_that_may_not_pass_gets_its_turn_when_the_first_has_had_its_own() {
    let turnstile = turnstile();
    let first = stand_idle(&turnstile, Instant::now() - QUANTUM);
    thread::scope(|scope| {
        let late = scope.spawn(|| {
            turnstile.enter(word::write, Ordering::Acquire);
            turnstile.trade(word::WRITE, 0, Ordering::Release);
        });
        while turnstile.line.len() < 2 {
            assert!(!late.is_finished(), "it has passed");
            thread::yield_now();
        }
        leave(&turnstile, &first, true);
        late.join().unwrap();
    });
    turnstile.assert_at_rest();
}
