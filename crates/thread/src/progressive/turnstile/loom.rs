//! Models of a first in line that does not act: arrivals pass it or get in line behind it, by what
//! they see of [`Due`], and nobody is left behind when it goes.

use ::loom::sync::Arc;

use super::super::base::word::{self, Base};
use super::*;

/// One thread stands in line for a while and does nothing else; `others` come and go.
fn beside_an_idle_first(preemptions: usize, others: usize, deadline: Option<Instant>) {
    let mut model = ::loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let turnstile = Arc::new(Turnstile::<Base>::new());
        let threads: Vec<_> = (0..others)
            .map(|_| {
                let turnstile = Arc::clone(&turnstile);
                thread::spawn(move || {
                    if turnstile.enter_until(word::write, Ordering::Acquire, deadline).is_some() {
                        turnstile.trade(word::WRITE, 0, Ordering::Release);
                    }
                })
            })
            .collect();
        let show = |closes| turnstile.show_line(closes);
        let place = turnstile.line.stand(Instant::now(), QUANTUM, None, show).unwrap();
        turnstile.line.leave(&place, QUANTUM, true, show);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        turnstile.assert_at_rest();
    });
}

#[test]
fn loom_turnstile_plock_p8_nobody_is_left_behind_a_first_that_does_not_act() {
    beside_an_idle_first(3, 1, None);
}

#[test]
fn loom_turnstile_plock_p8_two_arrivals_behind_a_first_that_does_not_act() {
    beside_an_idle_first(2, 2, None);
}

#[test]
fn loom_turnstile_plock_p8_an_arrival_gives_up_behind_a_first_that_does_not_act() {
    beside_an_idle_first(2, 2, Some(Instant::now() + Duration::from_secs(3600)));
}
