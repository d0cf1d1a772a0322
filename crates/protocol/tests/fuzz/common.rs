//! Small worlds to draw from, so that things meet.

use std::time::Duration;

use lockspan_protocol::{
    Annotation, Epoch, Group, GroupSet, Handoff, LocalWait, Mode, Owner, Record, Seq, SessionId,
    Term, Tick, Ticket, Token,
};

use crate::rng::Rng;

pub(crate) const RECORDS: u64 = 6;
pub(crate) const OWNERS_MAX: usize = 3;

pub(crate) fn record(rng: &mut Rng) -> Record {
    Record::new("r", rng.below(RECORDS).to_string()).unwrap()
}

pub(crate) fn mode(rng: &mut Rng) -> Mode {
    rng.pick(&[Mode::Read, Mode::Write])
}

pub(crate) fn handoff(rng: &mut Rng) -> Handoff {
    rng.pick(&[Handoff::Direct, Handoff::Retry])
}

/// Now and then more than are allowed.
pub(crate) fn owners(rng: &mut Rng) -> Vec<Owner> {
    let max = if rng.percent(3) { OWNERS_MAX as u64 + 2 } else { 2 };
    rng.some(max, |rng| Owner(1 + rng.below(4)))
}

pub(crate) fn annotation(rng: &mut Rng) -> Annotation {
    rng.pick(&["import", "report"]).parse().unwrap()
}

pub(crate) fn waits(rng: &mut Rng) -> Vec<LocalWait> {
    let max = if rng.percent(3) { OWNERS_MAX as u64 + 2 } else { 2 };
    rng.some(max, |rng| LocalWait {
        waiter: Owner(1 + rng.below(4)),
        holder: Owner(1 + rng.below(4)),
    })
}

/// Mostly near `last`, which it may raise; else anything.
pub(crate) fn seq(rng: &mut Rng, last: &mut u64) -> Seq {
    Seq(match rng.below(100) {
        0..50 => {
            *last += 1;
            *last
        }
        50..85 => last.saturating_sub(rng.below(4)),
        85..93 => *last + rng.below(5),
        93..95 => 0,
        95..96 => u64::MAX - rng.below(2),
        96..97 => 1 << rng.below(64),
        _ => last.saturating_sub(rng.below(300)),
    })
}

/// Mostly the present one.
pub(crate) fn epoch(rng: &mut Rng, present: Epoch) -> Epoch {
    let number = present.number();
    let around = match rng.below(400) {
        0..370 => number,
        370..385 => number.saturating_sub(1),
        385..392 => 0,
        392..397 => number + 1,
        397..399 => number + rng.below(5) as u32,
        _ => Epoch::MAX.number(),
    };
    Epoch::new(around).unwrap_or(Epoch::MAX)
}

pub(crate) fn token(rng: &mut Rng, present: Epoch) -> Token {
    let epoch = Epoch::new(present.number().saturating_sub(1)).unwrap();
    let epoch = if rng.percent(80) { epoch } else { self::epoch(rng, present) };
    let count = if rng.percent(97) { rng.below(5) } else { Token::COUNT_MAX - rng.below(2) };
    Token::new(epoch, count).unwrap()
}

pub(crate) fn ticket(rng: &mut Rng, present: Epoch) -> Ticket {
    Ticket::from_number(token(rng, present).number()).unwrap()
}

/// The groups of a term, of a record, of everything, of nothing, of chance.
pub(crate) fn groups(rng: &mut Rng, terms: &[Term]) -> GroupSet {
    match rng.below(100) {
        0..60 if !terms.is_empty() => rng.pick(terms).groups,
        0..75 => GroupSet::from_iter([record(rng).group()]),
        75..85 => GroupSet::ALL,
        85..90 => GroupSet::EMPTY,
        _ => rng.some(20, |rng| Group(rng.below(256) as u8)).into_iter().collect(),
    }
}

pub(crate) fn term(rng: &mut Rng, terms: &[Term]) -> Term {
    let groups = groups(rng, terms);
    let present = epoch_of(terms, groups);
    Term { groups, epoch: epoch(rng, present) }
}

/// The epoch of the first of these groups.
pub(crate) fn epoch_of(terms: &[Term], groups: GroupSet) -> Epoch {
    let served = terms.iter().find(|term| !term.groups.and(groups).is_empty());
    served.map_or(Epoch::NONE, |term| term.epoch)
}

pub(crate) fn session(rng: &mut Rng) -> SessionId {
    SessionId(1 + rng.below(7))
}

/// Mostly none or little time; now and then to the deadline, or far beyond.
pub(crate) fn later(rng: &mut Rng, now: Tick, deadline: Option<Tick>) -> Tick {
    let micros = match rng.below(1000) {
        0..600 => 0,
        600..850 => rng.below(1_000),
        850..930 => rng.below(1_000_000),
        930..960 => deadline.map_or(0, |deadline| deadline.since(now).as_micros() as u64),
        960..964 => rng.below(20_000_000),
        964 => 365 * 24 * 3_600 * 1_000_000,
        _ => rng.below(10_000),
    };
    now + Duration::from_micros(micros)
}
