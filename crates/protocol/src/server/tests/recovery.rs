//! Restarts and changes of owner.

use super::*;
use crate::messages::Claim;
use crate::mode::Mode::{Read, Write};
use crate::token::{Ticket, Token};

const E1: u32 = 1;

pub(super) fn listed(session: SessionId, here: bool) -> Listed {
    let (handoff, client, acts) = (Handoff::Direct, Client::Node, Duration::ZERO);
    Listed { session, ttl: TTL, handoff, here, last: false, client, acts }
}

/// The server after a restart in epoch 2, with A and B on its list.
fn restarted() -> Scene {
    let above = Epoch::new(E1).unwrap();
    Scene::restarted(Limits::default(), above, vec![listed(A, true), listed(B, true)])
}

pub(super) fn token(epoch: u32, count: u64) -> Token {
    Token::new(Epoch::new(epoch).unwrap(), count).unwrap()
}

pub(super) fn held(count: u64) -> Claim {
    Claim::Held { token: token(E1, count) }
}

pub(super) fn waiting(count: u64) -> Claim {
    let ticket = Ticket::new(Epoch::new(E1).unwrap(), count);
    Claim::Waiting { ticket, upgrade: false, owners: Vec::new() }
}

impl Scene {
    pub(super) fn reassert(
        &mut self,
        by: SessionId,
        id: &str,
        mode: Mode,
        seq: u64,
        claim: Claim,
    ) -> Vec<String> {
        self.reassert_as(by, by, id, mode, seq, claim)
    }

    pub(super) fn reassert_as(
        &mut self,
        by: SessionId,
        former: SessionId,
        id: &str,
        mode: Mode,
        seq: u64,
        claim: Claim,
    ) -> Vec<String> {
        let (record, seq, epoch) = (record(id), Seq(seq), self.epoch);
        self.say(by, ToServer::Reassert { record, epoch, former, seq, mode, claim })
    }

    /// All terms, that is all shards: these seqs in the one of `id`, none in the others.
    pub(super) fn reasserted(
        &mut self,
        by: SessionId,
        former: SessionId,
        id: &str,
        seqs: &[u64],
    ) -> Vec<String> {
        let terms = self.server.terms().to_vec();
        let mut said = Vec::new();
        for Term { groups, epoch } in terms {
            let seqs = if groups.contains(record(id).group()) { seqs } else { &[] };
            let (count, sum) = (seqs.len() as u32, seqs.iter().sum());
            said.extend(self.say(by, ToServer::Reasserted { groups, epoch, former, count, sum }));
        }
        said
    }
}

#[test]
fn nothing_is_granted_before_everybody_on_the_list_has_re_asserted() {
    let mut s = restarted();
    assert_eq!(s.reassert(A, "x", Write, 1, held(7)), [""; 0]);
    assert_eq!(s.acquire(B, "y", Write, 9), ["B queued r:y #9"]);
    assert_eq!(s.state("y"), table::RecordState::Recovering);
    s.reasserted(A, A, "x", &[1]);
    assert_eq!(s.acquire(A, "z", Write, 2), ["A queued r:z #2"]);
    let said = s.reasserted(B, B, "y", &[]);
    for expected in
        ["B recovered epoch 2", "B granted r:y #9 write 2.1", "A granted r:z #2 write 2.1"]
    {
        assert!(said.contains(&expected.to_owned()), "{expected}: {said:?}");
    }
    // What was held is held, with its token.
    assert_eq!(s.acquire(B, "x", Write, 10)[0], "A revoke r:x #1 to write");
}

#[test]
fn a_listed_session_that_stays_away_is_waited_for_until_its_lease_is_over() {
    let mut s = restarted();
    s.reassert(A, "x", Write, 1, held(7));
    s.reasserted(A, A, "x", &[1]);
    assert_eq!(s.acquire(A, "y", Write, 2), ["A queued r:y #2"]);
    let grace = TTL + crate::limits::margin(TTL);
    s.wait(grace / 2);
    s.keep_alive(A, 1);
    let said = s.keep_alive(B, 1);
    assert_eq!(said[0], "B serving epoch 2", "not renewed before it has re-asserted");
    s.wait(grace / 2 - Duration::from_micros(1));
    assert!(s.server.is_recovering());
    let said = s.wait(Duration::from_micros(1));
    assert_eq!(said, ["A granted r:y #2 write 2.1", "B ended"]);
}

