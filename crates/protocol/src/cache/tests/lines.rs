//! Threads of one node, and the others: what is asked, opened, drained and given back.

use super::*;
use crate::refusal::NotServed;

#[test]
fn the_second_thread_on_the_node_makes_no_call() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, want("x", Write), "open x write 1.7 on 1"),
        (40, want("x", Read), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn a_revoke_while_held_waits_for_the_holders() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke("x", 1, Write), "drain x by 32"),
        (600, Input::Tick, ""),
        (2000, drained("x"), "1/100 release x #1"),
    ]);
}

#[test]
fn a_revoke_with_local_waiters_bounds_the_stay_and_asks_again_behind_the_others() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke("x", 1, Write), "drain x by 32"),
        (31, want("x", Write), ""),
        (
            40,
            drained("x"),
            "1/100 release x #1
             1/100 acquire x write #2 in 1",
        ),
        (50, granted("x", 2, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn the_last_wish_counts_within_the_first_stay() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke_at(5, "x", 1, Read), "drain x to read by 32"),
        (31, revoke_at(6, "x", 1, Write), "drain x by 32"),
        (33, revoke_at(7, "x", 1, Read), "drain x to read by 32"),
        (34, revoke_at(6, "x", 1, Write), ""),
        (40, drained("x"), "1/100 release x #1 keep #2"),
        (50, revoke_at(8, "x", 2, Write), "drain x by 52"),
        (51, keep_at(7, "x", 2), ""),
        (52, drained("x"), "1/100 release x #2"),
    ]);
}

#[test]
fn what_nobody_wants_any_more_is_kept() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke_at(5, "x", 1, Write), "drain x by 32"),
        (31, keep_at(6, "x", 1), "open x write 1.7 on 1"),
        (32, revoke_at(5, "x", 1, Write), ""),
        (33, drained("x"), "[NotDraining]"),
        // Another wish begins another stay.
        (40, revoke_at(7, "x", 1, Write), "drain x by 42"),
        (41, drained("x"), "1/100 release x #1"),
        (42, keep_at(8, "x", 1), ""),
    ]);
}

#[test]
fn what_nobody_wants_any_more_before_its_grant_is_kept() {
    check(&[
        (10, want("x", Read), "1/100 acquire x read #1 in 1"),
        (11, keep_at(6, "x", 1), "1/100 acquire x read #1 in 1"),
        (12, revoke_at(5, "x", 1, Write), "1/100 acquire x read #1 in 1"),
        (20, granted("x", 1, Read), "open x read 1.7 on 1"),
        (30, want("x", Read), "open x read 1.7 on 1"),
    ]);
}

#[test]
fn readers_stay_beside_a_reader() {
    check(&[
        (10, want("x", Read), "1/100 acquire x read #1 in 1"),
        (20, granted("x", 1, Read), "open x read 1.7 on 1"),
        (30, revoke("x", 1, Read), ""),
        (40, want("x", Read), "open x read 1.7 on 1"),
    ]);
}

#[test]
fn a_revoke_that_comes_again_hears_again_who_holds_the_record() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (25, busy("x", &[1], &[]), "[NotDraining]"),
        (30, revoke("x", 1, Write), "drain x by 32"),
        (31, busy("x", &[1, 2, 3], &[]), "1/100 report x #1 no 1 o1 o2"),
        (40, busy("x", &[1], &[(1, 5)]), "1/100 report x #1 no 2 o1 1>5"),
        (530, revoke("x", 1, Write), "1/100 report x #1 no 2 o1 1>5"),
        (540, drained("x"), "1/100 release x #1"),
        (550, drained("x"), "[NotDraining]"),
    ]);
}

