//! The records of some groups: who holds them, who waits, and who is next.
//!
//! Call [`LockTable::handle`] with every input, then do all it put in `out`, in order; call it with
//! [`TableInput::Tick`] no later than [`LockTable::next_deadline`]. `now` never goes back. A
//! refused input has changed nothing. No step takes longer for more records, sessions or claims:
//! what concerns many claims is done bit by bit, see `rests.rs`, and where a record has many claims
//! they are indexed, see `links.rs`. Two inputs take longer, [`TableInput::Begin`] and
//! [`TableInput::Leave`]: they are about all sessions and all records.
//!
//! # States of a record
//!
//! | state | holders | waiters |
//! |---|---|---|
//! | Free | none | none; the record is forgotten |
//! | Shared | readers | none |
//! | Shared, wanted | readers | a writer or an upgrader, perhaps readers behind |
//! | Alone | one writer | none |
//! | Alone, wanted | one writer | any |
//! | Reserved | at least one has a retry | any |
//! | Recovering | as re-asserted | as re-asserted, or new; nothing is granted |
//!
//! # Invariants
//!
//! - **I1** a writer among the holders is the only holder.
//! - **I2** a session has at most one holding and one waiting claim at a record, and the waiting
//!   one has the higher seq.
//! - **I3** an upgrader's session is among the holders, reading (in a recovery: by its end).
//! - **I4** outside of a recovery, whoever waits is in the way of a holder or of someone before it.
//! - **I5** after each step outside of a recovery, every holder was told what those who wait want
//!   of it, or that nobody wants it any more, or a walk is on its way to it; an upgrader's read and
//!   what is reserved aside.
//! - **I6** a record without claims is not kept.
//!
//! # Transitions
//!
//! | id | input | what happens |
//! |---|---|---|
//! | T1 | acquire, new seq | what the session had there is over; it gets in line; *schedule* |
//! | T2 | acquire, upgrade | to the head of the line with its read in hand; *schedule* |
//! | T2a | acquire, second upgrade | the first upgrader is asked, see `challenge.rs` |
//! | T3 | acquire, known seq | the same answer again; a reservation is taken up |
//! | T4 | release, cancel | everything up to the seq is over, or goes on as a read; *schedule* |
//! | T4 | the same, of what goes on | what is wanted of it is said again |
//! | T5 | session ended | all its claims are over; *schedule* each record |
//! | T5 | later steps | the rest of its claims, see `rests.rs` |
//! | T6 | alarm | late reservations go to the end of the line, or leave it; *schedule* |
//! | T6 | alarm | revokes are sent again |
//! | T6 | alarm | that grants are void is said again, where no node has answered |
//! | T7 | re-assertion | a claim of an earlier term is there again |
//! | T8 | end of the grace | *schedule* each record with a line |

mod alarms;
mod challenge;
mod links;
mod lost;
mod quota;
mod recovery;
mod release;
mod rests;
mod schedule;
mod view;
mod visits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use slab::Slab;

use super::budget::{Budget, Share};
use super::claims::{Claim, ClaimIx, Claims, List, Place, RecordIx, SessionIx, Which};
use super::graph::Fact;
use super::names::{Entry, NameHash, Names};
use super::watch::{Watch, What};
use super::window::Window;
use crate::annotation::Annotation;
use crate::bugs::Bug;
use crate::ids::{Owner, Seq, SessionId};
use crate::limits::{AHEAD_MAX, Limits};
use crate::messages::{Handoff, Term, ToNode, ToServer};
use crate::mode::Mode;
use crate::record::Record;
use crate::refusal::{
    AcquireRefusal, NotServed, ReassertRefusal, Refusal, ReportRefusal, SessionRefusal,
};
use crate::slot::{GROUPS, Group, GroupSet};
use crate::time::Tick;
use crate::token::{Epoch, Ticket, Token};

use alarms::Resends;
use challenge::Challenger;
use links::{Crowd, Own};
use lost::Voids;
pub use quota::UserQuota;
use quota::{UserKey, Users};
use recovery::{Grace, Page, Total};
use rests::{Portion, Rests};
pub use view::{ClaimView, RecordBrief, RecordState, RecordView};
use visits::Visits;