#[test]
fn a_server_that_recovers_says_for_whom_it_waits_and_until_when() {
    let mut s = restarted();
    let grace = TTL + crate::limits::margin(TTL);
    let begun = s.now;
    let waits = s.server.recovering().expect("two have yet to re-assert");
    assert_eq!((waits.until, waits.waiting_for), (begun + grace, vec![A, B]));
    s.reasserted(A, A, "x", &[]);
    s.wait(TTL / 2);
    s.keep_alive(A, 1);
    let waits = s.server.recovering().expect("B has yet to re-assert");
    assert_eq!((waits.until, waits.waiting_for), (begun + grace, vec![B]), "A is not waited for");
    s.keep_alive(A, 2);
    s.wait(TTL / 2);
    s.keep_alive(A, 3);
    s.wait(grace - TTL);
    assert_eq!(s.server.recovering(), None, "the lease of B is over");
    assert!(!s.server.is_recovering());
    assert_eq!(Scene::new(Handoff::Direct).server.recovering(), None);
}

impl Scene {
    /// The term of the record, page by page.
    fn page(&mut self, by: SessionId, id: &str, (first, last): (u64, u64), seqs: &[u64]) -> String {
        let mut terms = self.server.terms().iter();
        let &Term { groups, epoch } =
            terms.find(|term| term.groups.contains(record(id).group())).unwrap();
        let (first, last, count) = (Seq(first), Seq(last), seqs.len() as u32);
        let sum = seqs.iter().sum();
        let page = ToServer::Page { groups, epoch, former: by, first, last, count, sum };
        self.say(by, page).concat()
    }
}

#[test]
fn a_page_is_heard_when_all_of_it_is_here_however_often_it_is_asked_about() {
    let mut s = restarted();
    assert_eq!(s.page(A, "{x}a", (1, 5), &[1, 5]), "A not heard #1");
    s.reassert(A, "{x}b", Write, 5, held(7));
    assert_eq!(s.page(A, "{x}a", (1, 5), &[1, 5]), "A not heard #1");
    s.reassert(A, "{x}a", Write, 1, held(7));
    for _ in 0..2 {
        assert_eq!(s.page(A, "{x}a", (1, 5), &[1, 5]), "A heard #1");
        s.reassert(A, "{x}a", Write, 1, held(7));
    }
    assert_eq!(s.page(A, "{x}a", (6, 9), &[7]), "A not heard #6", "the next page is another");
    assert_eq!(s.page(A, "{x}a", (1, 5), &[1, 4, 5]), "A not heard #1");
    assert!(s.server.is_recovering(), "a page is not all");
    s.reassert(A, "{x}c", Write, 7, held(7));
    s.reasserted(A, A, "{x}a", &[1, 5, 7]);
    assert_eq!(s.page(A, "{x}a", (6, 9), &[7]), "A recovered epoch 2", "all of it was heard");
}

#[test]
fn a_page_whose_end_is_before_its_beginning_is_not_heard() {
    let mut s = restarted();
    s.reassert(A, "{x}a", Write, 1, held(7));
    assert_eq!(s.page(A, "{x}a", (9, 1), &[]), "A not heard #9");
    assert_eq!(s.page(A, "{x}a", (u64::MAX, 0), &[1]), format!("A not heard #{}", u64::MAX));
}

#[test]
fn an_empty_page_and_one_that_was_heard_before_extend_nothing() {
    let mut s = restarted();
    assert_eq!(s.page(A, "{x}a", (5, 9), &[]), "A heard #5", "there is nothing, as it says");
    assert_eq!(s.keep_alive(A, 1)[0], "A serving epoch 2");
    s.reassert(A, "{x}a", Write, 1, held(7));
    assert_eq!(s.page(A, "{x}a", (1, 1), &[1]), "A heard #1");
    assert_eq!(s.keep_alive(A, 2), ["A alive 2"]);
    assert_eq!(s.page(A, "{x}a", (1, 1), &[1]), "A heard #1");
    assert_eq!(s.keep_alive(A, 3)[0], "A serving epoch 2");
}

