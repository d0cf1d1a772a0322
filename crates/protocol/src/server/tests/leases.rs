//! Sessions: what is durable when, and what ends them.

use super::recovery::listed;
use super::*;
use crate::mode::Mode::Write;

const OF_NODE: (Duration, Handoff, Client) = (TTL, Handoff::Direct, Client::Node);
const OPEN: ToServer = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };

#[test]
fn a_session_is_answered_when_it_is_durable_and_not_before() {
    let mut s = Scene::new(Handoff::Direct);
    s.hold_stores = true;
    let e = SessionId(5);
    assert_eq!(s.say(e, OPEN), [""; 0]);
    assert_eq!(s.say(e, OPEN), [""; 0], "again, while it is being stored");
    assert_eq!(s.acquire(e, "x", Write, 1), ["E no session"]);
    assert!(matches!(s.stores[..], [(_, Store::Session { session, .. })] if session == e));
    assert_eq!(s.flush(), ["E opened"]);
    assert_eq!(s.say(e, OPEN), ["E opened"]);
    assert_eq!(s.acquire(e, "x", Write, 1), ["E granted r:x #1 write 1.1"]);
    let other = ToServer::Open { ttl: TTL * 2, handoff: Handoff::Direct };
    let said = s.say(e, other);
    assert_eq!(
        said,
        ["refused: the session is open with another lease or hand-off; open a new one for these"]
    );
}

#[test]
fn an_expired_sessions_records_go_on_when_its_entry_is_deleted_and_not_before() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.wait(TTL / 2);
    assert_eq!(s.keep_alive(B, 1), ["B alive 1"]);
    s.acquire(B, "x", Write, 1);
    s.hold_stores = true;
    s.wait(TTL / 2);
    let forgets = |(_, what): &(StoreId, Store)| matches!(what, Store::Forget { .. });
    assert_eq!(s.stores.iter().filter(|store| forgets(store)).count(), 3, "A, C and D");
    assert_eq!(s.keep_alive(A, 1), ["A no session"]);
    assert_eq!(s.acquire(A, "x", Write, 1), ["A no session"]);
    let said = s.flush();
    assert_eq!(said[..2], ["B granted r:x #1 write 1.2", "A ended"]);
}

#[test]
fn a_lease_counts_from_the_arrival_of_a_keep_alive() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.wait(TTL - Duration::from_micros(1));
    assert_eq!(s.keep_alive(A, 1), ["A alive 1"]);
    s.wait(TTL - Duration::from_micros(1));
    assert_eq!(s.keep_alive(A, 2), ["A alive 2"]);
    // Not even a keep-alive at the very end comes in time, ticked or not.
    s.now = s.now + TTL;
    assert_eq!(s.keep_alive(A, 3), ["A ended", "A no session"]);
}

#[test]
fn close_ends_a_session_and_frees_its_records() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(A, "y", Write, 2);
    s.acquire(B, "x", Write, 1);
    let said = s.say(A, ToServer::Close);
    assert_eq!(said, ["B granted r:x #1 write 1.2", "A ended"]);
    assert_eq!(s.server.records(), 1);
    assert_eq!(s.say(A, ToServer::Close), ["A no session"]);
}

#[test]
fn past_its_own_lease_a_server_answers_nobody() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    let until = Some(s.now + Duration::from_secs(1));
    s.input(Input::Own { until });
    s.hold_stores = true;
    s.say(C, ToServer::Close);
    s.wait(Duration::from_secs(1));
    let resting = s.release(A, "x", 1);
    assert!(resting[0].contains("can't be sure"), "{resting:?}");
    assert_eq!(s.flush(), [""; 0], "what became durable meanwhile is kept");
    assert_eq!(s.server.next_deadline(), None);
    let until = Some(s.now + Duration::from_secs(1));
    assert_eq!(s.input(Input::Own { until }), ["A revoke r:x #1 to write", "C ended"]);
    assert_eq!(s.release(A, "x", 1), ["B granted r:x #1 write 1.2"]);
}

#[test]
fn a_late_double_of_its_open_does_not_bring_an_ended_session_back() {
    let mut s = Scene::new(Handoff::Direct);
    s.say(A, ToServer::Close);
    assert_eq!(s.say(A, OPEN), ["A no session"]);
}

#[test]
fn groups_that_are_taken_again_and_again_end_their_grace_with_the_first_lease() {
    let here = listed(A, true);
    let last = Listed { last: true, ..listed(C, false) };
    let mut s = Scene::restarted(Limits::default(), Epoch::new(1).unwrap(), vec![here, last]);
    let lease = TTL + TTL / 10;
    for round in 1..=11 {
        let above = Epoch::new(round * 10).unwrap();
        assert!(s.server.is_recovering(), "round {round}: A and C may still hold something");
        s.input(Input::Leave { groups: GroupSet::ALL });
        s.input(Input::Take { groups: GroupSet::ALL, above, listed: vec![here, last] });
        s.wait(lease / 11);
    }
    assert!(!s.server.is_recovering(), "their leases are over");
}

