//! The gate in one thread: each transition of the table.

use super::*;

const READING: Opening = Opening { reads: true, writes: false, watched: false };
const WRITING: Opening = Opening { reads: true, writes: true, watched: false };

fn gate(opening: Opening) -> Gate {
    let gate = Gate::new();
    gate.open(opening);
    gate
}

#[test]
fn a_new_gate_is_shut_for_all_but_the_keeper() {
    let gate = Gate::new();
    assert_eq!((gate.enter(Use::Read), gate.enter(Use::Write)), (None, None));
    assert!(gate.admit(Use::Write).is_some());
    assert_eq!(gate.admit(Use::Read), None);
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let gate = gate(WRITING);
    let reader = gate.enter(Use::Read).unwrap();
    let other = gate.enter(Use::Read).unwrap();
    assert_eq!(gate.enter(Use::Write), None);
    assert_eq!(gate.inside(), Inside { readers: 2, writer: false });
    assert_eq!(gate.leave(reader), Left::Unseen);
    assert_eq!(gate.leave(other), Left::Unseen);
    assert!(gate.enter(Use::Write).is_some());
    assert_eq!(gate.enter(Use::Read), None);
}

#[test]
fn a_gate_for_readers_lets_no_writer_in() {
    let gate = gate(READING);
    assert_eq!(gate.enter(Use::Write), None);
    assert!(gate.enter(Use::Read).is_some());
}

#[test]
fn who_leaves_a_watched_gate_is_told_so() {
    let gate = gate(WRITING);
    let pass = gate.enter(Use::Write).unwrap();
    gate.open(Opening { watched: true, ..Opening::default() });
    assert_eq!(gate.leave(pass), Left::Watched);
    assert!(gate.inside().is_empty());
    assert_eq!(gate.enter(Use::Read), None);
}

#[test]
fn the_lost_are_not_in_and_do_not_leave() {
    let gate = gate(WRITING);
    let lost = gate.enter(Use::Write).unwrap();
    gate.lose();
    assert!(!gate.has(&lost) && gate.inside().is_empty());
    gate.open(WRITING);
    let present = gate.enter(Use::Write).unwrap();
    assert_eq!(gate.upgrade(lost.reader(), false), None);
    let lost = gate.downgrade(lost).expect_err("it is not in any more");
    assert_eq!(gate.leave(lost), Left::Lost);
    assert!(gate.has(&present) && gate.inside().writer);
}

#[test]
fn only_an_only_reader_is_upgraded() {
    let gate = gate(READING);
    let (one, other) = (gate.enter(Use::Read).unwrap(), gate.enter(Use::Read).unwrap());
    assert_eq!(gate.upgrade(one.reader(), false), None);
    gate.leave(other);
    assert_eq!(gate.upgrade(one.reader(), true), None, "the gate is not open for writers");
    let writer = gate.upgrade(one.reader(), false).unwrap();
    assert_eq!((writer.how(), gate.inside().writer), (Use::Write, true));
    let (reader, left) = gate.downgrade(writer).unwrap();
    assert_eq!((reader.how(), left, gate.inside().readers), (Use::Read, Left::Unseen, 1));
}

#[test]
fn gate_g1_a_pass_that_was_replaced_takes_nothing_from_the_word() {
    let gate = gate(WRITING);
    let old = gate.enter(Use::Read).unwrap();
    let writer = gate.upgrade(old.reader(), false).unwrap();
    assert_eq!(gate.leave(old), Left::Lost);
    assert_eq!(gate.inside(), Inside { readers: 0, writer: true });
    assert_eq!(gate.leave(writer), Left::Unseen);
    assert!(gate.inside().is_empty());
    // The bits beside the fields are as they were.
    let reader = gate.enter(Use::Read).unwrap();
    let reader = gate.downgrade(reader).expect_err("it does not write");
    assert_eq!(gate.leave(reader), Left::Unseen);
    assert!(gate.enter(Use::Write).is_some());
}
