//! What an independent review and the simulator have found, each as the scenario that showed it.

use super::recovery::{held, listed, token};
use super::*;
use crate::messages::Claim;
use crate::mode::Mode::{Read, Write};

const OPEN: ToServer = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };

fn after(listed: Vec<Listed>) -> Scene {
    Scene::restarted(Limits::default(), Epoch::new(1).unwrap(), listed)
}

/// Sends the end of a recovery for these groups alone.
fn reasserted(s: &mut Scene, by: SessionId, former: SessionId, groups: GroupSet, seqs: &[u64]) {
    let (count, sum) = (seqs.len() as u32, seqs.iter().sum());
    s.say(by, ToServer::Reasserted { groups, epoch: s.epoch, former, count, sum });
}

#[test]
fn a_term_that_is_taken_again_in_its_grace_leaves_no_session_behind() {
    let mut s = after(vec![listed(A, true)]);
    let later = || Claim::Held { token: token(5, 1) };
    let said = s.reassert(A, "x", Write, 1, later());
    assert!(said[0].starts_with("behind"), "{said:?}");
    let terms = s.server.terms().iter();
    let groups =
        GroupSet::ALL.without(terms.fold(GroupSet::EMPTY, |all, term| all.or(term.groups)));
    let above = Epoch::new(5).unwrap();
    s.input(Input::Take { groups, above, listed: vec![listed(A, true)] });
    // The other terms are still those of the first restart.
    s.reasserted(A, A, "-", &[]);
    s.epoch = Epoch::new(6).unwrap();
    s.reassert(A, "x", Write, 1, later());
    reasserted(&mut s, A, A, groups, &[1]);
    assert!(!s.server.is_recovering());
    assert_eq!(s.keep_alive(A, 1), ["A alive 1"]);
}

#[test]
fn a_session_that_is_listed_twice_recovers_once() {
    let mut s = after(vec![listed(A, true), listed(A, true)]);
    s.reasserted(A, A, "x", &[]);
    assert_eq!(s.keep_alive(A, 1), ["A alive 1"]);
}

#[test]
fn who_did_not_hear_that_it_has_recovered_is_told_again() {
    let mut s = after(vec![listed(A, false)]);
    s.say(B, OPEN);
    s.reassert_as(B, A, "x", Write, 1, held(7));
    s.reasserted(B, A, "x", &[1]);
    let said = s.reasserted(B, A, "x", &[1]);
    assert!(said.iter().all(|line| line == "B recovered epoch 2 for A"), "{said:?}");
}

#[test]
fn what_was_re_asserted_in_groups_that_are_left_does_not_count_for_the_others() {
    let mut s = after(vec![listed(A, true)]);
    s.say(B, OPEN);
    // Two groups of one table.
    let table = s.server.terms()[0].groups;
    let mut names = (0..).map(|id| id.to_string()).filter(|id| table.contains(record(id).group()));
    let x = names.next().unwrap();
    let y = names.find(|y| record(y).group() != record(&x).group()).unwrap();
    s.reassert(A, &x, Write, 1, held(1));
    let left = GroupSet::from_iter([record(&x).group()]);
    s.input(Input::Leave { groups: left });
    reasserted(&mut s, A, A, table.without(left), &[2]);
    assert_eq!(s.acquire(B, &y, Write, 1), [format!("B queued r:{y} #1")]);
}

#[test]
fn a_former_session_is_waited_for_in_every_term_that_lists_it() {
    let mut s = after(Vec::new());
    s.input(Input::Leave { groups: GroupSet::ALL });
    let take = |id: &str| Input::Take {
        groups: GroupSet::from_iter([record(id).group()]),
        above: Epoch::new(1).unwrap(),
        listed: vec![listed(A, false)],
    };
    s.input(take("x"));
    s.say(B, OPEN);
    s.hold_stores = true;
    reasserted(&mut s, B, A, GroupSet::from_iter([record("x").group()]), &[]);
    s.input(take("y"));
    assert!(matches!(s.stores[..], [(_, Store::Epoch(_))]), "A is still listed in the first");
    s.flush();
    assert!(s.server.is_recovering(), "nothing was heard of A in the second term");
}

