//! Groups that go to another server while this one lives. What nodes have there is not extended any
//! more, since no extension names the groups; all else is. A stranger does not know which groups an
//! extension is for, so the session of one that has something there is marked, and not extended.

use super::recovery::listed;
use super::*;
use crate::mode::Mode::Write;
use crate::refusal::{NotServed, ReassertRefusal, Refusal};

const OPEN: ToServer = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };
const NOTHING: [&str; 0] = [];
const S: SessionId = SessionId(19);

fn groups(id: &str) -> GroupSet {
    GroupSet::from_iter([record(id).group()])
}

fn without(id: &str) -> GroupSet {
    GroupSet::ALL.without(groups(id))
}

fn leave(s: &mut Scene, id: &str) -> Vec<String> {
    s.input(Input::Leave { groups: groups(id) })
}

fn left(id: &str) -> String {
    format!("left {}", groups(id))
}

/// With the session S of a stranger beside A to D.
fn scene() -> Scene {
    let mut s = Scene::new(Handoff::Direct);
    let (ttl, handoff) = (TTL, Handoff::Direct);
    assert_eq!(s.input(Input::Admit { session: S, ttl, handoff }), ["S opened"]);
    s
}

fn is_marked(s: &Scene, of: SessionId) -> bool {
    let is_it =
        |what: &Store| matches!(what, Store::Session { session, last: true, .. } if *session == of);
    s.stores.iter().any(|(_, what)| is_it(what))
}

#[test]
fn an_extension_names_the_groups_that_are_served_and_leaving_some_ends_no_session() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(A, "y", Write, 2);
    assert_eq!(s.keep_alive(A, 1), ["A alive 1"]);
    let moved = format!("A moved {}", groups("x"));
    assert_eq!(leave(&mut s, "x"), [moved, left("x")]);
    assert_eq!(s.keep_alive(A, 2), [format!("A alive 2 in {}", without("x"))]);
    for number in 3..10 {
        s.wait(TTL / 2);
        assert_eq!(s.keep_alive(A, number), [format!("A alive {number} in {}", without("x"))]);
        for other in [B, C, D] {
            s.keep_alive(other, number);
        }
    }
    assert_eq!(s.acquire(B, "y", Write, 1)[0], "A revoke r:y #2 to write", "that it still has");
}

#[test]
fn groups_are_left_at_once_where_no_stranger_has_something() {
    let mut s = scene();
    s.hold_stores = true;
    s.acquire(S, "y", Write, 1);
    s.acquire(A, "x", Write, 1);
    assert_eq!(leave(&mut s, "x"), [format!("A moved {}", groups("x")), left("x")]);
    assert!(s.stores.is_empty());
    assert_eq!(s.keep_alive(S, 1), [format!("S alive 1 in {}", without("x"))]);
}

#[test]
fn a_stranger_with_something_there_is_marked_and_told_before_the_groups_are_left() {
    let mut s = scene();
    s.acquire(S, "x", Write, 1);
    s.acquire(A, "x", Write, 1);
    s.hold_stores = true;
    let told = [format!("A moved {}", groups("x")), format!("S moved {}", groups("x"))];
    assert_eq!(leave(&mut s, "x"), told);
    assert!(is_marked(&s, S) && !is_marked(&s, A), "{:?}", s.stores);
    assert_eq!(s.keep_alive(S, 1), NOTHING);
    // What is left meanwhile waits for the same mark.
    assert_eq!(leave(&mut s, "y"), NOTHING);
    assert_eq!(s.flush(), [left("x"), left("y")]);
    s.hold_stores = false;
    assert_eq!(s.keep_alive(S, 2), NOTHING);
    assert_eq!(s.wait(TTL * 2).iter().filter(|line| *line == "S ended").count(), 1);
}

#[test]
fn a_stranger_that_waits_there_is_marked_too() {
    let mut s = scene();
    s.acquire(A, "x", Write, 1);
    s.acquire(S, "x", Write, 1);
    s.hold_stores = true;
    leave(&mut s, "x");
    assert!(is_marked(&s, S));
}

#[test]
fn a_server_without_sessions_leaves_at_once() {
    let mut s = Scene::restarted(Limits::default(), Epoch::NONE, Vec::new());
    assert_eq!(leave(&mut s, "x"), [left("x")]);
}

