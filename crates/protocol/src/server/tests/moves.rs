//! Groups that go to another server while this one lives: nobody who may have something there is
//! extended any more, and that is durable before the other may take them.

use super::recovery::listed;
use super::*;
use crate::mode::Mode::Write;

const OPEN: ToServer = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };
const NOTHING: [&str; 0] = [];

fn groups(id: &str) -> GroupSet {
    GroupSet::from_iter([record(id).group()])
}

fn leave(s: &mut Scene, id: &str) -> Vec<String> {
    s.input(Input::Leave { groups: groups(id) })
}

fn left(id: &str) -> String {
    format!("left {}", groups(id))
}

#[test]
fn a_server_that_leaves_groups_extends_nobody_who_may_have_something_there() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    leave(&mut s, "x");
    assert_eq!(s.keep_alive(A, 1), NOTHING);
    let new = SessionId(9);
    assert_eq!(s.say(new, OPEN), ["I opened"]);
    assert_eq!(s.keep_alive(new, 1), ["I alive 1"]);
}

#[test]
fn groups_are_left_when_every_open_session_is_marked_in_the_store_and_not_before() {
    let mut s = Scene::new(Handoff::Direct);
    s.hold_stores = true;
    assert_eq!(leave(&mut s, "x"), NOTHING);
    let stores = std::mem::take(&mut s.stores);
    let is_mark = |what: &Store| matches!(what, Store::Session { last: true, .. });
    assert!(stores.iter().all(|(_, what)| is_mark(what)), "{stores:?}");
    let (last, first) = stores.split_last().unwrap();
    assert_eq!(first.len(), 3, "there are four sessions");
    for &(store, _) in first {
        assert_eq!(s.stored(store), NOTHING);
    }
    assert_eq!(s.stored(last.0), [left("x")]);
    // They are marked: the next time nobody has to wait.
    assert_eq!(leave(&mut s, "y"), [left("y")]);
}

#[test]
fn groups_that_are_left_meanwhile_wait_for_the_same_marks() {
    let mut s = Scene::new(Handoff::Direct);
    s.hold_stores = true;
    assert_eq!(leave(&mut s, "x"), NOTHING);
    assert_eq!(leave(&mut s, "y"), NOTHING);
    assert_eq!(s.flush(), [left("x"), left("y")]);
}

#[test]
fn a_server_without_sessions_leaves_at_once() {
    let mut s = Scene::restarted(Limits::default(), Epoch::NONE, Vec::new());
    assert_eq!(leave(&mut s, "x"), [left("x")]);
}

#[test]
fn groups_that_are_taken_again_are_not_left() {
    let mut s = Scene::new(Handoff::Direct);
    s.hold_stores = true;
    leave(&mut s, "x");
    s.input(Input::Take { groups: groups("x"), above: s.epoch, listed: Vec::new() });
    let said = s.flush();
    assert!(said.contains(&format!("left {}", GroupSet::EMPTY)), "{said:?}");
    assert!(said.contains(&"A serving epoch 2".to_owned()), "{said:?}");
}

#[test]
fn a_marked_session_is_not_extended_after_a_restart_and_its_lease_comes_to_its_end() {
    let marked = Listed { last: true, ..listed(A, true) };
    let listed = vec![marked, listed(B, true)];
    let mut s = Scene::restarted(Limits::default(), Epoch::new(1).unwrap(), listed);
    let serving = s.keep_alive(A, 1);
    assert!(serving.iter().all(|line| line == "A serving epoch 2"), "{serving:?}");
    assert!(!serving.is_empty(), "it has to know that it is to re-assert");
    s.reasserted(A, A, "x", &[]);
    s.reasserted(B, B, "x", &[]);
    assert_eq!(s.keep_alive(B, 1), ["B alive 1"]);
    assert_eq!(s.keep_alive(A, 2), NOTHING);
    s.wait(TTL / 2);
    assert_eq!(s.keep_alive(A, 3), NOTHING);
    assert_eq!(s.keep_alive(B, 2), ["B alive 2"]);
    assert_eq!(s.wait(TTL / 2 + crate::limits::margin(TTL)), ["A ended"]);
}

#[test]
fn a_session_that_was_listed_when_groups_were_left_is_marked_too() {
    let mut s = Scene::restarted(Limits::default(), Epoch::new(1).unwrap(), Vec::new());
    leave(&mut s, "x");
    s.hold_stores = true;
    // Its term has not begun when the groups are left again.
    s.input(Input::Take { groups: groups("x"), above: s.epoch, listed: vec![listed(A, true)] });
    assert_eq!(leave(&mut s, "x"), NOTHING);
    let marks = s.stores.iter().filter(|(_, what)| match what {
        Store::Session { session, last, .. } => *session == A && *last,
        _ => false,
    });
    assert_eq!(marks.count(), 1);
    assert_eq!(s.flush(), [left("x")]);
}
