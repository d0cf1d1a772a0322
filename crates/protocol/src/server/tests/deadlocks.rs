//! Cycles of owners across nodes.

use super::*;
use crate::messages::LocalWait;
use crate::mode::Mode::{Read, Write};

impl Scene {
    fn report(
        &mut self,
        by: SessionId,
        id: &str,
        seq: u64,
        number: u64,
        holders: &[u64],
    ) -> Vec<String> {
        let holders = holders.iter().map(|&owner| Owner(owner)).collect();
        let (record, seq) = (record(id), Seq(seq));
        self.say(by, ToServer::Report { record, seq, number, holders, waits: Vec::new() })
    }
}

#[test]
fn two_cached_records_taken_in_opposite_order_refuse_the_younger_wait() {
    let mut s = Scene::new(Handoff::Direct);
    assert_ne!(record("x").slot(), record("y").slot(), "across slots");
    s.ask(A, "x", Write, 1, false, &[100]);
    s.ask(B, "y", Write, 1, false, &[200]);
    s.ask(A, "y", Write, 2, false, &[100]);
    assert_eq!(s.report(B, "y", 1, 1, &[200]), [""; 0]);
    s.ask(B, "x", Write, 2, false, &[200]);
    let said = s.report(A, "x", 1, 1, &[100]);
    let why = "Deadlock { cycle: [Owner(100), Owner(200)] }";
    assert_eq!(said, [format!("B refused r:x #2: {why}"), "A keep r:x #1".into()]);
    // B lets go, and A is served.
    assert_eq!(s.release(B, "y", 1), ["A granted r:y #2 write 1.2"]);
    s.release(A, "x", 1);
    assert!(s.server.graph_is_empty());
}

/// A gives up what it waits for. Who is refused depends on what the server hears first, the give-up
/// or what closes the cycle: it can't know of a give-up that is still on its way.
#[test]
fn a_cycle_that_has_dissolved_refuses_nobody_once_the_server_has_heard_of_it() {
    let crossed = || {
        let mut s = Scene::new(Handoff::Direct);
        s.ask(A, "x", Write, 1, false, &[100]);
        s.ask(B, "y", Write, 1, false, &[200]);
        s.ask(A, "y", Write, 2, false, &[100]);
        s.report(B, "y", 1, 1, &[200]);
        s.ask(B, "x", Write, 2, false, &[200]);
        s
    };
    let is_refused = |said: &[String]| said.iter().any(|line| line.contains("Deadlock"));
    let give_up = ToServer::Cancel { record: record("y"), seq: Seq(2), keep: None };
    let mut s = crossed();
    s.say(A, give_up.clone());
    assert!(!is_refused(&s.report(A, "x", 1, 1, &[100])), "nobody waits for B");
    let mut s = crossed();
    assert!(is_refused(&s.report(A, "x", 1, 1, &[100])));
    s.say(A, give_up);
    assert_eq!(s.release(A, "x", 1), [""; 0]);
    s.release(B, "y", 1);
    assert!(s.server.graph_is_empty());
}

#[test]
fn the_acquire_that_closes_the_cycle_is_refused_itself() {
    let mut s = Scene::new(Handoff::Direct);
    s.ask(A, "x", Write, 1, false, &[100]);
    s.ask(B, "y", Write, 1, false, &[200]);
    s.ask(C, "x", Write, 1, false, &[]);
    s.report(A, "x", 1, 1, &[100]);
    s.ask(A, "y", Write, 2, false, &[100]);
    s.report(B, "y", 1, 1, &[200]);
    let said = s.ask(B, "x", Write, 2, false, &[200]);
    assert!(said.iter().any(|line| line.starts_with("B refused r:x #2: Deadlock")), "{said:?}");
}

#[test]
fn with_no_owner_nothing_is_checked() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "y", Write, 1);
    s.acquire(A, "y", Write, 2);
    s.report(B, "y", 1, 1, &[]);
    assert_eq!(s.acquire(B, "x", Write, 2), ["A revoke r:x #1 to write", "B queued r:x #2"]);
    assert_eq!(s.report(A, "x", 1, 1, &[]), [""; 0]);
}

#[test]
fn a_report_counts_only_for_a_revoked_grant() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.report(A, "x", 1, 1, &[100]);
    assert!(s.server.graph_is_empty());
    s.acquire(B, "x", Read, 1);
    s.report(A, "x", 9, 1, &[100]);
    assert!(s.server.graph_is_empty(), "another number");
    s.report(A, "x", 1, 1, &[100]);
    assert!(!s.server.graph_is_empty());
    s.downgrade(A, "x", 1, 2);
    assert!(s.server.graph_is_empty());
}

#[test]
fn too_long_a_report_is_refused() {
    let mut s = Scene::new(Handoff::Direct);
    let many = vec![LocalWait { waiter: Owner(1), holder: Owner(2) }; 65];
    let (record, seq) = (record("x"), Seq(1));
    let report = ToServer::Report { record, seq, number: 1, holders: Vec::new(), waits: many };
    assert_eq!(s.say(A, report), ["refused: too many owners: the maximum is 64"]);
}