#[test]
fn a_session_that_re_asserts_is_extended_page_by_page_and_not_for_ever() {
    let mut s = restarted();
    let mut number = 0;
    let third = TTL / 3;
    let begun = s.now;
    assert_eq!(s.keep_alive(A, 1)[0], "A serving epoch 2", "nothing was heard of it");
    loop {
        number += 1;
        s.wait(third);
        s.reassert(A, &format!("{{x}}{number}"), Write, number, held(7));
        assert_eq!(s.page(A, "{x}a", (number, number), &[number]), format!("A heard #{number}"));
        let said = s.keep_alive(A, number);
        if said != [format!("A alive {number}")] {
            assert_eq!(said[0], "A serving epoch 2");
            break;
        }
        assert_eq!(s.keep_alive(A, number)[0], "A serving epoch 2", "a page counts once");
    }
    let most = (TTL + crate::limits::margin(TTL)) * crate::RECOVERY_LEASES;
    assert!(s.now + TTL > begun + most && s.now < begun + most, "{:?}", s.now.since(begun));
    // The other one was not extended by that.
    assert_eq!(s.server.recovering().map(|it| it.waiting_for), Some(vec![A]));
    s.wait(TTL);
    assert!(!s.server.is_recovering() && s.now <= begun + most + third);
    assert_eq!(s.server.claims(), 0);
}

#[test]
fn the_order_of_waiters_survives_by_their_tickets() {
    let above = Epoch::new(E1).unwrap();
    let list = [A, B, C, D].map(|session| listed(session, true)).to_vec();
    let mut s = Scene::restarted(Limits::default(), above, list);
    s.reassert(C, "x", Write, 1, waiting(3));
    s.reassert(B, "x", Write, 1, waiting(2));
    s.acquire(D, "x", Write, 1);
    s.reassert(A, "x", Write, 1, held(7));
    for (session, seqs) in [(C, &[1][..]), (B, &[1]), (D, &[]), (A, &[1])] {
        s.reasserted(session, session, "x", seqs);
    }
    assert!(!s.server.is_recovering());
    let give = ", give back to write";
    assert_eq!(s.release(A, "x", 1), [format!("B granted r:x #1 write 2.1{give}")]);
    assert_eq!(s.release(B, "x", 1), [format!("C granted r:x #1 write 2.2{give}")]);
    assert_eq!(s.release(C, "x", 1), ["D granted r:x #1 write 2.3"]);
}

#[test]
fn re_assertions_may_be_doubled_and_overtaken_by_their_end() {
    let mut s = restarted();
    s.reasserted(A, A, "x", &[1, 2]);
    s.reasserted(B, B, "x", &[]);
    s.reassert(A, "x", Read, 1, held(7));
    s.reassert(A, "x", Read, 1, held(7));
    assert!(s.server.is_recovering(), "a double does not count");
    let waits = Claim::Waiting { ticket: None, upgrade: true, owners: Vec::new() };
    let said = s.reassert(A, "x", Write, 2, waits);
    assert!(said.contains(&"A granted r:x #2 write 2.1".to_owned()), "{said:?}");
    // Late doubles change nothing, whatever happened since.
    s.release(A, "x", 2);
    assert_eq!(s.reassert(A, "x", Read, 1, held(7)), [""; 0]);
    assert_eq!(s.server.records(), 0);
    let said = s.reasserted(A, A, "x", &[1, 2]);
    assert!(said.iter().all(|line| line == "A recovered epoch 2") && !said.is_empty());
}

#[test]
fn an_unknown_session_can_not_re_assert() {
    let mut s = restarted();
    let open = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };
    s.say(C, open);
    assert_eq!(s.reassert(C, "x", Write, 1, held(9)), ["C unlisted C"]);
    assert_eq!(s.reasserted(C, C, "x", &[1])[..1], ["C recovered epoch 2"], "for the empty shards");
    assert!(s.reasserted(C, C, "x", &[1]).contains(&"C unlisted C".to_owned()));
    assert_eq!(
        s.reassert_as(C, A, "x", Write, 1, held(9)),
        ["C unlisted A"],
        "A speaks for itself"
    );
}

