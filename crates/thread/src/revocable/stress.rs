//! Many stores among many thieves, with wide windows: none is lost. And the same with mistakes on
//! purpose, each of which must lose some: else the test could not have found anything.
//!
//! The threads add 1 to a word by a load and a store, under a lock that they force from each other,
//! in each of the ways of [`Work`]. A store that comes after the lock was taken away puts an old
//! number back, so in the end the word is smaller than the number of stores that were said to have
//! happened.
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

/// How a thread adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// To the lock's word, with one ticket for many stores.
    Owned,
    /// The same to a word elsewhere, under a limit of stores.
    Elsewhere,
    /// With an acquire before each store, which gives the same ticket again.
    Again,
    /// As `Owned`, and between its turns each thread cancels the owner that it has seen before its
    /// pause, who may be gone by then.
    Cancelled,
}

const WORKS: [Work; 4] = [Work::Owned, Work::Elsewhere, Work::Again, Work::Cancelled];

#[derive(Clone, Copy, Debug)]
struct Run {
    backend: Backend,
    work: Work,
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
        Self { backend, work: Work::Owned, threads: 4, plan: Plan { mistake, window }, stores }
    }

    fn go(self) -> Result {
        let (lock, elsewhere) = (Lock::new(Word::new(0)), Line::default());
        let (stored, acquired) = (AtomicU64::new(0), AtomicU64::new(0));
        let start = Barrier::new(self.threads);
        thread::scope(|scope| {
            for number in 0..self.threads {
                let (stored, acquired, start) = (&stored, &acquired, &start);
                let (lock, elsewhere) = (&lock, &elsewhere.0);
                scope.spawn(move || {
                    sabotage::follow(self.plan);
                    sabotage::pin(number);
                    start.wait();
                    let deadline = Instant::now() + limit();
                    let mut random = number as u64 + 1;
                    while stored.load(Ordering::Relaxed) < self.stores {
                        assert!(Instant::now() < deadline, "{self:?} does not come to an end");
                        acquired.fetch_add(1, Ordering::Relaxed);
                        stored.fetch_add(self.add(lock, elsewhere), Ordering::Relaxed);
                        let seen = lock.owner().filter(|_| self.work == Work::Cancelled);
                        // Else the threads would do nothing but take the lock from each other.
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (0..random >> 53).for_each(|_| core::hint::spin_loop());
                        if let Some(owner) = seen {
                            lock.cancel_owner_by(self.backend, owner, Steal::Force).unwrap();
                        }
                    }
                });
            }
        });
        let stored = stored.into_inner();
        let sum = lock.words().peek() + elsewhere.0.into_inner();
        let lost = stored.wrapping_sub(sum).cast_signed();
        Result { stored, lost, acquired: acquired.into_inner() }
    }

    /// How often it has added 1 before the lock was taken away, or before it let go.
    fn add(self, lock: &Lock<Word>, elsewhere: &AtomicU64) -> u64 {
        let most = (self.stores / 64).clamp(1, 1_000_000);
        let acquire = || lock.acquire_by(self.backend, Steal::Force).unwrap();
        match self.work {
            Work::Owned | Work::Cancelled => {
                let ticket = acquire();
                let add =
                    || ticket.load(|word| word).and_then(|old| ticket.store(|word| word, old + 1));
                (0..most).take_while(|_| add() != Err(Revoked)).count() as u64
            }
            Work::Elsewhere => {
                let ticket = acquire().limit(most);
                let add = || {
                    let old = elsewhere.load(Ordering::Acquire);
                    // Loaded as the owner, if it still is one.
                    ticket.check().and_then(|()| ticket.store_to(elsewhere, old + 1))
                };
                (0..=most).take_while(|_| add() != Err(Revoked)).count() as u64
            }
            Work::Again => {
                let first = acquire();
                let owner = first.owner();
                first.keep();
                let add = |_: &u64| {
                    // Another owner means that the lock was lost.
                    let ticket = acquire();
                    let is_same = ticket.owner() == owner;
                    let old = ticket.load(|word| word);
                    let added = old.and_then(|old| ticket.store(|word| word, old + 1));
                    ticket.keep();
                    (is_same, added)
                };
                let mut done = 0;
                for round in 0..most {
                    let (is_same, added) = add(&round);
                    done += u64::from(added.is_ok());
                    if !is_same || added.is_err() {
                        break;
                    }
                }
                done
            }
        }
    }
}

/// A word on a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Nothing here takes so long unless it is stuck.
fn limit() -> Duration {
    if std::env::var_os(MORE).is_some() { 10 * LIMIT } else { LIMIT }
}

/// Those of this machine, ready to be used beside each other.
fn backends() -> Vec<Backend> {
    let best = backend().backend();
    let all = [
        Backend::Rseq,
        #[cfg(feature = "signals")]
        Backend::Signal,
        Backend::Membarrier,
        Backend::Plain,
    ];
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

/// Set, it makes more than a billion stores with each backend; `cargo xtask search` does so.
const MORE: &str = "LOCKSPAN_STRESS_BILLIONS";

/// How many stores a backend makes with each work, for each number of threads.
fn sizes(backend: Backend) -> [(u32, u64); 3] {
    let more = std::env::var_os(MORE).is_some();
    let share = match backend {
        _ if more => 1,
        Backend::Rseq => 20,
        _ => 100,
    };
    [(NARROW, 130_000_000), (WIDE, 1_000_000), (VERY_WIDE, 10_000)]
        .map(|(window, stores)| (window, stores / share))
}

#[test]
fn no_store_is_lost() {
    for backend in backends() {
        let start = Instant::now();
        let runs = WORKS.into_iter().flat_map(|work| {
            sizes(backend).into_iter().flat_map(move |(window, stores)| {
                let run = Run { work, ..Run::new(backend, Mistake::Nothing, window, stores) };
                [run, Run { threads: 2, ..run }]
            })
        });
        let stored = nothing_is_lost(runs);
        println!("{backend}: {stored} stores, none lost, in {:.0?}", start.elapsed());
    }
}

/// Runs until something is lost.
fn must_lose(backend: Backend, work: Work, mistake: Mistake, window: u32) {
    let start = Instant::now();
    let run = Run { work, ..Run::new(backend, mistake, window, 4_000) };
    for round in 1.. {
        let result = run.go();
        if result.lost != 0 {
            println!("{run:?}: {} of {} lost in round {round}", result.lost, result.stored);
            return;
        }
        assert!(start.elapsed() < limit(), "{run:?} loses nothing");
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
            // `signals/tests.rs` has a thief that sends no signal.
            #[cfg(feature = "signals")]
            Backend::Signal => &[],
            Backend::Plain => &[Mistake::NoGate],
        };
        for mistake in mistakes {
            for work in [Work::Owned, Work::Elsewhere] {
                must_lose(backend, work, *mistake, VERY_WIDE);
            }
        }
    }
}
