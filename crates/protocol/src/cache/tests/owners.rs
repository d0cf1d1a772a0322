//! A node and the owners that follow each other: caps, rule Z, and for whom it speaks. For each
//! rule the story of it in messages, and each bug that can be put back in the node.

use super::*;

/// The group of a record.
fn group(name: &str) -> GroupSet {
    GroupSet::from_iter([record(name).group()])
}

fn without(name: &str) -> GroupSet {
    GroupSet::ALL.without(group(name))
}

/// A node that holds x and y for writing from server 1, in session 100.
fn holder(bugs: Bugs) -> LockCache {
    let mut cache = node(Config { bugs, ..config() });
    let mut told = |at, input| {
        step(&mut cache, at, input);
    };
    told(1, want("x", Write));
    told(2, granted("x", 1, Write));
    told(3, want("y", Write));
    told(4, granted("y", 2, Write));
    cache
}

/// The same, which has a session 101 with server 2 too. Server 2 serves the group of x in epoch 2.
fn moved(bugs: Bugs) -> LockCache {
    let mut cache = holder(bugs);
    let term = Term { groups: group("x"), ..term(2) };
    step(&mut cache, 10, Input::Route { groups: group("x"), server: ServerId(2) });
    let said = step(&mut cache, 20, from(2, 101, ToNode::Opened { terms: vec![term] }));
    assert_eq!(said[1], "2/101 reassert x write #1 in 2 for 100 held 1.7");
    cache
}

#[test]
fn what_an_extension_does_not_name_lives_out_the_lease_as_it_stood_and_is_released_then() {
    let mut cache = holder(Bugs::NONE);
    let locate = format!("locate {}", group("x"));
    run(
        &mut cache,
        &[
            (3000, Input::Tick, "1/100 alive 1"),
            (
                3100,
                alive_in(1, without("x")),
                &format!("lease 1 11100\n lease end 1 8100\n rests x on end 1\n {locate}"),
            ),
            (3200, want("x", Write), "open x write 1.7 on end 1"),
        ],
    );
    assert!(cache.is_usable(Tick(8_099_999), &record("x"), Write));
    assert!(!cache.is_usable(Tick(8_100_000), &record("x"), Write));
    assert!(cache.is_usable(Tick(8_100_000), &record("y"), Write));
    let said = step(&mut cache, 8100, Input::Tick);
    assert_eq!(said[..3], ["lost x", "1/100 release x #1", "lease 1 11100"], "{said:?}");
}

/// Whether x is usable after its lease as it stood, although no extension has named its group.
fn outlives_its_cap(bugs: Bugs) -> bool {
    let mut cache = holder(bugs);
    step(&mut cache, 3000, Input::Tick);
    step(&mut cache, 3100, alive_in(1, without("x")));
    step(&mut cache, 8200, Input::Tick);
    cache.is_usable(Tick(8_200_000), &record("x"), Write)
}

#[test]
fn nothing_outlives_its_cap() {
    assert!(!outlives_its_cap(Bugs::NONE));
}

#[test]
fn a_server_that_names_a_group_again_and_owns_it_extends_what_rests_there() {
    let mut cache = holder(Bugs::NONE);
    run(
        &mut cache,
        &[
            (3000, Input::Tick, "1/100 alive 1"),
            (
                3100,
                alive_in(1, without("x")),
                &format!(
                    "lease 1 11100\n lease end 1 8100\n rests x on end 1\n locate {}",
                    group("x")
                ),
            ),
            (6000, Input::Tick, "1/100 alive 2"),
            (6100, alive(2), "lease 1 14100\n rests x on 1\n lease 1 14100"),
        ],
    );
    assert!(cache.is_usable(Tick(14_000_000), &record("x"), Write));
    assert_eq!(cache.all_until(ServerId(1)), Some(Tick(14_100_000)), "nothing ends earlier");
}

