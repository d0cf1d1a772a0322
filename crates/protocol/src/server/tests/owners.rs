//! A new owner and the sessions of the owners before it, in messages: for each cause of two holders
//! that was found, the story of it, and each bug that can be put back in the server.

use super::recovery::{held, listed};
use super::*;
#[cfg(feature = "mutants")]
use crate::bugs::{Bug, Bugs};
use crate::limits::margin;
use crate::mode::Mode::Write;

const OPEN: ToServer = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };
/// A stranger's session.
const S: SessionId = SessionId(19);

fn group(id: &str) -> GroupSet {
    GroupSet::from_iter([record(id).group()])
}

fn limits() -> Limits {
    Limits::default()
}

/// A server with a bug put back.
#[cfg(feature = "mutants")]
fn with(bug: Bug) -> Limits {
    Limits { bugs: Bugs::only(bug), ..Limits::default() }
}

/// A server with nothing, that takes `groups` above epoch 5 with these sessions of another server,
/// which may act for `acts`.
fn heir(limits: Limits, groups: GroupSet, formers: &[SessionId], acts: Duration) -> Scene {
    let mut s = Scene::restarted(limits, Epoch::NONE, Vec::new());
    s.input(Input::Leave { groups: GroupSet::ALL });
    for session in [B, C] {
        s.say(session, OPEN);
    }
    s.input(Input::Admit { session: S, ttl: TTL, handoff: Handoff::Direct });
    let listed = formers.iter().map(|&former| Listed { acts, ..listed(former, false) });
    let above = Epoch::new(5).unwrap();
    if !groups.is_empty() {
        s.input(Input::Take { groups, above, listed: listed.collect() });
    }
    s.epoch = Epoch::new(6).unwrap();
    s
}

impl Scene {
    /// All that `former` had in the term of this record, as the session `by` says.
    fn done(&mut self, by: SessionId, former: SessionId, id: &str, seqs: &[u64]) -> Vec<String> {
        let terms = self.server.terms().to_vec();
        let term = terms.into_iter().find(|term| term.groups.contains(record(id).group()));
        let Term { groups, epoch } = term.expect("the group is served");
        let (count, sum) = (seqs.len() as u32, seqs.iter().sum());
        self.say(by, ToServer::Reasserted { groups, epoch, former, count, sum })
    }

    /// Where these writes say that a listed session is over.
    fn settled(&self, session: SessionId) -> Vec<GroupSet> {
        let settled = self.stores.iter().filter_map(|(_, what)| match what {
            Store::Settle { former, term } if *former == session => Some(term.groups),
            Store::Forget { session: of } if *of == session => Some(GroupSet::ALL),
            _ => None,
        });
        settled.collect()
    }
}

/// Cause A: server 2 inherits groups with the former session A, and leaves some of them before A
/// was heard there. A re-asserts in the others. The entry of A must stay for those that were left.
fn cause_a(limits: Limits) -> Vec<GroupSet> {
    let mut s = heir(limits, group("x").or(group("y")), &[A], Duration::ZERO);
    s.hold_stores = true;
    s.input(Input::Leave { groups: group("x") });
    s.done(B, A, "y", &[]);
    s.wait(TTL * 3);
    s.settled(A)
}

#[test]
fn a_former_session_stays_listed_in_groups_that_were_left_before_it_was_heard() {
    assert_eq!(cause_a(limits()), [group("y")]);
}

#[cfg(feature = "mutants")]
#[test]
fn bug_former_forgotten_early() {
    let settled = cause_a(with(Bug::FormerForgottenEarly));
    assert!(settled.iter().any(|groups| !groups.and(group("x")).is_empty()), "{settled:?}");
}

