//! What a table has counted and timed, and what happened last: for people. Nothing here decides
//! anything, and nothing is shared between tables but the names of datatypes.
//!
//! Counts are plain numbers that change under the table's own step; who wants to know them reads
//! them between two steps.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::ids::SessionId;
use crate::mode::Mode;
use crate::record::Record;
use crate::time::Tick;
use crate::token::Token;

/// Datatypes that are counted apart; all further ones are counted together.
pub const DATATYPES: usize = 64;

/// The datatypes that are counted apart, for all tables of a server: those that came first. It only
/// ever grows, so that a datatype is counted in one place for as long as the server runs, and no
/// count ever goes back.
///
/// Whoever can choose names could take all places. So the driver may divide datatypes into groups,
/// by who may use them: one group takes no more than half of the places that the others have left.
/// The first group gets up to 32, the second up to 16 of the rest, and so on. Undivided, all are
/// one group.
pub struct Datatypes {
    places: [OnceLock<Counted>; DATATYPES],
    group_of: OnceLock<GroupOf>,
}

type GroupOf = Box<dyn Fn(&[u8]) -> usize + Send + Sync>;

#[derive(Debug)]
struct Counted {
    name: Box<[u8]>,
    group: usize,
}

impl Default for Datatypes {
    fn default() -> Self {
        Self { places: [const { OnceLock::new() }; DATATYPES], group_of: OnceLock::new() }
    }
}

impl fmt::Debug for Datatypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known()).finish()
    }
}

impl Datatypes {
    /// Divides them: `group_of` tells the group of a datatype. It is asked about datatypes that
    /// have no place, while a table is locked. To be called once, before the first record.
    pub fn divide(&self, group_of: impl Fn(&[u8]) -> usize + Send + Sync + 'static) {
        let divided = self.group_of.set(Box::new(group_of));
        assert!(divided.is_ok(), "datatypes are divided once");
    }

    /// Those that have a place, in its order.
    fn known(&self) -> impl Iterator<Item = &Counted> {
        self.places.iter().map_while(OnceLock::get)
    }

    /// Where to count this datatype: its own place, or the last, which is that of all others.
    fn place(&self, datatype: &[u8], guess: u8) -> u8 {
        let guessed = self.places.get(usize::from(guess)).and_then(OnceLock::get);
        if guessed.is_some_and(|it| *it.name == *datatype) {
            return guess;
        }
        loop {
            // Counted before the search: a name that another table adds meanwhile is found, or
            // comes too late to change what is decided from the first `taken` places.
            let taken = self.known().count();
            if let Some(place) = self.known().position(|it| *it.name == *datatype) {
                return place as u8;
            }
            if taken == DATATYPES {
                return DATATYPES as u8;
            }
            let group = self.group_of.get().map_or(0, |group_of| group_of(datatype));
            let own = self.known().take(taken).filter(|it| it.group == group).count();
            if own >= DATATYPES - taken {
                return DATATYPES as u8;
            }
            // If another table has taken this place meanwhile, all is looked at again.
            let _ = self.places[taken].set(Counted { name: datatype.into(), group });
        }
    }

    /// The name of each place; none is that of all others.
    pub fn names(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.known().map(|it| Some(&*it.name)).chain([None])
    }

    /// Where the counts of the name at this position are in [`Watch::tallies`].
    #[must_use]
    pub fn index(position: usize, name: Option<&[u8]>) -> usize {
        if name.is_some() { position } else { DATATYPES }
    }
}

/// What was counted of one datatype.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Grants to readers, each once.
    pub reads: u64,
    /// Grants to writers, each once.
    pub writes: u64,
    /// Of these, grants to somebody who had waited: the record was handed over.
    pub handovers: u64,
    /// Times that a holder was told that somebody wants the record, each once.
    pub revokes: u64,
    /// Times that a holder was told so again, because it had not given the record up yet.
    pub revoke_repeats: u64,
    /// Retries.
    pub retries: u64,
    /// Grants now.
    pub held: u64,
    /// Waits now.
    pub waiting: u64,
    /// How long those waited who were granted the record in the end, and not at once.
    pub waits: Times,
    /// How long sessions had the record, cached or in use.
    pub holds: Times,
}

impl Tally {
    /// Adds what another table has counted.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.handovers += other.handovers;
        self.revokes += other.revokes;
        self.revoke_repeats += other.revoke_repeats;
        self.retries += other.retries;
        self.held += other.held;
        self.waiting += other.waiting;
        self.waits.add(&other.waits);
        self.holds.add(&other.holds);
    }
}

