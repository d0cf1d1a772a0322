//! The line for one record on this node: who waits, what the node was granted, what is wanted back.
//!
//! Stands behind a mutex beside the record's [`Gate`]. Threads that find the gate shut get in line;
//! threads that leave a watched gate look after the line. It lets them in, opens and shuts the
//! gate, and says what the head of the line needs from the server.
//!
//! Who is next: an upgrader goes before everybody, once it is alone. Otherwise it is the head of
//! the line, and with a reader all readers up to the first writer; but when a writer has left, the
//! readers that wait then go first, all of them.
//!
//! # Passing
//!
//! While the first in line has waited for less than [`PASSING`], the gate stays open: whoever runs
//! may pass, and who leaves only wakes the first in line to try for itself. That saves a context
//! switch per turn. From then on it is handed the record. No one passes while the record is wanted
//! back, while somebody upgrades, or when the head needs more than the node has.
//!
//! # Invariants
//!
//! - **I1** The gate is open only for what `opened` covers, and never while it drains.
//! - **I2** `wanted` is what the cache was told last, and not yet answered.
//! - **I3** Whoever is answered is not in line any more; an answer is taken once, or given back.
//! - **I4** Somebody who waits is in the way of somebody inside, of a drain or of what is wanted,
//!   or was woken to try.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use lockspan_protocol::cache::Input;
use lockspan_protocol::{Annotation, LocalWait, Mode, Owner, Record as Name, Stay, Tick, Token};
use lockspan_thread::gate::{Gate, Inside, Opening, Pass, Reader, Use};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::entry::Downgraded;
use crate::error::LockError;
use crate::node::batch::{BatchId, Fetch};
use crate::places::Places;
use crate::timeout::HeldBy;

/// How long newcomers may pass the first in line.
pub(crate) const PASSING: Duration = Duration::from_micros(400);

/// So many owners are named at once, as the server does. Cycles of those beyond are not seen.
pub(crate) const OWNERS: usize = 64;

/// A place in line.
pub(crate) type Place = u64;

/// What a waiter gets.
pub(crate) type Answer = Result<(Pass, Token), LockError>;

/// What the cache allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) mode: Mode,
    pub(crate) token: Token,
}

/// What the cache wants back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// What threads may go on holding.
    pub(crate) to: Option<Mode>,
    /// How many turns may still begin.
    pub(crate) stay: Stay,
}

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) mode: Mode,
    pub(crate) owner: Option<Owner>,
    pub(crate) since: Tick,
    pub(crate) waker: Option<Waker>,
    /// It is this reader, and goes on reading while it waits to write.
    pub(crate) upgrade: Option<Reader>,
    /// What it wants the record for, shown to people.
    pub(crate) note: Option<Annotation>,
}

/// What the cache was told that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) mode: Mode,
    pub(crate) upgrade: bool,
    pub(crate) owners: Vec<Owner>,
}

/// What threads look at and what the line says about it.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) opened: Option<Opened>,
    pub(crate) drain: Option<Drain>,
    readers: Places<Waiter>,
    writers: Places<Waiter>,
    upgrader: Option<(Place, Waiter)>,
    answers: Places<Answer>,
    last_place: Place,
    /// The readers up to this place waited when a writer left: they are next.
    after_writer: Place,
    /// What the cache knows.
    pub(crate) wanted: Option<Wanted>,
    /// Holders that have named an owner.
    pub(crate) named: Vec<Owner>,
    /// What the cache was told about who keeps the record.
    pub(crate) reported: Option<(Vec<Owner>, Vec<LocalWait>)>,
    /// Rung when the holders are lost.
    lost: Option<Arc<Bell>>,
    /// What the server said about who holds the record elsewhere, if it was asked.
    pub(crate) held_by: Option<Box<HeldBy>>,
    /// Fetched for somebody who will get in line when it has the records before this one.
    fetch: Option<Box<Fetch>>,
    /// The batches that this record is in.
    pub(crate) batches: Vec<BatchId>,
}

/// Wakes everybody who waits for the loss of what they hold. A waker itself, to be called with the
/// others: with nothing held.
#[derive(Debug, Default)]
pub(crate) struct Bell(Notify);

impl Bell {
    /// It was rung after this was asked for.
    pub(crate) fn rung(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_waiters();
    }
}

