//! The scheduler: whoever comes or goes while others wait, and finds S clear, works for all.

use super::alarms::Alarms;
use super::bomb::Bomb;
use super::lists::Lists;
use super::node::{self, Delivered, Errand, Kind, Node};
use super::ord;
use super::policy::Policy;
use super::probe::{self, Event};
use super::raw::{RawRwLock, admit};
use super::word::{
    AWAKE, CROWDED, DEMAND, HANDOVER, PENDING, QUEUED, READER, READERS, READERS_NEXT, SCHEDULER,
    UPGRADABLE, WAITING_ONLY, WRITER, has, lacks, readers,
};
use crate::sync::Ordering;

/// What the scheduler does next, given the word and the lists.
enum Step {
    /// This waiter gets the lock.
    LetIn(*mut Node),
    /// Waiting readers get it.
    LetReadersIn,
    /// The first in line wakes up to look after the line; the lock stays open to arrivals.
    Summon(*mut Node),
    /// The first in line has given up.
    Discard(*mut Node),
    /// Nothing can be done now.
    Leave(Because),
}

/// Why the scheduler may leave; it holds for every word that it could leave behind.
#[derive(Clone, Copy)]
enum Because {
    /// Nobody waits.
    Empty,
    /// The first in line wants this, and the holders exclude it. A release will come.
    Held { first: Kind, overdue: bool },
    /// The first in line is awake and will call again.
    Watched,
}

impl Because {
    /// The word to leave behind in place of `word`; `None` if there is something to do after all.
    ///
    /// A scheduler that is `tired` may leave P behind when a writer's release or the summoned
    /// waiter is sure to call the next one; not D, on which somebody relies. It closes the door
    /// then: nobody may pass waiters that it has not seen.
    fn leaves(self, word: usize, tired: bool) -> Option<usize> {
        let left = word & !SCHEDULER;
        let holds = match self {
            Self::Empty => true,
            Self::Held { first, .. } => admit(first, word).is_none(),
            Self::Watched => has(word, AWAKE) && lacks(word, HANDOVER),
        };
        if !holds {
            return None;
        }
        if has(word, PENDING) {
            let followed = matches!(self, Self::Watched) || has(word, WRITER);
            return (tired && followed && lacks(word, DEMAND)).then_some(left | HANDOVER);
        }
        Some(match self {
            Self::Empty => left & !(QUEUED | WAITING_ONLY),
            Self::Held { overdue: true, .. } => left | HANDOVER,
            Self::Held { .. } | Self::Watched => left,
        })
    }
}

/// Whether the scheduler is still the one that it was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Office {
    Kept,
    /// A waiter has it now; the lists are that one's.
    HandedOver,
}

impl<P: Policy> RawRwLock<P> {
    /// T10. Becomes the scheduler, unless somebody is: it will see what we changed (I4).
    pub(super) fn schedule(&self) {
        self.renew();
        let word = self.state.fetch_or(SCHEDULER, ord::TAKE_OFFICE);
        if lacks(word, SCHEDULER) {
            self.serve();
        }
    }

    /// The scheduler's work; the caller has set S, or was handed it.
    ///
    /// It is bounded (S11): after [`Policy::LOOKS`] looks into the inbox the scheduler is tired. It
    /// leaves what came since to the release of a writer that is inside, or hands its office to a
    /// thread that waits to get out of line, or to the next one that it lets in.
    pub(super) fn serve(&self) {
        let bomb = Bomb::new("a lock's policy panicked in the middle of a hand-over");
        let mut alarms = Alarms::new();
        let mut looks = 0;
        loop {
            let word = self.state.load(Ordering::Relaxed);
            let tired = looks >= P::LOOKS.max(1);
            if has(word, PENDING) && (!tired || has(word, DEMAND)) {
                looks += 1;
                // T9
                self.state.fetch_and(!(PENDING | DEMAND), ord::TAKE_PENDING);
                if self.drain(tired, &mut alarms) == Office::HandedOver {
                    break;
                }
                continue;
            }
            let office = match self.with_lists(|lists| self.look(word, lists)) {
                Step::LetIn(node) => self.let_in(word, node, tired, &mut alarms),
                Step::LetReadersIn => self.let_readers_in(word, tired, &mut alarms),
                Step::Summon(node) => self.summon(node, &mut alarms),
                Step::Discard(node) => self.take_off(node),
                Step::Leave(because) => {
                    if self.leave_office(word, because, tired) {
                        break;
                    }
                    // One more look, if that is needed before somebody else can take over.
                    looks = looks.min(P::LOOKS.max(1) - 1);
                    Office::Kept
                }
            };
            if office == Office::HandedOver {
                break;
            }
        }
        bomb.defuse();
        alarms.ring();
    }