/// How long something took, many times: counts in classes, each four times as wide as the one
/// before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many there were in each class.
    pub counts: [u64; CLASSES],
    /// All of them together, in microseconds.
    pub sum: u64,
}

/// Classes of times.
pub const CLASSES: usize = 16;

impl Times {
    /// The longest time of a class; the last has none.
    #[must_use]
    pub fn bound(class: usize) -> Option<Duration> {
        (class + 1 < CLASSES).then(|| Duration::from_micros(4 << (2 * class)))
    }

    fn note(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // The first class is up to 4 µs, and 2 more binary digits each.
        let digits = u64::BITS - micros.saturating_sub(1).leading_zeros();
        let class = (digits.saturating_sub(1) / 2) as usize;
        self.counts[class.min(CLASSES - 1)] += 1;
        self.sum = self.sum.saturating_add(micros);
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(all, more)| *all += more);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Something that happened to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// When.
    pub at: Tick,
    /// To which.
    pub record: Record,
    /// Whose session.
    pub session: SessionId,
    /// What.
    pub what: What,
}

/// Since when something is so; as [`Watch`], it shows nothing to those who compare states.
#[derive(Clone, Copy)]
pub(super) struct Since(pub(super) Tick);

impl fmt::Debug for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Since")
    }
}

/// What may happen to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Somebody waits for it now.
    Waits(Mode),
    /// It was granted at once.
    Granted(Mode, Token),
    /// It was handed over to somebody who had waited for so long.
    HandedOver(Mode, Token, Duration),
    /// Its holder was told that somebody wants it.
    Revoked(Mode),
    /// Its holder was told that nobody wants it any more.
    Kept,
    /// It was reserved for somebody who is to acquire again.
    Retry,
    /// A grant is over; the session had it for so long.
    Released(Duration),
    /// Somebody waits for it no more.
    Left,
    /// A grant has ended with its session.
    Ended(Duration),
    /// A wait was refused because it closed a cycle.
    Deadlock,
}

/// See the module. Its `Debug` is its name alone: two tables that will do the same are the same to
/// a model checker, whatever they have counted.
#[derive(Clone)]
pub struct Watch {
    /// The time of the present step.
    pub(super) now: Tick,
    /// A session ends in this step, and with it its claims.
    pub(super) session_ends: bool,
    datatypes: Arc<Datatypes>,
    /// The datatype that was asked for last.
    last: u8,
    tallies: Box<[Tally]>,
    /// What happened last; it is as long as it may be.
    happenings: VecDeque<Happening>,
    kept: usize,
    /// How many things have happened, if any are remembered.
    happened: u64,
    /// Grants that are over.
    ended: u64,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new(Arc::default(), 0)
    }
}

impl Watch {
    /// Counts by these datatypes, and remembers the last so many things that happened.
    #[must_use]
    pub fn new(datatypes: Arc<Datatypes>, kept: usize) -> Self {
        Self {
            now: Tick::ZERO,
            session_ends: false,
            datatypes,
            last: 0,
            tallies: vec![Tally::default(); DATATYPES + 1].into(),
            happenings: VecDeque::with_capacity(kept),
            kept,
            happened: 0,
            ended: 0,
        }
    }

    /// The counts of each datatype; [`Datatypes::index`] finds one. The last has all others.
    #[must_use]
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// What happened last, the latest first, each with its number: how many things had happened
    /// before it. Of those with a number below `before`.
    pub fn happenings(&self, before: u64) -> impl Iterator<Item = (u64, &Happening)> {
        let first = self.happened - self.happenings.len() as u64;
        let kept = before.saturating_sub(first).min(self.happenings.len() as u64) as usize;
        let numbered = self.happenings.range(..kept).enumerate();
        numbered.map(move |(at, it)| (first + at as u64, it)).rev()
    }

    /// Where to count a record that is new here.
    pub(super) fn place(&mut self, record: &Record) -> u8 {
        self.last = self.datatypes.place(record.datatype(), self.last);
        self.last
    }

    pub(super) fn tally(&mut self, place: u8) -> &mut Tally {
        &mut self.tallies[usize::from(place)]
    }

    pub(super) fn granted(
        &mut self,
        (place, record): (u8, &Record),
        session: SessionId,
        (mode, token): (Mode, Token),
        waited: Option<Duration>,
    ) {
        let tally = self.tally(place);
        match mode {
            Mode::Read => tally.reads += 1,
            Mode::Write => tally.writes += 1,
        }
        if let Some(waited) = waited {
            tally.handovers += 1;
            tally.waits.note(waited);
            self.happened(record, session, What::HandedOver(mode, token, waited));
        } else {
            self.happened(record, session, What::Granted(mode, token));
        }
    }