#[test]
fn a_cap_goes_with_the_session_whose_records_had_it() {
    let mut cache = moved(Bugs::NONE);
    step(&mut cache, 3000, Input::Tick);
    step(&mut cache, 3050, from(2, 101, ToNode::Alive { number: 1, groups: GroupSet::ALL }));
    step(&mut cache, 3100, alive_in(1, without("y")));
    let end = cache.all_until(ServerId(2));
    assert_eq!(end, Some(Tick(8_100_000)), "that of x and y");
    let term = Term { groups: group("x"), ..term(2) };
    step(&mut cache, 3200, from(2, 101, ToNode::Recovered { term, former: SessionId(100) }));
    step(&mut cache, 3300, says(ToNode::NoSession));
    assert_eq!(cache.all_until(ServerId(2)), cache.lease_until(ServerId(2)));
}

/// The node asks for z. The next extension does not name its group, and then the grant comes.
fn granted_late(at: u64) -> (LockCache, Vec<String>) {
    let mut cache = holder(Bugs::NONE);
    step(&mut cache, 2900, want("z", Write));
    step(&mut cache, 3000, Input::Tick);
    step(&mut cache, 3100, alive_in(1, without("z")));
    step(&mut cache, 6000, Input::Tick);
    step(
        &mut cache,
        6100,
        Input::Message {
            server: ServerId(1),
            session: SessionId(100),
            message: ToNode::Alive { number: 2, groups: without("z") },
        },
    );
    let said = step(&mut cache, at, granted("z", 3, Write));
    (cache, said)
}

#[test]
fn a_grant_that_comes_after_its_group_was_not_named_has_the_lease_as_it_stood() {
    let (cache, said) = granted_late(6200);
    assert_eq!(said, ["lease end 1 8100", "open z write 1.7 on end 1"]);
    assert!(cache.is_usable(Tick(8_099_999), &record("z"), Write));
    assert!(!cache.is_usable(Tick(8_100_000), &record("z"), Write));
}

#[test]
fn a_grant_that_comes_when_that_lease_is_over_is_dropped_until_the_group_is_named_again() {
    let (mut cache, said) = granted_late(8200);
    assert!(!said.iter().any(|line| line.starts_with("open z")), "{said:?}");
    step(&mut cache, 9000, Input::Tick);
    step(&mut cache, 9100, alive(3));
    let said = step(&mut cache, 9200, granted("z", 3, Write));
    assert_eq!(said, ["open z write 1.7 on 1"]);
}

#[test]
fn an_extension_by_a_server_that_was_replaced_is_none_there() {
    let mut cache = moved(Bugs::NONE);
    step(&mut cache, 3000, Input::Tick);
    let said = step(&mut cache, 3100, alive(1));
    // It is asked for its terms: it might have taken the group again.
    assert_eq!(said, ["lease 1 11100", "lease end 1 8100", "rests x on end 1", "1/100 open"]);
    let recovered =
        ToNode::Recovered { term: Term { groups: group("x"), ..term(2) }, former: SessionId(100) };
    let said = step(&mut cache, 3200, from(2, 101, recovered));
    assert_eq!(said[0], "rests x on 2");
}

/// Server 1 was replaced for x, and does not know. It revokes x.
fn heeds_replaced(bugs: Bugs) -> Vec<String> {
    step(&mut moved(bugs), 30, revoke("x", 1, Write))
}

#[test]
fn a_server_that_was_replaced_is_not_heeded() {
    assert_eq!(heeds_replaced(Bugs::NONE), [""; 0]);
    assert_eq!(step(&mut moved(Bugs::NONE), 30, revoke("y", 2, Write)), ["drain y by 32"]);
}

/// The story of two writers: x was re-asserted to server 2 and goes on there under a later number.
/// Server 1 revokes the number that it knows. If it is told that this is over, it gives x to
/// another.
fn answers_replaced(bugs: Bugs) -> Vec<String> {
    let mut cache = moved(bugs);
    let term = Term { groups: group("x"), ..term(2) };
    let recovered = ToNode::Recovered { term, former: SessionId(100) };
    step(&mut cache, 30, from(2, 101, recovered));
    let at = Ticket::new(Epoch::new(2).unwrap(), 1).unwrap();
    let (record, seq, wanted) = (record("x"), Seq(1), Read);
    step(&mut cache, 40, from(2, 101, ToNode::Revoke { record, seq, wanted, at }));
    let mut said = step(&mut cache, 50, drained("x"));
    said.extend(step(&mut cache, 60, revoke("x", 1, Write)));
    said
}

