//! The store of the cluster: who owns the group, in which epoch, and which sessions each server
//! has. What it says is decided here at once, and may reach the servers late.

use std::collections::BTreeMap;
use std::time::Duration;

use lockspan_protocol::server::{Listed, Store as Write};
use lockspan_protocol::{Client, Epoch, Handoff, SessionId};

use super::setup::Moves;

/// What is stored of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    ttl: Duration,
    handoff: Handoff,
    client: Client,
    last: bool,
}

/// What is stored of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    /// The number of its last start that counts.
    life: u32,
    sessions: BTreeMap<SessionId, Entry>,
}

/// The store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) epoch: Epoch,
    pub(crate) owner: usize,
    members: [Member; 2],
    /// Sessions of earlier owners that are not settled, and whether their server may have acted
    /// when it was replaced.
    formers: BTreeMap<SessionId, (Entry, bool)>,
}

/// The group changes its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    pub(crate) above: Epoch,
    pub(crate) listed: Vec<Listed>,
}

impl Store {
    /// The first server owns the group.
    pub(crate) fn new() -> Self {
        let members = [Member::default(), Member::default()];
        Self { epoch: Epoch::NONE, owner: 0, members, formers: BTreeMap::new() }
    }

    pub(crate) fn is_registered(&self, server: usize, life: u32) -> bool {
        self.members[server].life == life
    }

    /// A write of a registered server. Whether it has begun a term by that.
    pub(crate) fn write(&mut self, server: usize, what: &Write) -> bool {
        match *what {
            Write::Epoch(term) => {
                if self.owner == server {
                    self.epoch = term.epoch;
                }
                return self.owner == server;
            }
            Write::Session { session, ttl, handoff, last, client } => {
                let entry = Entry { ttl, handoff, client, last };
                self.members[server].sessions.insert(session, entry);
            }
            Write::Forget { session } => {
                self.members[server].sessions.remove(&session);
            }
            Write::Settle { former, term } => {
                if self.owner == server && term.epoch == self.epoch {
                    self.formers.remove(&former);
                }
            }
        }
        false
    }

    /// A server starts anew, with nothing.
    pub(crate) fn register(&mut self, server: usize, life: u32) {
        self.members[server] = Member { life, ..Member::default() };
    }

    /// The other server owns the group from now on. `acts`: its owner may act on, and is not
    /// registered any more.
    pub(crate) fn give(&mut self, acts: bool) -> Handover {
        let old = &mut self.members[self.owner];
        for (&session, &entry) in &old.sessions {
            self.formers.insert(session, (entry, acts));
        }
        if acts {
            *old = Member { life: u32::MAX, ..Member::default() };
        }
        self.owner = 1 - self.owner;
        let own = &self.members[self.owner].sessions;
        let listed = self.formers.iter().map(|(&session, &(entry, acts))| {
            let acts = if acts { Moves::acts() } else { Duration::ZERO };
            entry.listed(session, (!own.contains_key(&session)).then_some(acts))
        });
        let listed = listed.collect();
        // One that comes back to its own server is a session, and no former, of that.
        self.formers.retain(|session, _| !own.contains_key(session));
        Handover { above: self.epoch, listed }
    }
}

impl Entry {
    /// With how long its server may still act, if that is another one.
    fn listed(self, session: SessionId, acts: Option<Duration>) -> Listed {
        let Self { ttl, handoff, client, last } = self;
        let (here, acts) = (acts.is_none(), acts.unwrap_or_default());
        Listed { session, ttl, handoff, here, last, client, acts }
    }
}