    /// T13. False if something happened that has to be looked at first.
    fn leave_office(&self, mut word: usize, because: Because, tired: bool) -> bool {
        while let Some(left) = because.leaves(word, tired) {
            match self.state.compare_exchange_weak(word, left, ord::LEAVE_OFFICE, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The rule book. Readers and writers alternate; T says whose turn it is when both wait.
    fn look(&self, word: usize, lists: &Lists) -> Step {
        let readers_turn = lists.writers.is_empty() || has(word, READERS_NEXT);
        let (front, joins) = match (lists.readers.front(), lists.writers.front()) {
            (None, None) => return Step::Leave(Because::Empty),
            // SAFETY: a listed node is alive; the field never changes.
            (_, Some(front)) if unsafe { (*front).kind } == Kind::Upgrade => (front, false),
            (Some(front), _) if readers_turn => (front, readers(word) > 0),
            (_, Some(front)) => (front, false),
            (Some(_), None) => unreachable!("without writers it is the readers' turn"),
        };
        // SAFETY: a listed node is alive.
        let first = unsafe { &*front };
        let status = first.status();
        if status == node::ABANDONED {
            return Step::Discard(front);
        }
        // An upgrader keeps the others out anyway: it holds the upgradable read.
        let overdue =
            !P::PASSING || has(word, HANDOVER) || first.kind == Kind::Upgrade || self.is_due(lists);
        let awake = status == node::SPINNING || first.is_task();
        if admit(first.kind, word).is_none() {
            Step::Leave(Because::Held { first: first.kind, overdue: P::PASSING && overdue })
        } else if overdue || awake || joins {
            if first.kind == Kind::Read { Step::LetReadersIn } else { Step::LetIn(front) }
        } else if lacks(word, AWAKE) {
            Step::Summon(front)
        } else {
            Step::Leave(Because::Watched)
        }
    }

    /// Is it time for a waiter's turn? Keeps `due` within the bound of the oldest waiter.
    ///
    /// The summoned waiter may insist while the turn is the other line's: its time is theirs.
    fn is_due(&self, lists: &Lists) -> bool {
        let fronts = [lists.readers.front(), lists.writers.front()];
        // SAFETY: a listed node is alive.
        if fronts.into_iter().flatten().any(|node| unsafe { (*node).insists() }) {
            return true;
        }
        let due = self.due.load(Ordering::Relaxed);
        // SAFETY: only the scheduler gets here.
        let latest =
            unsafe { lists.oldest() }.map_or(due, |since| since.saturating_add(P::bound()));
        if latest < due {
            self.set_due(latest);
        }
        P::now() >= due.min(latest)
    }

    /// T11 for one waiter.
    fn let_in(&self, word: usize, node: *mut Node, tired: bool, alarms: &mut Alarms) -> Office {
        // SAFETY: a listed node is alive; the field never changes.
        let kind = unsafe { (*node).kind };
        let held = admit(kind, word).expect("the look found room");
        let now = self.arrival_time();
        // An upgradable reader's turn is a read phase for the readers that wait.
        if !self.grant(word, (held | READERS_NEXT) & !HANDOVER) {
            return Office::Kept;
        }
        probe::note(|| Event::Turn { node: node.addr(), kind });
        self.take_off(node);
        // SAFETY: we are the scheduler.
        self.next_turn_is_due(now, self.with_lists(|lists| unsafe { lists.oldest() }));
        self.rouse_next(alarms);
        // SAFETY: we are the scheduler; the node is off the lists and alive until it is told.
        match unsafe { self.tell_granted(node, tired, alarms) } {
            Some(office) => return office,
            None if kind == Kind::Upgrade => {
                self.state.fetch_add(READER + UPGRADABLE - WRITER, ord::DOWNGRADE);
            }
            None => {
                self.state.fetch_sub(admit(kind, 0).expect("room in 0"), ord::WRITE_DONE);
            }
        }
        Office::Kept
    }

    /// T11 for the readers that wait: all of them, or a crowd (see [`Policy::crowd`]).
    fn let_readers_in(&self, word: usize, tired: bool, alarms: &mut Alarms) -> Office {
        let room = (CROWDED - (word & READERS)) / READER;
        let (count, oldest) = self.with_lists(|lists| {
            let all = lists.writers.is_empty() || !P::PASSING || self.is_past_bound(lists);
            let limit = if all { room } else { P::crowd().clamp(1, room) };
            let (mut count, mut next) = (0, lists.readers.front());
            while let Some(node) = next.filter(|_| count < limit) {
                count += 1;
                // SAFETY: we are the scheduler and the node is listed.
                next = unsafe { lists.readers.after(node) };
            }
            let left = [next, lists.writers.front()];
            // SAFETY: a listed node is alive; the field never changes.
            (count, left.into_iter().flatten().map(|node| unsafe { (*node).since }).min())
        });
        let now = self.arrival_time();
        if !self.grant(word, (word + count * READER) & !(HANDOVER | READERS_NEXT)) {
            return Office::Kept;
        }
        self.note_readers(count);
        self.next_turn_is_due(now, oldest);
        let mut office = Office::Kept;
        for left in (0..count).rev() {
            let node = self.with_lists(|lists| lists.readers.front());
            let node = node.expect("only the scheduler changes the lists");
            self.take_off(node);
            if left == 0 {
                self.rouse_next(alarms);
            }
            // SAFETY: we are the scheduler; the node is off the lists and alive until it is told.
            match unsafe { self.tell_granted(node, tired && left == 0, alarms) } {
                Some(after) => office = after,
                None => drop(self.state.fetch_sub(READER, ord::READ_DONE)),
            }
        }
        office
    }

    /// The record of a read phase: all of it begins with the grant.
    fn note_readers(&self, count: usize) {
        probe::note(|| Event::Turn { node: 0, kind: Kind::Read });
        if !probe::RECORDING {
            return;
        }
        let mut next = self.with_lists(|lists| lists.readers.front());
        for _ in 0..count {
            let node = next.expect("as many as were counted");
            probe::note(|| Event::Same { node: node.addr() });
            // SAFETY: we are the scheduler and the node is listed.
            next = self.with_lists(|lists| unsafe { lists.readers.after(node) });
        }
    }

    /// Has the first reader waited for longer than the bound?
    fn is_past_bound(&self, lists: &Lists) -> bool {
        let Some(front) = lists.readers.front() else { return false };
        // SAFETY: a listed node is alive; the field never changes.
        P::now().saturating_sub(unsafe { (*front).since }) >= P::bound()
    }

    /// T11: takes the lock in a waiter's name. Fails if the word has changed.
    fn grant(&self, word: usize, new: usize) -> bool {
        self.state.compare_exchange(word, new, ord::GRANT, Ordering::Relaxed).is_ok()
    }

    /// Sets the time of the next turn, before those who have this one are told and can leave:
    /// until then nobody passes by a time that does not count the waiters that are left. `now` was
    /// read before the grant, so that it is not later than the beginning of a wait that the grant
    /// has not seen.
    fn next_turn_is_due(&self, now: u64, oldest: Option<u64>) {
        if P::PASSING {
            let by_turn = now.saturating_add(self.turn());
            let by_age = oldest.map_or(by_turn, |since| since.saturating_add(P::bound()));
            self.set_due(by_turn.min(by_age));
        }
    }

    fn set_due(&self, due: u64) {
        self.due.store(due, Ordering::Relaxed);
        self.unasked.store(0, Ordering::Relaxed);
    }

    /// T12. `None` if the waiter had given up: what was granted must be taken back. A thread gets
    /// the scheduler's office with the lock if `promote` says so.
    ///
    /// # Safety
    /// The caller is the scheduler; `node` is alive and off the lists, and is not used again.
    unsafe fn tell_granted(
        &self,
        node: *mut Node,
        promote: bool,
        alarms: &mut Alarms,
    ) -> Option<Office> {
        // SAFETY: alive by contract; the field never changes.
        let promote = promote && unsafe { !(*node).is_task() };
        let status = if promote { node::PROMOTED } else { node::GRANTED };
        // SAFETY: as this function's contract says.
        let delivered = unsafe { Node::deliver(node, status) };
        if matches!(delivered, Delivered::No) {
            return None;
        }
        alarms.add(delivered);
        Some(if promote { Office::HandedOver } else { Office::Kept })
    }

    /// Wakes the first in line without giving it the lock. From here on A stands for it.
    fn summon(&self, node: *mut Node, alarms: &mut Alarms) -> Office {
        // SAFETY: we are the scheduler and the node is listed.
        let delivered = unsafe { Node::deliver(node, node::SUMMONED) };
        if !matches!(delivered, Delivered::No) {
            alarms.add(delivered);
            // SAFETY: still listed: nobody but us could let it in.
            unsafe { Node::links(node, |links| links.summoned = true) };
            self.state.fetch_or(AWAKE, Ordering::Relaxed);
        }
        Office::Kept
    }

    /// Where nobody passes, the lock idles while the next waiter wakes up. So that one is woken a
    /// turn ahead.
    fn rouse_next(&self, alarms: &mut Alarms) {
        if P::PASSING {
            return;
        }
        let front = |lists: &mut Lists| lists.readers.front().or_else(|| lists.writers.front());
        if let Some(node) = self.with_lists(front) {
            // SAFETY: we are the scheduler and the node is listed.
            alarms.add(unsafe { Node::deliver(node, node::SUMMONED) });
        }
    }

    /// Takes a node off its list, and A with it if A stood for it.
    fn take_off(&self, node: *mut Node) -> Office {
        // SAFETY: we are the scheduler and the node is listed.
        let summoned = self.with_lists(|lists| unsafe { lists.remove(node) });
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(waiting - 1, Ordering::Relaxed);
        if summoned {
            self.state.fetch_and(!AWAKE, Ordering::Relaxed);
        }
        Office::Kept
    }

    /// T7, T9. Takes in everybody who left a node in the inbox, in order of arrival.
    fn drain(&self, tired: bool, alarms: &mut Alarms) -> Office {
        if self.inbox.load(Ordering::Relaxed).is_null() {
            return Office::Kept;
        }
        let mut newest = self.inbox.swap(core::ptr::null_mut(), ord::DRAIN);
        let mut oldest = core::ptr::null_mut();
        while !newest.is_null() {
            let (node, errand) = Errand::untag(newest);
            // SAFETY: a pushed node is alive until it is told otherwise; its link is ours now.
            let next = unsafe { Node::inbox_link(node, errand, |l| core::mem::replace(l, oldest)) };
            oldest = newest;
            newest = next;
        }
        let mut heir = None;
        while !oldest.is_null() {
            let (node, errand) = Errand::untag(oldest);
            // SAFETY: a drained node is alive until it is told otherwise; its link is ours.
            oldest = unsafe { Node::inbox_link(node, errand, |link| *link) };
            match errand {
                Errand::Arrival => {
                    // SAFETY: we are the scheduler; it comes from the inbox, so it is in no list.
                    self.with_lists(|lists| unsafe { lists.insert(node) });
                    let waiting = self.waiting.load(Ordering::Relaxed);
                    self.waiting.store(waiting + 1, Ordering::Relaxed);
                }
                Errand::Departure => {
                    // SAFETY: alive until we say that it is out; the field never changes.
                    let is_thread = unsafe { !(*node).is_task() };
                    self.see_off(node);
                    if is_thread && let Some(earlier) = heir.replace(node) {
                        // SAFETY: abandoned by its thread, and off the lists.
                        alarms.add(unsafe { Node::remove(earlier, node::REMOVED) });
                    }
                }
            }
        }
        let Some(heir) = heir else { return Office::Kept };
        let (status, office) = match tired {
            true => (node::OFFICE, Office::HandedOver),
            false => (node::REMOVED, Office::Kept),
        };
        // SAFETY: abandoned by its thread, and off the lists.
        alarms.add(unsafe { Node::remove(heir, status) });
        office
    }

    /// T15. The owner has given up, and its node is not needed here any more; a thread is still to
    /// be told.
    fn see_off(&self, node: *mut Node) {
        // SAFETY: an abandoned node is alive until we say that it is out.
        if unsafe { Node::links(node, |links| links.listed) } {
            self.take_off(node);
        }
        // SAFETY: alive; the field never changes.
        if unsafe { (*node).is_task() } {
            // SAFETY: the queue's share, and its last use.
            unsafe { Node::let_go(node) };
        }
    }

    fn with_lists<R>(&self, f: impl FnOnce(&mut Lists) -> R) -> R {
        // SAFETY: only the scheduler calls this, and it does not call it from within `f` (I3).
        self.lists.with_mut(|lists| f(unsafe { &mut *lists }))
    }
}