/// What happens to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableInput {
    /// A session may use this table.
    Began {
        /// Which.
        session: SessionId,
        /// How its waits end.
        handoff: Handoff,
        /// Whose it is, if that counts; it may be said later, by one more of these.
        user: Option<Arc<UserQuota>>,
    },
    /// A session is over, and so is everything in it.
    Ended {
        /// Which.
        session: SessionId,
    },
    /// A term begins; its epoch is durable.
    Begin {
        /// Groups that the table does not serve yet, and their epoch.
        term: Term,
        /// The sessions that may re-assert; nothing is granted until they have or are over.
        listed: Vec<SessionId>,
        /// Some of them are sessions of another server, for which sessions of this one may speak.
        formers: bool,
    },
    /// A listed session is not waited for any more in these groups.
    FormerOver {
        /// Which.
        former: SessionId,
        /// Where; other terms wait on.
        groups: GroupSet,
    },
    /// Serve these groups no more, and forget their records. [`TableOutput::Had`] says whose.
    Leave {
        /// Which.
        groups: GroupSet,
    },
    /// A session's node says something about a record.
    Message {
        /// Whose session.
        session: SessionId,
        /// An acquire, release, cancel, report, re-assertion or the end of them.
        message: ToServer,
    },
    /// What a session re-asserts, and may not: it counts as told, and that is all. Without this the
    /// session would never have told everything, and would lose the rest too.
    Disown {
        /// Whose session.
        session: SessionId,
        /// Which record.
        record: Record,
        /// As in [`ToServer::Reassert`].
        epoch: Epoch,
        /// As there.
        former: SessionId,
        /// As there.
        seq: Seq,
    },
    /// The graph has found a cycle: this waiting acquire is refused.
    Refuse {
        /// Whose session.
        session: SessionId,
        /// What it waits for.
        record: Record,
        /// Which acquire.
        seq: Seq,
        /// The cycle.
        cycle: Vec<Owner>,
    },
    /// Time has passed.
    Tick,
}

/// What a table wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableOutput {
    /// Tell a session's node.
    Send {
        /// Whose session.
        session: SessionId,
        /// What.
        message: ToNode,
    },
    /// A listed session has re-asserted all it had in one of the terms.
    Recovered {
        /// The listed one.
        former: SessionId,
        /// Who has spoken for it: itself, if it is a session with this server or had nothing.
        by: SessionId,
        /// The groups of the term.
        groups: GroupSet,
    },
    /// A session that re-asserts has told a page of it: it lives.
    Progress {
        /// The one that speaks.
        session: SessionId,
    },
    /// This session held or waited for something in groups that are left.
    Had {
        /// Which.
        session: SessionId,
    },
    /// For the graph of waits.
    Fact(Fact),
    /// The table can't go on with these groups in this epoch: leave them, and take them again
    /// above.
    Behind {
        /// Which.
        groups: GroupSet,
        /// The highest epoch known now.
        above: Epoch,
        /// The session that has shown it; none if the tokens of the epoch are used up.
        by: Option<SessionId>,
    },
}

/// The server side of some groups of slots.
#[derive(Clone, Debug)]
pub struct LockTable {
    limits: Limits,
    names: Names,
    claims: Claims,
    sessions: Slab<Session>,
    by_id: BTreeMap<SessionId, SessionIx>,
    /// Who spoke last.
    speaker: Speaker,
    terms: Slab<TermState>,
    /// The term of each group, as a key of `terms`.
    term_of: Box<[Option<u16>; GROUPS]>,
    /// Groups that were served and left, and in which no other term has begun.
    left: GroupSet,
    /// The last write token of each group.
    counts: Box<[u64; GROUPS]>,
    /// The claims of records that have many.
    crowds: BTreeMap<RecordIx, Crowd>,
    /// When to look again at records for which somebody waits.
    alarms: Resends<RecordIx>,
    /// When to tell holders again what is wanted of them.
    resends: Resends<ClaimIx>,
    /// When reservations end. All have the same delay, so that the order of setting is the order of
    /// ringing; what is not needed any more is passed over.
    reserves: VecDeque<(Tick, ClaimIx)>,
    /// Sessions that want to upgrade where another one does.
    challenges: BTreeMap<RecordIx, Challenger>,
    voids: Voids,
    /// What acquires are for, as far as that was said. Each belongs to a claim, and ends with it.
    notes: BTreeMap<ClaimIx, Annotation>,
    /// What the table may have, see `quota.rs`.
    records: Share,
    all_claims: Share,
    users: Users,
    /// The claim whose acquire is being answered: it may be granted whatever its hand-off.
    answering: ClaimIx,
    portion: Portion,
    rests: Rests,
    watch: Watch,
    visits: Visits,
}