#[test]
fn groups_that_are_taken_again_are_not_left() {
    let mut s = scene();
    s.acquire(S, "x", Write, 1);
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
fn a_session_whose_groups_come_back_re_asserts_there_and_is_extended_elsewhere_meanwhile() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    leave(&mut s, "x");
    let above = Epoch::new(2).unwrap();
    let listed = [A, B, C, D].map(|session| listed(session, true)).to_vec();
    s.input(Input::Take { groups: groups("x"), above, listed });
    s.epoch = Epoch::new(3).unwrap();
    let said = s.keep_alive(A, 1);
    assert_eq!(said, ["A serving epoch 3".to_owned(), format!("A alive 1 in {}", without("x"))]);
    s.reassert(A, "x", Write, 1, super::recovery::held(1));
    let term = Term { groups: groups("x"), epoch: s.epoch };
    let done = |s: &mut Scene, by, count, sum| {
        let Term { groups, epoch } = term;
        s.say(by, ToServer::Reasserted { groups, epoch, former: by, count, sum })
    };
    assert_eq!(done(&mut s, A, 1, 1), ["A recovered epoch 3"]);
    assert_eq!(s.keep_alive(A, 2), ["A alive 2"]);
    for other in [B, C] {
        done(&mut s, other, 0, 0);
    }
    assert!(s.server.is_recovering(), "D may have something there");
    // It lives, for what it has elsewhere; its time in that group is over all the same.
    for number in 1..=3 {
        s.wait(TTL / 3 + Duration::from_millis(1));
        for session in [A, B, C, D] {
            s.keep_alive(session, number);
        }
    }
    assert!(!s.server.is_recovering());
    assert_eq!(s.keep_alive(D, 9), ["D alive 9"]);
}

#[test]
fn a_stranger_that_has_yet_to_re_assert_somewhere_is_not_extended_at_all() {
    let mut s = scene();
    leave(&mut s, "x");
    let above = Epoch::new(2).unwrap();
    s.input(Input::Take { groups: groups("x"), above, listed: vec![listed(S, true)] });
    assert_eq!(s.keep_alive(S, 1), ["S serving epoch 3"]);
    let term = Term { groups: groups("x"), epoch: Epoch::new(3).unwrap() };
    let Term { groups, epoch } = term;
    s.say(S, ToServer::Reasserted { groups, epoch, former: S, count: 0, sum: 0 });
    assert_eq!(s.keep_alive(S, 2), ["S alive 2"]);
}

/// After a restart with the stranger S on the list, which holds something in the group of x.
fn restarted_with_stranger() -> Scene {
    let stranger = Listed { client: Client::Stranger, ..listed(S, true) };
    Scene::restarted(Limits::default(), Epoch::new(1).unwrap(), vec![stranger])
}

#[test]
fn a_stranger_that_has_yet_to_re_assert_in_groups_that_are_left_is_marked() {
    let mut s = restarted_with_stranger();
    s.hold_stores = true;
    assert_eq!(leave(&mut s, "x"), [format!("S moved {}", groups("x"))]);
    assert!(is_marked(&s, S));
    assert_eq!(s.flush(), [left("x")]);
    s.hold_stores = false;
    s.reasserted(S, S, "y", &[]);
    assert!(!s.server.is_recovering());
    assert_eq!(s.keep_alive(S, 1), NOTHING, "the next owner waits for the lease as it stood");
    assert!(s.wait(TTL * 2).contains(&"S ended".to_owned()));
}

#[test]
fn a_stranger_that_was_heard_before_the_groups_are_left_is_extended() {
    let mut s = restarted_with_stranger();
    s.reasserted(S, S, "y", &[]);
    assert_eq!(leave(&mut s, "x"), [left("x")]);
    assert_eq!(s.keep_alive(S, 1), [format!("S alive 1 in {}", without("x"))]);
}

#[test]
fn a_listed_stranger_is_marked_if_the_groups_are_left_before_their_epoch_is_durable() {
    let mut s = scene();
    leave(&mut s, "x");
    s.hold_stores = true;
    let stranger = Listed { client: Client::Stranger, ..listed(S, true) };
    let above = Epoch::new(2).unwrap();
    s.input(Input::Take { groups: groups("x"), above, listed: vec![stranger] });
    leave(&mut s, "x");
    assert!(is_marked(&s, S));
    s.flush();
    assert_eq!(s.keep_alive(S, 1), NOTHING);
}

#[test]
fn a_stranger_is_not_extended_by_a_server_that_serves_nothing() {
    let mut s = scene();
    s.input(Input::Leave { groups: GroupSet::ALL });
    assert_eq!(s.keep_alive(S, 1), NOTHING);
}