#[test]
fn a_server_that_was_replaced_is_not_answered() {
    assert_eq!(answers_replaced(Bugs::NONE), ["2/101 release x #1 keep #3"]);
}

#[test]
fn a_record_that_rested_with_a_replaced_server_is_released_to_the_present_owner() {
    let mut cache = holder(Bugs::NONE);
    // The node hears of the owner and has no session with it: x is unknown there.
    let term = Term { groups: group("x"), ..term(2) };
    let server = ServerId(2);
    assert_eq!(step(&mut cache, 10, Input::Serves { server, term }), ["2/101 open"]);
    let said = step(&mut cache, 20, Input::Return { record: record("x") });
    assert_eq!(said, [""; 0], "server 1 has nothing to do with it, and server 2 does not know it");
}

#[test]
fn a_node_with_nothing_in_a_term_says_so_without_a_session() {
    let mut cache = holder(Bugs::NONE);
    let (server, term) = (ServerId(2), Term { groups: group("z"), ..term(2) });
    let nothing = format!("2/100 nothing {} in 2", group("z"));
    let fewer = ToNode::Serving(Term { groups: GroupSet::EMPTY, ..term });
    let recovered = ToNode::Recovered { term, former: SessionId(100) };
    run(
        &mut cache,
        &[
            (10, Input::Serves { server, term }, &nothing),
            (20, Input::Serves { server, term }, ""),
            (510, Input::Tick, &nothing),
            (520, from(2, 100, fewer), ""),
        ],
    );
    let mut cache = holder(Bugs::NONE);
    run(
        &mut cache,
        &[
            (10, Input::Serves { server, term }, &nothing),
            (20, from(2, 100, recovered), ""),
            (600, Input::Tick, ""),
            // From now on server 1 has nothing to say about it.
            (610, want("z", Write), "2/101 open"),
        ],
    );
}

/// What a node tells server 2, which has taken all groups from servers 1 and 3.
fn speaks_for_two(bugs: Bugs) -> Vec<String> {
    let mut cache = holder(bugs);
    step(&mut cache, 10, Input::Route { groups: group("z"), server: ServerId(3) });
    step(&mut cache, 11, want("z", Write));
    let terms = vec![Term { groups: group("z"), ..term(2) }];
    step(&mut cache, 12, from(3, 101, ToNode::Opened { terms }));
    step(&mut cache, 13, from(3, 101, grant("z", 3, Write, token(2, 1), None)));
    step(&mut cache, 20, Input::Route { groups: GroupSet::ALL, server: ServerId(2) });
    step(&mut cache, 30, opened(2, 102, 3))
}

#[test]
fn a_node_speaks_for_each_of_its_former_sessions_in_a_term() {
    let said = speaks_for_two(Bugs::NONE);
    for told in ["2/102 reasserted 0-255 in 3 for 100: 2", "2/102 reasserted 0-255 in 3 for 101: 1"]
    {
        assert!(said.contains(&told.to_owned()), "{told}: {said:?}");
    }
}

#[test]
fn a_server_that_gives_groups_up_is_not_asked_for_them_until_it_serves_them_again() {
    let groups = group("x");
    let mut cache = holder(Bugs::NONE);
    let locate = format!("locate {groups}");
    run(
        &mut cache,
        &[
            (10, says(ToNode::Moved { groups }), &locate),
            (20, Input::Route { groups, server: ServerId(1) }, ""),
            (510, Input::Tick, &locate),
            (520, Input::Route { groups, server: ServerId(2) }, "2/101 open"),
        ],
    );
}

#[test]
fn a_later_term_takes_what_was_to_be_told_to_an_earlier_owner() {
    let mut cache = moved(Bugs::NONE);
    step(&mut cache, 30, Input::Route { groups: group("x"), server: ServerId(3) });
    let term = Term { groups: group("x"), ..term(3) };
    let said = step(&mut cache, 40, from(3, 102, ToNode::Opened { terms: vec![term] }));
    assert_eq!(said[1], "3/102 reassert x write #1 in 3 for 100 held 1.7");
    let again = step(&mut cache, 600, Input::Tick);
    assert!(!again.iter().any(|line| line.contains("in 2 for")), "{again:?}");
    // The answer of the earlier one says nothing any more.
    let late = ToNode::Recovered {
        term: Term { groups: group("x"), ..super::term(2) },
        former: SessionId(100),
    };
    assert_eq!(step(&mut cache, 610, from(2, 101, late)), [""; 0]);
}

