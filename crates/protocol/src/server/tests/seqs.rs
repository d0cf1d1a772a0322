//! Doubles, losses and reordering: what seq decides.

use super::*;
use crate::mode::Mode::{Read, Write};

#[test]
fn a_doubled_acquire_is_answered_again_the_same_way() {
    let mut s = Scene::new(Handoff::Direct);
    let granted = ["A granted r:x #1 write 1.1"];
    assert_eq!(s.acquire(A, "x", Write, 1), granted);
    assert_eq!(s.acquire(A, "x", Write, 1), granted);
    s.acquire(B, "x", Write, 1);
    assert_eq!(s.acquire(B, "x", Write, 1), ["B queued r:x #1"]);
    // The repeated grant says what the first could not know.
    assert_eq!(s.acquire(A, "x", Write, 1), ["A granted r:x #1 write 1.1, give back to write"]);
}

#[test]
fn a_doubled_acquire_after_its_release_grants_nothing() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.release(A, "x", 1);
    assert_eq!(s.acquire(A, "x", Write, 1), ["A refused r:x #1: StaleSeq"]);
    assert_eq!(s.server.records(), 0);
}

#[test]
fn a_cancel_that_overtakes_its_acquire_makes_it_stale() {
    let mut s = Scene::new(Handoff::Direct);
    s.cancel(A, "x", 1);
    assert_eq!(s.acquire(A, "x", Write, 1), ["A refused r:x #1: StaleSeq"]);
}

#[test]
fn a_cancel_that_crosses_its_grant_gives_it_back() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.release(A, "x", 1);
    s.acquire(C, "x", Write, 1);
    assert_eq!(s.cancel(B, "x", 1), ["C granted r:x #1 write 1.3"]);
}

#[test]
fn a_late_release_does_not_end_a_later_grant() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.release(A, "x", 1);
    s.acquire(A, "x", Write, 2);
    assert_eq!(s.release(A, "x", 1), [""; 0]);
    assert_eq!(s.acquire(A, "x", Write, 2), ["A granted r:x #2 write 1.2"]);
}

#[test]
fn a_new_acquire_heals_a_lost_release() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    // A's release was lost, and A wants it again: it has to get in line.
    let said = s.acquire(A, "x", Write, 2);
    assert_eq!(said, ["B granted r:x #1 write 1.2, give back to write", "A queued r:x #2"]);
}

#[test]
fn a_new_acquire_replaces_one_whose_cancel_was_lost() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    assert_eq!(s.acquire(B, "x", Read, 2), ["A revoke r:x #1 to read", "B queued r:x #2"]);
    assert_eq!(s.acquire(B, "x", Write, 1), ["B refused r:x #1: StaleSeq"]);
    assert_eq!(s.server.claims(), 2);
}

#[test]
fn a_downgrade_of_what_is_not_there_is_told() {
    let mut s = Scene::new(Handoff::Direct);
    assert_eq!(s.downgrade(A, "x", 1, 2), ["A lost r:x #2"]);
    s.acquire(B, "x", Write, 1);
    assert_eq!(s.downgrade(A, "x", 3, 4), ["A lost r:x #4"]);
}

#[test]
fn a_doubled_downgrade_changes_nothing() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.downgrade(A, "x", 1, 2);
    assert_eq!(s.downgrade(A, "x", 1, 2), [""; 0]);
    assert_eq!(s.upgrade(A, "x", 3), ["A granted r:x #3 write 1.2"]);
    assert_eq!(s.downgrade(A, "x", 1, 2), [""; 0]);
    assert_eq!(s.state("x"), table::RecordState::Alone);
}

#[test]
fn an_upgrade_that_overtakes_its_downgrade_is_granted() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    assert_eq!(s.upgrade(A, "x", 3), ["A granted r:x #3 write 1.2"]);
    assert_eq!(s.downgrade(A, "x", 1, 2), [""; 0]);
    assert_eq!(s.state("x"), table::RecordState::Alone);
}

#[test]
fn an_unknown_session_is_told_so() {
    let mut s = Scene::new(Handoff::Direct);
    let stranger = SessionId(77);
    assert_eq!(s.acquire(stranger, "x", Write, 1), ["77 no session"]);
    assert_eq!(s.keep_alive(stranger, 1), ["77 no session"]);
    assert_eq!(s.release(stranger, "x", 1), ["77 no session"]);
}