#[test]
fn of_two_conflicting_re_assertions_the_higher_token_stands() {
    let mut s = restarted();
    s.reassert(A, "x", Write, 1, held(7));
    assert_eq!(s.reassert(B, "x", Write, 1, held(6)), ["B lost r:x #1"]);
    s.reassert(A, "y", Write, 2, held(7));
    assert_eq!(s.reassert(B, "y", Read, 2, held(7)), ["A lost r:y #2"], "it read after the write");
    assert_eq!(s.reassert(A, "z", Read, 3, held(7)), [""; 0]);
    assert_eq!(s.reassert(B, "z", Write, 3, held(8)), ["A lost r:z #3"]);
}

#[test]
fn that_a_grant_is_void_is_said_until_its_node_answers() {
    let mut s = restarted();
    let resend = Limits::default().resend;
    s.reassert(A, "x", Write, 1, held(7));
    s.reassert(A, "y", Write, 2, held(6));
    assert_eq!(s.reassert(B, "x", Write, 3, held(6)), ["B lost r:x #3"]);
    assert_eq!(s.reassert(B, "y", Write, 4, held(7)), ["A lost r:y #2"]);
    let again = |s: &mut Scene| {
        // One table says it before another.
        let mut said = s.wait(resend);
        said.sort();
        said
    };
    assert_eq!(again(&mut s), ["A lost r:y #2", "B lost r:x #3"]);
    s.release(B, "x", 2);
    assert_eq!(again(&mut s), ["A lost r:y #2", "B lost r:x #3"], "that was an earlier one");
    s.release(B, "x", 3);
    assert_eq!(s.wait(resend), [""; 0], "the time between two doubles");
    assert_eq!(s.wait(resend), ["A lost r:y #2"]);
    s.acquire(A, "y", Write, 5);
    assert_eq!(s.wait(resend * 4), [""; 0], "it would not ask if it still used it");
    s.reassert(A, "z", Write, 6, held(9));
    assert_eq!(s.reassert(B, "z", Write, 7, held(8)), ["B lost r:z #7"]);
    s.say(B, ToServer::Close);
    assert_eq!(s.wait(resend), [""; 0], "the session is over");
}

#[test]
fn a_new_owner_hears_the_old_owners_sessions_through_their_successors() {
    let above = Epoch::new(5).unwrap();
    let mut s = Scene::restarted(Limits::default(), above, vec![listed(A, false)]);
    let open = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };
    s.say(B, open.clone());
    s.say(C, open.clone());
    assert_eq!(s.say(A, open), ["A no session"], "it is a session of another server");
    s.reassert_as(B, A, "x", Write, 1, held(7));
    assert_eq!(s.reassert_as(C, A, "x", Write, 1, held(7)), ["C unlisted A"], "B came first");
    assert_eq!(s.acquire(C, "x", Write, 1), ["C queued r:x #1"]);
    let said = s.reasserted(B, A, "x", &[1]);
    for expected in ["B recovered epoch 6 for A", "B revoke r:x #1 to write"] {
        assert!(said.contains(&expected.to_owned()), "{expected}: {said:?}");
    }
    assert_eq!(s.release(B, "x", 1), ["C granted r:x #1 write 6.1"]);
}

#[test]
fn what_was_re_asserted_in_part_goes_when_the_lease_is_over() {
    let above = Epoch::new(5).unwrap();
    let mut s = Scene::restarted(Limits::default(), above, vec![listed(A, false)]);
    s.say(B, ToServer::Open { ttl: TTL * 3, handoff: Handoff::Direct });
    s.reassert_as(B, A, "x", Write, 1, held(7));
    s.wait(TTL + crate::limits::margin(TTL));
    assert_eq!((s.server.records(), s.server.is_recovering()), (0, false));
}

#[test]
fn a_term_begins_when_its_epoch_is_durable_and_not_before() {
    let mut s = Scene {
        server: LockServer::new(Limits::default(), 2, 1),
        now: Tick(5),
        epoch: Epoch::new(1).unwrap(),
        stores: Vec::new(),
        hold_stores: true,
    };
    let take = Input::Take { groups: GroupSet::ALL, above: Epoch::NONE, listed: Vec::new() };
    s.input(take.clone());
    s.say(A, ToServer::Open { ttl: TTL, handoff: Handoff::Direct });
    let (open, what) = s.stores.pop().unwrap();
    assert!(matches!(what, Store::Session { .. }));
    s.stored(open);
    let said = s.acquire(A, "x", Write, 1);
    assert!(said[0].contains("NotServed"), "{said:?}");
    assert_eq!(s.input(take), ["refused: some of these groups are served here already"]);
    assert_eq!(s.flush(), ["A serving epoch 1", "A serving epoch 1"]);
    assert_eq!(s.acquire(A, "x", Write, 2), ["A granted r:x #2 write 1.1"]);
}