/// Where to look for a session first. It decides nothing, so it is not shown: tables that differ
/// in it alone are the same.
#[derive(Clone, Copy, Default)]
struct Speaker(Option<SessionIx>);

impl fmt::Debug for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Speaker")
    }
}

#[derive(Clone, Debug)]
struct Session {
    id: SessionId,
    handoff: Handoff,
    window: Window,
    claims: List,
    user: Option<UserKey>,
    /// How many of them are grants.
    held: u32,
    /// It has ended, and its claims end bit by bit: it is told and granted nothing any more.
    is_over: bool,
}

#[derive(Clone, Debug)]
struct TermState {
    term: Term,
    tickets: u64,
    grace: Option<Grace>,
    /// Who has re-asserted, and for which sessions; for those who did not hear that it was heard.
    recovered: BTreeMap<SessionId, BTreeSet<SessionId>>,
}

/// The fields of an acquire, but for its record and session.
struct Wish {
    mode: Mode,
    seq: Seq,
    upgrade: bool,
    owners: Vec<Owner>,
}

impl LockTable {
    /// A table that serves nothing yet. `key` should be drawn at random: it keeps those who choose
    /// names from making them collide.
    #[must_use]
    pub fn new(limits: Limits, key: u64) -> Self {
        Self {
            records: Share::new(Budget::new(limits.records, 1)),
            all_claims: Share::new(Budget::new(limits.claims, 1)),
            users: Users::default(),
            limits,
            names: Names::new(key),
            claims: Claims::default(),
            sessions: Slab::new(),
            by_id: BTreeMap::new(),
            speaker: Speaker::default(),
            terms: Slab::new(),
            term_of: Box::new([None; GROUPS]),
            left: GroupSet::EMPTY,
            counts: Box::new([0; GROUPS]),
            crowds: BTreeMap::new(),
            alarms: Resends::default(),
            resends: Resends::default(),
            reserves: VecDeque::new(),
            challenges: BTreeMap::new(),
            voids: Voids::default(),
            notes: BTreeMap::new(),
            answering: ClaimIx::NONE,
            portion: Portion::default(),
            rests: Rests::default(),
            watch: Watch::default(),
            visits: Visits::default(),
        }
    }

    /// Shares these limits with other tables, in the place of [`Limits::records`] and
    /// [`Limits::claims`]. For a table that has nothing yet.
    #[must_use]
    pub fn within(mut self, records: &Arc<Budget>, claims: &Arc<Budget>) -> Self {
        self.records = Share::new(Arc::clone(records));
        self.all_claims = Share::new(Arc::clone(claims));
        self
    }

    /// Counts for this watch from now on.
    #[must_use]
    pub fn watched_by(mut self, watch: Watch) -> Self {
        self.watch = watch;
        self
    }

    /// One step.
    pub fn handle(
        &mut self,
        now: Tick,
        input: TableInput,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), Refusal> {
        self.watch.now = now;
        self.begin_step();
        match input {
            TableInput::Message { session, message } => self.message(now, session, message, out),
            TableInput::Began { session, handoff, user } => {
                self.begin_session(session, handoff, user.as_deref());
                Ok(())
            }
            TableInput::Ended { session } => {
                self.end_session(now, session, out);
                Ok(())
            }
            TableInput::Begin { term, listed, formers } => {
                self.begin_term(now, term, (listed, formers), out);
                Ok(())
            }
            TableInput::FormerOver { former, groups } => {
                self.former_over(now, former, groups, out);
                Ok(())
            }
            TableInput::Leave { groups } => {
                self.leave(groups, out);
                Ok(())
            }
            TableInput::Disown { session, record, epoch, former, seq } => {
                if let Some(by) = self.speaker(session) {
                    self.disown(now, by, &record, epoch, former, seq, out);
                }
                Ok(())
            }
            TableInput::Refuse { session, record, seq, cycle } => {
                self.refuse(now, session, &record, seq, cycle, out);
                Ok(())
            }
            TableInput::Tick => {
                self.ring_alarms(now, out);
                Ok(())
            }
        }
    }

