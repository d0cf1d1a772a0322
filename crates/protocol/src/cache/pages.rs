//! What a node tells in a new term: a snapshot of its claims, in pages. When and to whom it is told
//! is in [`recovery`](super::recovery).

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::entry::Rest;
use crate::ids::{Owner, Seq, ServerId, SessionId};
use crate::messages::{Claim, Term};
use crate::mode::Mode;
use crate::record::Record;
use crate::time::Tick;
use crate::token::{Ticket, Token};

/// How much a node re-asserts at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Re-assertions of a page. At most [`PAGE_MAX`](crate::PAGE_MAX), or the server never
    /// has it.
    pub claims: usize,
    /// Bytes of the names and owners in a page, and a little for each: it has at least one
    /// re-assertion.
    pub bytes: usize,
    /// Pages that are under way to one server.
    pub window: usize,
}

impl Default for PageLimits {
    /// At most 256 KiB are under way.
    fn default() -> Self {
        Self { claims: 128, bytes: 16 << 10, window: 16 }
    }
}

/// Re-assertions of one former session to the owner of a new term.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    /// The new owner.
    pub(super) server: ServerId,
    pub(super) term: Term,
    /// The session that all this rests on; after a restart of its server, the present one.
    pub(super) former: SessionId,
    /// It is said as that session, since there is none with the owner, and there is nothing to
    /// tell.
    pub(super) is_nothing: bool,
    /// What is told, by seq.
    pub(super) claims: Vec<Reassertion>,
    pub(super) index: Index,
    /// The first and the last seq of each page, in order.
    pub(super) pages: Vec<(Seq, Seq)>,
    /// The first so many pages were sent.
    pub(super) sent: usize,
    /// Those of them that are under way.
    pub(super) under_way: BTreeMap<usize, UnderWay>,
    /// When the end is said again, once every page is heard.
    pub(super) end_at: Tick,
    /// The end of the lease of that session in these groups. After this, all of it is void.
    pub(super) until: Tick,
}

/// A page that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    /// When the question about it is sent again.
    pub(super) ask_at: Tick,
    /// It is not told again before. A server that never has all of a page, because it refuses some
    /// of it, is not told the same at full speed.
    pub(super) tell_from: Tick,
}

/// What [`ToServer::Reassert`] says of one number.
#[derive(Clone, Debug)]
pub(super) struct Reassertion {
    pub(super) record: Record,
    pub(super) seq: Seq,
    pub(super) mode: Mode,
    pub(super) what: What,
}

/// A [`Claim`], small: nearly all are held.
#[derive(Clone, Debug)]
pub(super) enum What {
    Held(Token),
    Waiting(Box<Waiting>),
}

#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) upgrade: bool,
    pub(super) owners: Vec<Owner>,
}

impl Reassertion {
    pub(super) fn claim(&self) -> Claim {
        match &self.what {
            What::Held(token) => Claim::Held { token: *token },
            What::Waiting(waiting) => {
                let Waiting { ticket, upgrade, owners } = &**waiting;
                Claim::Waiting { ticket: Some(*ticket), upgrade: *upgrade, owners: owners.clone() }
            }
        }
    }

    /// About as many bytes as it takes in a message, without what is the same for all.
    pub(super) fn bytes(&self) -> usize {
        let owners = match &self.what {
            What::Held(_) => 0,
            What::Waiting(waiting) => waiting.owners.len() * 20,
        };
        self.record.as_bytes().len() + owners + 64
    }
}

/// Where the claims of a record are. Nothing walks it, so its order decides nothing.
#[derive(Clone)]
pub(super) struct Index {
    places: HashTable<u32>,
    hasher: FixedState,
}

impl Index {
    pub(super) fn of(claims: &[Reassertion], key: u64) -> Self {
        let hasher = FixedState::with_seed(key);
        let hash = |claim: &Reassertion| hasher.hash_one(claim.record.as_bytes());
        let mut places = HashTable::with_capacity(claims.len());
        for (place, claim) in claims.iter().enumerate() {
            let place = u32::try_from(place).expect("a cache has less than 2^31 records");
            places.insert_unique(hash(claim), place, |&at| hash(&claims[at as usize]));
        }
        Self { places, hasher }
    }

    pub(super) fn has(&self, claims: &[Reassertion], record: &Record) -> bool {
        let hash = self.hasher.hash_one(record.as_bytes());
        self.places.find(hash, |&at| claims[at as usize].record == *record).is_some()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Index")
    }
}

impl Recovery {
    /// When something is to be done about it.
    pub(super) fn next_deadline(&self) -> Tick {
        let questions = self.under_way.values().map(|page| page.ask_at).min();
        let end = if self.is_sent() { self.end_at } else { Tick(u64::MAX) };
        let next = questions.unwrap_or(end);
        next.min(self.until)
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.pages.len()
    }

    /// Whether `server` speaks of this one. It may have left some of the groups since.
    pub(super) fn is_of(&self, server: ServerId, term: Term) -> bool {
        self.server == server
            && self.term.epoch == term.epoch
            && term.groups.without(self.term.groups).is_empty()
    }

    /// The server has left the other groups, if it has. The pages stay as they are, with less in
    /// them.
    pub(super) fn shrink(&mut self, term: Term, key: u64) -> bool {
        let has_shrunk = self.term != term;
        if has_shrunk {
            self.term = term;
            self.claims.retain(|claim| term.groups.contains(claim.record.group()));
            self.index = Index::of(&self.claims, key);
        }
        has_shrunk
    }

    /// Orders what is to be told, and cuts it into pages.
    pub(super) fn cut(&mut self, limits: PageLimits, key: u64) {
        self.claims.sort_unstable_by_key(|claim| claim.seq);
        self.index = Index::of(&self.claims, key);
        let (mut claims, mut bytes) = (0, 0);
        for claim in &self.claims {
            claims += 1;
            bytes += claim.bytes();
            match self.pages.last_mut() {
                Some((_, last)) if claims <= limits.claims && bytes <= limits.bytes => {
                    *last = claim.seq;
                }
                _ => {
                    self.pages.push((claim.seq, claim.seq));
                    (claims, bytes) = (1, claim.bytes());
                }
            }
        }
    }

    /// What is in a page now.
    pub(super) fn page(&self, page: usize) -> &[Reassertion] {
        let (first, last) = self.pages[page];
        let from = self.claims.partition_point(|claim| claim.seq < first);
        let to = self.claims.partition_point(|claim| claim.seq <= last);
        &self.claims[from..to]
    }

    /// Whether this is where what is re-asserted has rested.
    pub(super) fn is_about(&self, rest: Rest) -> bool {
        rest.session == self.former && rest.epoch < self.term.epoch
    }

    pub(super) fn has(&self, record: &Record) -> bool {
        self.term.groups.contains(record.group()) && self.index.has(&self.claims, record)
    }
}

/// How many there are, and the sum of their seqs.
pub(super) fn total(claims: &[Reassertion]) -> (u32, u64) {
    let count = u32::try_from(claims.len()).unwrap_or(u32::MAX);
    (count, claims.iter().fold(0, |sum: u64, claim| sum.wrapping_add(claim.seq.0)))
}
