//! The fair lock that stands between a node's threads and its cache, one for each record.
//!
//! It knows which threads are in and which wait, what the cache has opened, and whether it drains.
//! It lets threads in while that is allowed, and says what the head of its line needs from the
//! servers.
//!
//! Who is next: an upgrader goes before everybody, once it is alone. Otherwise it is the head of
//! the line, and with a reader all readers up to the first writer; but when a writer has left, the
//! readers that wait then go first, all of them. Readers join readers while no writer waits.
//!
//! A thread whose guard was lost is not in any more: what it does is the fence's business.

use std::collections::VecDeque;

use lockspan_protocol::cache::LeaseId;
use lockspan_protocol::{LocalWait, Mode, Owner, Stay, Tick, Token};

/// A thread of the node, by number.
pub(crate) type Thread = u8;

/// What the cache allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) mode: Mode,
    pub(crate) token: Token,
    /// The lease that it rests on.
    pub(crate) lease: LeaseId,
}

/// What the cache wants back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// What threads may go on holding.
    pub(crate) to: Option<Mode>,
    /// How many turns may still begin.
    pub(crate) stay: Stay,
}

/// A thread that is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) thread: Thread,
    pub(crate) mode: Mode,
    pub(crate) owner: Option<Owner>,
}

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) thread: Thread,
    pub(crate) mode: Mode,
    /// It reads, and goes on reading while it waits to write.
    pub(crate) upgrade: bool,
    pub(crate) owner: Option<Owner>,
}

/// What the cache was told that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) mode: Mode,
    pub(crate) upgrade: bool,
    pub(crate) owners: Vec<Owner>,
}

/// The line for one record on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) opened: Option<Opened>,
    pub(crate) drain: Option<Drain>,
    pub(crate) holders: Vec<Holder>,
    pub(crate) waiters: VecDeque<Waiter>,
    /// The last to leave was a writer: readers are next.
    after_writer: bool,
    /// What the cache knows.
    pub(crate) wanted: Option<Wanted>,
    /// What the cache was told about who keeps the record.
    pub(crate) reported: Option<(Vec<Owner>, Vec<LocalWait>)>,
}

impl Line {
    /// Who goes in next, as soon as the record is open for it: one writer, or readers.
    fn next(&self) -> Vec<Waiter> {
        if let Some(upgrader) = self.waiters.iter().find(|waiter| waiter.upgrade) {
            let alone = self.holders.iter().all(|holder| holder.thread == upgrader.thread);
            return if alone { vec![*upgrader] } else { Vec::new() };
        }
        let readers = || self.waiters.iter().filter(|waiter| waiter.mode == Mode::Read);
        let first_writer = self.waiters.iter().position(|waiter| waiter.mode == Mode::Write);
        match (self.holders.first().map(|holder| holder.mode), first_writer) {
            (Some(Mode::Write), _) => Vec::new(),
            (_, None) => readers().copied().collect(),
            (_, Some(_)) if self.after_writer && readers().next().is_some() => {
                readers().copied().collect()
            }
            (None, Some(0)) => vec![self.waiters[0]],
            (_, Some(writer)) => self.waiters.range(..writer).copied().collect(),
        }
    }

    /// Lets in the next thread if it may: the record is open for it, its lease stands, and a drain
    /// leaves it a turn.
    pub(crate) fn admit(
        &mut self,
        now: Tick,
        leased: impl Fn(LeaseId) -> bool,
    ) -> Option<(Waiter, Opened)> {
        let opened = self.opened?;
        let waiter = *self.next().first()?;
        if !opened.mode.covers(waiter.mode) || !leased(opened.lease) {
            return None;
        }
        if let Some(drain) = &mut self.drain {
            // An upgrader that is alone has its turn already; it only goes on with it.
            let free = waiter.upgrade || drain.to.is_some_and(|mode| mode.covers(waiter.mode));
            if !free && !drain.stay.turn(now) {
                return None;
            }
        }
        self.waiters.retain(|other| other.thread != waiter.thread);
        self.holders.retain(|holder| holder.thread != waiter.thread);
        self.holders.push(Holder { thread: waiter.thread, mode: waiter.mode, owner: waiter.owner });
        // The readers that waited when the writer left go in together; the flag ends with the last.
        let more_readers = self.waiters.iter().any(|other| other.mode == Mode::Read);
        self.after_writer &= waiter.mode == Mode::Read && more_readers;
        Some((waiter, opened))
    }