/// The present circumstances, for one look at a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) now: Tick,
    /// The end of the lease.
    pub(crate) until: Tick,
    /// Whether an idle record is kept.
    pub(crate) caching: bool,
    /// Whether a writer of the present grant has become a reader.
    pub(crate) downgraded: &'a Downgraded,
}

fn how(mode: Mode) -> Use {
    if mode == Mode::Read { Use::Read } else { Use::Write }
}

impl Line {
    /// Gets in line.
    pub(crate) fn wait(&mut self, waiter: Waiter) -> Place {
        self.last_place += 1;
        let place = self.last_place;
        match (&waiter.upgrade, waiter.mode) {
            (Some(_), _) => self.upgrader = Some((place, waiter)),
            (None, Mode::Read) => self.readers.insert(place, waiter),
            (None, _) => self.writers.insert(place, waiter),
        }
        place
    }

    /// Whether somebody may get in line. Who upgrades has to be alone in that, and to be in still:
    /// one that was lost just before could never go on, nor anybody behind it.
    pub(crate) fn may_wait(&self, gate: &Gate, upgrade: Option<Reader>) -> Result<(), LockError> {
        match upgrade {
            Some(reader) if !gate.has_reader(reader) => Err(LockError::Lost),
            Some(_) if self.upgrader.is_some() => Err(LockError::UpgradeConflict),
            _ => Ok(()),
        }
    }

    /// The waiter in this place.
    pub(crate) fn waiter(&mut self, place: Place) -> Option<&mut Waiter> {
        let upgrader = self.upgrader.as_mut().filter(|(at, _)| *at == place);
        let upgrader = upgrader.map(|(_, waiter)| waiter);
        upgrader.or_else(|| self.writers.get_mut(place)).or_else(|| self.readers.get_mut(place))
    }

    /// How many would be served here before a place, given who is in: as [`next`](Self::next) has
    /// it. `None` if nobody waits there.
    pub(crate) fn ahead(&self, place: Place, inside: Inside) -> Option<u32> {
        let upgrader = self.upgrader.as_ref().map(|&(at, _)| at);
        if upgrader == Some(place) {
            return Some(0);
        }
        let first = self.writers.first().map(|(at, _)| at);
        // The readers up to here go before the first writer, the others after it.
        let early = match first {
            Some(first) if !inside.writer => self.readers.before(first.max(self.after_writer + 1)),
            _ => self.readers.len(),
        };
        let before = if self.readers.has(place) {
            let before = self.readers.before(place);
            before + usize::from(before >= early)
        } else if !self.writers.has(place) {
            return None;
        } else if first == Some(place) {
            early
        } else {
            self.readers.len() + self.writers.before(place)
        };
        let before = before + usize::from(upgrader.is_some());
        Some(u32::try_from(before).unwrap_or(u32::MAX))
    }

    /// The answer for this place, if there is one; it is the caller's now.
    pub(crate) fn answer(&mut self, place: Place) -> Option<Answer> {
        self.answers.remove(place)
    }

    /// Leaves the line.
    pub(crate) fn give_up(&mut self, place: Place) -> Option<Waiter> {
        if self.upgrader.as_ref().is_some_and(|(at, _)| *at == place) {
            return self.upgrader.take().map(|(_, waiter)| waiter);
        }
        self.writers.remove(place).or_else(|| self.readers.remove(place))
    }

    /// A writer has gone out.
    pub(crate) fn writer_left(&mut self) {
        self.after_writer = self.last_place;
    }

    /// A holder that had named an owner has gone out.
    pub(crate) fn named_left(&mut self, owner: Owner) {
        if let Some(at) = self.named.iter().position(|named| *named == owner) {
            self.named.swap_remove(at);
        }
    }

    /// Whether an owner would wait for itself.
    pub(crate) fn is_held_by(&self, owner: Owner, mode: Mode, gate: &Gate) -> bool {
        self.named.contains(&owner) && (mode == Mode::Write || gate.inside().writer)
    }

    /// After the line was served: whether an owner waits in this place for what it holds itself.
    /// Whoever waits while others are inside waits until they leave: behind a writer here, or, in
    /// a drain, behind one on another node. If this owner is one of them, that is a deadlock.
    pub(crate) fn waits_for_its_own_hold(&mut self, place: Place, owner: Owner) -> bool {
        self.waiter(place).is_some() && self.named.contains(&owner)
    }

