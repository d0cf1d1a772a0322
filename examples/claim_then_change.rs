//! Many threads take from one ordered queue at once: read, join, claim, atomic.
//!
//! Run: `cargo run -p lockspan-examples --bin claim_then_change`
//!
//! First by hand, with seats: in the claim phase each thread claims a seat and sees which seats
//! the others have claimed, so no thread has to try again. Then with `claim::Queue`, which does
//! the same internally.
#![forbid(unsafe_code)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lockspan::thread::progressive::claim::{ClaimGuard, ClaimLock, Queue, ReadGuard};

const NOBODY: usize = usize::MAX;

/// Takes the first seat that no thread has claimed, and returns its index.
fn sit_down(seats: &ClaimLock<Vec<AtomicUsize>>, me: usize, all_read: &Barrier) -> usize {
    let read = seats.read();
    all_read.wait(); // all threads have looked, and have seen the same seats free
    let claim = ReadGuard::claim(read);
    let relaxed = Ordering::Relaxed;
    let claimed = |seat: &AtomicUsize| seat.compare_exchange(NOBODY, me, relaxed, relaxed).is_ok();
    let mine = claim.iter().position(claimed).expect("there are more seats than threads");
    let atomic = ClaimGuard::atomic(claim); // all threads have chosen a seat
    assert_eq!(atomic[mine].load(relaxed), me);
    mine
}

fn main() {
    let seats = ClaimLock::new((0..6).map(|_| AtomicUsize::new(NOBODY)).collect::<Vec<_>>());
    let all_read = Barrier::new(4);
    let mut taken: Vec<_> = thread::scope(|scope| {
        let (seats, all_read) = (&seats, &all_read);
        let threads: Vec<_> =
            (0..4).map(|me| scope.spawn(move || sit_down(seats, me, all_read))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    taken.sort_unstable();
    println!("four threads, in one round, have the seats {taken:?}");

    let jobs = Queue::new();
    (1..=100).for_each(|job| jobs.push(job));
    println!("waiting: {}, the first is {:?}", jobs.len(), jobs.read().iter().next());
    let done: Vec<u32> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| std::iter::from_fn(|| jobs.pop()).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    println!("done: {}, each once: {}", done.len(), done.iter().sum::<u32>() == 5050);
}