#[test]
fn a_node_opens_by_its_own_message() {
    let mut s = Scene::new(Handoff::Direct);
    assert_eq!(s.say(SessionId(9), OPEN), ["I opened"]);
}

/// Two groups of one table, of which the first comes first in a set, and records in them.
const BOTH: [(u8, &str); 2] = [(3, "low"), (9, "high")];

fn in_group(number: u8, prefix: &str) -> String {
    let ids = (0..).map(|n| format!("{prefix}{n}"));
    let is_there = |id: &String| record(id).group() == crate::slot::Group(number);
    ids.into_iter().find(is_there).expect("every group has records")
}

/// This server takes two groups from the server of A, and has left the first of them when B, who
/// speaks for A, asks about a page that names both.
fn told_of_both(limits: Limits) -> (Scene, Term) {
    let both: GroupSet = BOTH.iter().map(|&(group, _)| crate::slot::Group(group)).collect();
    let mut s = Scene::restarted(limits, Epoch::NONE, Vec::new());
    s.input(Input::Leave { groups: GroupSet::ALL });
    s.say(B, OPEN);
    let above = Epoch::new(5).unwrap();
    s.input(Input::Take { groups: both, above, listed: vec![listed(A, false)] });
    s.epoch = Epoch::new(6).unwrap();
    let [low, high] = BOTH.map(|(group, prefix)| in_group(group, prefix));
    s.reassert_as(B, A, &high, Write, 1, super::recovery::held(7));
    s.input(Input::Leave { groups: groups(&low) });
    (s, Term { groups: both, epoch: Epoch::new(6).unwrap() })
}

#[test]
fn who_tells_of_several_groups_hears_which_of_them_are_served_if_any_is() {
    let (mut s, Term { groups, epoch }) = told_of_both(Limits::default());
    let (former, first, last) = (A, Seq(1), Seq(1));
    let page = ToServer::Page { groups, epoch, former, first, last, count: 1, sum: 1 };
    assert_eq!(s.say(B, page), ["B serving epoch 6"]);
    let end = ToServer::Reasserted { groups, epoch, former, count: 1, sum: 1 };
    assert_eq!(s.say(B, end), ["B serving epoch 6"]);
    let nothing = ToServer::Nothing { groups, epoch };
    assert_eq!(s.say(A, nothing), ["A serving epoch 6"]);
    // Of what is served, all was heard.
    let [served] = s.server.terms() else { panic!("one term") };
    let groups = served.groups;
    let end = ToServer::Reasserted { groups, epoch, former, count: 1, sum: 1 };
    assert_eq!(s.say(B, end), ["B recovered epoch 6 for A"]);
}

#[test]
fn who_tells_of_groups_that_were_all_left_hears_that_they_have_moved() {
    let (mut s, Term { groups, epoch }) = told_of_both(Limits::default());
    s.input(Input::Leave { groups });
    let moved = [format!("B moved {groups}")];
    let (former, first, last) = (A, Seq(1), Seq(1));
    let page = ToServer::Page { groups, epoch, former, first, last, count: 1, sum: 1 };
    assert_eq!(s.say(B, page), moved);
    let end = ToServer::Reasserted { groups, epoch, former, count: 1, sum: 1 };
    assert_eq!(s.say(B, end), moved);
}

/// The driver may tell a node of a term before it has begun at its server. The node tells again,
/// and does not look for another server.
#[test]
fn who_tells_of_groups_that_are_not_served_yet_does_not_hear_that_they_have_moved() {
    let (groups, epoch) = (groups("x"), Epoch::new(6).unwrap());
    let end = ToServer::Reasserted { groups, epoch, former: A, count: 1, sum: 1 };
    let why = NotServed { group: record("x").group() };
    let reply = |why| reply_to(&end, &Refusal::Reassert(why));
    assert_eq!(reply(ReassertRefusal::NotServed(why)), None);
    assert_eq!(reply(ReassertRefusal::Left(why)), Some(ToNode::Moved { groups }));
}

#[cfg(feature = "mutants")]
#[test]
fn bug_lowest_group_only() {
    let bugs = crate::bugs::Bugs::only(crate::bugs::Bug::LowestGroupOnly);
    let (mut s, Term { groups, epoch }) = told_of_both(Limits { bugs, ..Limits::default() });
    let end = ToServer::Reasserted { groups, epoch, former: A, count: 1, sum: 1 };
    assert_eq!(s.say(B, end), NOTHING);
}