    /// How many grants are over, of all datatypes.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    pub(super) fn held(&mut self, place: u8, held: Duration) {
        self.ended += 1;
        self.tally(place).holds.note(held);
    }

    pub(super) fn happened(&mut self, record: &Record, session: SessionId, what: What) {
        if self.kept == 0 {
            return;
        }
        if self.happenings.len() >= self.kept {
            self.happenings.pop_front();
        }
        self.happened += 1;
        self.happenings.push_back(Happening {
            at: self.now,
            record: record.clone(),
            session,
            what,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_class_that_is_wide_enough() {
        for (micros, class) in
            [(0, 0), (1, 0), (4, 0), (5, 1), (16, 1), (17, 2), (1 << 32, 15), (u64::MAX, 15)]
        {
            let mut times = Times::default();
            times.note(Duration::from_micros(micros));
            assert_eq!(times.counts[class], 1, "{micros} µs: {times:?}");
            let within = |at| Times::bound(at).is_none_or(|it| Duration::from_micros(micros) <= it);
            assert!(within(class) && (class == 0 || !within(class - 1)), "{micros} µs");
        }
    }

    #[test]
    fn what_happened_can_be_read_in_parts_while_more_happens() {
        let mut watch = Watch::new(Arc::default(), 4);
        let record = Record::new("a", "1").unwrap();
        let happen = |watch: &mut Watch, session| {
            watch.happened(&record, SessionId(session), What::Left);
        };
        let seen = |watch: &Watch, before, count| -> Vec<_> {
            watch.happenings(before).take(count).map(|(at, it)| (at, it.session.0)).collect()
        };
        assert_eq!(seen(&watch, u64::MAX, 9), []);
        (0..6).for_each(|session| happen(&mut watch, session));
        assert_eq!(seen(&watch, u64::MAX, 2), [(5, 5), (4, 4)]);
        happen(&mut watch, 6);
        assert_eq!(seen(&watch, 4, 9), [(3, 3)], "2 is forgotten meanwhile");
        assert_eq!(seen(&watch, 3, 9), []);
        assert_eq!(seen(&watch, u64::MAX, 9), [(6, 6), (5, 5), (4, 4), (3, 3)]);
    }

    #[test]
    fn the_first_datatypes_have_a_place_of_their_own_for_good() {
        let types = Datatypes::default();
        let most = DATATYPES / 2;
        for number in 0..100_usize {
            let place = types.place(format!("t{number}").as_bytes(), 7);
            let expected = if number < most { number } else { DATATYPES };
            assert_eq!(usize::from(place), expected);
        }
        assert_eq!(types.place(b"t31", 0), 31);
        assert_eq!(types.place(b"t32", 31), DATATYPES as u8);
        let names: Vec<_> = types.names().collect();
        assert_eq!((names.len(), names[0], names[most]), (most + 1, Some(&b"t0"[..]), None));
    }

    #[test]
    fn service_f102_one_group_of_datatypes_takes_half_of_what_the_others_have_left() {
        let types = Datatypes::default();
        types.divide(|name| usize::from(name[0]));
        let mut take = |group: char| {
            let name = |number| format!("{group}{number}");
            let place = |number| types.place(name(number).as_bytes(), 0);
            let places: Vec<_> = (0..100).map(place).collect();
            assert_eq!(places, (0..100).map(place).collect::<Vec<_>>(), "they stay");
            places.iter().filter(|&&place| usize::from(place) < DATATYPES).count()
        };
        // Whoever comes first gets half, however many names they choose; then others get theirs.
        let counts: Vec<_> = "xabcdefg".chars().map(&mut take).collect();
        assert_eq!(counts, [32, 16, 8, 4, 2, 1, 1, 0]);
        assert_eq!(types.names().count(), DATATYPES + 1);
    }

    #[test]
    fn tables_that_meet_new_datatypes_at_once_agree() {
        let types = Datatypes::default();
        let names: Vec<_> = (0..40).map(|number| format!("t{number}")).collect();
        let meet = || names.iter().map(|name| types.place(name.as_bytes(), 0)).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(meet)).collect();
            for one in all {
                assert_eq!(one.join().expect("it ends"), meet());
            }
        });
        assert_eq!(types.known().count(), DATATYPES / 2);
    }
}