    /// Rung when those who hold the record now are lost.
    pub(crate) fn bell(&mut self) -> Arc<Bell> {
        Arc::clone(self.lost.get_or_insert_default())
    }

    /// Whether the node has nothing of the record and nobody here wants it.
    pub(crate) fn is_unused(&self) -> bool {
        self.opened.is_none()
            && self.wanted.is_none()
            && self.drain.is_none()
            && self.upgrader.is_none()
            && self.head().is_none()
    }

    /// Fetches the record for a batch, if it is unused. The cache has to be told.
    pub(crate) fn fetch(&mut self, batch: BatchId, fetch: impl FnOnce() -> Fetch) -> bool {
        let may = self.is_unused() && self.fetch.is_none();
        if may {
            self.fetch = Some(Box::new(fetch()));
            self.batches.push(batch);
        }
        may
    }

    /// Is not in a batch any more, nor fetched for it. The cache has to be told.
    pub(crate) fn leave_batch(&mut self, batch: BatchId) {
        self.fetch.take_if(|fetch| fetch.batch == batch);
        self.batches.retain(|&other| other != batch);
    }

    /// Whether the one in this place is first in line and waits for the server, not for somebody
    /// of this node.
    pub(crate) fn waits_for_server(&self, place: Place) -> bool {
        let upgrader = self.upgrader.as_ref().map(|&(at, _)| at);
        let first = upgrader.or_else(|| self.head().map(|(at, _)| at));
        self.wanted.is_some() && first == Some(place)
    }

    /// Who is next among those in line, given who is in; not the upgrader.
    fn next(&self, inside: Inside) -> Option<(Place, Mode)> {
        if inside.writer {
            return None;
        }
        let reader = self.readers.first().map(|(place, _)| (place, Mode::Read));
        let writer = self.writers.first().map(|(place, _)| (place, Mode::Write));
        match (reader, writer) {
            (reader, None) => reader,
            (None, writer) => writer.filter(|_| inside.is_empty()),
            (Some(reader), Some(_)) if reader.0 <= self.after_writer => Some(reader),
            (Some(reader), Some(writer)) if reader.0 < writer.0 => Some(reader),
            (Some(_), writer) => writer.filter(|_| inside.is_empty()),
        }
    }

    /// Whether the node has nothing of the record, and all who wait here wait to read. Then what
    /// the server grants lets all of them in at once, whether those before in line run or not.
    pub(crate) fn is_granted_together(&self) -> bool {
        self.opened.is_none()
            && self.upgrader.is_none()
            && self.writers.is_empty()
            && !self.readers.is_empty()
    }

    /// Who has waited longest, the upgrader aside.
    fn head(&self) -> Option<(Place, &Waiter)> {
        match (self.readers.first(), self.writers.first()) {
            (Some(reader), Some(writer)) if reader.0 < writer.0 => Some(reader),
            (Some(_), Some(writer)) => Some(writer),
            (reader, writer) => reader.or(writer),
        }
    }

    /// Whether newcomers may pass those in line.
    fn may_pass(&self, now: Tick) -> bool {
        let Some(opened) = self.opened else { return false };
        let is_young = |(_, head): (Place, &Waiter)| {
            now < head.since + PASSING && opened.mode.covers(head.mode)
        };
        self.drain.is_none() && self.upgrader.is_none() && self.head().is_none_or(is_young)
    }

    /// What the gate is to be open for.
    fn opening(&self, look: &Look<'_>) -> Opening {
        let is_busy = self.head().is_some() || self.upgrader.is_some();
        match self.opened {
            Some(opened) if self.may_pass(look.now) => Opening {
                reads: true,
                writes: opened.mode == Mode::Write,
                watched: is_busy || !look.caching,
            },
            _ => Opening { reads: false, writes: false, watched: true },
        }
    }