    /// A thread leaves; true if it was in.
    pub(crate) fn leave(&mut self, thread: Thread) -> bool {
        let Some(at) = self.holders.iter().position(|holder| holder.thread == thread) else {
            return false;
        };
        let holder = self.holders.remove(at);
        self.after_writer |= holder.mode == Mode::Write;
        true
    }

    /// A thread waits no more; true if it did.
    pub(crate) fn give_up(&mut self, thread: Thread) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.thread != thread);
        self.waiters.len() < before
    }

    /// The grant is void: nobody is in. Returns who was.
    pub(crate) fn lose(&mut self) -> Vec<Holder> {
        self.opened = None;
        self.drain = None;
        self.reported = None;
        self.after_writer = false;
        std::mem::take(&mut self.holders)
    }

    /// Whether those that a drain sends away have left, and nobody goes in any more.
    pub(crate) fn is_drained(&self, now: Tick) -> bool {
        let Some(drain) = self.drain else { return false };
        let stays = |mode: Mode| drain.to.is_some_and(|to| to.covers(mode));
        if self.holders.iter().any(|holder| !stays(holder.mode)) {
            return false;
        }
        // A turn could begin, and somebody here would take it.
        let takes = |opened: Opened| {
            let next = self.next();
            next.iter().any(|waiter| opened.mode.covers(waiter.mode) && !stays(waiter.mode))
        };
        drain.stay.is_over(now) || !self.opened.is_some_and(takes)
    }

    /// After the cache was told that it is drained.
    pub(crate) fn close(&mut self) {
        let Some(drain) = self.drain.take() else { return };
        self.reported = None;
        match (drain.to, &mut self.opened) {
            (Some(mode), Some(opened)) => opened.mode = mode,
            _ => self.opened = None,
        }
    }

    /// What the head of the line needs from the cache, if anything.
    pub(crate) fn need(&self) -> Option<Wanted> {
        let owners = || self.waiters.iter().filter_map(|waiter| waiter.owner).collect();
        let covered = |mode| self.opened.is_some_and(|opened| opened.mode.covers(mode));
        if self.waiters.iter().any(|waiter| waiter.upgrade) {
            let want = Wanted { mode: Mode::Write, upgrade: true, owners: owners() };
            return (!covered(Mode::Write)).then_some(want);
        }
        if self.drain.is_some() {
            return None;
        }
        let mode = self.next().first()?.mode;
        let held = !self.holders.is_empty();
        (!covered(mode) && !held).then(|| Wanted { mode, upgrade: false, owners: owners() })
    }

    /// Whether nobody is in and nobody waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// Who waits for whom here, between owners.
    pub(crate) fn waits(&self) -> impl Iterator<Item = LocalWait> {
        self.waiters.iter().enumerate().flat_map(move |(place, waiter)| {
            let ahead = self.waiters.range(..place).filter_map(|other| other.owner);
            let inside = self.holders.iter().filter_map(|holder| holder.owner);
            let others = inside.chain(ahead).filter(|other| Some(*other) != waiter.owner);
            let wait = move |holder| waiter.owner.map(|waiter| LocalWait { waiter, holder });
            others.filter_map(wait)
        })
    }
}

#[cfg(test)]
mod tests {
    use lockspan_protocol::ServerId;

    use super::*;
    use lockspan_protocol::StayLimits;
    use std::time::Duration;

    fn waiter(thread: Thread, mode: Mode) -> Waiter {
        Waiter { thread, mode, upgrade: false, owner: None }
    }

