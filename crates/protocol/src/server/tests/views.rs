//! What a table shows while it lives.

use super::*;
use crate::mode::Mode::{Read, Write};
use crate::server::table::ClaimView;

fn table() -> LockTable {
    let mut table = LockTable::new(Limits::default(), 42);
    let mut out = Vec::new();
    let epoch = Epoch::NONE.next().unwrap();
    let term = Term { groups: GroupSet::ALL, epoch };
    let begin = table::TableInput::Begin { term, listed: Vec::new(), formers: false };
    let began = [A, B].map(|session| table::TableInput::Began {
        session,
        handoff: Handoff::Direct,
        user: None,
    });
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
        let input = table::TableInput::Began {
            session: SessionId(id),
            handoff: Handoff::Direct,
            user: None,
        };
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
        step(&mut table, TableInput::Began { session, handoff: Handoff::Direct, user: None });
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

fn note(table: &mut LockTable, session: SessionId, id: &str, seq: u64, note: &str) {
    let (record, seq, note) = (record(id), Seq(seq), note.parse().unwrap());
    let message = ToServer::Note { record, seq, note };
    let input = table::TableInput::Message { session, message };
    table.handle(Tick(3), input, &mut Vec::new()).unwrap();
}

#[test]
fn a_note_is_shown_with_its_claim_and_forgotten_with_it() {
    let mut table = table();
    acquire(&mut table, A, "x", Write, 1);
    acquire(&mut table, B, "x", Read, 1);
    note(&mut table, A, "x", 1, "import");
    note(&mut table, B, "x", 1, "report");
    // Of no claim: an earlier number, another record.
    note(&mut table, A, "x", 7, "late");
    note(&mut table, A, "y", 1, "elsewhere");
    table.check();
    let notes = |table: &LockTable| {
        let view = table.look(&record("x"), 10).unwrap();
        let note = |claim: &ClaimView| claim.note.as_ref().map(ToString::to_string);
        let all = view.holders.iter().chain(&view.waiters).map(note);
        all.collect::<Vec<_>>()
    };
    assert_eq!(notes(&table), [Some("import".to_owned()), Some("report".to_owned())]);
    // A later acquire of the session has none of the earlier one's.
    acquire(&mut table, A, "x", Write, 2);
    assert_eq!(notes(&table), [Some("report".to_owned()), None]);
    table.check();
    let ended = table::TableInput::Ended { session: B };
    table.handle(Tick(4), ended, &mut Vec::new()).unwrap();
    assert_eq!(notes(&table), [None]);
    table.check();
}

#[test]
fn a_waiter_is_told_how_many_are_before_it() {
    let mut table = LockTable::new(Limits::default(), 42);
    let epoch = Epoch::NONE.next().unwrap();
    let term = Term { groups: GroupSet::ALL, epoch };
    let begin = table::TableInput::Begin { term, listed: Vec::new(), formers: false };
    let mut out = Vec::new();
    table.handle(Tick(1), begin, &mut out).unwrap();
    for session in 1..=6 {
        let (session, handoff) = (SessionId(session), Handoff::Direct);
        let began = table::TableInput::Began { session, handoff, user: None };
        table.handle(Tick(1), began, &mut out).unwrap();
    }
    // One writes; then come a reader, a writer, a reader, and one that leaves again.
    for (session, mode) in [(1, Write), (2, Read), (3, Write), (4, Read), (5, Write)] {
        acquire(&mut table, SessionId(session), "x", mode, 1);
    }
    let release = || ToServer::Release { record: record("x"), seq: Seq(1), keep: None };
    let ahead = |table: &LockTable| {
        let of = |session| table.ahead_of(SessionId(session), &record("x"), Seq(1));
        (1..=6).map(of).collect::<Vec<_>>()
    };
    // The readers go together when the writer leaves, so both are before the writers.
    assert_eq!(ahead(&table), [None, Some(0), Some(2), Some(1), Some(3), None]);
    let cancel = ToServer::Cancel { record: record("x"), seq: Seq(1), keep: None };
    let input = table::TableInput::Message { session: SessionId(3), message: cancel };
    table.handle(Tick(3), input, &mut out).unwrap();
    assert_eq!(ahead(&table), [None, Some(0), None, Some(1), Some(2), None]);
    // The first writer goes next while readers hold the record, and then all readers that wait.
    let input = table::TableInput::Message { session: SessionId(1), message: release() };
    table.handle(Tick(4), input, &mut out).unwrap();
    acquire(&mut table, SessionId(6), "x", Read, 1);
    acquire(&mut table, SessionId(3), "x", Write, 2);
    let of = |session, seq| table.ahead_of(SessionId(session), &record("x"), Seq(seq));
    assert_eq!([of(5, 1), of(6, 1), of(3, 2)], [Some(0), Some(1), Some(2)]);
    table.check();
    assert_eq!(table.ahead_of(SessionId(2), &record("x"), Seq(9)), None, "another acquire");
}

/// A table in which the sessions from 1 on have acquired `x` with these modes, in order.
fn in_line(modes: &[Mode]) -> LockTable {
    let mut table = LockTable::new(Limits::default(), 42);
    let term = Term { groups: GroupSet::ALL, epoch: Epoch::NONE.next().unwrap() };
    let begin = table::TableInput::Begin { term, listed: Vec::new(), formers: false };
    table.handle(Tick(1), begin, &mut Vec::new()).unwrap();
    for (session, &mode) in (1..).map(SessionId).zip(modes) {
        let began = table::TableInput::Began { session, handoff: Handoff::Direct, user: None };
        table.handle(Tick(1), began, &mut Vec::new()).unwrap();
        acquire(&mut table, session, "x", mode, 1);
    }
    table
}

#[test]
fn waiters_are_shown_in_the_order_of_turns() {
    for (modes, turns) in [
        ([Write, Write, Write, Read, Read], [4, 5, 2, 3]),
        ([Read, Write, Write, Read, Read], [2, 4, 5, 3]),
    ] {
        let mut table = in_line(&modes);
        let line = |table: &LockTable, claims| {
            let view = table.look(&record("x"), claims).unwrap();
            view.waiters.iter().map(|it| it.session.0).collect::<Vec<_>>()
        };
        assert_eq!(line(&table, 10), turns);
        // A part of a long line is its beginning.
        assert_eq!(line(&table, 4), turns[..3]);
        // What is shown comes true: each that is served is the next one of the line, or one of the
        // readers that go together.
        let mut served = Vec::new();
        while let Some(holder) = table.look(&record("x"), 10).map(|it| it.holders[0].session) {
            served.push(holder.0);
            let release = ToServer::Release { record: record("x"), seq: Seq(1), keep: None };
            let input = table::TableInput::Message { session: holder, message: release };
            table.handle(Tick(3), input, &mut Vec::new()).unwrap();
        }
        assert_eq!(served[1..], turns);
    }
}

#[test]
fn records_are_visited_with_what_they_are_sorted_by() {
    let mut table = in_line(&[Write, Read, Write]);
    acquire(&mut table, A, "y", Write, 2);
    let mut all = Vec::new();
    let mut from = Some(0);
    while let Some(place) = from {
        from = table.visit(place, 1, |record, it| all.push((record.clone(), it.waiters, it.since)));
        assert!(from.is_none_or(|next| next > place));
    }
    assert_eq!(all, [(record("x"), 2, Tick(2)), (record("y"), 0, Tick(2))]);
}

#[test]
fn revokes_are_counted_once_and_repeats_apart() {
    let mut table = table();
    acquire(&mut table, A, "x", Write, 1);
    acquire(&mut table, B, "x", Write, 1);
    for second in 1..=20 {
        let tick = table::TableInput::Tick;
        table.handle(Tick(second * 1_000_000), tick, &mut Vec::new()).unwrap();
    }
    let tallies = table.watch().tallies();
    let sum = |of: fn(&crate::server::watch::Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    assert_eq!(sum(|it| it.revokes), 1);
    assert!(sum(|it| it.revoke_repeats) >= 4, "{}", sum(|it| it.revoke_repeats));
}
