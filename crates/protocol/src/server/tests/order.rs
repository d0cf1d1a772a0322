//! Who is next: phase-fair order, upgrades, downgrades, and the tokens that go with them.

use super::*;
use crate::mode::Mode::{Read, Write};

const GIVE: &str = ", give back to write";

#[test]
fn readers_share_and_a_waiting_writer_stops_new_ones() {
    let mut s = Scene::new(Handoff::Direct);
    assert_eq!(s.acquire(A, "x", Read, 1), ["A granted r:x #1 read 1.0"]);
    assert_eq!(s.acquire(B, "x", Read, 1), ["B granted r:x #1 read 1.0"]);
    let said = s.acquire(C, "x", Write, 1);
    let revokes = ["A revoke r:x #1 to write", "B revoke r:x #1 to write", "C queued r:x #1"];
    assert_eq!(said, revokes);
    assert_eq!(s.acquire(D, "x", Read, 1), ["D queued r:x #1"]);
    assert_eq!(s.release(A, "x", 1), [""; 0]);
    assert_eq!(s.release(B, "x", 1), ["C granted r:x #1 write 1.1, give back to read"]);
    assert_eq!(s.release(C, "x", 1), ["D granted r:x #1 read 1.1"]);
}

#[test]
fn after_a_writer_all_waiting_readers_go_together_and_then_the_next_writer() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.acquire(C, "x", Read, 1);
    s.acquire(D, "x", Read, 1);
    let both =
        [format!("C granted r:x #1 read 1.1{GIVE}"), format!("D granted r:x #1 read 1.1{GIVE}")];
    assert_eq!(s.release(A, "x", 1), both);
    // A reader that comes now belongs to the next phase.
    assert_eq!(s.acquire(A, "x", Read, 2), ["A queued r:x #2"]);
    assert_eq!(s.release(C, "x", 1), [""; 0]);
    assert_eq!(s.release(D, "x", 1), ["B granted r:x #1 write 1.2, give back to read"]);
}

#[test]
fn a_writer_that_is_asked_for_read_downgrades_and_both_read() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Read, 1);
    assert_eq!(s.downgrade(A, "x", 1, 2), ["B granted r:x #1 read 1.1"]);
    assert_eq!(s.state("x"), table::RecordState::Shared);
    // The revoke of a writer names the new number.
    let said = s.acquire(C, "x", Write, 1);
    assert_eq!(said[0], "A revoke r:x #2 to write");
}

#[test]
fn a_stronger_wish_is_told_as_well() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    assert_eq!(s.acquire(B, "x", Read, 1)[0], "A revoke r:x #1 to read");
    assert_eq!(s.acquire(C, "x", Write, 1)[0], "A revoke r:x #1 to write");
    assert_eq!(s.acquire(D, "x", Write, 1), ["D queued r:x #1"], "nothing new to tell");
    // A downgrade that crossed the second revoke: the readers' phase begins, and the writers wait.
    let said = s.downgrade(A, "x", 1, 2);
    assert_eq!(
        said,
        [format!("B granted r:x #1 read 1.1{GIVE}"), "A revoke r:x #2 to write".into()]
    );
}

#[test]
fn a_wish_that_has_gone_is_taken_back() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    assert_eq!(s.acquire(B, "x", Write, 1)[0], "A revoke r:x #1 to write");
    assert_eq!(s.acquire(C, "x", Read, 1), ["C queued r:x #1"]);
    assert_eq!(s.cancel(B, "x", 1), ["A revoke r:x #1 to read"], "the reader is left");
    assert_eq!(s.cancel(C, "x", 1), ["A keep r:x #1"]);
    assert_eq!(s.acquire(C, "x", Read, 2)[0], "A revoke r:x #1 to read");
    assert_eq!(s.downgrade(A, "x", 1, 2), ["C granted r:x #2 read 1.1"]);
    assert_eq!(s.release(C, "x", 2), [""; 0]);
}

#[test]
fn readers_keep_what_a_writer_wanted_that_has_gone() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.acquire(C, "x", Write, 1);
    s.acquire(D, "x", Read, 1);
    let said = ["D granted r:x #1 read 1.0", "A keep r:x #1", "B keep r:x #1"];
    assert_eq!(s.cancel(C, "x", 1), said);
}

#[test]
fn a_grant_that_says_give_back_may_be_kept_when_the_next_has_gone() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    s.acquire(C, "x", Write, 1);
    assert_eq!(s.release(A, "x", 1), [format!("B granted r:x #1 write 1.2{GIVE}")]);
    assert_eq!(s.cancel(C, "x", 1), ["B keep r:x #1"]);
}

#[test]
fn a_withdrawn_upgrade_leaves_what_others_read() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.acquire(C, "x", Write, 1);
    s.upgrade(A, "x", 2);
    // Nothing new for B, and A goes first; then its read is in the way again.
    assert_eq!(s.cancel(C, "x", 1), [""; 0]);
    assert_eq!(s.downgrade(A, "x", 2, 3), ["B keep r:x #1", "A keep r:x #3"]);
}