#[test]
fn another_servers_session_is_waited_for_in_full_if_that_may_have_extended_it() {
    let listed = |last| Listed { last, ..listed(C, false) };
    let mut s = Scene::restarted(Limits::default(), Epoch::new(1).unwrap(), vec![listed(false)]);
    s.wait(TTL / 2);
    s.input(Input::Leave { groups: GroupSet::ALL });
    let above = Epoch::new(10).unwrap();
    s.input(Input::Take { groups: GroupSet::ALL, above, listed: vec![listed(true)] });
    s.wait(TTL);
    assert!(
        s.server.is_recovering(),
        "it was marked after the first term, perhaps extended before"
    );
    s.wait(TTL / 10);
    assert!(!s.server.is_recovering());
}

#[test]
fn a_session_that_is_to_end_keeps_what_it_has_until_its_lease_is_over() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.hold_stores = true;
    assert_eq!(s.input(Input::Retire { session: A }), ["A no session"], "it is told at once");
    let marks = s.stores.iter().filter(|(_, what)| {
        let Store::Session { session, last, .. } = what else { return false };
        (*session, *last) == (A, true)
    });
    assert_eq!(marks.count(), 1);
    assert_eq!(s.input(Input::Retire { session: A }), [""; 0], "once is enough");
    assert_eq!(s.stores.len(), 1);
    s.flush();
    s.hold_stores = false;
    s.wait(TTL / 2);
    assert_eq!(s.keep_alive(A, 1), [""; 0], "it is not renewed");
    assert_eq!(s.keep_alive(B, 1), ["B alive 1"]);
    assert_eq!(
        s.acquire(A, "y", Write, 2),
        ["A granted r:y #2 write 1.1"],
        "a late message counts"
    );
    s.acquire(B, "x", Write, 1);
    let said = s.wait(TTL / 2);
    assert!(said.contains(&"B granted r:x #1 write 1.2".to_owned()), "{said:?}");
    let unknown = SessionId(99);
    assert!(s.input(Input::Retire { session: unknown })[0].starts_with("refused"));
}

#[test]
fn the_node_of_a_session_that_is_to_end_may_end_it_at_once() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.input(Input::Retire { session: A });
    s.acquire(B, "x", Write, 1);
    let said = s.say(A, ToServer::Close);
    assert_eq!(said[0], "B granted r:x #1 write 1.2", "{said:?}");
}

/// Very many leases end at once: so many at a time, and none of them is extended any more.
#[test]
fn service_f72_very_many_leases_end_bit_by_bit_and_none_is_extended() {
    use crate::server::registry::{Registry, RegistryOutput};
    use std::collections::VecDeque;
    let number = 1_000;
    let mut registry = Registry::new(Limits::default(), vec![GroupSet::ALL]);
    let mut out = VecDeque::new();
    let mut now = Tick(1_000);
    let mut ended = 0;
    let mut settle = |registry: &mut Registry, now, out: &mut VecDeque<RegistryOutput>| {
        while let Some(said) = out.pop_front() {
            match said {
                RegistryOutput::Out(Output::Store { store, .. }) => {
                    registry.stored(now, store, out).unwrap();
                }
                RegistryOutput::Out(Output::Ended { .. }) => ended += 1,
                _ => {}
            }
        }
        ended
    };
    for session in 1..=number {
        registry.open(now, SessionId(session), OF_NODE, &mut out).unwrap();
        settle(&mut registry, now, &mut out);
    }
    now = now + TTL;
    registry.expire(now, &mut out);
    let first = settle(&mut registry, now, &mut out);
    assert!((1..=256).contains(&first), "{first} have ended at once");
    assert!(registry.next_deadline().is_some_and(|at| at <= now), "and the next ones are due");
    // One that is left is over all the same.
    let last = SessionId(number);
    let refused = Err(crate::refusal::SessionRefusal::Unknown);
    assert_eq!(registry.keep_alive(now, last, 1, &mut out), refused);
    assert_eq!(registry.open(now, last, OF_NODE, &mut out), refused);
    assert_eq!(settle(&mut registry, now, &mut out), first, "nothing came of that");
    while registry.next_deadline().is_some() {
        registry.expire(now, &mut out);
        settle(&mut registry, now, &mut out);
    }
    assert!(registry.is_empty());
}
