//! What happens when nobody says anything: leases end, revokes are sent again, waits give up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockspan_protocol::Tick;
use lockspan_protocol::server::table::TableInput;

use super::{Service, Work};
use crate::clock;
use crate::turn::Pace;

/// The timer's own clock stands still while the machine is suspended, so it looks this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How long what is due may keep the thread before others have their turn.
const TURN: Duration = Duration::from_millis(1);

/// Of waits that end together, so many are ended at once.
const SOME: usize = 64;

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
                self.ring().await;
            }
        }
    }

    /// Does what is due, and sets the timer. Others have their turn meanwhile.
    async fn ring(&self) {
        // Whoever has an earlier deadline from now on will say so.
        self.rings_at.store(u64::MAX, Ordering::Release);
        let now = clock::now();
        let mut pace = Pace::new(TURN);
        let mut work = Work::default();
        let leases = crate::lock(&self.desk).registry.next_deadline();
        if leases.is_some_and(|deadline| deadline <= now) {
            self.with_desk(&mut work, |_, _| ());
        } else {
            self.ring_by(leases);
        }
        for shard in 0..self.shards.len() {
            let next = crate::lock(&self.shards[shard]).table.next_deadline();
            if next.is_some_and(|deadline| deadline <= now) {
                self.tell_shard(shard, TableInput::Tick, &mut work);
            } else {
                self.ring_by(next);
            }
            self.rung(&mut work, &mut pace).await;
        }
        let mut is_more = true;
        while is_more {
            let due = self.patiences.due(now, SOME);
            is_more = due.len() == SOME;
            due.into_iter().for_each(|patience| self.give_up(patience, &mut work));
            is_more |= self.keep_vigils(now, SOME, &mut work);
            is_more |= self.tell_places(now, SOME, &mut work);
            self.rung(&mut work, &mut pace).await;
        }
        self.ring_by(self.patiences.next_deadline());
        self.ring_by(self.vigils.next_deadline());
        self.ring_by(self.places.next_deadline());
    }

    /// Finishes a part of what is due.
    async fn rung(&self, work: &mut Work, pace: &mut Pace) {
        self.finish(work);
        pace.flush(&mut work.dirty).await;
        pace.give_way().await;
    }
}
