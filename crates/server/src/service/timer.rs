//! What happens when nobody says anything: leases end, revokes are sent again, waits give up, and
//! what one step has left is done by the next.
//!
//! A ring does a bounded amount of work, however much is due: so much of each table, so many
//! leases, [`AT_A_TIME`] of each list, so many steps of the search for deadlocks. What is left is
//! due at once, and before the next ring other tasks of this thread have their turn.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockspan_protocol::Tick;
use lockspan_protocol::server::SEARCH_PAUSE;
use lockspan_protocol::server::table::TableInput;

use super::{Service, Work};
use crate::clock;

/// Waits that give up, places that are told, and leases of locks that are extended, by one ring.
pub(super) const AT_A_TIME: usize = 256;

/// The timer's own clock stands still while the machine is suspended, so it looks this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

impl Service {
    /// The timer is to ring by then.
    pub(super) fn ring_by(&self, deadline: Option<Tick>) {
        if let Some(Tick(at)) = deadline
            && at < self.rings_at.load(Ordering::Relaxed)
            && at < self.rings_at.fetch_min(at, Ordering::AcqRel)
        {
            self.rings_earlier.notify_one();
        }
    }

    /// Rings, until the service is halted.
    pub(crate) async fn run_timer(&self) {
        loop {
            let now = clock::now();
            let at = Tick(self.rings_at.load(Ordering::Acquire));
            let sleep = at.since(now).min(LONGEST_SLEEP);
            let earlier = self.rings_earlier.notified();
            let over = tokio::time::timeout(sleep, earlier).await.is_err();
            if self.is_halted() {
                return;
            }
            if over {
                let mut work = Work::default();
                self.ring(&mut work);
                work.dirty.flush();
                // What is left to do may be due already; others have their turn first.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Does what is due, and sets the timer.
    pub(super) fn ring(&self, work: &mut Work) {
        // Whoever has an earlier deadline from now on will say so.
        self.rings_at.store(u64::MAX, Ordering::Release);
        let now = clock::now();
        let leases = crate::lock(&self.desk).registry.next_deadline();
        if leases.is_some_and(|deadline| deadline <= now) {
            self.with_desk(work, |_, _| ());
        } else {
            self.ring_by(leases);
        }
        for shard in 0..self.shards.len() {
            let next = crate::lock(&self.shards[shard]).table.next_deadline();
            if next.is_some_and(|deadline| deadline <= now) {
                self.tell_shard(shard, TableInput::Tick, work);
            } else {
                self.ring_by(next);
            }
            self.finish(work);
        }
        self.search_on(now, work);
        for patience in self.patiences.due(now) {
            self.give_up(patience, work);
        }
        self.keep_vigils(now, work);
        self.tell_places(now, work);
        self.finish(work);
        self.ring_by(self.patiences.next_deadline());
        self.ring_by(self.vigils.next_deadline());
        self.ring_by(self.places.next_deadline());
    }

    /// Goes on with the search for deadlocks, if it is not finished.
    fn search_on(&self, now: Tick, work: &mut Work) {
        let mut graph = crate::lock(&self.graph);
        if graph.is_searching() {
            work.victims.extend(graph.search_on());
            if graph.is_searching() {
                self.ring_by(Some(now + SEARCH_PAUSE));
            }
        }
    }
}