/// Cause B: B re-asserts x in the name of A, and the answer is lost. A's node goes on with the
/// lease of A. The session B must not end before that, and with it the grant of x.
fn cause_b(limits: Limits) -> Vec<String> {
    let mut s = heir(limits, GroupSet::ALL, &[A], Duration::ZERO);
    // B is not heard of again; its own lease ends before that of A does.
    s.say(C, ToServer::Close);
    s.reassert_as(B, A, "x", Write, 1, held(7));
    s.reasserted(B, A, "x", &[1]);
    s.say(C, ToServer::Open { ttl: TTL * 2, handoff: Handoff::Direct });
    s.say(D, ToServer::Open { ttl: TTL * 2, handoff: Handoff::Direct });
    s.acquire(D, "x", Write, 1);
    s.wait(TTL + Duration::from_millis(1))
}

#[test]
fn what_was_re_asserted_for_another_session_does_not_end_before_that_ones_lease() {
    let said = cause_b(limits());
    assert!(!said.iter().any(|line| line.contains("granted")), "{said:?}");
}

#[cfg(feature = "mutants")]
#[test]
fn bug_speaker_ends_first() {
    let said = cause_b(with(Bug::SpeakerEndsFirst));
    assert!(said.contains(&"D granted r:x #1 write 6.1".to_owned()), "{said:?}");
}

#[test]
fn a_speaker_whose_end_is_being_stored_keeps_what_it_has_re_asserted() {
    let mut s = heir(limits(), GroupSet::ALL, &[A], TTL);
    s.reassert_as(B, A, "x", Write, 1, held(7));
    s.hold_stores = true;
    s.say(D, ToServer::Open { ttl: TTL * 5, handoff: Handoff::Direct });
    s.flush();
    s.wait(TTL);
    assert!(s.stores.iter().any(|(_, what)| *what == Store::Forget { session: B }));
    assert!(s.server.is_recovering());
}

/// Cause C: A is listed in two hand-overs. It is over in the first; that says nothing of the
/// second.
fn cause_c(limits: Limits) -> Vec<GroupSet> {
    let mut s = heir(limits, group("x"), &[A], Duration::ZERO);
    s.wait(TTL);
    let above = Epoch::new(5).unwrap();
    s.input(Input::Take { groups: group("y"), above, listed: vec![listed(A, false)] });
    s.hold_stores = true;
    s.wait(TTL / 5);
    s.settled(A)
}

#[test]
fn a_former_session_that_is_over_in_one_hand_over_stays_listed_in_another() {
    assert_eq!(cause_c(limits()), [group("x")]);
}

#[cfg(feature = "mutants")]
#[test]
fn bug_forget_without_scope() {
    assert_eq!(cause_c(with(Bug::ForgetWithoutScope)), [GroupSet::ALL]);
}

#[test]
fn each_hand_over_waits_for_its_own_time() {
    let mut s = heir(limits(), group("x"), &[A], Duration::ZERO);
    s.wait(TTL / 2);
    let above = Epoch::new(5).unwrap();
    s.input(Input::Take { groups: group("y"), above, listed: vec![listed(A, false)] });
    let (grace, half) = (TTL + margin(TTL), TTL / 2);
    s.say(D, ToServer::Open { ttl: TTL * 5, handoff: Handoff::Direct });
    s.acquire(D, "x", Write, 1);
    s.acquire(D, "y", Write, 2);
    let said = s.wait(grace - half);
    assert!(said.contains(&"D granted r:x #1 write 6.1".to_owned()), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("r:y")), "{said:?}");
    let said = s.wait(half);
    assert!(said.contains(&"D granted r:y #2 write 6.1".to_owned()), "{said:?}");
    assert_eq!(s.server.formers(), 0);
}

/// The old owner was suspected, and may act on for as long as it believes in its own lease.
fn suspected(limits: Limits) -> Vec<String> {
    let mut s = heir(limits, GroupSet::ALL, &[A], TTL);
    s.say(D, ToServer::Open { ttl: TTL * 5, handoff: Handoff::Direct });
    s.acquire(D, "x", Write, 1);
    let mut said = s.wait(TTL + margin(TTL));
    said.extend(s.wait(TTL + margin(TTL) - Duration::from_millis(1)));
    said
}