#[test]
fn an_upgrade_goes_to_the_head_of_the_line() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.acquire(C, "x", Write, 1);
    assert_eq!(s.upgrade(A, "x", 2), ["A queued r:x #2"]);
    assert_eq!(s.release(B, "x", 1), [format!("A granted r:x #2 write 1.1{GIVE}")]);
    assert_eq!(s.release(A, "x", 2), ["C granted r:x #1 write 1.2"]);
}

#[test]
fn an_upgrade_of_the_only_reader_is_granted_at_once() {
    for handoff in [Handoff::Direct, Handoff::Retry] {
        let mut s = Scene::new(handoff);
        s.acquire(A, "x", Read, 1);
        assert_eq!(s.upgrade(A, "x", 2), ["A granted r:x #2 write 1.1"]);
        assert_eq!(s.server.claims(), 1);
    }
}

#[test]
fn an_upgrade_with_retries_keeps_its_read_until_it_acquires_again() {
    let mut s = Scene::new(Handoff::Retry);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    assert_eq!(s.upgrade(A, "x", 2), ["B revoke r:x #1 to write", "A queued r:x #2"]);
    assert_eq!(s.release(B, "x", 1), ["A retry r:x #2"]);
    assert_eq!(s.acquire(C, "x", Write, 1), ["A retry r:x #2", "C queued r:x #1"]);
    assert_eq!(s.upgrade(A, "x", 2), [format!("A granted r:x #2 write 1.1{GIVE}")]);
}

/// A and B read, A waits to write, and B wants to as well: A is asked whether it still does.
fn two_upgraders(handoff: Handoff) -> Scene {
    let mut s = Scene::new(handoff);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.upgrade(A, "x", 2);
    assert_eq!(s.upgrade(B, "x", 2), ["A retry r:x #2"]);
    assert_eq!(s.server.claims(), 3);
    s
}

#[test]
fn a_second_upgrader_is_refused_as_soon_as_the_first_says_that_it_waits_and_keeps_its_read() {
    for handoff in [Handoff::Direct, Handoff::Retry] {
        let mut s = two_upgraders(handoff);
        // Said again, it is asked once; and a third one hears at once.
        assert_eq!(s.upgrade(B, "x", 2), [""; 0]);
        s.acquire(C, "y", Read, 1);
        assert_eq!(s.upgrade(C, "x", 2), ["C refused r:x #2: NotHeld"]);
        let told = s.upgrade(A, "x", 2);
        assert_eq!(told[0], "B refused r:x #2: UpgradeConflict");
        assert!(told.contains(&"A queued r:x #2".to_owned()), "{told:?}");
        assert_eq!(s.server.claims(), 4);
    }
}

#[test]
fn service_f58_a_second_upgrader_goes_on_if_the_first_has_just_given_up() {
    let mut s = two_upgraders(Handoff::Direct);
    // The cancel was under way on another connection.
    let cancel = ToServer::Cancel { record: record("x"), seq: Seq(2), keep: Some(Seq(3)) };
    assert_eq!(s.say(A, cancel), ["B retry r:x #2", "B keep r:x #1"]);
    assert_eq!(s.upgrade(B, "x", 2), ["A revoke r:x #3 to write", "B queued r:x #2"]);
    assert_eq!(s.release(A, "x", 3), ["B granted r:x #2 write 1.1"]);
}

#[test]
fn a_second_upgrader_is_refused_if_the_first_does_not_say() {
    let mut s = two_upgraders(Handoff::Direct);
    let resend = Limits::default().resend;
    let told = s.wait(resend);
    assert!(told.contains(&"B refused r:x #2: UpgradeConflict".to_owned()), "{told:?}");
    assert_eq!(s.release(B, "x", 1), ["A granted r:x #2 write 1.1"]);
}

#[test]
fn a_second_upgrader_that_gives_up_hears_no_more_of_it() {
    let mut s = two_upgraders(Handoff::Direct);
    let cancel = ToServer::Cancel { record: record("x"), seq: Seq(2), keep: Some(Seq(3)) };
    s.say(B, cancel);
    let told = s.upgrade(A, "x", 2);
    assert!(!told.iter().any(|line| line.starts_with("B refused")), "{told:?}");
    assert_eq!(s.release(B, "x", 3), ["A granted r:x #2 write 1.1"]);
}

#[test]
fn a_session_that_ends_frees_the_second_upgrader() {
    let mut s = two_upgraders(Handoff::Direct);
    let told = s.say(A, ToServer::Close);
    assert_eq!(told[0], "B retry r:x #2", "{told:?}");
    assert_eq!(s.upgrade(B, "x", 2), ["B granted r:x #2 write 1.1"]);
}

#[test]
fn an_upgrade_of_what_is_not_held_is_refused() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    assert_eq!(s.upgrade(B, "x", 1), ["B refused r:x #1: NotHeld"]);
}

