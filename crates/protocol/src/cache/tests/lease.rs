//! Sessions, and how they end.

use super::*;

#[test]
fn the_first_wish_opens_the_session_and_is_asked_when_it_is_open() {
    check_new(&[
        (0, route(1), ""),
        (0, want("x", Write), "1/100 open"),
        (10, want("y", Read), ""),
        (
            20,
            opened(1, 100, 1),
            "lease 1 8100
             1/100 acquire x write #1 in 1
             1/100 acquire y read #2 in 1",
        ),
        (30, opened(1, 100, 1), ""),
    ]);
}

#[test]
fn a_lease_is_counted_from_the_first_open_less_the_margin() {
    check_new(&[
        (0, route(1), ""),
        (1000, want("x", Write), "1/100 open"),
        (1500, Input::Tick, &format!("locate {}\n 1/100 open", record("x").group().0)),
        (1600, Input::Connected { server: ServerId(1) }, "1/100 open"),
        (
            1700,
            opened(1, 100, 1),
            "lease 1 9100
             1/100 acquire x write #1 in 1",
        ),
        (1800, granted("x", 1, Write), "open x write 1.7 on 1"),
        (4000, Input::Tick, "1/100 alive 1"),
    ]);
}

#[test]
fn a_lease_is_counted_from_when_the_keep_alive_was_first_sent() {
    check(&[
        (2999, Input::Tick, ""),
        (3000, Input::Tick, "1/100 alive 1"),
        (3500, Input::Tick, "1/100 alive 1"),
        (3600, alive(1), "lease 1 11100"),
        (3700, alive(1), ""),
        (5999, Input::Tick, ""),
        (6000, Input::Tick, "1/100 alive 2"),
        (6500, Input::Connected { server: ServerId(1) }, "1/100 alive 2"),
        (9000, Input::Tick, "1/100 alive 3"),
        (9100, alive(2), "lease 1 14100"),
        (9200, alive(3), "lease 1 17100"),
        (9300, alive(9), ""),
    ]);
}

#[test]
fn past_its_lease_the_node_has_lost_everything_and_begins_anew_for_who_waits() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, want("y", Write), "1/100 acquire y write #2 in 1"),
        (40, queued("y", 2), ""),
        (
            8100,
            Input::Tick,
            "lost x
             1/101 open",
        ),
        (8200, from(1, 100, ToNode::Alive { number: 1, groups: GroupSet::ALL }), ""),
        (
            8300,
            opened(1, 101, 1),
            "lease 1 16200
             1/101 acquire y write #3 in 1",
        ),
    ]);
}

#[test]
fn a_paused_node_loses_everything_before_it_looks_at_the_message() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, want("y", Write), "1/100 acquire y write #2 in 1"),
        (
            9000,
            granted("y", 2, Write),
            "lost x
             1/101 open",
        ),
    ]);
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (3000, Input::Tick, "1/100 alive 1"),
        (9000, alive(1), "lost x"),
        (9010, drained("x"), "[NotDraining]"),
    ]);
}