#[test]
fn an_acquire_of_an_earlier_epoch_is_told_the_present_one() {
    let mut s = Scene::new(Handoff::Direct);
    s.epoch = Epoch::NONE;
    assert_eq!(s.acquire(A, "x", Write, 1), ["A serving epoch 1"]);
    assert_eq!(s.server.records(), 0);
}

#[test]
fn a_server_that_is_shown_a_later_epoch_stops_until_it_is_above() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.epoch = Epoch::new(9).unwrap();
    let said = s.acquire(B, "x", Write, 1);
    assert!(said[0].starts_with("behind ") && said[0].ends_with("epoch 9"), "{said:?}");
    assert!(s.acquire(B, "x", Write, 1)[0].contains("NotServed"));
    let groups = GroupSet::ALL
        .without(s.server.terms().iter().fold(GroupSet::EMPTY, |all, term| all.or(term.groups)));
    s.input(Input::Take { groups, above: s.epoch, listed: vec![listed(A, true)] });
    s.epoch = Epoch::new(10).unwrap();
    s.reassert(A, "x", Write, 1, held(1));
    s.say(A, ToServer::Reasserted { groups, epoch: s.epoch, former: A, count: 1, sum: 1 });
    assert_eq!(s.acquire(B, "x", Write, 2)[0], "A revoke r:x #1 to write");
}

#[test]
fn groups_that_are_left_are_forgotten() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.acquire(A, "y", Read, 2);
    let groups = GroupSet::from_iter([record("x").group()]);
    s.input(Input::Leave { groups });
    assert_eq!(s.server.records(), 1);
    assert!(s.acquire(B, "x", Write, 1)[0].contains("NotServed"));
}

#[test]
fn a_session_that_opens_while_a_term_that_lists_it_begins_is_one_session() {
    let mut s = Scene::restarted(Limits::default(), Epoch::NONE, Vec::new());
    s.input(Input::Leave { groups: GroupSet::ALL });
    s.hold_stores = true;
    let take = Input::Take { groups: GroupSet::ALL, above: s.epoch, listed: vec![listed(A, true)] };
    s.input(take);
    let open = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };
    // Nobody can tell yet what it has; it must not be told that it is unknown.
    assert!(s.say(A, open.clone())[0].starts_with("refused: this server can't be sure"));
    assert!(s.keep_alive(A, 1)[0].starts_with("refused: this server can't be sure"));
    s.epoch = Epoch::new(2).unwrap();
    s.flush();
    assert_eq!(s.say(A, open), ["A opened"]);
    s.reasserted(A, A, "x", &[]);
    assert_eq!(s.keep_alive(A, 1), ["A alive 1"]);
    s.hold_stores = false;
    assert_eq!(s.wait(TTL * 2), ["A ended"]);
    assert_eq!(s.server.next_deadline(), None);
}

#[test]
fn a_session_that_contradicts_itself_has_one_claim_at_a_record() {
    let mut s = restarted();
    s.acquire(A, "x", Read, 2);
    s.reassert(A, "x", Read, 5, held(7));
    assert_eq!(s.server.claims(), 1);
    s.reassert(A, "x", Write, 4, waiting(1));
    assert_eq!(s.server.claims(), 1);
}

#[test]
fn a_release_that_overtakes_its_re_assertion_is_not_undone_by_it() {
    let mut s = restarted();
    s.release(A, "x", 1);
    s.reassert(A, "x", Write, 1, held(7));
    assert_eq!(s.server.records(), 0);
    s.reasserted(A, A, "x", &[1]);
    s.reasserted(B, B, "x", &[]);
    assert!(!s.server.is_recovering());
}