    fn open(mode: Mode) -> Option<Opened> {
        Some(Opened { mode, token: Token::default(), lease: LeaseId::Server(ServerId(0)) })
    }

    fn line(mode: Mode, waiters: &[Waiter]) -> Line {
        Line { opened: open(mode), waiters: waiters.iter().copied().collect(), ..Line::default() }
    }

    /// Lets in all who may go in now.
    fn admitted(line: &mut Line) -> Vec<Thread> {
        std::iter::from_fn(|| line.admit(Tick(0), |_| true).map(|(waiter, _)| waiter.thread))
            .collect()
    }

    #[test]
    fn readers_go_in_together_and_a_writer_stops_those_behind_it() {
        let (read, write) = (Mode::Read, Mode::Write);
        let waiters = [waiter(0, read), waiter(1, read), waiter(2, write), waiter(3, read)];
        let mut line = line(write, &waiters);
        assert_eq!(admitted(&mut line), [0, 1]);
        assert!(line.leave(0) && line.leave(1));
        assert_eq!(admitted(&mut line), [2]);
        line.waiters.push_front(waiter(4, write));
        line.leave(2);
        assert_eq!(admitted(&mut line), [3], "after a writer the readers are next");
    }

    #[test]
    fn the_head_of_the_line_says_what_is_needed() {
        let mut line = line(Mode::Read, &[waiter(0, Mode::Read), waiter(1, Mode::Write)]);
        assert_eq!(admitted(&mut line), [0]);
        assert_eq!(line.need(), None, "not while a thread is in");
        line.leave(0);
        assert_eq!(line.need().map(|want| (want.mode, want.upgrade)), Some((Mode::Write, false)));
        line.opened = open(Mode::Write);
        assert_eq!(line.need(), None);
        assert_eq!(admitted(&mut line), [1]);
    }

    #[test]
    fn an_upgrader_needs_the_write_at_once_and_goes_in_when_it_is_alone() {
        let mut line = line(Mode::Read, &[waiter(0, Mode::Read), waiter(1, Mode::Read)]);
        assert_eq!(admitted(&mut line), [0, 1]);
        line.waiters.push_back(Waiter { upgrade: true, ..waiter(0, Mode::Write) });
        assert!(line.need().is_some_and(|want| want.upgrade));
        line.opened = open(Mode::Write);
        assert!(admitted(&mut line).is_empty());
        line.leave(1);
        assert_eq!(admitted(&mut line), [0]);
        assert_eq!(line.holders.len(), 1);
    }

    #[test]
    fn a_drain_leaves_some_turns_and_is_over_when_all_have_left() {
        let mut line = line(Mode::Write, &[waiter(0, Mode::Write), waiter(1, Mode::Write)]);
        assert_eq!(admitted(&mut line), [0]);
        let limits = StayLimits { turns: 1, time: Duration::from_millis(1) };
        line.drain = Some(Drain { to: None, stay: Stay::begin(Tick(0), limits) });
        line.waiters.push_back(waiter(2, Mode::Write));
        line.leave(0);
        assert!(!line.is_drained(Tick(0)));
        assert_eq!(admitted(&mut line), [1]);
        line.leave(1);
        assert!(admitted(&mut line).is_empty());
        assert!(line.is_drained(Tick(0)));
        line.close();
        assert!(line.need().is_some() && line.opened.is_none());
    }

    #[test]
    fn readers_stay_when_it_drains_to_reading() {
        let mut line = line(Mode::Write, &[waiter(0, Mode::Write), waiter(1, Mode::Read)]);
        assert_eq!(admitted(&mut line), [0]);
        line.drain = Some(Drain { to: Some(Mode::Read), stay: Stay::over() });
        assert!(!line.is_drained(Tick(0)));
        line.leave(0);
        assert_eq!(admitted(&mut line), [1]);
        assert!(line.is_drained(Tick(0)));
        line.close();
        assert_eq!(line.opened.map(|opened| opened.mode), Some(Mode::Read));
    }
}
