//! Labels of sessions, notes of acquires, and who holds what is wanted: for people.

use super::*;
use crate::messages::Holder;

fn note(name: &str, text: &str) -> Input {
    Input::Note { record: record(name), note: text.parse().unwrap() }
}

#[test]
fn a_note_follows_its_acquire_whenever_that_is_sent() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (11, note("x", "import"), "1/100 note x #1 import"),
        // No answer.
        (520, Input::Tick, "1/100 acquire x write #1 in 1\n1/100 note x #1 import"),
        (530, granted("x", 1, Write), "open x write 1.7 on 1"),
        // A new term hears of the grant, and of its note.
        (
            540,
            serving(2),
            "1/100 reassert x write #1 in 2 for 100 held 1.7\n1/100 note x #1 import\n\
             1/100 page #1-#1 in 2 for 100: 1\n1/100 reasserted 0-255 in 2 for 100: 1",
        ),
    ]);
}

#[test]
fn the_next_acquire_does_not_have_the_note_of_the_last_one() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (10, want("x", Read), "1/100 acquire x read #1 in 1"),
            (11, note("x", "report"), "1/100 note x #1 report"),
            (20, granted("x", 1, Read), "open x read 1.7 on 1"),
            (30, want("x", Write), "1/100 acquire x write #2 in 1"),
            (530, Input::Tick, "1/100 acquire x write #2 in 1"),
        ],
    );
    assert_eq!(cache.records.note(&record("x")), None);
}

#[test]
fn a_record_that_is_forgotten_leaves_no_note_behind() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (10, want("x", Write), "1/100 acquire x write #1 in 1"),
            (11, note("x", "import"), "1/100 note x #1 import"),
            (12, Input::Withdraw { record: record("x") }, "1/100 cancel x #1"),
            // It is nobody's any more.
            (13, note("x", "late"), ""),
        ],
    );
    assert!(cache.records.fits());
    assert_eq!(cache.records.note(&record("x")), None);
}

#[test]
fn who_holds_a_record_is_asked_and_heard_only_while_it_is_wanted() {
    let who = || Input::WhoHolds { record: record("x") };
    let held_by = |seq| {
        let label = "billing".parse().unwrap();
        let holder = Holder { label, note: None, mode: Write, held: Duration::from_secs(3) };
        says(ToNode::HeldBy { record: record("x"), seq: Seq(seq), ahead: 2, holders: vec![holder] })
    };
    check(&[
        (10, who(), ""),
        (11, want("x", Write), "1/100 acquire x write #1 in 1"),
        (12, who(), "1/100 who holds x #1"),
        (13, held_by(1), "held x by [\"billing\"], 2 before"),
        (14, held_by(7), ""),
        (15, granted("x", 1, Write), "open x write 1.7 on 1"),
        (16, held_by(1), ""),
        (17, who(), ""),
    ]);
}

#[test]
fn how_many_are_before_is_known_while_it_waits() {
    let mut cache = node(config());
    run(&mut cache, &[(10, want("x", Write), "1/100 acquire x write #1 in 1")]);
    assert_eq!(cache.ahead(&record("x")), None);
    let ticket = Ticket::new(Epoch::new(1).unwrap(), 3).unwrap();
    let queued = ToNode::Queued { record: record("x"), seq: Seq(1), ticket, ahead: 4 };
    run(&mut cache, &[(20, says(queued), "")]);
    assert_eq!(cache.ahead(&record("x")), Some(4));
    // The answer to a question is newer than what was said when it got in line.
    let held_by = |ahead| {
        says(ToNode::HeldBy { record: record("x"), seq: Seq(1), ahead, holders: Vec::new() })
    };
    run(&mut cache, &[(21, held_by(2), "held x by [], 2 before")]);
    assert_eq!(cache.ahead(&record("x")), Some(2));
    // A server that does not know is not believed to have said a number.
    run(&mut cache, &[(22, held_by(crate::AHEAD_UNKNOWN), "held x by [], ? before")]);
    assert_eq!(cache.ahead(&record("x")), None);
    assert!(cache.is_wanted(&record("x")) && cache.is_in_line(&record("x")));
    run(&mut cache, &[(30, granted("x", 1, Write), "open x write 1.7 on 1")]);
    assert_eq!(cache.ahead(&record("x")), None);
}

#[test]
fn a_label_goes_with_every_open_and_with_every_new_connection() {
    let config = Config { label: Some("cron@host[1]".parse().unwrap()), ..config() };
    let mut cache = LockCache::new(config);
    let route = Input::Route { groups: GroupSet::ALL, server: ServerId(1) };
    run(&mut cache, &[(1, route, "")]);
    let said = step(&mut cache, 2, want("x", Write));
    assert_eq!(said, ["1/100 open", "1/100 label cron@host[1]"]);
    let terms = vec![Term { groups: GroupSet::ALL, epoch: Epoch::new(1).unwrap() }];
    step(&mut cache, 3, says(ToNode::Opened { terms }));
    let said = step(&mut cache, 4, Input::Connected { server: ServerId(1) });
    assert!(said.contains(&"1/100 label cron@host[1]".to_owned()), "{said:?}");
}

#[test]
fn a_note_that_is_said_before_there_is_a_session_goes_with_the_acquire() {
    let mut cache = LockCache::new(config());
    let route = Input::Route { groups: GroupSet::ALL, server: ServerId(1) };
    run(&mut cache, &[(1, route, ""), (2, want("x", Write), "1/100 open")]);
    run(&mut cache, &[(3, note("x", "import"), "")]);
    let terms = vec![Term { groups: GroupSet::ALL, epoch: Epoch::new(1).unwrap() }];
    let said = step(&mut cache, 4, says(ToNode::Opened { terms }));
    assert!(said.ends_with(&["1/100 note x #1 import".to_owned()]), "{said:?}");
}