/// Server 2 took the groups of x and y together. Then server 3 took that of x, and server 2, which
/// may still act, does not know. If it is told that it has heard all there is in both groups, it
/// gives x to another.
#[test]
fn the_end_that_an_earlier_owner_hears_names_no_group_that_a_later_one_has() {
    let mut cache = holder(Bugs::NONE);
    let both = group("x").or(group("y"));
    step(&mut cache, 10, Input::Route { groups: both, server: ServerId(2) });
    let terms = vec![Term { groups: both, ..term(2) }];
    let said = step(&mut cache, 20, from(2, 101, ToNode::Opened { terms }));
    assert!(said.contains(&format!("2/101 reasserted {both} in 2 for 100: 2")), "{said:?}");
    let later = Term { groups: group("x"), ..term(3) };
    step(&mut cache, 30, Input::Serves { server: ServerId(3), term: later });
    let end_to_2 = |said: &[String]| -> Vec<String> {
        let ends = said.iter().filter(|line| line.starts_with("2/101 reasserted"));
        ends.cloned().collect()
    };
    let heard = ToNode::Heard {
        term: Term { groups: both, ..term(2) },
        former: SessionId(100),
        first: Seq(1),
        whole: true,
    };
    let mut said = step(&mut cache, 40, from(2, 101, heard));
    said.extend(step(&mut cache, 600, Input::Tick));
    said.extend(step(&mut cache, 1200, Input::Tick));
    let one = format!("2/101 reasserted {} in 2 for 100: 1", group("y"));
    assert!(!end_to_2(&said).is_empty() && end_to_2(&said).iter().all(|it| *it == one), "{said:?}");
    // Server 2 answers that it serves both, and waits. When it has left the one, it has all.
    let serving = ToNode::Serving(Term { groups: both, ..term(2) });
    assert_eq!(end_to_2(&step(&mut cache, 1210, from(2, 101, serving))), [""; 0]);
    let recovered =
        ToNode::Recovered { term: Term { groups: group("y"), ..term(2) }, former: SessionId(100) };
    let said = step(&mut cache, 1220, from(2, 101, recovered));
    assert_eq!(said, ["rests y on 2"]);
}

#[test]
fn a_node_with_nothing_does_not_speak_of_groups_that_a_later_owner_has() {
    let mut cache = holder(Bugs::NONE);
    let both = group("z").or(group("w"));
    let serves = |server, groups, epoch| Input::Serves {
        server: ServerId(server),
        term: Term { groups, ..term(epoch) },
    };
    let said = step(&mut cache, 10, serves(2, both, 2));
    assert_eq!(said, [format!("2/100 nothing {both} in 2")]);
    step(&mut cache, 20, serves(3, group("z"), 3));
    let said = step(&mut cache, 600, Input::Tick);
    let to_2: Vec<_> = said.iter().filter(|line| line.starts_with("2/100")).collect();
    assert_eq!(to_2, [&format!("2/100 nothing {} in 2", group("w"))]);
}

#[cfg(feature = "mutants")]
mod put_back {
    use super::*;
    use crate::bugs::Bug;

    #[test]
    fn cap_forgotten() {
        assert!(outlives_its_cap(Bugs::only(Bug::CapForgotten)));
    }

    #[test]
    fn heeds_replaced() {
        assert_eq!(super::heeds_replaced(Bugs::only(Bug::HeedsReplaced)), ["drain x by 32"]);
    }

    #[test]
    fn answers_replaced() {
        let said = super::answers_replaced(Bugs::only(Bug::AnswersReplaced));
        assert_eq!(said, ["2/101 release x #1 keep #3", "1/100 release x #1"]);
    }

    #[test]
    fn recovered_extends() {
        let cache = answer_after_the_group_was_left(Bugs::only(Bug::RecoveredExtends));
        assert!(cache.is_usable(Tick(11_000_000), &record("x"), Write));
        let cache = late_answer_for_what_was_held(Bugs::only(Bug::RecoveredExtends));
        assert!(cache.is_usable(Tick(11_000_000), &record("x"), Write));
    }