/// The server forgets who holds the record as soon as nobody wants it, and says so by a `Keep`,
/// which the next revoke may overtake: then that is the only sign.
#[test]
fn a_revoke_that_overtakes_a_keep_hears_again_who_holds_the_record() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke_at(5, "x", 1, Write), "drain x by 32"),
        (31, busy("x", &[1], &[]), "1/100 report x #1 no 1 o1"),
        (40, revoke_at(7, "x", 1, Read), "drain x to read by 32\n1/100 report x #1 no 1 o1"),
        (41, keep_at(6, "x", 1), ""),
        (50, revoke_at(8, "x", 1, Write), "drain x by 32\n1/100 report x #1 no 1 o1"),
    ]);
}

#[test]
fn a_retry_before_the_answer_is_followed_at_once() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, retry("x", 1), "1/100 acquire x write #1 in 1"),
        (30, queued("x", 1), ""),
        (40, granted("x", 1, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn a_revoke_before_the_answer_lets_the_threads_use_the_record_once_and_then_gives_it_back() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, revoke("x", 1, Read), "1/100 acquire x write #1 in 1"),
        (21, revoke("x", 1, Write), "1/100 acquire x write #1 in 1"),
        (
            30,
            granted("x", 1, Write),
            "open x write 1.7 on 1
             drain x now",
        ),
        (40, drained("x"), "1/100 release x #1"),
    ]);
}

#[test]
fn a_grant_with_others_waiting_is_opened_and_drained_at_once() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (
            20,
            lent("x", 1, Write, Write),
            "open x write 1.7 on 1
             drain x now",
        ),
        (21, lent("x", 1, Write, Write), ""),
        (30, drained("x"), "1/100 release x #1"),
        (40, want("y", Read), "1/100 acquire y read #2 in 1"),
        (50, lent("y", 2, Read, Read), "open y read 1.7 on 1"),
        (60, lent("y", 2, Read, Write), "drain y by 62"),
    ]);
}

#[test]
fn the_number_grows_with_each_acquire_and_conversion_and_not_when_sent_again() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (510, Input::Tick, "1/100 acquire x write #1 in 1"),
        (600, queued("x", 1), ""),
        (1010, Input::Tick, ""),
        (2600, Input::Tick, "1/100 acquire x write #1 in 1"),
        (
            2610,
            Input::Connected { server: ServerId(1) },
            "1/100 alive 1
             1/100 acquire x write #1 in 1",
        ),
        (2620, granted("x", 1, Write), "open x write 1.7 on 1"),
        (2630, revoke("x", 1, Read), "drain x to read by 2632"),
        (2640, drained("x"), "1/100 release x #1 keep #2"),
        (2650, want("y", Read), "1/100 acquire y read #3 in 1"),
    ]);
}

#[test]
fn other_owners_are_told_at_once_with_the_same_number() {
    check(&[
        (10, want_for("x", Write, &[1]), "1/100 acquire x write #1 in 1 o1"),
        (20, want_for("x", Write, &[1]), ""),
        (30, want_for("x", Write, &[1, 2]), "1/100 acquire x write #1 in 1 o1 o2"),
        (40, want_for("x", Write, &[1, 2, 3]), "[TooManyOwners { max: 2 }]"),
    ]);
}

#[test]
fn a_withdrawn_wait_sends_cancel_and_the_crossing_grant_is_released() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, withdraw("x"), "1/100 cancel x #1"),
        (30, granted("x", 1, Write), "1/100 release x #1"),
        (40, withdraw("x"), ""),
    ]);
}