#[test]
fn a_withdrawn_upgrade_goes_on_reading_under_a_new_number() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.upgrade(A, "x", 2);
    let cancel = || ToServer::Cancel { record: record("x"), seq: Seq(2), keep: Some(Seq(3)) };
    assert_eq!(s.say(A, cancel()), ["B keep r:x #1"]);
    assert_eq!(s.acquire(C, "x", Read, 1), ["C granted r:x #1 read 1.0"]);
    // The same when the grant has crossed the cancel.
    s.release(B, "x", 1);
    s.release(C, "x", 1);
    assert_eq!(s.upgrade(A, "x", 4), ["A granted r:x #4 write 1.1"]);
    let cancel = ToServer::Cancel { record: record("x"), seq: Seq(4), keep: Some(Seq(5)) };
    assert_eq!(s.say(A, cancel), [""; 0]);
    assert_eq!(s.acquire(B, "x", Read, 2), ["B granted r:x #2 read 1.1"]);
}

/// A late message about the read can have its node release it while the upgrade is under way.
#[test]
fn an_upgrader_whose_read_is_released_is_refused_and_blocks_nobody() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.upgrade(A, "x", 2);
    s.acquire(C, "x", Write, 1);
    assert_eq!(s.release(A, "x", 1), ["A refused r:x #2: NotHeld"]);
    assert_eq!(s.release(B, "x", 1), ["C granted r:x #1 write 1.1"]);
}

#[test]
fn a_cached_read_is_traded_for_a_write_at_the_end_of_the_line() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    s.acquire(C, "x", Write, 1);
    assert_eq!(s.acquire(A, "x", Write, 2), ["A queued r:x #2"]);
    assert_eq!(s.release(B, "x", 1), [format!("C granted r:x #1 write 1.1{GIVE}")]);
    assert_eq!(s.release(C, "x", 1), ["A granted r:x #2 write 1.2"]);
}

#[test]
fn limits_are_refusals_and_change_nothing() {
    let limits = Limits {
        records: 2,
        claims_per_session: 2,
        waiters_per_record: 1,
        owners: 1,
        sessions: 4,
        ..Limits::default()
    };
    let mut s = Scene::with(limits, Handoff::Direct);
    s.acquire(A, "{t}x", Write, 1);
    s.acquire(A, "{t}y", Write, 2);
    assert_eq!(s.acquire(B, "{t}z", Read, 1), ["B refused r:{t}z #1: TooManyRecords { max: 2 }"]);
    assert_eq!(s.acquire(B, "{t}x", Read, 1), ["A revoke r:{t}x #1 to read", "B queued r:{t}x #1"]);
    assert_eq!(s.acquire(C, "{t}x", Read, 1), ["C refused r:{t}x #1: TooManyWaiters { max: 1 }"]);
    s.release(A, "{t}y", 2);
    assert_eq!(s.acquire(B, "{t}y", Read, 2), ["B granted r:{t}y #2 read 1.2"]);
    s.release(B, "{t}y", 2);
    s.acquire(A, "{t}y", Read, 3);
    s.cancel(B, "{t}x", 1);
    let said = s.ask(B, "{t}y", Read, 3, false, &[1, 2]);
    assert_eq!(said, ["B refused r:{t}y #3: TooManyOwners { max: 1 }"]);
    let open = ToServer::Open { ttl: TTL, handoff: Handoff::Direct };
    let refusal = "refused: too many sessions: the maximum is 4 (max-sessions); try again when one \
                   ends";
    assert_eq!(s.say(SessionId(99), open), [refusal]);
    let open = ToServer::Open { ttl: Duration::from_millis(1), handoff: Handoff::Direct };
    assert!(s.say(SessionId(98), open)[0].starts_with("refused: the lease"));
}

#[test]
fn a_read_that_goes_on_after_a_crossed_upgrade_is_told_that_nobody_wants_it() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Read, 1);
    s.acquire(B, "x", Read, 1);
    assert_eq!(s.acquire(C, "x", Write, 1)[0], "A revoke r:x #1 to write");
    s.upgrade(A, "x", 2);
    assert_eq!(s.cancel(C, "x", 1), [""; 0]);
    let mut said = s.release(B, "x", 1);
    let cancel = ToServer::Cancel { record: record("x"), seq: Seq(2), keep: Some(Seq(3)) };
    said.extend(s.say(A, cancel));
    assert!(said.iter().any(|it| it.starts_with("A keep")), "{said:?}");
}

#[test]
fn whoever_says_what_it_holds_hears_what_is_wanted_of_it() {
    let mut s = Scene::new(Handoff::Direct);
    s.acquire(A, "x", Write, 1);
    assert_eq!(s.downgrade(A, "x", 0, 1), ["A keep r:x #1"]);
    s.acquire(B, "x", Write, 1);
    assert_eq!(s.downgrade(A, "x", 0, 1), ["A revoke r:x #1 to write"]);
    assert_eq!(s.state("x"), table::RecordState::AloneWanted);
}