#[test]
fn a_server_that_may_still_act_is_waited_for_too() {
    let said = suspected(limits());
    assert!(!said.iter().any(|line| line.contains("granted")), "{said:?}");
    let mut s = heir(limits(), GroupSet::ALL, &[A], TTL);
    s.say(D, ToServer::Open { ttl: TTL * 5, handoff: Handoff::Direct });
    s.acquire(D, "x", Write, 1);
    let said = s.wait((TTL + margin(TTL)) * 2);
    assert!(said.contains(&"D granted r:x #1 write 6.1".to_owned()), "{said:?}");
}

#[cfg(feature = "mutants")]
#[test]
fn bug_grace_without_own() {
    let said = suspected(with(Bug::GraceWithoutOwn));
    assert!(said.iter().any(|line| line.contains("granted")), "{said:?}");
}

#[cfg(feature = "mutants")]
#[test]
fn bug_alive_for_all() {
    let mut s = heir(with(Bug::AliveForAll), group("x"), &[], Duration::ZERO);
    assert_eq!(s.keep_alive(B, 1), ["B alive 1"], "it serves one group, and says all");
    let mut s = heir(limits(), group("x"), &[], Duration::ZERO);
    assert_eq!(s.keep_alive(B, 1), [format!("B alive 1 in {}", group("x"))]);
}

#[test]
fn a_node_speaks_for_several_former_sessions_in_a_term() {
    let mut s = heir(limits(), GroupSet::ALL, &[A, D], Duration::ZERO);
    s.reassert_as(B, A, "x", Write, 1, held(7));
    s.reassert_as(B, D, "y", Write, 2, held(8));
    let said = s.reasserted(B, A, "x", &[1]);
    assert!(said.contains(&"B recovered epoch 6 for A".to_owned()), "{said:?}");
    assert!(s.server.is_recovering());
    let said = s.reasserted(B, D, "y", &[2]);
    assert!(said.contains(&"B recovered epoch 6 for D".to_owned()), "{said:?}");
    assert!(!s.server.is_recovering());
    assert_eq!(s.acquire(C, "y", Write, 1)[0], "B revoke r:y #2 to write");
}

#[test]
fn a_former_session_is_listed_until_its_time_is_over_also_if_it_was_heard() {
    let mut s = heir(limits(), group("x"), &[A], Duration::ZERO);
    s.hold_stores = true;
    s.done(B, A, "x", &[]);
    assert!(!s.server.is_recovering());
    assert_eq!((s.server.formers(), s.settled(A)), (1, vec![]), "its node may not know");
    s.wait(TTL + margin(TTL));
    assert_eq!(s.settled(A), [group("x")]);
    s.flush();
    assert_eq!(s.server.formers(), 0);
}

#[test]
fn a_node_with_nothing_says_so_as_the_former_session_itself() {
    let mut s = heir(limits(), group("x"), &[A], Duration::ZERO);
    let nothing = |groups, epoch| ToServer::Nothing { groups, epoch };
    let epoch = s.epoch;
    assert!(s.say(A, nothing(group("y"), epoch))[0].ends_with("is not served here now"));
    let early = s.say(A, nothing(group("x"), Epoch::new(5).unwrap()));
    assert_eq!(early, ["refused: the group is in epoch 6"]);
    assert_eq!(s.say(A, nothing(GroupSet::ALL, epoch)).len(), 1);
    assert!(s.server.is_recovering());
    assert_eq!(s.say(A, nothing(group("x"), epoch)), ["A recovered epoch 6"]);
    assert!(!s.server.is_recovering());
    assert_eq!(s.say(A, nothing(group("x"), epoch)), ["A recovered epoch 6"], "again");
    assert_eq!(
        s.say(D, nothing(group("x"), epoch)),
        ["D recovered epoch 6"],
        "nobody waits for it"
    );
}

#[test]
fn nothing_is_not_believed_of_a_session_that_somebody_speaks_for() {
    let mut s = heir(limits(), group("x"), &[A], Duration::ZERO);
    s.reassert_as(B, A, "x", Write, 1, held(7));
    let (groups, epoch) = (group("x"), s.epoch);
    assert_eq!(s.say(A, ToServer::Nothing { groups, epoch }), [""; 0]);
    assert!(s.server.is_recovering());
    assert_eq!(s.done(B, A, "x", &[1]), ["B recovered epoch 6 for A"]);
}

