//! The disk of a server that is alone. A write becomes durable after a while, in order; the server
//! hears of it a little later. A crash loses what is not yet durable, and the answers that are
//! still under way.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Client, Epoch, Handoff, SessionId, StoreId};

/// Sessions that are stored.
pub(crate) type Sessions = BTreeMap<SessionId, Entry>;

/// What is stored of a session, as in [`Store::Session`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) ttl: Duration,
    pub(crate) handoff: Handoff,
    pub(crate) last: bool,
    pub(crate) client: Client,
}

impl Entry {
    /// As a server is told of it when it takes groups. `acts`: how long another server may still
    /// extend it; none if it is a session with the server itself.
    pub(crate) fn listed(self, session: SessionId, acts: Option<Duration>) -> Listed {
        let Self { ttl, handoff, last, client } = self;
        let (here, acts) = (acts.is_none(), acts.unwrap_or_default());
        Listed { session, ttl, handoff, here, last, client, acts }
    }
}

/// Sessions of the server itself, as it is told of them when it takes groups.
pub(crate) fn listed(sessions: &Sessions) -> impl Iterator<Item = Listed> {
    sessions.iter().map(|(&session, entry)| entry.listed(session, None))
}

/// What is on the disk, and what is on its way there.
#[derive(Debug)]
pub(crate) struct Disk {
    rng: Rng,
    delay_max: u64,
    pub(crate) epoch: Epoch,
    pub(crate) sessions: Sessions,
    /// With the moment at which each is durable.
    under_way: VecDeque<(u64, StoreId, Store)>,
    /// When the last answer comes.
    answered: u64,
}

/// What a crash did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crashed {
    /// Writes that are gone.
    pub(crate) lost: usize,
    /// Writes that are durable, though nobody was told.
    pub(crate) unseen: usize,
}

impl Disk {
    pub(crate) fn new(rng: Rng, delay_max: u64) -> Self {
        Self {
            rng,
            delay_max,
            epoch: Epoch::NONE,
            sessions: Sessions::new(),
            under_way: VecDeque::new(),
            answered: 0,
        }
    }

    /// Begins a write; says when its answer comes.
    pub(crate) fn write(&mut self, now: u64, store: StoreId, what: Store) -> u64 {
        let before = self.under_way.back().map_or(0, |(at, ..)| *at);
        let durable = before.max(now + self.rng.u64(1..=self.delay_max));
        self.under_way.push_back((durable, store, what));
        self.answered = self.answered.max(durable + self.rng.u64(0..=self.delay_max / 4));
        self.answered
    }

    /// The answer to a write comes: it and everything before it is durable.
    pub(crate) fn answer(&mut self, store: StoreId) {
        let upto = self.under_way.iter().position(|(_, other, _)| *other == store);
        for _ in 0..upto.map_or(0, |at| at + 1) {
            self.apply();
        }
    }

    /// The server crashes.
    pub(crate) fn crash(&mut self, now: u64) -> Crashed {
        let unseen = self.under_way.iter().filter(|(durable, ..)| *durable <= now).count();
        (0..unseen).for_each(|_| self.apply());
        let lost = self.under_way.len();
        self.under_way.clear();
        Crashed { lost, unseen }
    }

    /// The disk goes back in time: an epoch that has been used is not there any more.
    pub(crate) fn roll_back(&mut self) {
        let before = self.epoch.number().saturating_sub(self.rng.u32(1..=3));
        self.epoch = Epoch::new(before).unwrap_or(Epoch::NONE);
    }

    /// Whether every write has been answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    fn apply(&mut self) {
        let Some((_, _, what)) = self.under_way.pop_front() else { return };
        match what {
            Store::Epoch(term) => self.epoch = self.epoch.max(term.epoch),
            Store::Session { session, ttl, handoff, last, client } => {
                self.sessions.insert(session, Entry { ttl, handoff, last, client });
            }
            Store::Forget { session } => {
                self.sessions.remove(&session);
            }
            // A server that is alone never takes groups from another.
            Store::Settle { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64) -> Store {
        let (ttl, handoff) = (Duration::from_secs(1), Handoff::Direct);
        let client = Client::Node;
        Store::Session { session: SessionId(id), ttl, handoff, last: false, client }
    }

    #[test]
    fn a_crash_keeps_what_was_durable_and_loses_the_rest() {
        let mut disk = Disk::new(Rng::with_seed(1), 100);
        disk.write(0, StoreId(1), session(1));
        disk.write(1000, StoreId(2), session(2));
        assert_eq!(disk.crash(1000), Crashed { lost: 1, unseen: 1 });
        assert_eq!(disk.sessions.keys().copied().collect::<Vec<_>>(), [SessionId(1)]);
    }

    #[test]
    fn writes_are_durable_in_order() {
        let mut disk = Disk::new(Rng::with_seed(1), 100);
        for id in 1..20 {
            disk.write(id, StoreId(id), session(id));
        }
        disk.answer(StoreId(19));
        assert!(disk.is_idle());
        assert_eq!(disk.sessions.len(), 19);
    }
}