    #[test]
    fn former_answered_once() {
        let said = speaks_for_two(Bugs::only(Bug::FormerAnsweredOnce));
        assert_eq!(said.iter().filter(|line| line.contains("reasserted")).count(), 1, "{said:?}");
    }
}

/// The driver shuts a read that it wants to trade for a write. If the waiter gives up before there
/// is a server to ask, the read goes back: the driver does not use it, and would never return it.
#[test]
fn a_trade_that_is_withdrawn_before_it_could_be_asked_for_gives_the_read_back() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (10, want("x", Read), "1/100 acquire x read #1 in 1"),
            (20, granted("x", 1, Read), "open x read 1.7 on 1"),
        ],
    );
    // The group is with server 2, whose answer to the open does not come.
    step(&mut cache, 30, Input::Route { groups: group("x"), server: ServerId(2) });
    let said = step(&mut cache, 40, want("x", Write));
    assert!(!said.iter().any(|it| it.contains("acquire")), "{said:?}");
    let said = step(&mut cache, 50, Input::Withdraw { record: record("x") });
    assert_eq!(said, ["1/100 release x #1"]);
    assert!(cache.held(&record("x")).is_none());
}

/// A grant of a term overtakes the answer that the session has told all. An earlier extension did
/// not name the group, since another server owned it then, so the grant gets the cap of that; the
/// answer lifts it, as it would have if it had come first.
#[test]
fn a_grant_that_overtakes_the_answer_of_its_term_has_the_whole_lease() {
    let mut cache = node(config());
    step(&mut cache, 3000, Input::Tick);
    step(&mut cache, 3100, alive_in(1, without("x")));
    step(&mut cache, 3200, want("x", Write));
    let term = Term { groups: group("x"), ..term(2) };
    step(&mut cache, 3300, says(ToNode::Serving(term)));
    let said = step(&mut cache, 3400, says(grant("x", 1, Write, token(2, 1), None)));
    assert_eq!(said, ["lease end 1 8100", "open x write 2.1 on end 1"]);
    let said = step(&mut cache, 3500, says(ToNode::Recovered { term, former: SessionId(100) }));
    assert_eq!(said, ["rests x on 1", "lease 1 11100"]);
    assert!(cache.is_usable(Tick(11_000_000), &record("x"), Write));
}

/// The answer that all was heard is late. A grant of the same term has overtaken it, then the
/// server has left the group, and its next extension does not name it. The next owner waits for a
/// lease and the margin from when it has taken the group, here at 400 ms, so until 10,300 ms.
fn answer_after_the_group_was_left(bugs: Bugs) -> LockCache {
    let mut cache = node(Config { bugs, ..config() });
    let term = Term { groups: group("x"), ..term(3) };
    step(&mut cache, 100, says(ToNode::Serving(term)));
    step(&mut cache, 200, want("x", Write));
    let said = step(&mut cache, 300, says(grant("x", 1, Write, token(3, 1), None)));
    assert_eq!(said, ["open x write 3.1 on 1"]);
    step(&mut cache, 3000, Input::Tick);
    step(&mut cache, 3100, alive_in(1, without("x")));
    step(&mut cache, 3200, says(ToNode::Recovered { term, former: SessionId(100) }));
    cache
}

#[test]
fn the_answer_that_all_was_heard_proves_nothing_after_the_node_has_heard_of_the_term() {
    let cache = answer_after_the_group_was_left(Bugs::NONE);
    assert!(cache.is_usable(Tick(8_199_999), &record("x"), Write), "8.1 s after 100 ms");
    assert!(!cache.is_usable(Tick(8_200_000), &record("x"), Write));
    assert_eq!(cache.lease_until(ServerId(1)), Some(Tick(11_100_000)), "elsewhere");
}

#[test]
fn an_extension_that_names_the_group_lifts_what_a_late_answer_has_left_of_a_cap() {
    let mut cache = answer_after_the_group_was_left(Bugs::NONE);
    step(&mut cache, 6000, Input::Tick);
    let said = step(&mut cache, 6100, alive(2));
    assert!(said.contains(&"rests x on 1".to_owned()), "{said:?}");
    assert!(cache.is_usable(Tick(14_000_000), &record("x"), Write));
}