/// A stranger re-asserts at the new owner while the old one may act. What it is told counts at the
/// new owner, and it closes its session at the old one, which would give the record to another.
fn stranger(limits: Limits) -> (Vec<String>, Scene) {
    let mut s = heir(limits, group("x"), &[A], TTL);
    s.reassert_as(S, A, "x", Write, 1, held(7));
    (s.done(S, A, "x", &[1]), s)
}

#[test]
fn a_stranger_is_heard_when_the_old_owner_can_not_act_any_more() {
    let (said, mut s) = stranger(limits());
    assert!(
        said[0].starts_with("refused: the server that served these records before"),
        "{said:?}"
    );
    assert!(s.server.is_recovering());
    s.wait(TTL / 2);
    s.keep_alive(S, 1);
    s.wait(TTL / 2 + margin(TTL));
    assert_eq!(s.done(S, A, "x", &[1]), ["S recovered epoch 6 for A"]);
}

#[cfg(feature = "mutants")]
#[test]
fn bug_stranger_recovered_early() {
    assert_eq!(stranger(with(Bug::StrangerRecoveredEarly)).0, ["S recovered epoch 6 for A"]);
}

#[test]
fn a_node_is_heard_at_once() {
    let mut s = heir(limits(), group("x"), &[A], TTL);
    s.reassert_as(B, A, "x", Write, 1, held(7));
    assert_eq!(s.done(B, A, "x", &[1]), ["B recovered epoch 6 for A"]);
}

/// The former session is a stranger's, which says as that session that it had nothing. The old
/// owner may still grant it something.
#[test]
fn a_stranger_that_had_nothing_is_believed_when_the_old_owner_can_not_act_any_more() {
    let mut s = heir(limits(), GroupSet::EMPTY, &[], TTL);
    let client = crate::messages::Client::Stranger;
    let listed = vec![Listed { acts: TTL, client, ..listed(A, false) }];
    let (groups, above) = (group("x"), Epoch::new(5).unwrap());
    s.input(Input::Take { groups, above, listed });
    let nothing = |s: &mut Scene| s.say(A, ToServer::Nothing { groups, epoch: s.epoch });
    let said = nothing(&mut s);
    assert!(said[0].starts_with("refused: the server that served these"), "{said:?}");
    s.wait(TTL + margin(TTL));
    assert_eq!(nothing(&mut s), ["A recovered epoch 6"]);
}

/// A stranger has re-asserted x in the name of A, and has not heard the answer, so it believes in
/// the lease of A. Then it closes the session that spoke.
#[test]
fn what_a_stranger_has_re_asserted_for_another_session_outlives_its_close() {
    let mut s = heir(limits(), group("x"), &[A], Duration::ZERO);
    s.reassert_as(S, A, "x", Write, 1, held(7));
    assert_eq!(s.done(S, A, "x", &[1]), ["S recovered epoch 6 for A"]);
    s.say(S, ToServer::Close);
    let told = |said: &[String]| said.iter().any(|line| line.starts_with("B granted r:x"));
    assert!(!told(&s.acquire(B, "x", Write, 1)));
    s.wait(TTL / 2);
    s.keep_alive(B, 1);
    assert!(!told(&s.wait(TTL / 2)));
    assert!(told(&s.wait(margin(TTL) + Duration::from_millis(1))));
}

#[test]
fn nothing_is_kept_of_sessions_that_were_listed_in_groups_that_were_left() {
    let mut s = heir(limits(), GroupSet::EMPTY, &[], Duration::ZERO);
    let (groups, above) = (group("x"), Epoch::new(5).unwrap());
    let listed = vec![Listed { last: true, ..listed(A, false) }];
    s.input(Input::Take { groups, above, listed });
    assert_eq!(s.server.formers(), 1);
    s.input(Input::Leave { groups });
    assert_eq!(s.server.formers(), 1, "the end of its lease is remembered until then");
    s.wait(TTL + margin(TTL));
    assert_eq!(s.server.formers(), 0);
}
