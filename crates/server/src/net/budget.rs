//! How many bytes may wait for all clients together.
//!
//! Each outbox tells the budget what waits in it, and how much of a command its client has sent
//! so far. It tells only of what is left when the socket was full, or when an earlier reply is
//! outstanding: a reply that goes straight to the socket costs nothing here.
//!
//! When the sum exceeds the budget, the connection with the most is closed, and so on until it does
//! not. A task does that, [`keep`], since an outbox can't be closed while another one is locked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::Notify;

use super::Shared;
use super::outbox::Closed;
use crate::seldom::Seldom;

/// Outboxes tell of what has changed by at least so many bytes, of the first bytes that a full
/// socket did not take, and of having become empty.
pub(super) const STEP: usize = 4 << 10;

/// What waits in all outboxes.
#[derive(Debug)]
pub(crate) struct Budget {
    max: usize,
    kept: Mutex<Kept>,
    exceeded: Notify,
    /// Connections that were closed because of it, for the log.
    closed: Seldom,
}

#[derive(Debug, Default)]
struct Kept {
    sum: usize,
    /// The connections for which something waits, with how much.
    by_size: BTreeSet<(usize, u64)>,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let (kept, exceeded) = (Mutex::default(), Notify::new());
        Arc::new(Self { max, kept, exceeded, closed: Seldom::default() })
    }

    /// How many bytes wait.
    pub(crate) fn sum(&self) -> usize {
        crate::lock(&self.kept).sum
    }

    /// So many bytes wait for this connection, and so many did before.
    pub(super) fn change(&self, connection: u64, before: usize, now: usize) {
        let mut kept = crate::lock(&self.kept);
        kept.by_size.remove(&(before, connection));
        if now > 0 {
            kept.by_size.insert((now, connection));
        }
        kept.sum = kept.sum - before + now;
        if kept.sum > self.max {
            self.exceeded.notify_one();
        }
    }

    /// The connection with the most, and how much that is, if it has to go.
    fn to_close(&self) -> Option<(usize, u64)> {
        let kept = crate::lock(&self.kept);
        kept.by_size.last().copied().filter(|_| kept.sum > self.max)
    }
}

/// Closes connections whenever the budget is exceeded, forever.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let budget = &shared.budget;
    loop {
        budget.exceeded.notified().await;
        while let Some((bytes, id)) = budget.to_close() {
            // A connection that has left meanwhile takes its bytes with it.
            let Some(peer) = shared.peers.get(id) else { break };
            let (sum, max) = (budget.sum(), budget.max);
            peer.outbox.close_as(Closed::Fullest);
            if let Some(more) = budget.closed.may_log(Instant::now()) {
                tracing::warn!(
                    "{} is closed: {sum} bytes are queued for all clients together, --max-outboxes \
                     allows {max}, and this connection has the most, {bytes}{more}",
                    peer.title()
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_f64_the_fullest_goes_first_and_only_while_there_is_too_much() {
        let budget = Budget::new(100);
        for (id, bytes) in [(1, 40), (2, 60)] {
            budget.change(id, 0, bytes);
        }
        assert_eq!((budget.sum(), budget.to_close()), (100, None), "it is not exceeded");
        budget.change(3, 0, 10);
        budget.change(1, 40, 55);
        assert_eq!((budget.sum(), budget.to_close()), (125, Some((60, 2))));
        budget.change(2, 60, 50);
        assert_eq!(budget.to_close(), Some((55, 1)));
        budget.change(1, 55, 0);
        assert_eq!((budget.sum(), budget.to_close()), (60, None));
        budget.change(2, 50, 0);
        budget.change(3, 10, 0);
        assert!(crate::lock(&budget.kept).by_size.is_empty());
    }
}
