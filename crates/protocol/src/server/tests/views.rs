//! What a table shows while it lives.

use super::*;
use crate::mode::Mode::{Read, Write};

fn table() -> LockTable {
    let mut table = LockTable::new(Limits::default(), 42);
    let mut out = Vec::new();
    let epoch = Epoch::NONE.next().unwrap();
    let term = Term { groups: GroupSet::ALL, epoch };
    let begin = table::TableInput::Begin { term, listed: Vec::new() };
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
        let (views, next) = table.page(place, 7);
        assert!(views.len() <= 7);
        assert!(next.is_none_or(|next| next > place));
        seen.extend(views.into_iter().map(|view| view.record));
        from = next;
    }
    let mut names: Vec<_> = table.views().into_iter().map(|view| view.record).collect();
    seen.sort();
    names.sort();
    assert_eq!(seen, names);
    assert_eq!(table.page(usize::MAX, 7), (Vec::new(), None));
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
    assert_eq!(table.look(&record("x")), table.views().pop());
    assert_eq!(table.look(&record("y")), None);
}
