//! Bugs put back on purpose whose worlds in the simulator are rare or long: for each a short story,
//! told without the bug and with it.

use super::recovery::{held, listed, token, waiting};
use super::*;
use crate::bugs::{Bug, Bugs};
use crate::mode::Mode::{Read, Write};

fn with(bugs: Bugs) -> Limits {
    Limits { bugs, ..Limits::default() }
}

/// What the story comes to without the bug, and with it.
fn both<T>(bug: Bug, story: impl Fn(Limits) -> T) -> (T, T) {
    (story(with(Bugs::NONE)), story(with(Bugs::only(bug))))
}

fn is_granted(said: &[String], to: &str) -> bool {
    said.iter().any(|line| line.starts_with(&format!("{to} granted")))
}

#[test]
fn leave_not_stored() {
    let story = |limits| {
        let mut s = Scene::with(limits, Handoff::Direct);
        let stranger = SessionId(19);
        s.input(Input::Admit { session: stranger, ttl: TTL, handoff: Handoff::Direct });
        s.acquire(stranger, "x", Write, 1);
        s.hold_stores = true;
        let groups = GroupSet::from_iter([record("x").group()]);
        let said = s.input(Input::Leave { groups });
        said.contains(&format!("left {groups}"))
    };
    assert_eq!(both(Bug::LeaveNotStored, story), (false, true), "left before the mark is durable");
}

#[test]
fn epoch_not_stored() {
    let story = |limits| {
        let mut s = Scene::with(limits, Handoff::Direct);
        s.input(Input::Leave { groups: GroupSet::ALL });
        s.hold_stores = true;
        let (groups, above) = (GroupSet::ALL, Epoch::new(5).unwrap());
        s.input(Input::Take { groups, above, listed: Vec::new() });
        s.server.terms().is_empty()
    };
    assert_eq!(both(Bug::EpochNotStored, story), (true, false), "no term before it is durable");
}

#[test]
fn forget_not_stored() {
    let story = |limits| {
        let mut s = Scene::with(limits, Handoff::Direct);
        s.acquire(A, "x", Write, 1);
        s.wait(TTL / 2);
        s.keep_alive(B, 1);
        s.acquire(B, "x", Write, 1);
        s.hold_stores = true;
        let said = s.wait(TTL / 2);
        is_granted(&said, "B")
    };
    assert_eq!(both(Bug::ForgetNotStored, story), (false, true), "A could still re-assert it");
}

#[test]
fn zombie_serves() {
    let story = |limits| {
        let mut s = Scene::with(limits, Handoff::Direct);
        s.input(Input::Own { until: Some(s.now + TTL / 10) });
        s.now = s.now + TTL / 5;
        is_granted(&s.acquire(A, "x", Write, 1), "A")
    };
    assert_eq!(both(Bug::ZombieServes, story), (false, true), "another may own the group");
}

#[test]
fn anybody_reasserts() {
    let story = |limits| {
        let above = Epoch::new(1).unwrap();
        let mut s = Scene::restarted(limits, above, vec![listed(A, true), listed(B, true)]);
        let said = s.reassert_as(B, D, "x", Write, 1, held(7));
        said == ["B unlisted D"]
    };
    assert_eq!(both(Bug::AnybodyReasserts, story), (true, false), "D held nothing that counts");
}

#[test]
fn readers_pass_writers() {
    let story = |limits| {
        let mut s = Scene::with(limits, Handoff::Direct);
        s.acquire(A, "x", Read, 1);
        s.acquire(B, "x", Write, 1);
        is_granted(&s.acquire(C, "x", Read, 1), "C")
    };
    assert_eq!(both(Bug::ReadersPassWriters, story), (false, true), "B is in line before");
}

#[test]
fn tickets_ignored() {
    let story = |limits| {
        let above = Epoch::new(1).unwrap();
        let mut s = Scene::restarted(limits, above, vec![listed(A, true), listed(B, true)]);
        s.reassert_as(B, B, "x", Write, 1, waiting(5));
        s.reassert_as(A, A, "x", Write, 1, waiting(3));
        let mut said = s.reasserted(A, A, "x", &[1]);
        said.extend(s.reasserted(B, B, "x", &[1]));
        (is_granted(&said, "A"), is_granted(&said, "B"))
    };
    let places = both(Bug::TicketsIgnored, story);
    assert_eq!(places, ((true, false), (false, true)), "A was first in line");
    assert!(token(1, 3) < token(1, 5));
}

#[test]
fn reserve_for_ever() {
    let story = |limits: Limits| {
        let reserve = limits.reserve;
        let mut s = Scene::with(limits, Handoff::Retry);
        s.acquire(A, "x", Write, 1);
        s.acquire(B, "x", Write, 1);
        s.acquire(C, "x", Write, 1);
        s.release(A, "x", 1);
        let said = s.wait(reserve + Duration::from_millis(1));
        said.iter().any(|line| line.starts_with("C retry"))
    };
    assert_eq!(both(Bug::ReserveForEver, story), (true, false), "B has not come for it");
}

#[test]
fn reports_ignored() {
    let story = |limits| {
        let mut s = Scene::with(limits, Handoff::Direct);
        s.acquire(A, "x", Write, 1);
        s.acquire(B, "y", Write, 1);
        s.ask(A, "y", Write, 2, false, &[1]);
        s.ask(B, "x", Write, 2, false, &[2]);
        let mut said = Vec::new();
        for (by, id, owner) in [(A, "x", 1), (B, "y", 2)] {
            let (record, seq, holders, waits) = (record(id), Seq(1), vec![Owner(owner)], vec![]);
            said.extend(s.say(by, ToServer::Report { record, seq, number: 1, holders, waits }));
        }
        said.iter().any(|line| line.contains("Deadlock"))
    };
    assert_eq!(both(Bug::ReportsIgnored, story), (true, false), "owners 1 and 2 are in a cycle");
}
