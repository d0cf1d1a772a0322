//! The waiters of a progressive lock: a line of those outside, and a list of those inside.
//!
//! Everything here belongs to the slow path, behind a mutex. The word's flags say when somebody has
//! to come and look; see [`turnstile`](super::turnstile).

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use lockspan_park::{Alarm, Deadline, Spot, Woken};

use crate::sync::{Arc, Mutex, Ordering};

/// The place of one waiting thread. Its word is one of the three below.
pub(super) type Place = Arc<Spot>;

/// It stands in line, behind others.
const BEHIND: u32 = 0;
/// It is the first in line, or waits inside.
const FIRST: u32 = 1;
/// It is to look at the lock's word.
const CALLED: u32 = 2;

/// True of the words that let somebody who waits inside go on. Once true it stays true until that
/// thread acts: what the thread holds keeps it so.
pub(super) type Sign = fn(u64) -> bool;

/// All who wait for one lock. Most locks never have anybody, so the lists are made for the first.
#[derive(Debug)]
pub(super) struct Line(Mutex<Option<Box<Waiting>>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Each with the moment at which it began to wait.
    outside: VecDeque<(Place, Instant)>,
    inside: Vec<(Sign, Place)>,
    /// When somebody who stood in line had the last turn.
    last_turn: Option<Instant>,
}

impl Waiting {
    /// When the door closes for somebody who began to wait at `begun` and is the first in line.
    fn closes(&self, begun: Instant, quantum: Duration) -> Instant {
        self.last_turn.map_or(begun, |last_turn| last_turn.max(begun)) + quantum
    }
}

impl Line {
    /// A line without anybody.
    #[cfg(not(lockspan_loom))]
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// A line without anybody; loom's mutex cannot be made at compile time.
    #[cfg(lockspan_loom)]
    pub(super) fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn with<R>(&self, f: impl FnOnce(&mut Waiting) -> R) -> R {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f(lists.get_or_insert_default())
    }

    /// Gets in line and waits until it is the first; the place, or none if `deadline` passed.
    ///
    /// `show` is called behind the mutex whenever another thread is the first in line, with the
    /// time at which the door closes for it, or with none when the line is empty.
    pub(super) fn stand(
        &self,
        begun: Instant,
        quantum: Duration,
        deadline: Option<Instant>,
        show: impl Fn(Option<Instant>),
    ) -> Option<Place> {
        let place = Arc::new(Spot::new(BEHIND));
        let is_first = self.with(|waiting| {
            waiting.outside.push_back((Arc::clone(&place), begun));
            let is_first = waiting.outside.len() == 1;
            if is_first {
                show(Some(waiting.closes(begun, quantum)));
            }
            is_first
        });
        if is_first || sleep(&place, BEHIND, deadline) == Woken::Changed {
            return Some(place);
        }
        self.leave(&place, quantum, false, show);
        None
    }

    /// The first in line goes, or somebody behind it gives up; whoever becomes the first is woken.
    /// `show` as in [`stand`](Self::stand).
    pub(super) fn leave(
        &self,
        place: &Place,
        quantum: Duration,
        had_its_turn: bool,
        show: impl Fn(Option<Instant>),
    ) {
        let alarm = self.with(|waiting| {
            let at = waiting.outside.iter().position(|(other, _)| Arc::ptr_eq(other, place));
            let at = at.expect("who stands in line is in the list");
            waiting.outside.remove(at);
            if had_its_turn {
                waiting.last_turn = Some(Instant::now());
            }
            if at > 0 {
                return None;
            }
            let next = waiting.outside.front();
            show(next.map(|(_, begun)| waiting.closes(*begun, quantum)));
            next.map(|(next, _)| turn(next, FIRST))
        });
        alarm.into_iter().for_each(Alarm::ring);
    }

    /// When the first in line, who began to wait at `begun`, closes the door to those who pass.
    pub(super) fn closes(&self, begun: Instant, quantum: Duration) -> Instant {
        self.with(|waiting| waiting.closes(begun, quantum))
    }

    /// Adds somebody who waits inside, if `mark` says that it has to: `mark` puts the flag into the
    /// word, unless the sign is there already.
    pub(super) fn stay(&self, sign: Sign, mark: impl FnOnce() -> bool) -> Option<Place> {
        self.with(|waiting| {
            mark().then(|| {
                let place = Arc::new(Spot::new(FIRST));
                waiting.inside.push((sign, Arc::clone(&place)));
                place
            })
        })
    }

    /// Somebody inside gives up waiting. `unmark` takes the flag away when it was the last.
    pub(super) fn stay_no_more(&self, place: &Place, unmark: impl FnOnce()) {
        self.with(|waiting| {
            let before = waiting.inside.len();
            waiting.inside.retain(|(_, other)| !Arc::ptr_eq(other, place));
            if waiting.inside.is_empty() && before > 0 {
                unmark();
            }
        });
    }

    /// Calls everybody inside for whom `word` has the sign; `unmark` as above.
    pub(super) fn call_inside(&self, word: impl FnOnce() -> u64, unmark: impl FnOnce()) {
        let alarms = self.with(|waiting| {
            let word = word();
            let called: Vec<_> = waiting.inside.extract_if(.., |(sign, _)| sign(word)).collect();
            if waiting.inside.is_empty() && !called.is_empty() {
                unmark();
            }
            called
        });
        for (_, place) in alarms {
            turn(&place, CALLED).ring();
        }
    }

    /// Calls the first in line, if `unmark` finds that it asked for that.
    pub(super) fn call_first(&self, unmark: impl FnOnce() -> bool) {
        let alarm = self.with(|waiting| {
            let first = waiting.outside.front().filter(|_| unmark());
            first.map(|(place, _)| turn(place, CALLED))
        });
        alarm.into_iter().for_each(Alarm::ring);
    }

    /// How many are in line.
    #[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
    pub(super) fn len(&self) -> usize {
        self.with(|waiting| waiting.outside.len())
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.with(|waiting| waiting.outside.is_empty() && waiting.inside.is_empty())
    }
}

/// The first in line is about to ask to be called.
pub(super) fn get_ready(place: &Place) {
    place.word().store(FIRST, Ordering::Relaxed);
}

/// Sleeps until called, or until `deadline`.
pub(super) fn sleep_until_called(place: &Place, deadline: Option<Instant>) -> Woken {
    sleep(place, FIRST, deadline)
}

fn sleep(place: &Place, expected: u32, deadline: Option<Instant>) -> Woken {
    place.sleep(expected, deadline.map(Deadline::from))
}

fn turn(place: &Place, status: u32) -> Alarm {
    let alarm = place.alarm();
    place.word().store(status, Ordering::Relaxed);
    alarm
}
