//! Restarts and changes of owner.

use super::*;

/// A node that holds x (write), waits in line for y, and has asked for z.
fn busy_node() -> LockCache {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (1, want("x", Write), "1/100 acquire x write #1 in 1"),
            (2, granted("x", 1, Write), "open x write 1.7 on 1"),
            (3, want_for("y", Read, &[5]), "1/100 acquire y read #2 in 1 o5"),
            (4, queued("y", 2), ""),
            (5, want("z", Write), "1/100 acquire z write #3 in 1"),
        ],
    );
    cache
}

fn check_busy(script: &[Step<'_>]) {
    run(&mut busy_node(), script);
}

/// A node that holds x (write) and waits in line for y.
fn check_two(script: &[Step<'_>]) {
    let mut cache = busy_node();
    run(&mut cache, &[(6, withdraw("z"), "1/100 cancel z #3")]);
    run(&mut cache, script);
}

const RESTART: &str = "1/100 reassert x write #1 in 2 for 100 held 1.7
     1/100 reassert y read #2 in 2 for 100 waits 1.3 o5
     1/100 page #1-#2 in 2 for 100: 2
     1/100 reasserted 0-255 in 2 for 100: 2";

/// What is asked when no answer has come.
const ASKED: &str = "1/100 page #1-#2 in 2 for 100: 2
     1/100 reasserted 0-255 in 2 for 100: 2";

const MOVE: &str = "2/101 reassert x write #1 in 2 for 100 held 1.7
     2/101 reassert y read #2 in 2 for 100 waits 1.3 o5
     2/101 page #1-#2 in 2 for 100: 2
     2/101 reasserted 0-255 in 2 for 100: 2";

const MOVE_ASKED: &str = "2/101 page #1-#2 in 2 for 100: 2
     2/101 reasserted 0-255 in 2 for 100: 2";

/// The server has the page that begins with `first`, or lacks some of it.
fn heard(first: u64, whole: bool) -> Input {
    let (former, first) = (SessionId(100), Seq(first));
    says(ToNode::Heard { term: term(2), former, first, whole })
}

fn recovered_for(former: u64, epoch: u32) -> ToNode {
    ToNode::Recovered { term: term(epoch), former: SessionId(former) }
}

fn unlisted(server: u32, session: u64, former: u64) -> Input {
    let former = SessionId(former);
    from(server, session, ToNode::Unlisted { term: term(2), former })
}

#[test]
fn after_a_restart_the_node_says_what_it_holds_and_waits_for_and_asks_the_rest_again() {
    check_busy(&[
        (10, serving(2), &format!("{RESTART}\n 1/100 acquire z write #3 in 2")),
        (20, recovered(2), ""),
        (30, recovered(2), ""),
        (40, says(grant("z", 3, Write, token(2, 1), None)), "open z write 2.1 on 1"),
        // The server of before speaks for nobody any more.
        (49, revoke("x", 1, Write), ""),
        (50, revoke_in(2, 1, "x", 1, Write), "drain x by 52"),
    ]);
}

#[test]
fn re_assertions_are_sent_once_and_asked_about_until_the_server_has_them() {
    check_two(&[
        (10, serving(2), RESTART),
        (20, serving(2), ""),
        (510, Input::Tick, ASKED),
        (600, Input::Connected { server: ServerId(1) }, &format!("1/100 alive 1\n{ASKED}")),
        (610, heard(1, true), ""),
        (620, heard(1, true), ""),
        (1110, Input::Tick, "1/100 alive 1\n 1/100 reasserted 0-255 in 2 for 100: 2"),
        (1200, recovered(2), ""),
        (1210, heard(1, true), ""),
        (2600, Input::Tick, "1/100 alive 1\n 1/100 acquire y read #2 in 2 o5"),
    ]);
}

#[test]
fn a_page_is_told_again_when_the_server_lacks_some_of_it() {
    check_two(&[
        (10, serving(2), RESTART),
        (
            20,
            heard(1, false),
            "1/100 reassert x write #1 in 2 for 100 held 1.7
             1/100 reassert y read #2 in 2 for 100 waits 1.3 o5
             1/100 page #1-#2 in 2 for 100: 2",
        ),
        (30, heard(2, true), ""),
        (35, heard(1, false), ""),
        (520, Input::Tick, ASKED),
        (
            530,
            heard(1, false),
            "1/100 reassert x write #1 in 2 for 100 held 1.7
             1/100 reassert y read #2 in 2 for 100 waits 1.3 o5
             1/100 page #1-#2 in 2 for 100: 2",
        ),
        (540, heard(1, true), ""),
        (550, heard(1, false), ""),
        (1040, Input::Tick, "1/100 reasserted 0-255 in 2 for 100: 2"),
        (1050, recovered(2), ""),
    ]);
}

/// A node with four grants: pages of one, of which two may be under way.
fn node_with_four() -> LockCache {
    let pages = PageLimits { claims: 1, ..config().pages };
    let mut cache = node(Config { pages, ..config() });
    for (seq, name) in (1..).zip(["w", "x", "y", "z"]) {
        step(&mut cache, seq, want(name, Write));
        step(&mut cache, seq, granted(name, seq, Write));
    }
    cache
}

const FIRST_TWO: &str = "1/100 reassert w write #1 in 2 for 100 held 1.7
     1/100 page #1-#1 in 2 for 100: 1
     1/100 reassert x write #2 in 2 for 100 held 1.7
     1/100 page #2-#2 in 2 for 100: 1";

#[test]
fn no_more_than_a_window_is_under_way_and_what_was_cut_off_is_resumed_where_it_was() {
    run(
        &mut node_with_four(),
        &[
            (10, serving(2), FIRST_TWO),
            (
                20,
                heard(2, true),
                "1/100 reassert y write #3 in 2 for 100 held 1.7
                 1/100 page #3-#3 in 2 for 100: 1",
            ),
            // The connection was broken: what the server has is asked, not told again.
            (
                30,
                Input::Connected { server: ServerId(1) },
                "1/100 alive 1
                 1/100 page #1-#1 in 2 for 100: 1
                 1/100 page #3-#3 in 2 for 100: 1",
            ),
            (
                40,
                heard(3, false),
                "1/100 reassert y write #3 in 2 for 100 held 1.7
                 1/100 page #3-#3 in 2 for 100: 1",
            ),
            (
                50,
                heard(1, true),
                "1/100 reassert z write #4 in 2 for 100 held 1.7
                 1/100 page #4-#4 in 2 for 100: 1
                 1/100 reasserted 0-255 in 2 for 100: 4",
            ),
            (60, heard(3, true), ""),
            (70, heard(4, true), ""),
            (80, recovered(2), ""),
            (90, revoke_in(2, 1, "z", 4, Write), "drain z by 92"),
        ],
    );
}

#[test]
fn keep_alives_are_answered_while_a_node_re_asserts() {
    run(
        &mut node_with_four(),
        &[
            (10, serving(2), FIRST_TWO),
            (
                3000,
                Input::Tick,
                "1/100 alive 1
                 1/100 page #1-#1 in 2 for 100: 1
                 1/100 page #2-#2 in 2 for 100: 1",
            ),
            (3010, alive(1), "lease 1 11100"),
            (8200, want("w", Write), "open w write 1.7 on 1"),
        ],
    );
}

#[test]
fn a_late_place_of_an_owner_that_was_replaced_is_not_taken_for_one_with_its_successor() {
    check(&[
        (1, want("y", Read), "1/100 acquire y read #1 in 1"),
        (
            10,
            serving(2),
            "1/100 reasserted 0-255 in 2 for 100: 0
             1/100 acquire y read #1 in 2",
        ),
        // With the ticket 1.3: epoch 2 does not know of it.
        (20, queued("y", 1), ""),
        (30, recovered(2), ""),
        (
            40,
            serving(3),
            "1/100 reasserted 0-255 in 3 for 100: 0
             1/100 acquire y read #1 in 3",
        ),
    ]);
}

#[test]
fn that_a_grant_is_void_is_answered_however_often_it_is_said() {
    check(&[
        (1, want("x", Write), "1/100 acquire x write #1 in 1"),
        (2, granted("x", 1, Write), "open x write 1.7 on 1"),
        (3, lost("x", 1), "lost x\n 1/100 release x #1"),
        (4, lost("x", 1), "1/100 release x #1"),
        (5, want("x", Write), "1/100 acquire x write #2 in 1"),
        (6, lost("x", 1), ""),
        (7, granted("x", 2, Write), "open x write 1.7 on 1"),
        (8, lost("x", 1), ""),
        (9, lost("x", 2), "lost x\n 1/100 release x #2"),
    ]);
}

#[test]
fn a_node_with_nothing_says_so_and_nobody_waits_for_it() {
    check(&[(10, serving(2), "1/100 reasserted 0-255 in 2 for 100: 0"), (20, recovered(2), "")]);
}

#[test]
fn what_was_granted_in_the_term_is_not_re_asserted_in_it() {
    check_two(&[
        (10, serving(2), RESTART),
        (20, recovered(2), ""),
        (30, want("z", Read), "1/100 acquire z read #4 in 2"),
        (40, says(grant("z", 4, Read, token(2, 0), None)), "open z read 2.0 on 1"),
        (50, serving(2), "1/100 reasserted 0-255 in 2 for 100: 0"),
        (60, recovered(2), ""),
        (70, serving(1), ""),
    ]);
}

#[test]
fn releases_wait_for_the_end_of_the_recovery() {
    check_two(&[
        (10, serving(2), RESTART),
        (20, revoke("x", 1, Read), "drain x to read by 22"),
        (30, drained("x"), ""),
        (35, withdraw("y"), ""),
        (40, revoke("x", 4, Write), "drain x by 42"),
        (45, drained("x"), ""),
        (510, Input::Tick, ASKED),
        (
            520,
            recovered(2),
            "1/100 release x #4
             1/100 cancel y #2",
        ),
    ]);
}

#[test]
fn a_new_wish_does_not_wait_for_the_recovery_and_an_upgrade_does() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (1, want("x", Read), "1/100 acquire x read #1 in 1"),
            (2, granted("x", 1, Read), "open x read 1.7 on 1"),
            (
                10,
                serving(2),
                "1/100 reassert x read #1 in 2 for 100 held 1.7
                 1/100 page #1-#1 in 2 for 100: 1
                 1/100 reasserted 0-255 in 2 for 100: 1",
            ),
            (20, upgrade("x"), ""),
            (30, want("y", Read), "1/100 acquire y read #2 in 2"),
            (40, recovered(2), "1/100 acquire x write #3 in 2 upgrade"),
        ],
    );
}