    fn message(
        &mut self,
        now: Tick,
        session: SessionId,
        message: ToServer,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), Refusal> {
        let Some(by) = self.speaker(session) else {
            // Said as a session of another server.
            if let ToServer::Nothing { groups, epoch } = message {
                let told = self.told_nothing(now, session, Term { groups, epoch }, out);
                return told.map_err(Refusal::Reassert);
            }
            return Err(Refusal::Session(SessionRefusal::Unknown));
        };
        match message {
            ToServer::Acquire { record, mode, seq, epoch, upgrade, owners } => {
                let wish = Wish { mode, seq, upgrade, owners };
                self.acquire(now, by, record, epoch, wish, out).map_err(Refusal::Acquire)
            }
            ToServer::Cancel { record, seq, .. } if self.cancel_leaks(by, &record, seq) => Ok(()),
            ToServer::Release { record, seq, keep } | ToServer::Cancel { record, seq, keep } => {
                let found = self.find(&record).map_err(Refusal::Group)?;
                self.finish(now, by, &record, found, (seq, keep), out);
                Ok(())
            }
            ToServer::Report { record, seq, number, holders, waits } => {
                self.served(record.group()).map_err(|why| Refusal::Report(why.into()))?;
                let max = self.limits.owners;
                if holders.len() > max || waits.len() > max {
                    return Err(Refusal::Report(ReportRefusal::TooManyOwners { max }));
                }
                self.report(
                    by,
                    &record,
                    seq,
                    |session, record, mode| Fact::Holds {
                        session,
                        seq,
                        record,
                        mode,
                        number,
                        holders,
                        waits,
                    },
                    out,
                );
                Ok(())
            }
            ToServer::Note { record, seq, note } => {
                self.note(by, &record, seq, note);
                Ok(())
            }
            ToServer::Reassert { record, epoch, former, seq, mode, claim } => self
                .reassert(by, record, epoch, former, (seq, mode, claim), now, out)
                .map_err(Refusal::Reassert),
            ToServer::Page { groups, epoch, former, first, last, count, sum } => {
                let page = Page { first, last, total: Total { count, sum } };
                self.told_page(now, by, Term { groups, epoch }, former, page, out)
                    .map_err(Refusal::Reassert)
            }
            ToServer::Reasserted { groups, epoch, former, count, sum } => self
                .reasserted(now, by, Term { groups, epoch }, former, Total { count, sum }, out)
                .map_err(Refusal::Reassert),
            // The rest is the registry's; here it means nothing.
            _ => Ok(()),
        }
    }

    /// Where the session that says something is. Mostly it is the one that spoke before.
    #[inline]
    fn speaker(&mut self, session: SessionId) -> Option<SessionIx> {
        let Speaker(last) = self.speaker;
        if let Some(last) = last
            && self.sessions.get(last.key()).is_some_and(|there| there.id == session)
        {
            return Some(last);
        }
        let found = self.by_id.get(&session).copied();
        self.speaker = Speaker(found);
        found
    }

    /// The state of the term that serves `group`.
    fn served(&self, group: Group) -> Result<usize, NotServed> {
        self.term_of[usize::from(group.0)].map(usize::from).ok_or(NotServed { group })
    }

    fn any_grace(&self) -> bool {
        self.terms.iter().any(|(_, state)| state.grace.is_some())
    }

    /// The record, if it is there; its group is served in any case.
    fn find(&self, record: &Record) -> Result<Option<RecordIx>, NotServed> {
        let found = self.names.find(record);
        if found.is_none() {
            self.served(record.group())?;
        }
        Ok(found)
    }

    /// T1, T2 or T3.
    fn acquire(
        &mut self,
        now: Tick,
        by: SessionIx,
        record: Record,
        epoch: Epoch,
        wish: Wish,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), AcquireRefusal> {
        let hash = self.names.hash_of(&record);
        let found = self.names.find_by(hash, &record);
        let group = found.map_or_else(|| record.group(), |ix| self.names.get(ix).group);
        let key = self.served(group).map_err(AcquireRefusal::NotServed)?;
        let term = self.terms[key].term;
        if epoch < term.epoch {
            self.send(by, ToNode::Serving(term), out);
            return Ok(());
        }
        if epoch > term.epoch {
            let by = Some(self.sessions[by.key()].id);
            out.push(TableOutput::Behind { groups: term.groups, above: epoch, by });
            return Ok(());
        }
        if wish.owners.len() > self.limits.owners {
            return Err(AcquireRefusal::TooManyOwners { max: self.limits.owners });
        }
        let own = found.map_or_else(Own::default, |ix| self.own(ix, by));
        for known in own.all() {
            if self.claims.get(known).seq == wish.seq {
                self.acquire_again(now, known, wish.owners, out);
                return Ok(());
            }
        }
        match (self.check_new(by, found, own, &wish), found) {
            (Err(AcquireRefusal::UpgradeConflict), Some(ix))
                if self.challenge(now, by, ix, wish.seq, out) =>
            {
                return Ok(());
            }
            (checked, _) => checked?,
        }

        self.sessions[by.key()].window.mark(wish.seq);
        self.void_is_known(by, &record, wish.seq);
        if wish.upgrade
            && let Some(ix) = found
        {
            self.upgrade(now, by, ix, own, wish, out);
            return Ok(());
        }
        let ticket = self.next_ticket(key);
        let ix = match found {
            Some(ix) => ix,
            None if self.grant_free(by, key, (hash, &record, group), &wish, out) => return Ok(()),
            None => {
                let counted = self.watch.place(&record);
                self.keep_record(hash, record, group, counted)
            }
        };
        // The old ones end first: the index of a crowded record has one waiting claim a session.
        for old in own.all() {
            self.end(old, out);
        }
        let claim = Claim::new(ix, by, wish.seq, wish.mode, Place::Waiting(ticket), now);
        let waiter = self.add(claim);
        self.answer(now, waiter, wish.owners, out);
        Ok(())
    }