#[test]
fn a_session_at_its_limit_can_re_assert_all_that_it_has() {
    let limits = Limits { claims_per_session: 4, ..Limits::default() };
    let mut s = Scene::with(limits.clone(), Handoff::Direct);
    for (id, seq) in [("{t}x", 1), ("{t}y", 2), ("{t}z", 3)] {
        s.acquire(A, id, Read, seq);
    }
    s.acquire(B, "{t}x", Read, 1);
    let said = s.upgrade(A, "{t}x", 4);
    assert_eq!(said, ["B revoke r:{t}x #1 to write", "A queued r:{t}x #4"]);
    let more = s.acquire(A, "{t}w", Read, 5);
    assert_eq!(more, ["A refused r:{t}w #5: TooManyClaims { max: 4 }"]);
    let more = s.upgrade(A, "{t}y", 6);
    assert_eq!(more, ["A refused r:{t}y #6: TooManyClaims { max: 4 }"]);

    // Whatever comes first: the read, its upgrade, or the others.
    let upgrade = Claim::Waiting {
        ticket: Ticket::new(Epoch::new(E1).unwrap(), 9),
        upgrade: true,
        owners: Vec::new(),
    };
    let all = [
        ("{t}x", Read, 1, held(0)),
        ("{t}y", Read, 2, held(0)),
        ("{t}z", Read, 3, held(0)),
        ("{t}x", Write, 4, upgrade),
    ];
    for first in 0..all.len() {
        let listed = vec![listed(A, true)];
        let mut s = Scene::restarted(limits.clone(), Epoch::new(E1).unwrap(), listed);
        for (id, mode, seq, claim) in all.iter().cycle().skip(first).take(all.len()) {
            let said = s.reassert(A, id, *mode, *seq, claim.clone());
            assert!(!said.iter().any(|line| line.contains("refused")), "{said:?}");
        }
        let said = s.reasserted(A, A, "{t}x", &[1, 2, 3, 4]);
        let recovered = said.iter().filter(|line| *line == "A recovered epoch 2").count();
        assert_eq!(recovered, s.server.terms().len(), "{said:?}");
        // Nobody else reads it any more, so the upgrade is granted: three claims are left.
        assert!(said.contains(&"A granted r:{t}x #4 write 2.1".to_owned()), "{said:?}");
        assert_eq!(s.server.claims(), 3);
    }
}

/// R2 with more sessions than end in one step: of none the wait ends before its entry is deleted.
#[test]
fn a_grace_lasts_until_the_entries_of_all_sessions_that_did_not_come_back_are_deleted() {
    let ids = 1000..1300;
    let listed = ids.clone().map(|id| listed(SessionId(id), true)).collect();
    let mut s = Scene::restarted(Limits::default(), Epoch::new(E1).unwrap(), listed);
    s.hold_stores = true;
    s.wait(TTL + crate::limits::margin(TTL));
    let (mut forgets, last) = (std::mem::take(&mut s.stores), ids.end - 1);
    assert!(forgets.iter().all(|(_, what)| matches!(what, Store::Forget { .. })), "{forgets:?}");
    assert_eq!(forgets.len(), 300);
    let at = |(_, what): &(_, Store)| *what == Store::Forget { session: SessionId(last) };
    let (last, _) = forgets.remove(forgets.iter().position(at).unwrap());
    for (store, _) in forgets {
        s.stored(store);
        assert!(s.server.is_recovering());
    }
    s.stored(last);
    assert!(!s.server.is_recovering());
}

/// A's lease ends while the epoch of a term that lists it is being stored.
fn ends_before_the_term() -> Scene {
    let mut s = Scene::new(Handoff::Direct);
    let groups = GroupSet::from_iter([record("x").group()]);
    s.input(Input::Leave { groups });
    s.hold_stores = true;
    s.input(Input::Take { groups, above: s.epoch, listed: vec![listed(A, true)] });
    s.wait(TTL);
    let forgets = s.stores.iter().filter(|(_, what)| matches!(what, Store::Forget { .. }));
    assert_eq!(forgets.count(), 4);
    s
}

#[test]
fn a_term_waits_for_a_listed_session_whose_entry_is_being_deleted() {
    let mut s = ends_before_the_term();
    let (epoch, _) = s.stores.remove(0);
    s.stored(epoch);
    assert!(s.server.is_recovering());
    s.flush();
    assert!(!s.server.is_recovering());
}

#[test]
fn a_session_whose_entry_was_deleted_before_the_term_began_does_not_come_back() {
    let mut s = ends_before_the_term();
    let (epoch, _) = s.stores.remove(0);
    s.flush();
    s.stored(epoch);
    assert!(!s.server.is_recovering());
    assert_eq!(s.server.sessions(), 0);
}
