//! Many stores among many thieves, with wide windows: none is lost. And the same with mistakes on
//! purpose, each of which must lose some: else the test could not have found anything.
//!
//! The threads add 1 to a word by a load and a store, under a lock that they force from each other.
//! A store that comes after the lock was taken away puts an old number back, so in the end the word
//! is smaller than the number of stores that were said to have happened.
//!
//! What no stress finds is found by the model, under the same names: with flags, a thief that sends
//! no barrier goes wrong only while a store is in the victim's store buffer.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::{Backend, Lock, Revoked, Steal, Word, backend};
use crate::backend::sabotage::{self, Mistake, Plan};
use crate::backend::try_backend;
use crate::sync::machine::{AtomicU64, Ordering};

/// Nothing here takes so long unless it is stuck.
const LIMIT: Duration = Duration::from_secs(120);

/// How long the way from the checks to the store is.
const NARROW: u32 = 0;
const WIDE: u32 = 300;
const VERY_WIDE: u32 = 20_000;

#[derive(Clone, Copy, Debug)]
struct Run {
    backend: Backend,
    threads: usize,
    plan: Plan,
    /// How many stores there are in all, at least.
    stores: u64,
}

struct Result {
    stored: u64,
    lost: i64,
    acquired: u64,
}

impl Run {
    fn new(backend: Backend, mistake: Mistake, window: u32, stores: u64) -> Self {
        Self { backend, threads: 4, plan: Plan { mistake, window }, stores }
    }

    fn go(self) -> Result {
        let lock = Lock::new(Word::new(0));
        let (stored, acquired) = (AtomicU64::new(0), AtomicU64::new(0));
        let start = Barrier::new(self.threads);
        thread::scope(|scope| {
            for number in 0..self.threads {
                let (lock, stored, acquired, start) = (&lock, &stored, &acquired, &start);
                scope.spawn(move || {
                    sabotage::follow(self.plan);
                    sabotage::pin(number);
                    start.wait();
                    let deadline = Instant::now() + LIMIT;
                    let mut random = number as u64 + 1;
                    while stored.load(Ordering::Relaxed) < self.stores {
                        assert!(Instant::now() < deadline, "{self:?} does not come to an end");
                        acquired.fetch_add(1, Ordering::Relaxed);
                        stored.fetch_add(self.add_until_robbed(lock), Ordering::Relaxed);
                        // Else the thieves would do nothing but rob each other.
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (0..random >> 53).for_each(|_| core::hint::spin_loop());
                    }
                });
            }
        });
        let stored = stored.into_inner();
        let lost = stored.wrapping_sub(lock.words().peek()).cast_signed();
        Result { stored, lost, acquired: acquired.into_inner() }
    }

    /// How often it has added 1 before the lock was taken away, or before it let go.
    fn add_until_robbed(self, lock: &Lock<Word>) -> u64 {
        let ticket = lock.acquire_by(self.backend, Steal::Force).unwrap();
        let add = |_: &u64| {
            let value = ticket.load(|word| word)?;
            ticket.store(|word| word, value + 1)
        };
        let most = (self.stores / 4).min(1_000_000);
        (0..most).take_while(|round| add(round) != Err(Revoked)).count() as u64
    }
}

/// Those of this machine, ready to be used beside each other.
fn backends() -> Vec<Backend> {
    let best = backend().backend();
    let all = [Backend::Rseq, Backend::Membarrier, Backend::Plain];
    let there = all.into_iter().filter(|one| *one <= best);
    there.inspect(|one| drop(try_backend(*one).unwrap())).collect()
}

fn nothing_is_lost(runs: impl Iterator<Item = Run>) -> u64 {
    let mut all = 0;
    for run in runs {
        let result = run.go();
        println!("{run:?}: {} stores, {} acquisitions", result.stored, result.acquired);
        assert_eq!(result.lost, 0, "{run:?}");
        all += result.stored;
    }
    all
}

/// Set, it makes billions of stores of it, which takes two minutes with all optimisation;
/// `cargo xtask search` does so.
const MORE: &str = "LOCKSPAN_STRESS_BILLIONS";

#[test]
fn no_store_is_lost() {
    let more = std::env::var_os(MORE).is_some();
    let stored = backends().into_iter().map(|backend| {
        let sizes = [(NARROW, 50_000_000), (WIDE, 2_000_000), (VERY_WIDE, 20_000)];
        nothing_is_lost(sizes.into_iter().flat_map(|(window, stores)| {
            let stores = match backend {
                Backend::Rseq if more => stores * 40,
                Backend::Rseq => stores / 20,
                _ if more => stores,
                _ => stores / 100,
            };
            let run = Run::new(backend, Mistake::Nothing, window, stores);
            [run, Run { threads: 2, ..run }]
        }))
    });
    println!("{} stores, none lost", stored.sum::<u64>());
}

/// Runs until something is lost.
fn must_lose(backend: Backend, mistake: Mistake, window: u32) {
    let start = Instant::now();
    let run = Run::new(backend, mistake, window, 4_000);
    for round in 1.. {
        let result = run.go();
        if result.lost != 0 {
            println!("{run:?}: {} of {} lost in round {round}", result.lost, result.stored);
            return;
        }
        assert!(start.elapsed() < LIMIT, "{run:?} loses nothing");
    }
}

#[test]
fn each_mistake_loses_stores() {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("one processor: all that is interrupted begins anew, and nothing is lost");
        return;
    }
    for backend in backends() {
        let mistakes: &[_] = match backend {
            Backend::Rseq => &[Mistake::NoFence, Mistake::WrongFence, Mistake::NoCheck],
            Backend::Membarrier => &[Mistake::NoWait, Mistake::NoCheck],
            _ => &[Mistake::NoGate],
        };
        for mistake in mistakes {
            must_lose(backend, *mistake, VERY_WIDE);
        }
    }
}