    /// All that may be said against an acquire with a new seq, before anything is changed.
    fn check_new(
        &self,
        by: SessionIx,
        found: Option<RecordIx>,
        own: Own,
        wish: &Wish,
    ) -> Result<(), AcquireRefusal> {
        let session = &self.sessions[by.key()];
        let behind = own.all().map(|ix| self.claims.get(ix).seq).any(|seq| wish.seq < seq);
        let seen = !session.window.is_new(wish.seq) && !self.limits.bugs.has(Bug::NoWindow);
        if behind || seen || wish.seq == Seq::NONE {
            return Err(AcquireRefusal::StaleSeq);
        }
        if wish.upgrade {
            let held = own.holding.map(|ix| self.claims.get(ix));
            if held.and_then(Claim::token).is_none() {
                return Err(AcquireRefusal::NotHeld);
            }
            let other = found.and_then(|ix| self.names.get(ix).upgrader.some());
            if other.is_some_and(|ix| self.claims.get(ix).session != by)
                && !self.limits.bugs.has(Bug::SecondUpgraderWaits)
            {
                return Err(AcquireRefusal::UpgradeConflict);
            }
        }
        let limits = &self.limits;
        let replaces = !wish.upgrade && (own.holding.is_some() || own.waiting.is_some());
        if !replaces && session.claims.len as usize >= limits.claims_per_session {
            return Err(AcquireRefusal::TooManyClaims { max: limits.claims_per_session });
        }
        let waiters = found.map_or(0, |ix| self.names.get(ix).waiters() as usize);
        if own.waiting.is_none() && waiters >= limits.waiters_per_record {
            return Err(AcquireRefusal::TooManyWaiters { max: limits.waiters_per_record });
        }
        self.check_room(by, found, own, wish.upgrade)
    }

    /// T3: the answer again. What was reserved is granted.
    fn acquire_again(
        &mut self,
        now: Tick,
        known: ClaimIx,
        owners: Vec<Owner>,
        out: &mut Vec<TableOutput>,
    ) {
        let claim = self.claims.get_mut(known);
        // Its node lives.
        claim.lapses = 0;
        match claim.place {
            Place::Granted(token) => {
                let (by, seq, mode) = (claim.session, claim.seq, claim.mode);
                let give_back = claim.revoked;
                let record = self.names.get(claim.record).name.clone();
                let again = ToNode::Granted { record, seq, mode, token, give_back };
                self.send(by, again, out);
            }
            Place::Reserved(_) => self.take_up(now, known, out),
            Place::Waiting(_) => self.answer(now, known, owners, out),
            Place::Upgrading(_) => {
                let ix = claim.record;
                self.refuse_challenger(ix, out);
                self.answer(now, known, owners, out);
            }
        }
    }

    /// T2. The session holds the record.
    fn upgrade(
        &mut self,
        now: Tick,
        by: SessionIx,
        ix: RecordIx,
        own: Own,
        wish: Wish,
        out: &mut Vec<TableOutput>,
    ) {
        if let Some(old) = own.waiting {
            self.end(old, out);
        }
        let key = self.served(self.names.get(ix).group).expect("the group is served");
        let ticket = self.next_ticket(key);
        let upgrading = self.names.get(ix).upgrader == ClaimIx::NONE;
        let place = if upgrading { Place::Upgrading(ticket) } else { Place::Waiting(ticket) };
        let waiter = self.add(Claim::new(ix, by, wish.seq, Mode::Write, place, now));
        self.answer(now, waiter, wish.owners, out);
    }

