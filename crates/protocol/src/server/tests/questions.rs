//! The questions that every caching lock server has to answer, each a test whose name is the
//! answer. (Those about the node are among the tests of the cache.)

use super::*;
use crate::mode::Mode::{Read, Write};

/// The order of the four calls, with a client that takes retries.
#[test]
fn the_six_steps_come_in_their_order() {
    let mut s = Scene::new(Handoff::Retry);
    assert_eq!(s.acquire(A, "x", Write, 1), ["A granted r:x #1 write 1.1"]);
    assert_eq!(s.acquire(B, "x", Write, 7), ["A revoke r:x #1 to write", "B queued r:x #7"]);
    assert_eq!(s.release(A, "x", 1), ["B retry r:x #7"]);
    assert_eq!(s.acquire(B, "x", Write, 7), ["B granted r:x #7 write 1.2"]);
}

#[test]
fn direct_hand_off_needs_no_retry() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 7);
    assert_eq!(s.release(A, "x", 1), ["B granted r:x #7 write 1.2"]);
}

/// A client acquires between a retry and its acquire.
#[test]
fn who_comes_between_a_retry_and_its_acquire_waits_behind() {
    let mut s = Scene::new(Handoff::Retry);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    assert_eq!(s.release(A, "x", 1), ["B retry r:x #1"]);
    assert_eq!(s.state("x"), table::RecordState::Reserved);
    assert_eq!(s.acquire(C, "x", Write, 1), ["C queued r:x #1"]);
    let granted = "B granted r:x #1 write 1.2, give back to write";
    assert_eq!(s.acquire(B, "x", Write, 1), [granted]);
}

#[test]
fn a_reservation_that_is_not_taken_up_goes_to_the_next_in_line() {
    let mut s = Scene::new(Handoff::Retry);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.acquire(C, "x", Write, 1);
    s.release(A, "x", 1);
    assert_eq!(s.wait(Duration::from_millis(999)), [""; 0]);
    assert_eq!(s.wait(Duration::from_millis(1)), ["C retry r:x #1"]);
    // The late one is last in line, with its old number, and gets another retry.
    assert_eq!(s.acquire(B, "x", Write, 1), ["B queued r:x #1"]);
    let granted = "C granted r:x #1 write 1.2, give back to write";
    assert_eq!(s.acquire(C, "x", Write, 1), [granted]);
    assert_eq!(s.release(C, "x", 1), ["B retry r:x #1"]);
}

/// An acquire of a record that is cached elsewhere.
#[test]
fn an_acquire_of_what_is_cached_elsewhere_is_queued_at_once_and_the_holder_is_revoked() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    let said = s.acquire(B, "x", Read, 1);
    assert_eq!(said, ["A revoke r:x #1 to read", "B queued r:x #1"]);
}

/// A release while others wait.
#[test]
fn a_release_with_waiters_hands_the_record_to_the_first_of_them() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.acquire(C, "x", Write, 1);
    let granted = "B granted r:x #1 write 1.2, give back to write";
    assert_eq!(s.release(A, "x", 1), [granted]);
}

/// A grant while others wait.
#[test]
fn a_grant_with_others_waiting_says_give_back() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.acquire(C, "x", Read, 1);
    // The readers go before the next writer, and know that it waits.
    assert_eq!(s.release(A, "x", 1), ["C granted r:x #1 read 1.1, give back to write"]);
    assert_eq!(s.release(C, "x", 1), ["B granted r:x #1 write 1.2"]);
}

#[test]
fn a_revoke_that_is_not_answered_is_sent_again() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Read, 1);
    // After half a second, after one, and so on.
    for half_seconds in [1, 2, 4] {
        let said = s.wait(Duration::from_millis(500 * half_seconds));
        assert_eq!(said, ["A revoke r:x #1 to read"], "after {half_seconds} half seconds");
    }
    assert_eq!(s.wait(Duration::from_millis(500)), [""; 0]);
    s.keep_alive(A, 1);
    s.keep_alive(B, 1);
    assert_eq!(s.release(A, "x", 1), ["B granted r:x #1 read 1.1"]);
    assert_eq!(s.wait(Duration::from_secs(4)), [""; 0]);
}

#[test]
fn a_freed_record_leaves_nothing_behind() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.release(A, "x", 1);
    s.release(B, "x", 1);
    assert_eq!((s.server.records(), s.server.claims()), (0, 0));
    let lease = s.now + TTL;
    assert!(s.server.next_deadline().is_some_and(|tick| tick <= lease));
    assert_eq!(s.acquire(C, "x", Write, 1), ["C granted r:x #1 write 1.3"], "the token went on");
}