    /// Lets in the next in line if it may: the record is open for it, the lease stands, and a drain
    /// leaves it a turn.
    fn admit_one(&mut self, look: &Look<'_>, wakes: &mut Vec<Waker>) -> bool {
        let Some(opened) = self.opened.filter(|_| look.now < look.until) else { return false };
        if let Some((_, waiter)) = &self.upgrader {
            // One that is alone has its turn already; it only goes on with it.
            let reader = waiter.upgrade.filter(|_| opened.mode == Mode::Write);
            let Some(pass) = reader.and_then(|reader| look.gate.upgrade(reader, false)) else {
                return false;
            };
            let Some((place, waiter)) = self.upgrader.take() else { return false };
            self.let_in(place, waiter, (pass, opened.token), wakes);
            return true;
        }
        let Some((place, mode)) = self.next(look.gate.inside()) else { return false };
        if !opened.mode.covers(mode) {
            return false;
        }
        if let Some(drain) = &self.drain
            && drain.stay.is_over(look.now)
            && !drain.to.is_some_and(|to| to.covers(mode))
        {
            return false;
        }
        let Some(pass) = look.gate.admit(how(mode)) else { return false };
        if let Some(drain) = &mut self.drain
            && !drain.to.is_some_and(|to| to.covers(mode))
        {
            drain.stay.turn(look.now);
        }
        let Some(waiter) = self.give_up(place) else { return false };
        self.let_in(place, waiter, (pass, opened.token), wakes);
        true
    }

    fn let_in(&mut self, place: Place, waiter: Waiter, got: (Pass, Token), wakes: &mut Vec<Waker>) {
        // Who upgrades was named when it came in to read.
        if waiter.upgrade.is_none() {
            self.named.extend(waiter.owner);
        }
        wakes.extend(waiter.waker);
        self.answers.insert(place, Ok(got));
    }

    /// Lets in who may go in, and opens or shuts the gate for those who are not in line.
    pub(crate) fn serve(&mut self, look: &Look<'_>, wakes: &mut Vec<Waker>) {
        if self.head().is_some() || self.upgrader.is_some() {
            while self.admit_one(look, wakes) {}
        }
        look.gate.open(self.opening(look));
    }

    /// Somebody has left: lets in the next, or wakes it to try for itself.
    pub(crate) fn left(&mut self, look: &Look<'_>, wakes: &mut Vec<Waker>) {
        let nudged = match self.next(look.gate.inside()) {
            Some((place, _)) if self.may_pass(look.now) => {
                self.waiter(place).and_then(|waiter| waiter.waker.take())
            }
            _ => None,
        };
        match nudged {
            Some(waker) => wakes.push(waker),
            // The first in line was woken before, has not come yet, and may be passed.
            None if self.may_pass(look.now)
                && self.head().is_some_and(|(_, w)| w.waker.is_none()) => {}
            None if look.caching => self.serve(look, wakes),
            // It is served when the cache is told.
            None => {}
        }
    }

    /// The cache has opened the record.
    pub(crate) fn open(&mut self, opened: Opened) {
        self.opened = Some(opened);
        self.drain = None;
        self.reported = None;
        self.wanted.take_if(|wanted| opened.mode.covers(wanted.mode));
        self.fetch = None;
    }

    /// The grant is void: nobody is in.
    pub(crate) fn lose(&mut self, gate: &Gate, wakes: &mut Vec<Waker>) {
        gate.lose();
        self.opened = None;
        self.drain = None;
        self.reported = None;
        self.after_writer = 0;
        self.named.clear();
        self.wanted.take_if(|wanted| wanted.upgrade);
        if let Some((place, waiter)) = self.upgrader.take() {
            wakes.extend(waiter.waker);
            self.answers.insert(place, Err(LockError::Lost));
        }
        wakes.extend(self.lost.take().map(Waker::from));
    }

    /// Refuses those for whom this holds.
    pub(crate) fn refuse(
        &mut self,
        why: &LockError,
        is_meant: impl Fn(&Waiter) -> bool,
        wakes: &mut Vec<Waker>,
    ) {
        // Whoever it was fetched for will ask, and hear why not.
        self.fetch = None;
        let mut places: Vec<Place> = Vec::new();
        let all = self.readers.iter().chain(self.writers.iter());
        places.extend(all.filter(|(_, waiter)| is_meant(waiter)).map(|(place, _)| place));
        let upgrader = self.upgrader.as_ref().filter(|(_, waiter)| is_meant(waiter));
        places.extend(upgrader.map(|&(place, _)| place));
        for place in places {
            let Some(waiter) = self.give_up(place) else { continue };
            wakes.extend(waiter.waker);
            self.answers.insert(place, Err(why.clone()));
        }
    }