#[test]
fn who_wants_otherwise_than_the_one_before_asks_anew() {
    check(&[
        (10, want("x", Read), "1/100 acquire x read #1 in 1"),
        (
            20,
            want("x", Write),
            "1/100 cancel x #1
             1/100 acquire x write #2 in 1",
        ),
        (30, granted("x", 1, Read), "1/100 release x #1"),
        (40, granted("x", 2, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn what_is_idle_is_given_back_and_what_is_wanted_is_not() {
    check(&[
        (5, give_back("x"), ""),
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (15, give_back("x"), ""),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, give_back("x"), "drain x now"),
        (40, drained("x"), "1/100 release x #1"),
    ]);
}

#[test]
fn a_refusal_ends_what_was_wanted() {
    let why = AcquireRefusal::Deadlock { cycle: vec![Owner(1), Owner(2)] };
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, refused("x", 9, why.clone()), ""),
        (30, refused("x", 1, why), "refused x Deadlock { cycle: [Owner(1), Owner(2)] }"),
        (40, granted("x", 1, Write), "1/100 release x #1"),
    ]);
}

#[test]
fn a_number_that_is_over_is_replaced() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, refused("x", 1, AcquireRefusal::StaleSeq), "1/100 acquire x write #2 in 1"),
        (30, granted("x", 2, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn who_does_not_serve_the_group_is_asked_no_more_and_the_wait_goes_on_elsewhere() {
    let why = AcquireRefusal::NotServed(NotServed { group: record("x").group() });
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, refused("x", 1, why), &format!("locate {}", record("x").group().0)),
        (510, Input::Tick, ""),
        (520, Input::Tick, &format!("locate {}", record("x").group().0)),
        (530, route(2), "2/101 open"),
        (
            540,
            from(2, 101, ToNode::Opened { terms: vec![] }),
            "lease 2 8630
             2/101 acquire x write #1 in 1",
        ),
    ]);
}

#[test]
fn a_group_without_a_server_is_located_until_nobody_wants_it() {
    let (x, y) = (record("x").group().0, record("y").group().0);
    assert!(x < y);
    check_new(&[
        (0, want("x", Write), &format!("locate {x}")),
        (10, want("y", Write), &format!("locate {y}")),
        (20, want("y", Read), ""),
        (500, Input::Tick, &format!("locate {x},{y}")),
        (600, withdraw("y"), ""),
        (1000, Input::Tick, &format!("locate {x}")),
        (1100, withdraw("x"), ""),
        (1500, Input::Tick, ""),
        (9000, Input::Tick, ""),
    ]);
}

#[test]
fn a_cache_that_is_full_refuses_new_records_only() {
    check(&[
        (1, want("a", Read), "1/100 acquire a read #1 in 1"),
        (1, want("b", Read), "1/100 acquire b read #2 in 1"),
        (1, want("c", Read), "1/100 acquire c read #3 in 1"),
        (1, want("d", Read), "1/100 acquire d read #4 in 1"),
        (2, want("e", Read), "[TooManyRecords { max: 4 }]"),
        (3, want("d", Read), ""),
        (4, withdraw("a"), "1/100 cancel a #1"),
        (5, want("e", Read), "1/100 acquire e read #5 in 1"),
    ]);
}

#[test]
fn after_close_there_is_nothing() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (10, want("x", Write), "1/100 acquire x write #1 in 1"),
            (20, Input::Close, "1/100 close"),
            (30, granted("x", 1, Write), "[Closed]"),
            (40, want("x", Write), "[Closed]"),
            (50, Input::Close, "[Closed]"),
            (60, Input::Tick, ""),
        ],
    );
    assert!(cache.is_empty() && cache.next_deadline().is_none());
    assert_eq!(cache.sessions().count(), 0);
}

#[test]
fn what_is_open_is_usable_and_what_drains_is_not() {
    let mut cache = node(config());
    let x = record("x");
    let mut usable = |at, input, said: &str| {
        run(&mut cache, &[(at, input, said)]);
        [Read, Write].map(|mode| cache.is_usable(Tick(at * 1000), &x, mode))
    };
    assert_eq!(usable(1, want("x", Read), "1/100 acquire x read #1 in 1"), [false, false]);
    assert_eq!(usable(2, granted("x", 1, Read), "open x read 1.7 on 1"), [true, false]);
    assert_eq!(usable(3, revoke("x", 1, Write), "drain x by 5"), [false, false]);
    assert_eq!(cache.lease_until(ServerId(1)), Some(Tick(8_100_000)));
    assert_eq!(cache.len(), 1);
}

#[test]
fn refusals_say_what_to_do() {
    let words = |why: WantRefusal| why.to_string();
    assert!(words(WantRefusal::TooManyRecords { max: 4 }).contains("release some"));
    assert!(words(WantRefusal::UpgradeConflict).contains("release the read"));
}
