//! The claims of a table: who holds and who waits, each in a list of its record and one of its
//! session.
//!
//! Claims live in one slab; lists run through it by index. Adding and removing one takes constant
//! time and allocates nothing once the slab has grown. A claim is in exactly one list of its
//! record:
//!
//! | place | list |
//! |---|---|
//! | [`Place::Granted`], [`Place::Reserved`] | holders |
//! | [`Place::Waiting`], read | readers, by ticket |
//! | [`Place::Waiting`], write | writers, by ticket |
//! | [`Place::Upgrading`] | the record's one upgrader |

use slab::Slab;

use super::watch::Since;
use crate::ids::Seq;
use crate::mode::Mode;
use crate::time::Tick;
use crate::token::{Ticket, Token};

/// An index into one of the slabs; the greatest is none.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(u32);

        impl $name {
            pub(super) fn new(key: usize) -> Self {
                Self(u32::try_from(key).expect("the limits keep a slab below 2^32 entries"))
            }

            pub(super) fn key(self) -> usize {
                self.0 as usize
            }
        }
    };
}
index! {
    /// Of a claim.
    ClaimIx
}
index! {
    /// Of a record.
    RecordIx
}
index! {
    /// Of a session in its table.
    SessionIx
}

impl ClaimIx {
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The session has the record.
    Granted(Token),
    /// The session has a retry, and until then to acquire again.
    Reserved(Tick),
    /// In line.
    Waiting(Ticket),
    /// At the head of the line, with a read in hand.
    Upgrading(Ticket),
}

/// One session's grant of, or wait for, one record. One cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Claim {
    pub(super) record: RecordIx,
    pub(super) session: SessionIx,
    pub(super) seq: Seq,
    pub(super) place: Place,
    pub(super) mode: Mode,
    /// What a holder was told last that others want.
    pub(super) revoked: Option<Mode>,
    /// The graph of waits knows it.
    pub(super) in_graph: bool,
    /// Which of the delays runs after which a holder is told again what is wanted of it, counted
    /// from 1; 0 if none does.
    pub(super) resend: u8,
    /// How many reservations in a row were not taken up.
    pub(super) lapses: u8,
    /// When it came to its place: when it was granted, or when it began to wait.
    pub(super) since: Since,
    of_record: Links,
    of_session: Links,
}

const _: () = assert!(size_of::<Claim>() == 64);

impl Claim {
    pub(super) fn new(
        record: RecordIx,
        session: SessionIx,
        seq: Seq,
        mode: Mode,
        place: Place,
        since: Tick,
    ) -> Self {
        let free = Links { prev: ClaimIx::NONE, next: ClaimIx::NONE };
        Self {
            record,
            session,
            seq,
            place,
            mode,
            revoked: None,
            in_graph: false,
            resend: 0,
            lapses: 0,
            since: Since(since),
            of_record: free,
            of_session: free,
        }
    }

    pub(super) fn holds(&self) -> bool {
        matches!(self.place, Place::Granted(_) | Place::Reserved(_))
    }

