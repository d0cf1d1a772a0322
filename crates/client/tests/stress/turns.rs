//! What one task or thread does: one turn after the other, each another way to get and to leave.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockspan_client::{LockError, Locks, OwnedReadGuard, Owner, Record, UpgradeError};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::rng::Rng;
use crate::watch::{Held, Watch, record};

const FOR_EVER: Duration = Duration::from_secs(3600);
const A_WHILE: Duration = Duration::from_millis(50);

/// A task or a thread.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) locks: Locks,
    pub(crate) watch: Arc<Watch>,
    pub(crate) records: usize,
    pub(crate) turns: usize,
    pub(crate) is_closed: Arc<AtomicBool>,
    /// The first of its own names.
    pub(crate) owners: u64,
    pub(crate) rng: Rng,
}

/// Polls a future some times, and drops it if it is not ready by then.
async fn some_polls<T>(future: impl Future<Output = T>, times: u64) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        let once = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(done) = once.await {
            return Some(done);
        }
        yield_now().await;
    }
    None
}

impl Worker {
    /// The turns of a task.
    pub(crate) async fn run(mut self) {
        for turn in 0..self.turns {
            let owner = Owner(self.owners + turn as u64);
            let is_owner = self.rng.once_in(3);
            let locks = if is_owner { self.locks.as_owner(owner) } else { self.locks.clone() };
            let first = self.rng.below(self.records as u64) as usize;
            if let Some(held) = self.get(&locks, first).await {
                let held = self.watch.enter(first, held);
                self.stay().await;
                // Two at once: in order, or with a name that a cycle can be told to. (A cycle
                // with somebody without a name is not seen, so not without a limit.)
                let second = self.rng.below(self.records as u64) as usize;
                if self.rng.once_in(3) && (second > first || is_owner && second != first) {
                    let patience = if second > first { FOR_EVER } else { A_WHILE };
                    let other = timeout(patience, self.get(&locks, second)).await;
                    if let Some(other) = other.ok().flatten() {
                        let other = self.watch.enter(second, other);
                        self.stay().await;
                        drop(self.watch.leave(second, other));
                    }
                    drop(self.watch.leave(first, held));
                } else {
                    let held = self.watch.leave(first, held);
                    self.change(first, held).await;
                }
            }
            if self.rng.once_in(20) {
                self.locks.give_back_idle();
            }
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    async fn stay(&mut self) {
        for _ in 0..self.rng.below(4) {
            yield_now().await;
        }
        if self.rng.once_in(10) {
            tokio::time::sleep(Duration::from_micros(self.rng.below(2000))).await;
        }
    }

    /// Gets a record in one of the ways, or nothing if it gave up or was refused.
    async fn get(&mut self, locks: &Locks, number: usize) -> Option<Held> {
        let record = record(locks, number);
        let (polls, time) = (1 + self.rng.below(6), Duration::from_micros(self.rng.below(3000)));
        let way = self.rng.below(7);
        let got = if self.rng.once_in(2) {
            let got = match way {
                0 => some_polls(record.read_owned(), polls).await,
                1 => timeout(time, record.read_owned()).await.ok(),
                2 => Some(record.read_owned_timeout(time).await),
                3 => record.clone().try_read().await.map(|_| None).transpose(),
                _ => Some(record.read_owned().await),
            };
            got.map(|got| got.map(Held::Read))
        } else {
            let got = match way {
                0 => some_polls(record.write_owned(), polls).await,
                1 => timeout(time, record.write_owned()).await.ok(),
                2 => Some(record.write_owned_timeout(time).await),
                3 => record.clone().try_write().await.map(|_| None).transpose(),
                _ => Some(record.write_owned().await),
            };
            got.map(|got| got.map(Held::Write))
        };
        self.sort(got)
    }

    /// Only what may happen has happened.
    fn sort<T>(&self, got: Option<Result<T, LockError>>) -> Option<T> {
        let count = match got {
            Some(Ok(got)) => return Some(got),
            None | Some(Err(LockError::Timeout(_))) => &self.watch.given_up,
            Some(Err(LockError::Deadlock { .. })) => &self.watch.refused,
            Some(Err(LockError::Closed)) if self.is_closed.load(Ordering::SeqCst) => {
                &self.watch.given_up
            }
            Some(Err(why)) => panic!("{why:?}"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Upgrades or downgrades what is held, perhaps, and lets it go.
    async fn change(&mut self, number: usize, held: Held) {
        let held = match held {
            Held::Read(guard) if self.rng.once_in(2) => match self.upgrade(guard).await {
                Some(held) => held,
                None => return,
            },
            Held::Write(guard) if self.rng.once_in(2) => Held::Read(guard.downgrade()),
            held => held,
        };
        let held = self.watch.enter(number, held);
        self.stay().await;
        match self.watch.leave(number, held) {
            Held::Write(guard) if self.rng.once_in(3) => drop(guard.downgrade()),
            held => drop(held),
        }
    }

    async fn upgrade(&mut self, guard: OwnedReadGuard) -> Option<Held> {
        let polls = 1 + self.rng.below(6);
        let upgraded = match self.rng.below(3) {
            0 => some_polls(guard.upgrade(), polls).await,
            1 => timeout(Duration::from_micros(self.rng.below(3000)), guard.upgrade()).await.ok(),
            _ => Some(guard.upgrade().await),
        };
        match upgraded {
            None => {
                self.watch.given_up.fetch_add(1, Ordering::Relaxed);
                None
            }
            Some(Ok(guard)) => {
                self.watch.upgraded.fetch_add(1, Ordering::Relaxed);
                Some(Held::Write(guard))
            }
            Some(Err(UpgradeError { guard, source: why })) => {
                let is_told = match &why {
                    LockError::UpgradeConflict | LockError::Deadlock { .. } => true,
                    LockError::Lost | LockError::Closed => !guard.is_valid(),
                    _ => false,
                };
                assert!(is_told, "{why:?} for {guard:?}");
                self.watch.refused.fetch_add(1, Ordering::Relaxed);
                Some(Held::Read(guard))
            }
        }
    }

    /// The turns of a thread.
    pub(crate) fn block(mut self) {
        for _ in 0..self.turns {
            let number = self.rng.below(self.records as u64) as usize;
            let record = record(&self.locks, number);
            let time = Duration::from_micros(self.rng.below(3000));
            // Guards of threads borrow their record, so the oracle does not see them; what it sees
            // beside them are those of tasks, in the books of the gate they share.
            self.block_once(&record, time);
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    fn block_once(&mut self, record: &Record, time: Duration) {
        match self.rng.below(4) {
            0 => drop(self.sort(Some(record.blocking_read()))),
            1 => drop(self.sort(Some(record.blocking_write()))),
            2 => drop(self.sort(Some(record.blocking_write_timeout(time)))),
            _ => {
                let Some(guard) = self.sort(Some(record.blocking_read_timeout(time))) else {
                    return;
                };
                if self.rng.once_in(2) {
                    std::thread::yield_now();
                    drop(guard.blocking_upgrade());
                }
            }
        }
    }
}