    /// Answers an acquire: by the grant, if it is its turn, else by its place in line. Tells the
    /// graph who waits.
    fn answer(
        &mut self,
        now: Tick,
        waiter: ClaimIx,
        owners: Vec<Owner>,
        out: &mut Vec<TableOutput>,
    ) {
        let (ix, seq) = (self.claims.get(waiter).record, self.claims.get(waiter).seq);
        self.answering = waiter;
        self.schedule(now, ix, out);
        self.answering = ClaimIx::NONE;

        let Some(claim) = self.claims.try_get_mut(waiter) else { return };
        let Some(ticket) = claim.ticket() else { return };
        let (by, mode, is_new) = (claim.session, claim.mode, claim.since.0 == now);
        let upgrade = matches!(claim.place, Place::Upgrading(_));
        let known = std::mem::replace(&mut claim.in_graph, !owners.is_empty());
        let record = self.names.get(claim.record).name.clone();
        let session = self.sessions[by.key()].id;
        if !owners.is_empty() {
            let record = record.clone();
            let fact = Fact::Waits { session, seq, record, mode, ticket, upgrade, owners };
            out.push(TableOutput::Fact(fact));
        } else if known {
            out.push(TableOutput::Fact(Fact::Gone { session, seq }));
        }
        if is_new {
            self.watch.happened(&record, session, What::Waits(mode));
        }
        let ahead = self.ahead(waiter, ix);
        self.send(by, ToNode::Queued { record, seq, ticket, ahead }, out);
    }

    /// How many would be served before a waiter, as things are now: its index among
    /// [`RecordView::waiters`](view::RecordView::waiters). Mostly it is the last of its mode; of
    /// others, no more than [`AHEAD_MAX`] are looked at.
    fn ahead(&self, waiter: ClaimIx, ix: RecordIx) -> u32 {
        let entry = self.names.get(ix);
        if entry.upgrader == waiter {
            return self.turn(entry, Mode::Write, 0);
        }
        let mode = self.claims.get(waiter).mode;
        let list = if mode == Mode::Read { entry.readers } else { entry.writers };
        let before = if list.tail == waiter {
            list.len - 1
        } else {
            let line = self.claims.of_record(list).take(AHEAD_MAX as usize);
            line.take_while(|&at| at != waiter).count() as u32
        };
        let upgrader = mode == Mode::Write && entry.upgrader.some().is_some();
        self.turn(entry, mode, before + u32::from(upgrader))
    }

    /// How many would be served before a waiter; `None` if the session does not wait with this
    /// seq.
    #[must_use]
    pub fn ahead_of(&self, session: SessionId, record: &Record, seq: Seq) -> Option<u32> {
        let (&by, ix) = self.by_id.get(&session).zip(self.names.find(record))?;
        let waiter = self.own(ix, by).waiting?;
        let claim = self.claims.get(waiter);
        claim.ticket().filter(|_| claim.seq == seq)?;
        Some(self.ahead(waiter, ix))
    }

    /// What the acquire `seq` is for. It is kept with its claim; without one it is forgotten.
    fn note(&mut self, by: SessionIx, record: &Record, seq: Seq, note: Annotation) {
        let Some(ix) = self.names.find(record) else { return };
        let claim = self.own(ix, by).all().find(|&at| self.claims.get(at).seq == seq);
        if let Some(at) = claim {
            self.notes.insert(at, note);
        }
    }

    /// A bug for the simulator: a cancel that finds its grant does nothing.
    fn cancel_leaks(&self, by: SessionIx, record: &Record, seq: Seq) -> bool {
        self.limits.bugs.has(Bug::CancelLeaks)
            && self.names.find(record).is_some_and(|ix| {
                let holding = self.own(ix, by).holding;
                holding.is_some_and(|at| self.claims.get(at).seq == seq)
            })
    }

    fn next_ticket(&mut self, key: usize) -> Ticket {
        let state = &mut self.terms[key];
        // A line that has seen 2^40 waiters in one term goes on with its last number.
        state.tickets = (state.tickets + 1).min(Ticket::COUNT_MAX);
        Ticket::new(state.term.epoch, state.tickets).expect("the count is bounded")
    }

    /// Tells a session's node, unless the session is over.
    fn send(&self, to: SessionIx, message: ToNode, out: &mut Vec<TableOutput>) {
        let &Session { id: session, is_over, .. } = &self.sessions[to.key()];
        if !is_over {
            out.push(TableOutput::Send { session, message });
        }
    }
}