#[test]
fn an_upgrade_in_line_is_re_asserted_with_its_read() {
    check(&[
        (1, want("x", Read), "1/100 acquire x read #1 in 1"),
        (2, granted("x", 1, Read), "open x read 1.7 on 1"),
        (3, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (4, queued("x", 2), ""),
        (
            10,
            serving(2),
            "1/100 reassert x read #1 in 2 for 100 held 1.7
             1/100 reassert x write #2 in 2 for 100 waits 1.3 upgrade
             1/100 page #1-#2 in 2 for 100: 2
             1/100 reasserted 0-255 in 2 for 100: 2",
        ),
        (20, recovered(2), ""),
        (30, says(grant("x", 2, Write, token(2, 1), None)), "open x write 2.1 on 1"),
    ]);
}

#[test]
fn a_late_grant_of_an_owner_that_was_replaced_is_dropped() {
    check_two(&[
        (10, serving(2), RESTART),
        (20, granted("y", 2, Read), ""),
        (30, granted("z", 3, Write), ""),
        (40, recovered(2), ""),
        (50, says(grant("y", 2, Read, token(2, 0), None)), "open y read 2.0 on 1"),
    ]);
}

#[test]
fn a_session_that_does_not_recover_ends_with_its_lease() {
    check_two(&[
        (10, serving(2), RESTART),
        (
            8100,
            Input::Tick,
            "lost x
             1/101 open",
        ),
        (
            8200,
            opened(1, 101, 2),
            "lease 1 16200
             1/101 acquire y read #4 in 2 o5",
        ),
    ]);
}

#[test]
fn a_second_restart_is_told_what_is_true_then() {
    check_two(&[
        (10, serving(2), RESTART),
        (20, revoke("x", 1, Read), "drain x to read by 22"),
        (30, drained("x"), ""),
        (
            40,
            serving(3),
            "1/100 reassert y read #2 in 3 for 100 waits 1.3 o5
             1/100 reassert x read #4 in 3 for 100 held 1.7
             1/100 page #2-#4 in 3 for 100: 2
             1/100 reasserted 0-255 in 3 for 100: 2",
        ),
        (50, recovered(2), ""),
        (60, recovered(3), "1/100 release x #1 keep #4"),
    ]);
}

#[test]
fn a_new_owner_is_told_in_the_name_of_the_former_session_and_then_all_rests_on_its_lease() {
    check_two(&[
        (100, route(2), "2/101 open"),
        (200, opened(2, 101, 2), &format!("lease 2 8200\n{MOVE}")),
        (300, from(2, 101, recovered_for(100, 2)), "rests x on 2"),
        (3200, Input::Tick, "1/100 alive 1\n 2/101 alive 1\n 2/101 acquire y read #2 in 2 o5"),
        (3300, from(2, 101, ToNode::Alive { number: 1, groups: GroupSet::ALL }), "lease 2 11300"),
        (3500, from(1, 100, grant("y", 2, Read, token(1, 7), None)), ""),
        (8050, want("x", Read), "open x write 1.7 on 2"),
        (8100, give_back("x"), "drain x now"),
        (8200, drained("x"), "2/101 release x #1"),
    ]);
}

#[test]
fn a_new_owner_that_is_restarted_is_told_again_in_the_name_of_both_sessions() {
    let mut cache = busy_node();
    run(
        &mut cache,
        &[
            (6, withdraw("z"), "1/100 cancel z #3"),
            (7, withdraw("y"), "1/100 cancel y #2"),
            (100, route(2), "2/101 open"),
            (
                200,
                opened(2, 101, 2),
                "lease 2 8200
                 2/101 reassert x write #1 in 2 for 100 held 1.7
                 2/101 page #1-#1 in 2 for 100: 1
                 2/101 reasserted 0-255 in 2 for 100: 1",
            ),
            // The answer is lost. Until it comes, session 100 is what x rests on.
            (210, want("w", Write), "2/101 acquire w write #4 in 2"),
            (220, from(2, 101, grant("w", 4, Write, token(2, 1), None)), "open w write 2.1 on 2"),
            (
                300,
                from(2, 101, ToNode::Serving(term(3))),
                "2/101 reassert x write #1 in 3 for 100 held 1.7
                 2/101 page #1-#1 in 3 for 100: 1
                 2/101 reasserted 0-255 in 3 for 100: 1
                 2/101 reassert w write #4 in 3 for 101 held 2.1
                 2/101 page #4-#4 in 3 for 101: 1
                 2/101 reasserted 0-255 in 3 for 101: 1",
            ),
        ],
    );
}

#[test]
fn with_the_former_lease_ends_what_the_new_owner_has_not_heard() {
    check_two(&[
        (100, route(2), "2/101 open"),
        (8100, Input::Tick, &format!("lost x\n locate {}\n 2/101 open", record("y").group().0)),
        (
            8150,
            opened(2, 101, 2),
            "lease 2 8200
             2/101 reasserted 0-255 in 2 for 100: 0
             2/101 acquire y read #4 in 2 o5",
        ),
    ]);
}

#[test]
fn a_former_session_that_is_not_listed_has_lost_what_it_held() {
    check_two(&[
        (100, route(2), "2/101 open"),
        (200, opened(2, 101, 2), &format!("lease 2 8200\n{MOVE}")),
        (210, unlisted(2, 101, 99), ""),
        (
            220,
            unlisted(2, 101, 100),
            "lost x
             2/101 release x #1
             2/101 acquire y read #2 in 2 o5",
        ),
    ]);
}

#[test]
fn a_former_lease_that_is_extended_does_not_prolong_the_recovery() {
    let mut cache = busy_node();
    run(
        &mut cache,
        &[
            (6, withdraw("z"), "1/100 cancel z #3"),
            (100, route(2), "2/101 open"),
            (200, opened(2, 101, 2), &format!("lease 2 8200\n{MOVE}")),
            (3000, Input::Connected { server: ServerId(1) }, "1/100 alive 1"),
            // Its server has yet to hear that it was replaced.
            (3100, alive(1), "lease 1 11100\n lease end 1 8100\n rests x on end 1\n 1/100 open"),
            (
                3200,
                Input::Connected { server: ServerId(2) },
                &format!("2/101 alive 1\n{MOVE_ASKED}"),
            ),
            (
                3300,
                from(2, 101, ToNode::Alive { number: 1, groups: GroupSet::ALL }),
                "lease 2 11300",
            ),
            (
                8100,
                want("z", Read),
                "lost x
                 lease 1 11100
                 lease 2 11300
                 2/101 acquire y read #2 in 2 o5
                 2/101 release x #1
                 2/101 acquire z read #4 in 2",
            ),
        ],
    );
}

#[test]
fn what_another_server_owns_by_now_outlives_the_session_that_it_rests_on() {
    check_two(&[
        (100, route(2), "2/101 open"),
        (200, opened(2, 101, 2), &format!("lease 2 8200\n{MOVE}")),
        (
            300,
            from(1, 100, ToNode::NoSession),
            "lease end 1 8100
             rests x on end 1
             2/101 acquire y read #4 in 2 o5",
        ),
        (310, from(2, 101, recovered_for(100, 2)), "rests x on 2\n lease 2 8200"),
    ]);
}

#[test]
fn a_session_that_speaks_for_itself_does_so_as_long_as_its_lease_stands() {
    check_two(&[
        (3000, Input::Tick, "1/100 alive 1\n 1/100 acquire y read #2 in 1 o5"),
        (3010, serving(2), RESTART),
        (3020, alive(1), "lease 1 11100"),
        (8100, Input::Connected { server: ServerId(1) }, &format!("1/100 alive 2\n{ASKED}")),
        (8200, recovered(2), ""),
        (8210, want("x", Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn a_new_owner_that_has_a_session_already_is_asked_for_its_terms() {
    let none = ToNode::Opened { terms: vec![] };
    check_two(&[
        (100, route(2), "2/101 open"),
        (
            110,
            from(2, 101, none),
            "lease 2 8200
             2/101 acquire y read #2 in 1 o5",
        ),
        (200, route(2), "2/101 open"),
        // It may be listed itself, in groups that it had before.
        (210, opened(2, 101, 2), &format!("{MOVE}\n 2/101 reasserted 0-255 in 2 for 101: 0")),
        (220, opened(2, 101, 2), ""),
    ]);
}

#[test]
fn a_session_with_the_new_owner_that_is_lost_is_followed_by_another_that_tells_it_again() {
    check_two(&[
        (100, route(2), "2/101 open"),
        (200, opened(2, 101, 2), &format!("lease 2 8200\n{MOVE}")),
        (300, from(2, 101, ToNode::NoSession), "2/102 open"),
        (400, opened(2, 102, 2), &format!("lease 2 8400\n{}", MOVE.replace("2/101", "2/102"))),
    ]);
}

#[test]
fn a_node_with_nothing_lets_the_new_owner_know_for_its_session_with_the_old_one() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (100, route(2), ""),
            (110, want("x", Read), "2/101 open"),
            (
                200,
                opened(2, 101, 2),
                "lease 2 8210
                 2/101 reasserted 0-255 in 2 for 100: 0
                 2/101 acquire x read #1 in 2",
            ),
            (300, from(2, 101, recovered_for(100, 2)), ""),
        ],
    );
}

#[test]
fn an_owner_that_has_left_groups_is_told_about_the_others_only() {
    let left = record("x").group();
    let groups = GroupSet::ALL.without([left].into_iter().collect());
    let rest = Term { groups, ..term(2) };
    check_two(&[
        (10, serving(2), RESTART),
        (
            20,
            says(ToNode::Serving(rest)),
            &format!(
                "1/100 page #1-#2 in 2 for 100: 1
                 1/100 reasserted {groups} in 2 for 100: 1"
            ),
        ),
        (30, says(ToNode::Recovered { term: rest, former: SessionId(100) }), ""),
    ]);
}

/// Found by the coverage-guided fuzzer: it was neither re-asserted any more nor asked for.
#[test]
fn an_upgrade_in_a_group_that_the_owner_leaves_no_longer_waits_for_the_recovery() {
    let groups = GroupSet::ALL.without([record("x").group()].into_iter().collect());
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (1, want("x", Read), "1/100 acquire x read #1 in 1"),
            (2, granted("x", 1, Read), "open x read 1.7 on 1"),
            (
                10,
                serving(2),
                "1/100 reassert x read #1 in 2 for 100 held 1.7
                 1/100 page #1-#1 in 2 for 100: 1
                 1/100 reasserted 0-255 in 2 for 100: 1",
            ),
            (20, upgrade("x"), ""),
            (
                30,
                says(ToNode::Serving(Term { groups, ..term(2) })),
                &format!(
                    "1/100 page #1-#1 in 2 for 100: 0
                     1/100 reasserted {groups} in 2 for 100: 0
                     1/100 acquire x write #2 in 2 upgrade"
                ),
            ),
        ],
    );
}

#[test]
fn only_where_a_record_rests_or_is_re_asserted_can_it_be_lost() {
    let lost = |seq| ToNode::Lost { record: record("x"), seq: Seq(seq) };
    let two = ToNode::Revoke {
        record: record("x"),
        seq: Seq(7),
        wanted: Write,
        at: Ticket::new(Epoch::new(1).unwrap(), 1).unwrap(),
    };
    let moved = |more: &[Step<'_>]| {
        let mut cache = busy_node();
        let script = [
            (6, withdraw("z"), "1/100 cancel z #3"),
            (100, route(2), "2/101 open"),
            (200, opened(2, 101, 2), &format!("lease 2 8200\n{MOVE}")),
        ];
        run(&mut cache, &script);
        run(&mut cache, more);
    };
    moved(&[
        (300, from(2, 101, lost(1)), "lost x"),
        (310, from(2, 101, recovered_for(100, 2)), "2/101 release x #1"),
    ]);
    moved(&[
        (300, from(2, 101, recovered_for(100, 2)), "rests x on 2"),
        (310, from(1, 100, lost(1)), ""),
        (320, from(1, 100, two.clone()), ""),
        (330, from(2, 101, lost(1)), "lost x\n 2/101 release x #1"),
        (340, from(1, 100, two), ""),
    ]);
}