    /// Whether those that a drain sends away have left, and nobody goes in any more.
    fn is_drained(&self, look: &Look<'_>) -> bool {
        let Some(drain) = self.drain else { return false };
        let stays = |mode: Mode| drain.to.is_some_and(|to| to.covers(mode));
        let inside = look.gate.inside();
        if inside.writer && !stays(Mode::Write) || inside.readers > 0 && !stays(Mode::Read) {
            return false;
        }
        // A turn could begin, and somebody here would take it.
        let takes = |opened: Opened| {
            let next = self.next(inside).filter(|_| self.upgrader.is_none());
            next.is_some_and(|(_, mode)| opened.mode.covers(mode) && !stays(mode))
        };
        drain.stay.is_over(look.now) || !self.opened.is_some_and(takes)
    }

    /// Whether the whole record is wanted back, and all that keeps it here is readers of whom one
    /// was the writer. The server is told, or it would take them for a writer: readers that wait
    /// elsewhere could not come in beside them, as they may when a writer downgrades. Not while
    /// one of them upgrades: that one writes next.
    fn is_downgraded(&self, look: &Look<'_>) -> bool {
        let inside = look.gate.inside();
        self.drain.is_some_and(|drain| drain.to.is_none())
            && self.opened.is_some_and(|opened| opened.mode == Mode::Write)
            && self.upgrader.is_none()
            && !inside.writer
            && inside.readers > 0
            && look.downgraded.get()
    }

    /// What the head of the line needs from the cache, if anything.
    fn need(&self, look: &Look<'_>) -> Option<Wanted> {
        let covered = |mode| self.opened.is_some_and(|opened| opened.mode.covers(mode));
        if self.upgrader.is_some() {
            let want = || Wanted { mode: Mode::Write, upgrade: true, owners: self.owners() };
            return (!covered(Mode::Write)).then(want);
        }
        if self.drain.is_some() {
            return None;
        }
        let inside = look.gate.inside();
        let fetched = || self.fetch.as_ref().filter(|_| self.head().is_none());
        let mode = match self.next(inside) {
            Some((_, mode)) => mode,
            None => fetched()?.mode,
        };
        let want = || Wanted { mode, upgrade: false, owners: self.owners() };
        (!covered(mode) && inside.is_empty()).then(want)
    }

    /// Who waits, as far as named.
    fn owners(&self) -> Vec<Owner> {
        let upgrader = self.upgrader.as_ref().map(|(_, waiter)| waiter);
        let waiting = self.readers.iter().chain(self.writers.iter()).map(|(_, waiter)| waiter);
        let waiting = waiting.chain(upgrader);
        waiting.filter_map(|waiter| waiter.owner).take(OWNERS).collect()
    }

    /// Whether nobody is in and nobody waits, so that the record may go back. It shuts the gate to
    /// look, and opens it again if not.
    fn is_idle(&self, look: &Look<'_>) -> bool {
        let is_still = self.opened.is_some()
            && self.drain.is_none()
            && self.wanted.is_none()
            && self.upgrader.is_none()
            && self.head().is_none();
        if !is_still {
            return false;
        }
        if !look.gate.inside().is_empty() {
            return false;
        }
        look.gate.open(Opening { reads: false, writes: false, watched: true });
        let is_idle = look.gate.inside().is_empty();
        if !is_idle {
            look.gate.open(self.opening(look));
        }
        is_idle
    }

    /// Whether somebody waits for it, here or elsewhere as far as known.
    pub(crate) fn is_wanted(&self) -> bool {
        self.drain.is_some() || self.head().is_some() || self.upgrader.is_some()
    }

    /// After it was served: whether somebody is in, nobody waits, and nothing is wanted by anybody,
    /// so that there is nothing to tell the cache before they leave. If that is soon, who leaves
    /// looks after it: without caching the gate is watched, with it there is nothing to do.
    pub(crate) fn is_settled(&self, look: &Look<'_>) -> bool {
        !self.is_wanted()
            && self.wanted.is_none()
            && self.named.is_empty()
            && !look.gate.inside().is_empty()
    }