#[test]
fn a_downgrade_from_before_the_crash_does_not_void_the_read() {
    let mut s = after(vec![listed(A, true)]);
    assert_eq!(s.downgrade(A, "x", 1, 2), [""; 0]);
    s.reassert(A, "x", Read, 2, held(1));
    s.reasserted(A, A, "x", &[2]);
    assert_eq!(s.state("x"), table::RecordState::Shared);
}

#[test]
fn what_was_re_asserted_and_is_over_is_not_acquired_again() {
    let mut s = after(vec![listed(A, true)]);
    let waits = Claim::Waiting { ticket: None, upgrade: false, owners: Vec::new() };
    s.reassert(A, "x", Write, 5, waits);
    s.reasserted(A, A, "x", &[5]);
    s.acquire(A, "x", Write, 8);
    s.release(A, "x", 8);
    assert_eq!(s.acquire(A, "x", Write, 5), ["A refused r:x #5: StaleSeq"]);
}

#[test]
fn the_read_of_a_refused_upgrader_is_in_the_way_like_any_other() {
    let mut s = Scene::new(Handoff::Direct);
    let report = |id: &str, seq, owner| ToServer::Report {
        record: record(id),
        seq: Seq(seq),
        number: 1,
        holders: vec![Owner(owner)],
        waits: Vec::new(),
    };
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.upgrade(A, "x", 3);
    s.acquire(C, "x", Write, 1);
    s.acquire(A, "z", Write, 4);
    s.ask(B, "z", Write, 4, false, &[2]);
    s.say(B, report("x", 1, 2));
    s.say(A, report("z", 4, 1));
    // The upgrade tells its owner last, and so is the youngest.
    let said = s.ask(A, "x", Write, 3, true, &[1]);
    assert!(said.iter().any(|line| line.starts_with("A refused r:x #3: Deadlock")), "{said:?}");
    assert!(said.contains(&"A revoke r:x #1 to write".to_owned()), "{said:?}");
}

#[test]
fn re_assertions_of_one_session_are_bounded() {
    let limits = Limits { claims_per_session: 10, ..Limits::default() };
    let mut s = Scene::restarted(limits, Epoch::new(1).unwrap(), vec![listed(A, true)]);
    let refused = (1..20).filter(|&seq| {
        let said = s.reassert(A, "x", Read, seq, held(1));
        said.iter().any(|line| line.starts_with("refused"))
    });
    assert_eq!(refused.count(), 9);
}

#[test]
fn the_end_of_an_earlier_round_does_not_complete_a_later_one() {
    let mut s = after(vec![listed(A, true)]);
    s.say(B, OPEN);
    // The first round was x alone, the second x and z. Of the second only z has come, of the
    // first its end.
    let waits = Claim::Waiting { ticket: None, upgrade: false, owners: Vec::new() };
    s.reassert(A, "z{x}", Write, 9, waits);
    s.reasserted(A, A, "{x}", &[1]);
    assert_eq!(s.acquire(B, "{x}", Write, 1), ["B queued r:{x} #1"]);
}

#[test]
fn a_token_of_the_terms_own_epoch_can_not_be_re_asserted() {
    let mut s = after(vec![listed(A, true)]);
    let said = s.reassert(A, "x", Write, 5, Claim::Held { token: token(2, 100) });
    assert!(said[0].starts_with("behind") && said[0].ends_with("epoch 2"), "{said:?}");
}

#[test]
fn an_upgraders_retry_is_sent_again() {
    let mut s = Scene::new(Handoff::Retry);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.upgrade(A, "x", 2);
    assert_eq!(s.release(B, "x", 1), ["A retry r:x #2"]);
    s.acquire(C, "x", Write, 1);
    assert_eq!(s.wait(Duration::from_millis(500)), ["A retry r:x #2"]);
}

#[test]
fn what_is_re_asserted_after_a_new_acquire_is_over() {
    let mut s = after(vec![listed(A, true)]);
    // The re-assertion of #1 was lost. Its threads have left, and the record is wanted anew.
    assert_eq!(s.acquire(A, "x", Read, 2), ["A queued r:x #2"]);
    s.reassert(A, "x", Read, 1, held(7));
    let said = s.reasserted(A, A, "x", &[1]);
    assert!(said.contains(&"A granted r:x #2 read 2.0".to_owned()), "{said:?}");
    s.release(A, "x", 2);
    assert_eq!(s.server.claims(), 0, "of one session there is one grant at a record");
}