#[test]
fn a_session_that_the_server_does_not_know_is_lost_at_once() {
    check(&[
        (10, want("x", Read), "1/100 acquire x read #1 in 1"),
        (20, granted("x", 1, Read), "open x read 1.7 on 1"),
        (25, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (
            30,
            says(ToNode::NoSession),
            "lost x
             refused x NotHeld",
        ),
        (40, want("x", Read), "1/101 open"),
        (50, from(1, 101, ToNode::NoSession), ""),
    ]);
}

#[test]
fn a_session_that_nobody_needs_is_not_begun_again() {
    let mut cache = node(config());
    run(&mut cache, &[(9000, Input::Tick, ""), (9900, Input::Tick, "")]);
    assert_eq!((cache.sessions().count(), cache.next_deadline()), (0, None));
}

#[test]
fn an_open_that_was_not_answered_for_a_lease_is_followed_by_another_session() {
    let mut cache = LockCache::new(config());
    run(&mut cache, &[(0, route(1), ""), (0, want("x", Write), "1/100 open")]);
    let again = format!("locate {}\n 1/100 open", record("x").group().0);
    for at in (500..8100).step_by(500) {
        run(&mut cache, &[(at, Input::Tick, &again)]);
    }
    run(&mut cache, &[(8100, opened(1, 100, 1), "1/101 open"), (8200, opened(1, 100, 1), "")]);
}

/// The open is carried out, its answer is lost, and the session ends on the server: by its lease,
/// or because another connection closes it.
#[test]
fn service_f59_a_session_that_ended_before_its_node_heard_of_it_is_followed_by_another() {
    let mut cache = LockCache::new(config());
    run(&mut cache, &[(0, route(1), ""), (0, want("x", Write), "1/100 open")]);
    let again = |session| format!("locate {}\n 1/{session} open", record("x").group().0);
    run(
        &mut cache,
        &[
            (500, Input::Tick, &again(100)),
            // The server has ended session 100: the next open, when it is due, is for another one.
            (600, from(1, 100, ToNode::NoSession), ""),
            (600, from(1, 100, ToNode::NoSession), ""),
            (700, opened(1, 100, 1), ""),
            (1000, Input::Tick, &again(101)),
            (1100, opened(1, 101, 1), "lease 1 8700\n 1/101 acquire x write #1 in 1"),
        ],
    );
}

/// A refused open is not answered in the protocol: to the node it is as if it were lost.
#[test]
fn an_open_that_is_refused_is_tried_again_and_again_and_who_waits_goes_on_waiting() {
    let mut cache = LockCache::new(config());
    run(&mut cache, &[(0, route(1), ""), (0, want("x", Write), "1/100 open")]);
    let (mut at, mut opens) = (0, vec![(0, "1/100 open".to_owned())]);
    while at < 20_000 {
        at = cache.next_deadline().expect("it does not give up").0 / 1000;
        let said = step(&mut cache, at, Input::Tick);
        let is_known = |line: &String| line.ends_with("open") || line.starts_with("locate");
        assert!(said.iter().all(is_known), "at {at}: {said:?}");
        opens.extend(said.into_iter().filter(|line| line.ends_with("open")).map(|it| (at, it)));
    }
    for pair in opens.windows(2) {
        let [(before, one), (after, other)] = pair else { unreachable!("there are two") };
        // A new session begins when the lease that the old one would have brought is over.
        assert!(after - before == 500 || (after - before < 500 && one != other), "{pair:?}");
    }
    let sessions = ["1/100 open", "1/101 open", "1/102 open"];
    assert!(sessions.iter().all(|it| opens.iter().any(|(_, open)| open == it)), "{opens:?}");
    // The server has room at last: the lease counts from the first sending, as ever.
    let first = opens.iter().find(|(_, open)| open == "1/102 open").unwrap().0;
    let lets_in = format!("lease 1 {}\n 1/102 acquire x write #1 in 1", first + 8100);
    run(&mut cache, &[(at, opened(1, 102, 1), &lets_in)]);
}

#[test]
fn a_draining_record_is_lost_with_its_lease_and_what_waits_is_asked_for() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke("x", 1, Write), "drain x by 32"),
        (40, want("x", Read), ""),
        (
            50,
            says(ToNode::NoSession),
            "lost x
             1/101 open",
        ),
        (60, drained("x"), "[NotDraining]"),
        (
            70,
            opened(1, 101, 1),
            "lease 1 8150
             1/101 acquire x read #2 in 1",
        ),
    ]);
}

#[test]
fn of_a_server_that_is_silent_for_a_third_of_a_lease_it_is_asked_who_serves_instead() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (3000, Input::Tick, "1/100 alive 1"),
        (5900, Input::Tick, "1/100 alive 1"),
        (6000, Input::Tick, &format!("locate {}\n 1/100 alive 2", record("x").group().0)),
        (6500, Input::Tick, "1/100 alive 2"),
    ]);
}
