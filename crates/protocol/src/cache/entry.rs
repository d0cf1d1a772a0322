//! One record on a node: what is held, wanted, asked for and drained.

use super::caps::CapId;
use crate::ids::{Owner, Seq, ServerId, SessionId};
use crate::messages::LocalWait;
use crate::mode::Mode;
use crate::stay::Stay;
use crate::time::Tick;
use crate::token::{Epoch, Ticket, Token};

/// What the node knows about a record. The state table of the module is read off these fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) held: Option<Held>,
    pub(super) want: Option<Want>,
    pub(super) asked: Option<Ask>,
    pub(super) drain: Option<Drain>,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) mode: Mode,
    /// Its present number.
    pub(super) seq: Seq,
    /// The number of the acquire that it came from; conversions keep it.
    pub(super) granted: Seq,
    pub(super) token: Token,
    pub(super) rest: Rest,
    /// It does not live on the lease as that is extended, but ends with this.
    pub(super) cap: Option<CapId>,
    /// When the last wish for it was said that was heard of.
    pub(super) wished_at: Option<Ticket>,
}

/// What others want of a grant, if anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) wanted: Option<Mode>,
    /// When it was said.
    pub(super) at: Ticket,
}

/// Where a grant or a place in line is known: on the lease with this server it rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) server: ServerId,
    /// In which session with it; that may be over, if what rests there has a cap.
    pub(super) session: SessionId,
    /// In which term of the record's group. In a later one, it has to be re-asserted.
    pub(super) epoch: Epoch,
}

/// What the head of the local line needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) mode: Mode,
    pub(super) upgrade: bool,
    pub(super) owners: Vec<Owner>,
}

/// An acquire under way, for what is wanted. With something held, it is an upgrade.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) seq: Seq,
    /// To whom it was sent last.
    pub(super) server: ServerId,
    pub(super) place: Option<Place>,
    /// How many waiters would be served before it, as the server last said, if it knows.
    pub(super) ahead: Option<u32>,
    /// What was said about the grant before it came.
    pub(super) wish: Option<Wish>,
    pub(super) resend_at: Tick,
}

/// A place in line, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) ticket: Ticket,
    pub(super) rest: Rest,
}

/// The driver was told to let the local threads leave.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    /// What may be kept.
    pub(super) to: Option<Mode>,
    pub(super) stay: Stay,
    /// The last thing that was said about why it takes so long.
    pub(super) report: Option<Report>,
}

/// Who holds the record on this node, and whom those wait for.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) number: u64,
    pub(super) holders: Vec<Owner>,
    pub(super) waits: Vec<LocalWait>,
}

impl Entry {
    /// Whether nothing is known about the record.
    pub(super) fn is_absent(&self) -> bool {
        self.held.is_none() && self.want.is_none() && self.asked.is_none()
    }

    /// Whether local threads may begin to use the record in this mode, as far as this node's leases
    /// stand.
    pub(super) fn is_open(&self, mode: Mode) -> bool {
        self.drain.is_none() && self.held.is_some_and(|held| held.mode.covers(mode))
    }

    /// Whether what is wanted has to wait until the local threads have left. Not so an upgrade: its
    /// reader does not leave before it is answered.
    pub(super) fn must_drain(&self) -> bool {
        let upgrade = self.want.as_ref().is_some_and(|want| want.upgrade)
            && self.held.is_some_and(|held| held.mode == Mode::Read);
        self.drain.is_some() && !upgrade
    }

    /// Whether something of the record is in the hands of `server`, in this session.
    pub(super) fn rests_on(&self, server: ServerId, session: SessionId) -> bool {
        self.asked.is_some_and(|ask| ask.server == server)
            || self.rests().any(|rest| rest.session == session)
    }

    /// Whether something of the record is in the hands of another than `server`.
    pub(super) fn rests_elsewhere(&self, server: ServerId) -> bool {
        self.rests().any(|rest| rest.server != server)
    }

    /// Where the grant and the place in line rest.
    pub(super) fn rests(&self) -> impl Iterator<Item = Rest> {
        let held = self.held.map(|held| held.rest);
        held.into_iter().chain(self.asked.and_then(|ask| ask.rest()))
    }
}

impl Ask {
    /// Where its place in line is.
    pub(super) fn rest(&self) -> Option<Rest> {
        self.place.map(|place| place.rest)
    }

    /// Whether it stands in the line of `server`.
    pub(super) fn is_placed_by(&self, server: ServerId) -> bool {
        self.rest().is_some_and(|rest| rest.server == server)
    }
}
