//! How long one task keeps a thread of the runtime.
//!
//! A server has few threads, often one. The runtime interrupts no task, so a task that works on
//! makes all others wait. A connection that has much to do therefore asks its [`Turn`] now and then
//! whether its time is over, and gives way if it is:
//!
//! 1. What one read from a socket has brought is carried out at once, for a quarter of a turn at
//!    most, or for a twentieth while the lane is occupied. That is enough for nearly every client.
//! 2. The rest goes through the [`Lane`]. It has room for one connection at a time (where there are
//!    several threads: for one less than there are threads), and each may work for one turn, first
//!    come first served. Before each of these turns the runtime looks at all sockets, and runs all
//!    tasks that are ready.
//!
//! So a short command waits for at most one turn of the lane, however many connections have sent
//! long ones.

use std::time::Duration;

use lockspan_protocol::Tick;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;

use crate::clock;
use crate::net::outbox::Dirty;

/// Outboxes that are flushed before the time is looked at: a write to a socket takes some
/// microseconds.
pub(crate) const OUTBOXES: usize = 128;

/// Where connections wait for a turn whose commands take long.
#[derive(Debug)]
pub(crate) struct Lane {
    places: Semaphore,
    /// How long a turn is.
    turn: Duration,
}

impl Lane {
    /// The lane of the present runtime.
    pub(crate) fn for_this_runtime(turn: Duration) -> Self {
        let threads = Handle::current().metrics().num_workers();
        Self { places: Semaphore::new(threads.saturating_sub(1).max(1)), turn }
    }

    /// From now on a connection may work for a while, before it stands in the lane.
    pub(crate) fn begin(&self, now: Tick) -> Turn<'_> {
        Turn { lane: self, place: None, until: now + self.at_once() }
    }

    /// How long that is. While others stand in the lane it is short: many connections may each have
    /// something new.
    fn at_once(&self) -> Duration {
        let is_occupied = self.places.available_permits() == 0;
        self.turn / if is_occupied { 20 } else { 4 }
    }
}

/// The time that a connection may work.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    lane: &'a Lane,
    /// Its place at the head of the lane, once it is there.
    place: Option<SemaphorePermit<'a>>,
    until: Tick,
}

impl Turn<'_> {
    pub(crate) fn is_over(&self) -> bool {
        clock::now() >= self.until
    }

    /// Lets others in if the time is over, and waits for the next turn.
    pub(crate) async fn give_way(&mut self) {
        if self.is_over() {
            self.place = None;
            // The lane is never closed.
            self.place = self.lane.places.acquire().await.ok();
            // The one before it in the lane may have had the thread until now: others first.
            yield_now().await;
            self.until = clock::now() + self.lane.turn;
        }
    }

    /// Waits for something else than the thread, such as a client that has to read. Meanwhile
    /// nobody in the lane is behind this connection, and then it may go on at once.
    pub(crate) async fn wait_for<T>(&mut self, what: impl Future<Output = T>) -> T {
        self.place = None;
        let done = what.await;
        self.until = clock::now() + self.lane.at_once();
        done
    }

    /// Sends what is in these outboxes. That does not stand in the lane, since others wait for it,
    /// but lets them in if the time is over.
    pub(crate) async fn flush(&mut self, mut dirty: Dirty) {
        while dirty.flush_some(OUTBOXES) {
            if self.is_over() {
                self.place = None;
                yield_now().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Many have more to do than one turn, and one has little: it waits for one turn, not for all.
    #[tokio::test]
    async fn service_f60_a_short_task_waits_for_one_turn_of_the_lane() {
        const LONG: usize = 50;
        let lane = Arc::new(Lane::for_this_runtime(Duration::ZERO));
        let turns = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..LONG {
            let (lane, turns) = (Arc::clone(&lane), Arc::clone(&turns));
            tasks.push(tokio::spawn(async move {
                let mut turn = lane.begin(clock::now());
                for _ in 0..LONG {
                    turn.give_way().await;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        // All of them are in the lane or wait for it.
        while turns.load(Ordering::Relaxed) < LONG {
            yield_now().await;
        }
        let before = turns.load(Ordering::Relaxed);
        tokio::spawn(async {}).await.expect("it ends");
        let meanwhile = turns.load(Ordering::Relaxed) - before;
        assert!(meanwhile <= 4, "{meanwhile} turns before one short task");
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(turns.load(Ordering::Relaxed), LONG * LONG);
    }

    #[tokio::test]
    async fn a_turn_that_waits_for_something_else_is_in_nobodys_way() {
        let lane = Lane::for_this_runtime(Duration::ZERO);
        let (mut one, mut two) = (lane.begin(clock::now()), lane.begin(clock::now()));
        one.give_way().await;
        one.wait_for(two.give_way()).await;
        assert!(two.place.is_some() && one.place.is_none());
    }

    #[tokio::test]
    async fn less_is_done_at_once_while_others_wait_in_the_lane() {
        let lane = Lane::for_this_runtime(Duration::from_secs(20));
        let now = clock::now();
        assert_eq!(lane.begin(now).until, now + Duration::from_secs(5));
        let _occupied = lane.places.acquire().await;
        assert_eq!(lane.begin(now).until, now + Duration::from_secs(1));
    }
}