/// The same with what was held before: server 2 has taken the group of x, and left it again when it
/// extends the session that speaks for session 100.
fn late_answer_for_what_was_held(bugs: Bugs) -> LockCache {
    let mut cache = moved(bugs);
    step(&mut cache, 3020, Input::Tick);
    let alive = ToNode::Alive { number: 1, groups: without("x") };
    step(&mut cache, 3100, from(2, 101, alive));
    let recovered =
        ToNode::Recovered { term: Term { groups: group("x"), ..term(2) }, former: SessionId(100) };
    step(&mut cache, 3200, from(2, 101, recovered));
    cache
}

#[test]
fn what_was_re_asserted_gets_no_more_of_the_new_lease_than_extensions_have_named() {
    let cache = late_answer_for_what_was_held(Bugs::NONE);
    assert!(cache.is_usable(Tick(8_109_999), &record("x"), Write));
    assert!(!cache.is_usable(Tick(8_120_000), &record("x"), Write));
    assert!(cache.lease_until(ServerId(2)) > Some(Tick(11_000_000)));
}

/// A double of the news that a term has begun makes the node speak again, and a double of the
/// answer, sent when the server still had the group, comes last.
#[test]
fn doubles_of_the_news_and_of_its_answer_extend_nothing() {
    let mut cache = answer_after_the_group_was_left(Bugs::NONE);
    let term = Term { groups: group("x"), ..term(3) };
    step(&mut cache, 3300, says(ToNode::Serving(term)));
    step(&mut cache, 3400, says(ToNode::Recovered { term, former: SessionId(100) }));
    assert!(!cache.is_usable(Tick(8_200_000), &record("x"), Write));
}

/// The driver hears of a term before the session with its server is open, and that server has
/// answered the open before the term began.
#[test]
fn a_term_that_was_known_before_its_session_is_told_all_when_the_server_says_it() {
    let mut cache = holder(Bugs::NONE);
    let term = Term { groups: group("x"), ..term(2) };
    step(&mut cache, 10, Input::Route { groups: group("x"), server: ServerId(2) });
    step(&mut cache, 11, Input::Serves { server: ServerId(2), term });
    step(&mut cache, 20, from(2, 101, ToNode::Opened { terms: Vec::new() }));
    let said = step(&mut cache, 21, from(2, 101, ToNode::Serving(term)));
    let told = "2/101 reassert x write #1 in 2 for 100 held 1.7".to_owned();
    assert!(said.contains(&told), "{said:?}");
}

/// The news that a term has begun overtakes the answer to the open, which was sent before the term
/// began and does not name it.
#[test]
fn a_term_whose_news_overtake_the_answer_to_the_open_is_asked_about() {
    let term = Term { groups: group("x"), ..term(2) };
    let told = "2/101 reassert x write #1 in 2 for 100 held 1.7".to_owned();
    for is_known in [true, false] {
        let mut cache = holder(Bugs::NONE);
        step(&mut cache, 10, Input::Route { groups: group("x"), server: ServerId(2) });
        if is_known {
            step(&mut cache, 11, Input::Serves { server: ServerId(2), term });
        }
        assert_eq!(step(&mut cache, 12, from(2, 101, ToNode::Serving(term))), [""; 0]);
        let said = step(&mut cache, 20, from(2, 101, ToNode::Opened { terms: Vec::new() }));
        assert!(said.contains(&"2/101 open".to_owned()), "{is_known}: {said:?}");
        let said = step(&mut cache, 30, from(2, 101, ToNode::Opened { terms: vec![term] }));
        assert!(said.contains(&told), "{is_known}: {said:?}");
        let said = step(&mut cache, 31, from(2, 101, ToNode::Opened { terms: vec![term] }));
        assert!(!said.contains(&told), "once: {said:?}");
    }
}

/// That question, or its answer, is lost: what lives on an earlier lease is asked about when the
/// present owner extends the session there.
#[test]
fn what_was_not_told_to_the_owner_that_extends_its_group_is_told_then() {
    let term = Term { groups: group("x"), ..term(2) };
    let mut cache = holder(Bugs::NONE);
    step(&mut cache, 10, Input::Route { groups: group("x"), server: ServerId(2) });
    step(&mut cache, 11, Input::Serves { server: ServerId(2), term });
    step(&mut cache, 20, from(2, 101, ToNode::Opened { terms: Vec::new() }));
    step(&mut cache, 3000, Input::Tick);
    step(&mut cache, 3100, alive_in(1, without("x")));
    step(&mut cache, 3200, Input::Tick);
    let alive = ToNode::Alive { number: 1, groups: group("x") };
    let said = step(&mut cache, 3300, from(2, 101, alive));
    assert!(said.contains(&"2/101 open".to_owned()), "{said:?}");
}

