//! What a table shows while it lives.

use super::*;
use crate::mode::Mode::{Read, Write};

fn table() -> LockTable {
    let mut table = LockTable::new(Limits::default(), 42);
    let mut out = Vec::new();
    let epoch = Epoch::NONE.next().unwrap();
    let term = Term { groups: GroupSet::ALL, epoch };
    let begin = table::TableInput::Begin { term, listed: Vec::new(), formers: false };
    let began =
        [A, B].map(|session| table::TableInput::Began { session, handoff: Handoff::Direct });
    for input in [begin].into_iter().chain(began) {
        table.handle(Tick(1), input, &mut out).unwrap();
    }
    table
}

fn acquire(table: &mut LockTable, session: SessionId, id: &str, mode: Mode, seq: u64) {
    let epoch = Epoch::NONE.next().unwrap();
    let (record, seq) = (record(id), Seq(seq));
    let message =
        ToServer::Acquire { record, mode, seq, epoch, upgrade: false, owners: Vec::new() };
    let input = table::TableInput::Message { session, message };
    table.handle(Tick(2), input, &mut Vec::new()).unwrap();
}

#[test]
fn pages_show_every_record_once() {
    let mut table = table();
    for seq in 1..=50 {
        acquire(&mut table, A, &seq.to_string(), Write, seq);
    }
    let (mut seen, mut from) = (Vec::new(), Some(0));
    while let Some(place) = from {
        let (views, next) = table.page(place, 7, 5);
        assert!(views.len() <= 5);
        assert!(next.is_none_or(|next| next > place));
        seen.extend(views.into_iter().map(|(_, view)| view.record));
        from = next;
    }
    let mut names: Vec<_> = table.views().into_iter().map(|view| view.record).collect();
    seen.sort();
    names.sort();
    assert_eq!(seen, names);
    assert_eq!(table.page(usize::MAX, 7, 5), (Vec::new(), None));
}

#[test]
fn a_session_sees_its_own_claims() {
    let mut table = table();
    acquire(&mut table, A, "x", Read, 1);
    acquire(&mut table, B, "x", Write, 1);
    let (holding, waiting) = table.look_own(A, &record("x"));
    assert_eq!((holding.map(|claim| claim.seq), waiting), (Some(Seq(1)), None));
    let (holding, waiting) = table.look_own(B, &record("x"));
    assert_eq!((holding, waiting.map(|claim| claim.mode)), (None, Some(Write)));
    assert_eq!(table.look_own(C, &record("x")), (None, None));
    assert_eq!(table.look_own(A, &record("y")), (None, None));
    assert_eq!(table.look(&record("x"), 2), table.views().pop());
    assert_eq!(table.look(&record("y"), 2), None);
}

#[test]
fn of_many_claims_a_part_is_shown_and_the_rest_is_counted() {
    let mut table = table();
    let mut begin = |id| {
        let input = table::TableInput::Began { session: SessionId(id), handoff: Handoff::Direct };
        table.handle(Tick(1), input, &mut Vec::new()).unwrap();
    };
    (100..200).for_each(&mut begin);
    for id in 100..160 {
        acquire(&mut table, SessionId(id), "x", Read, 1);
    }
    let shown = |table: &LockTable, claims| {
        let (views, _) = table.page(0, 10, claims);
        let [(_, view)] = &views[..] else { panic!("{views:?}") };
        assert_eq!(Some(view), table.look(&record("x"), claims).as_ref());
        let more = (view.more_holders, view.more_waiters);
        assert_eq!(view.claims(), table.claims());
        ((view.holders.len(), view.waiters.len()), more)
    };
    assert_eq!(shown(&table, 10), ((10, 0), (50, 0)));
    acquire(&mut table, SessionId(160), "x", Write, 1);
    assert_eq!(shown(&table, 10), ((9, 1), (51, 0)), "who waits is not hidden by who holds");
    for id in 161..200 {
        acquire(&mut table, SessionId(id), "x", Write, 1);
    }
    assert_eq!(shown(&table, 10), ((5, 5), (55, 35)));
    assert_eq!(shown(&table, 1), ((1, 0), (59, 40)));
    assert_eq!(shown(&table, 1000), ((60, 40), (0, 0)));
}

#[test]
fn a_page_ends_when_it_has_seen_enough_claims_and_always_goes_on() {
    let mut table = table();
    for seq in 1..=20 {
        acquire(&mut table, A, &seq.to_string(), Write, seq);
        acquire(&mut table, B, &seq.to_string(), Write, seq);
    }
    let (mut seen, mut from) = (0, Some(0));
    while let Some(place) = from {
        let (views, next) = table.page(place, 100, 3);
        let claims: usize = views.iter().map(|(_, view)| view.claims()).sum();
        assert!(claims <= 4, "{claims} claims");
        seen += views.len();
        assert!(next.is_none_or(|next| next > place));
        from = next;
    }
    assert_eq!(seen, 20);
}

/// What a table counts is what there is: the gauges are the claims.
#[test]
fn counts_follow_what_happens() {
    use table::TableInput;

    let mut table = LockTable::new(Limits::default(), 1);
    let (mut out, mut now) = (Vec::new(), Tick(1_000));
    let mut step = |table: &mut LockTable, input| {
        now = now + Duration::from_millis(1);
        table.handle(now, input, &mut out).unwrap();
    };
    let term = Term { groups: GroupSet::ALL, epoch: Epoch::new(1).unwrap() };
    step(&mut table, TableInput::Begin { term, listed: Vec::new(), formers: false });
    for session in [A, B, C] {
        step(&mut table, TableInput::Began { session, handoff: Handoff::Direct });
    }
    let acquire = |session, seq, mode| TableInput::Message {
        session,
        message: ToServer::Acquire {
            record: record("x"),
            mode,
            seq: Seq(seq),
            epoch: term.epoch,
            upgrade: false,
            owners: Vec::new(),
        },
    };
    step(&mut table, acquire(A, 1, Mode::Write));
    step(&mut table, acquire(B, 1, Mode::Write));
    step(&mut table, acquire(B, 1, Mode::Write));
    step(&mut table, acquire(C, 1, Mode::Read));
    let tally = |table: &LockTable| table.watch().tallies()[0].clone();
    assert_eq!((tally(&table).held, tally(&table).waiting), (1, 2));
    let message = ToServer::Release { record: record("x"), seq: Seq(1), keep: None };
    step(&mut table, TableInput::Message { session: A, message });
    step(&mut table, TableInput::Ended { session: C });
    let counted = tally(&table);
    assert_eq!((counted.held, counted.waiting), (1, 0));
    assert_eq!((counted.writes, counted.reads, counted.handovers), (2, 1, 2));
    assert_eq!((counted.waits.count(), counted.holds.count()), (2, 2));
    assert_eq!(counted.holds.sum, 4_000 + 1_000, "A for four steps, C for one");
    step(&mut table, TableInput::Leave { groups: GroupSet::ALL });
    assert_eq!((tally(&table).held, tally(&table).waiting), (0, 0));
}
