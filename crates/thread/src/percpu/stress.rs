//! Tokens that are pushed and popped on every processor while somebody drains the parts from
//! elsewhere: none is lost, none is there twice. And the same with a mistake on purpose, which
//! must show: else the test could not have found anything. The workers move many tokens at once, so
//! they are in the middle of a section most of the time.

use std::thread;
use std::time::{Duration, Instant};

use super::{Backend, Stack, backend};
use crate::backend::sabotage::{self, Mistake, Plan};
use crate::sync::machine::{AtomicU32, Ordering};

/// Nothing here takes so long unless it is stuck.
const LIMIT: Duration = Duration::from_secs(120);
const WORKERS: usize = 4;
const TOKENS: u64 = 2_048;
/// Tells the workers to stop.
const OVER: u32 = u32::MAX;

/// The tokens that there are in the end, in order, after so many drains.
fn tokens_after(drains: usize, mistake: Mistake) -> Vec<u64> {
    let stack = Stack::with_capacity(WORKERS * TOKENS as usize);
    let at_work = AtomicU32::new(WORKERS as u32);
    let mut all = thread::scope(|scope| {
        let workers = (0..WORKERS as u64).map(|number| {
            let (stack, at_work) = (&stack, &at_work);
            scope.spawn(move || {
                sabotage::pin(number as usize);
                let mut held: Vec<u64> = (number * TOKENS..(number + 1) * TOKENS).collect();
                let mut count = held.len();
                at_work.fetch_sub(1, Ordering::Relaxed);
                while at_work.load(Ordering::Relaxed) != OVER {
                    let pushed = stack.push_words(&held[..count]);
                    // Those that did not fit go to the front; what is popped comes behind.
                    held.copy_within(pushed..count, 0);
                    count -= pushed;
                    count += stack.pop_words(&mut held[count..]);
                }
                held.truncate(count);
                held
            })
        });
        let workers: Vec<_> = workers.collect();
        let start = Instant::now();
        while at_work.load(Ordering::Relaxed) > 0 {
            assert!(start.elapsed() < LIMIT, "the workers do not begin");
            thread::yield_now();
        }
        sabotage::follow(Plan { mistake, window: 0 });
        let mut held = Vec::new();
        for round in 0..drains {
            held.extend(stack.drain(round % stack.cpus()));
            let _ = stack.push_many(&mut held);
        }
        sabotage::follow(Plan { mistake: Mistake::Nothing, window: 0 });
        at_work.store(OVER, Ordering::Relaxed);
        held.extend(workers.into_iter().flat_map(|worker| worker.join().unwrap()));
        held
    });
    all.extend(stack.drain_all());
    all.sort_unstable();
    all
}

fn expected() -> Vec<u64> {
    (0..WORKERS as u64 * TOKENS).collect()
}

#[test]
fn drains_lose_no_token_and_make_none() {
    let drains = if cfg!(debug_assertions) { 300 } else { 5_000 };
    assert!(tokens_after(drains, Mistake::Nothing) == expected());
}

/// A barrier of the wrong kind shows as well, but after minutes; `revocable` has it.
#[test]
fn a_drain_without_a_barrier_shows() {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 || backend().backend() != Backend::Rseq {
        println!("without sections on another processor there is nothing to get wrong");
        return;
    }
    let start = Instant::now();
    while tokens_after(100, Mistake::NoFence) == expected() {
        assert!(start.elapsed() < LIMIT, "nothing shows");
    }
}