    /// Whether the cache has to be told something. Without caching it always is.
    pub(crate) fn needs_cache(&self, look: &Look<'_>) -> bool {
        self.is_drained(look)
            || self.is_downgraded(look)
            || self.need(look) != self.wanted
            || !self.named.is_empty()
            || (look.now >= look.until && (self.head().is_some() || self.upgrader.is_some()))
    }

    /// Looks after the line and says what the cache has to be told.
    pub(crate) fn settle(
        &mut self,
        look: &Look<'_>,
        name: &Name,
        give_back: bool,
        wakes: &mut Vec<Waker>,
        tell: &mut VecDeque<Input>,
    ) {
        self.serve(look, wakes);
        if self.is_drained(look) {
            self.close();
            tell.push_back(Input::Drained { record: name.clone() });
            self.serve(look, wakes);
        } else if self.is_downgraded(look) {
            // As if only a read had been wanted.
            self.drain = self.drain.map(|drain| Drain { to: Some(Mode::Read), ..drain });
            self.close();
            tell.push_back(Input::Downgraded { record: name.clone() });
            self.serve(look, wakes);
        }
        self.want(look, name, tell);
        if (give_back || !look.caching) && self.is_idle(look) {
            self.opened = None;
            tell.push_back(Input::Return { record: name.clone() });
        }
    }

    /// After the cache was told that it is drained.
    fn close(&mut self) {
        let Some(drain) = self.drain.take() else { return };
        self.reported = None;
        match (drain.to, &mut self.opened) {
            (Some(mode), Some(opened)) => opened.mode = mode,
            _ => self.opened = None,
        }
    }

    fn want(&mut self, look: &Look<'_>, name: &Name, tell: &mut VecDeque<Input>) {
        let need = self.need(look);
        if need == self.wanted {
            return;
        }
        let same_kind = |a: &Wanted, b: &Wanted| (a.mode, a.upgrade) == (b.mode, b.upgrade);
        if let Some(wanted) = &self.wanted
            && !need.as_ref().is_some_and(|need| same_kind(need, wanted))
        {
            tell.push_back(Input::Withdraw { record: name.clone() });
        }
        if let Some(Wanted { mode, upgrade, owners }) = need.clone() {
            // Without an upgrade the record is closed until it is answered.
            if !upgrade && self.opened.take().is_some() {
                look.gate.open(self.opening(look));
            }
            let record = name.clone();
            tell.push_back(Input::Want { record, mode, upgrade, owners });
            if let Some(note) = self.note(look, upgrade) {
                tell.push_back(Input::Note { record: name.clone(), note });
            }
        }
        self.wanted = need;
    }

    /// What the waiter that is next wants the record for, if it says so.
    fn note(&self, look: &Look<'_>, upgrade: bool) -> Option<Annotation> {
        if upgrade {
            return self.upgrader.as_ref()?.1.note.clone();
        }
        let Some((place, mode)) = self.next(look.gate.inside()) else {
            return self.fetch.as_ref()?.note.clone();
        };
        let line = if mode == Mode::Read { &self.readers } else { &self.writers };
        let mut waiters = line.iter().filter(|&(at, _)| at == place);
        waiters.next()?.1.note.clone()
    }

    /// Who waits for whom here, between owners.
    pub(crate) fn waits(&self) -> Vec<LocalWait> {
        let mut waits = Vec::new();
        let upgrader = self.upgrader.as_ref().map(|(place, waiter)| (*place, waiter));
        let mut line: Vec<(Place, &Waiter)> = Vec::new();
        line.extend(self.readers.iter().chain(self.writers.iter()));
        line.sort_unstable_by_key(|&(place, _)| place);
        line.extend(upgrader);
        for (at, (_, waiter)) in line.iter().enumerate() {
            let Some(owner) = waiter.owner else { continue };
            let ahead = line[..at].iter().filter_map(|(_, other)| other.owner);
            let ahead = ahead.filter(|_| waiter.upgrade.is_none());
            let others = self.named.iter().copied().chain(ahead).filter(|&other| other != owner);
            waits.extend(others.map(|holder| LocalWait { waiter: owner, holder }));
        }
        waits
    }

    /// Whether there is nothing here that anybody could miss.
    pub(crate) fn is_blank(&self) -> bool {
        self.opened.is_none()
            && self.wanted.is_none()
            && self.answers.is_empty()
            && self.head().is_none()
            && self.upgrader.is_none()
    }
}