/// Server 2 has left the group of x before it has heard of x, so it does not say that it has. An
/// extension that does not name the group says so too.
#[test]
fn a_group_is_sought_when_the_owner_that_is_being_told_about_it_does_not_name_it() {
    let mut cache = moved(Bugs::NONE);
    step(&mut cache, 3020, Input::Tick);
    let alive = ToNode::Alive { number: 1, groups: without("x") };
    let said = step(&mut cache, 3100, from(2, 101, alive));
    assert!(said.contains(&format!("locate {}", group("x"))), "{said:?}");
}

/// Server 1 leaves a group and is its owner again, in epoch 5. An answer about its term of epoch 3,
/// which still stands in another group, comes only now: it lifts nothing.
#[test]
fn a_late_answer_about_an_earlier_term_of_the_same_server_lifts_no_cap() {
    let mut cache = node(config());
    step(&mut cache, 10, Input::Route { groups: group("z"), server: ServerId(3) });
    step(&mut cache, 11, want("z", Write));
    step(&mut cache, 12, from(3, 101, ToNode::Opened { terms: vec![] }));
    let early = Term { groups: group("x").or(group("y")), ..term(3) };
    step(&mut cache, 100, says(ToNode::Serving(early)));
    step(&mut cache, 200, want("x", Write));
    let said = step(&mut cache, 300, says(grant("x", 2, Write, token(3, 1), None)));
    assert_eq!(said, ["open x write 3.1 on 1"]);
    step(&mut cache, 3000, Input::Tick);
    let said = step(&mut cache, 3100, alive_in(1, without("x")));
    assert!(said.contains(&"rests x on end 1".to_owned()), "{said:?}");
    let term = Term { groups: group("x"), ..term(5) };
    step(&mut cache, 3200, says(ToNode::Serving(term)));
    step(&mut cache, 3300, says(ToNode::Recovered { term, former: SessionId(101) }));
    let capped = |cache: &LockCache| !cache.is_usable(Tick(8_200_000), &record("x"), Write);
    assert!(capped(&cache));
    step(&mut cache, 3400, says(ToNode::Recovered { term: early, former: SessionId(100) }));
    assert!(cache.is_usable(Tick(8_000_000), &record("x"), Write));
    assert!(capped(&cache), "it rests on epoch 3, and epoch 5 is known");
}

/// A node that was paused past the ends of its leases with two servers loses all that rested on
/// them before it tells of any lease.
#[test]
fn what_rests_on_leases_that_are_over_is_lost_before_a_lease_is_told_again() {
    let mut cache = node(config());
    step(&mut cache, 10, Input::Route { groups: group("z"), server: ServerId(3) });
    step(&mut cache, 11, want("z", Write));
    let terms = vec![Term { groups: group("z"), ..term(2) }];
    step(&mut cache, 12, from(3, 101, ToNode::Opened { terms }));
    step(&mut cache, 13, from(3, 101, grant("z", 1, Write, token(2, 1), None)));
    step(&mut cache, 200, want("x", Write));
    step(&mut cache, 300, says(grant("x", 2, Write, token(1, 1), None)));
    step(&mut cache, 3000, Input::Tick);
    // Of server 1 x gets a cap, so that there is one to forget.
    let said = step(&mut cache, 3100, alive_in(1, without("x")));
    assert!(said.contains(&"rests x on end 1".to_owned()), "{said:?}");
    let said = step(&mut cache, 60_000, Input::Tick);
    let place = |what: &str| said.iter().position(|it| it.starts_with(what));
    let lost = [place("lost x"), place("lost z")];
    assert!(lost.iter().all(Option::is_some), "{said:?}");
    let told = place("lease").unwrap_or(usize::MAX);
    assert!(lost.iter().all(|at| at.is_some_and(|at| at < told)), "{said:?}");
}