    pub(super) fn token(&self) -> Option<Token> {
        match self.place {
            Place::Granted(token) => Some(token),
            _ => None,
        }
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        match self.place {
            Place::Waiting(ticket) | Place::Upgrading(ticket) => Some(ticket),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Links {
    prev: ClaimIx,
    next: ClaimIx,
}

/// A list through the claims. `Which` says whose links it runs by.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: ClaimIx,
    pub(super) tail: ClaimIx,
    pub(super) len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: ClaimIx::NONE, tail: ClaimIx::NONE, len: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Which of a claim's two lists is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Record,
    Session,
}

/// All claims of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Slab<Claim>);

impl Claims {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, claim: Claim) -> ClaimIx {
        ClaimIx::new(self.0.insert(claim))
    }

    /// Takes it out of the slab; it is in no list by now.
    pub(super) fn remove(&mut self, ix: ClaimIx) -> Claim {
        self.0.remove(ix.key())
    }

    /// Whether there is a claim at this index.
    pub(super) fn has(&self, ix: ClaimIx) -> bool {
        self.0.contains(ix.key())
    }

    pub(super) fn get(&self, ix: ClaimIx) -> &Claim {
        &self.0[ix.key()]
    }

    pub(super) fn get_mut(&mut self, ix: ClaimIx) -> &mut Claim {
        &mut self.0[ix.key()]
    }

    /// The claim, if there still is one.
    pub(super) fn try_get_mut(&mut self, ix: ClaimIx) -> Option<&mut Claim> {
        self.0.get_mut(ix.key())
    }

    fn links(&mut self, ix: ClaimIx, which: Which) -> &mut Links {
        let claim = self.get_mut(ix);
        match which {
            Which::Record => &mut claim.of_record,
            Which::Session => &mut claim.of_session,
        }
    }

    /// Puts `ix` after `prev`; after none means first.
    fn link_after(&mut self, list: &mut List, which: Which, prev: ClaimIx, ix: ClaimIx) {
        let next = match prev.some() {
            Some(prev) => std::mem::replace(&mut self.links(prev, which).next, ix),
            None => std::mem::replace(&mut list.head, ix),
        };
        match next.some() {
            Some(next) => self.links(next, which).prev = ix,
            None => list.tail = ix,
        }
        *self.links(ix, which) = Links { prev, next };
        list.len += 1;
    }

    pub(super) fn push(&mut self, list: &mut List, which: Which, ix: ClaimIx) {
        self.link_after(list, which, list.tail, ix);
    }

    /// Puts a waiting claim where its ticket belongs. Almost always that is the end, and sometimes
    /// the beginning. How many claims were looked at.
    pub(super) fn queue(&mut self, list: &mut List, ix: ClaimIx) -> u64 {
        let ticket = self.get(ix).ticket();
        if list.head.some().is_some_and(|head| ticket < self.get(head).ticket()) {
            self.link_after(list, Which::Record, ClaimIx::NONE, ix);
            return 1;
        }
        let (mut prev, mut looked) = (list.tail, 1);
        while prev != ClaimIx::NONE && self.get(prev).ticket() > ticket {
            prev = self.get(prev).of_record.prev;
            looked += 1;
        }
        self.link_after(list, Which::Record, prev, ix);
        looked
    }

    /// Whether a waiting claim belongs before the last one of the line.
    pub(super) fn is_before_tail(&self, list: List, ix: ClaimIx) -> bool {
        list.tail.some().is_some_and(|tail| self.get(ix).ticket() < self.get(tail).ticket())
    }

    /// Puts a waiting claim behind another one of the line; behind none means first.
    pub(super) fn queue_after(&mut self, list: &mut List, before: ClaimIx, ix: ClaimIx) {
        self.link_after(list, Which::Record, before, ix);
    }

    pub(super) fn unlink(&mut self, list: &mut List, which: Which, ix: ClaimIx) {
        let Links { prev, next } = *self.links(ix, which);
        match prev.some() {
            Some(prev) => self.links(prev, which).next = next,
            None => list.head = next,
        }
        match next.some() {
            Some(next) => self.links(next, which).prev = prev,
            None => list.tail = prev,
        }
        list.len -= 1;
    }

    /// The one after `ix` in its record's list.
    pub(super) fn next(&self, ix: ClaimIx) -> ClaimIx {
        self.get(ix).of_record.next
    }

    /// The claims of a record's list, in order.
    pub(super) fn of_record(&self, list: List) -> impl Iterator<Item = ClaimIx> {
        self.walk(list.head, |claim| claim.of_record)
    }

    /// The claims of a session, in order.
    pub(super) fn of_session(&self, list: List) -> impl Iterator<Item = ClaimIx> {
        self.walk(list.head, |claim| claim.of_session)
    }

    fn walk(&self, head: ClaimIx, links: fn(&Claim) -> Links) -> impl Iterator<Item = ClaimIx> {
        std::iter::successors(head.some(), move |&ix| links(self.get(ix)).next.some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Epoch;

    fn waiting(claims: &mut Claims, count: u64) -> ClaimIx {
        let ticket = Ticket::new(Epoch::NONE, count).unwrap();
        claims.insert(Claim::new(
            RecordIx(0),
            SessionIx(0),
            Seq(count),
            Mode::Read,
            Place::Waiting(ticket),
            Tick::ZERO,
        ))
    }

    fn seqs(claims: &Claims, list: List) -> Vec<u64> {
        claims.of_record(list).map(|ix| claims.get(ix).seq.0).collect()
    }

    #[test]
    fn a_line_is_kept_in_the_order_of_tickets() {
        let (mut claims, mut list) = (Claims::default(), List::EMPTY);
        let made: Vec<_> = [5, 2, 9, 1, 7].map(|count| waiting(&mut claims, count)).into();
        for &ix in &made {
            claims.queue(&mut list, ix);
        }
        assert_eq!(seqs(&claims, list), [1, 2, 5, 7, 9]);
        for (ix, left) in [(3, vec![2, 5, 7, 9]), (2, vec![2, 5, 7]), (0, vec![2, 7])] {
            claims.unlink(&mut list, Which::Record, made[ix]);
            assert_eq!(seqs(&claims, list), left);
        }
        assert_eq!(list.len, 2);
    }
}
