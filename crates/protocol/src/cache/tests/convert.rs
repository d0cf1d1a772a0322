//! Downgrades, upgrades and trades.

use super::*;

const CONFLICT: AcquireRefusal = AcquireRefusal::UpgradeConflict;

/// A script that goes on from a read with the number 1.
fn check_read(script: &[Step<'_>]) {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (1, want("x", Read), "1/100 acquire x read #1 in 1"),
            (2, granted("x", 1, Read), "open x read 1.7 on 1"),
        ],
    );
    run(&mut cache, script);
}

/// A script that goes on from a write with the number 1.
fn check_write(script: &[Step<'_>]) {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (1, want("x", Write), "1/100 acquire x write #1 in 1"),
            (2, granted("x", 1, Write), "open x write 1.7 on 1"),
        ],
    );
    run(&mut cache, script);
}

#[test]
fn a_downgrade_keeps_the_token_under_a_new_number() {
    check_write(&[
        (10, revoke("x", 1, Read), "drain x to read by 12"),
        (20, drained("x"), "1/100 release x #1 keep #2"),
        (30, want("x", Read), "open x read 1.7 on 1"),
        (40, revoke("x", 2, Write), "drain x by 42"),
        (50, drained("x"), "1/100 release x #2"),
    ]);
}

#[test]
fn a_writer_that_becomes_a_reader_says_so_although_all_is_wanted_back() {
    check_write(&[
        (10, revoke("x", 1, Write), "drain x by 12"),
        (20, downgraded("x"), "1/100 release x #1 keep #2"),
        // A revoke of what it was before is answered by what is true now.
        (25, revoke("x", 1, Write), "1/100 release x #1 keep #2"),
        (30, revoke("x", 2, Write), "drain x by 32"),
        (40, drained("x"), "1/100 release x #2"),
    ]);
}

#[test]
fn a_downgrade_of_what_is_not_wanted_back_as_a_whole_is_refused() {
    let refused = format!("[{:?}]", WantRefusal::NotDraining);
    check_write(&[
        (5, downgraded("x"), &refused),
        (6, downgraded("y"), &refused),
        (10, revoke("x", 1, Read), "drain x to read by 12"),
        (15, downgraded("x"), &refused),
    ]);
    check_read(&[(10, revoke("x", 1, Write), "drain x by 12"), (15, downgraded("x"), &refused)]);
}

#[test]
fn an_upgrade_is_a_write_whatever_mode_it_names() {
    let upgrade = Input::Want { record: record("x"), mode: Read, upgrade: true, owners: vec![] };
    check_read(&[(10, upgrade, "1/100 acquire x write #2 in 1 upgrade")]);
}

#[test]
fn readers_that_wait_for_a_downgrade_are_let_in_by_it() {
    check_write(&[
        (10, revoke("x", 1, Read), "drain x to read by 12"),
        (15, want("x", Read), ""),
        (
            20,
            drained("x"),
            "1/100 release x #1 keep #2
             open x read 1.7 on 1",
        ),
    ]);
}

#[test]
fn a_writer_that_waits_for_a_downgrade_trades_the_read() {
    check_write(&[
        (10, revoke("x", 1, Read), "drain x to read by 12"),
        (15, want("x", Write), ""),
        (
            20,
            drained("x"),
            "1/100 release x #1 keep #2
             1/100 acquire x write #3 in 1",
        ),
    ]);
}

#[test]
fn a_downgrade_that_turns_into_a_release_keeps_nothing() {
    check_write(&[
        (10, revoke("x", 1, Read), "drain x to read by 12"),
        (15, want("x", Read), ""),
        (16, revoke("x", 1, Write), "drain x by 12"),
        (
            20,
            drained("x"),
            "1/100 release x #1
             1/100 acquire x read #2 in 1",
        ),
    ]);
}

#[test]
fn a_cached_read_is_traded_for_a_write_in_one_message() {
    check_read(&[
        (10, want("x", Write), "1/100 acquire x write #2 in 1"),
        (20, revoke("x", 1, Write), "1/100 release x #1"),
        (30, granted("x", 2, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn an_upgrade_that_is_granted_is_a_write_with_the_new_number() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (20, granted("x", 1, Read), ""),
        (30, granted("x", 2, Write), "open x write 1.7 on 1"),
        (40, revoke("x", 1, Write), ""),
        (50, revoke("x", 2, Write), "drain x by 52"),
    ]);
}

#[test]
fn an_upgrade_keeps_its_read_when_refused() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (20, refused("x", 2, CONFLICT), "refused x UpgradeConflict"),
        (30, want("x", Read), "open x read 1.7 on 1"),
        (40, revoke("x", 1, Write), "drain x by 42"),
        (50, drained("x"), "1/100 release x #1"),
    ]);
}

#[test]
fn a_read_that_is_wanted_back_drains_while_its_upgrade_waits_and_after_its_refusal() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (20, revoke("x", 1, Write), "drain x by 22"),
        (30, refused("x", 2, CONFLICT), "refused x UpgradeConflict"),
        (40, drained("x"), "1/100 release x #1"),
    ]);
}

#[test]
fn a_reader_that_is_to_leave_may_still_ask_for_an_upgrade_and_the_grant_ends_the_drain() {
    check_read(&[
        (10, revoke("x", 1, Write), "drain x by 12"),
        (20, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (30, granted("x", 2, Write), "open x write 1.7 on 1"),
        (40, drained("x"), "[NotDraining]"),
    ]);
}

#[test]
fn a_withdrawn_upgrade_keeps_the_read_under_a_new_number() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (20, withdraw("x"), "1/100 cancel x #2 keep #3"),
        (30, want("x", Read), "open x read 1.7 on 1"),
        (40, granted("x", 2, Write), "1/100 release x #2 keep #3"),
        (50, revoke("x", 3, Write), "drain x by 52"),
        (60, drained("x"), "1/100 release x #3"),
    ]);
}

#[test]
fn a_drain_goes_on_when_the_upgrade_is_withdrawn() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (20, revoke("x", 1, Write), "drain x by 22"),
        (25, busy("x", &[4], &[]), "1/100 report x #1 no 1 o4"),
        (30, withdraw("x"), "1/100 cancel x #2 keep #3"),
        (40, revoke("x", 3, Write), "1/100 report x #3 no 1 o4"),
        (50, drained("x"), "1/100 release x #3"),
    ]);
}

#[test]
fn readers_that_want_the_read_of_an_upgrader_take_back_the_upgrade() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (
            20,
            want("x", Read),
            "1/100 cancel x #2 keep #3
             open x read 1.7 on 1",
        ),
    ]);
}

#[test]
fn an_upgrader_that_leaves_without_a_word_gives_up_both() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (20, revoke("x", 1, Write), "drain x by 22"),
        (
            30,
            drained("x"),
            "refused x NotHeld
             1/100 release x #2",
        ),
    ]);
}

#[test]
fn an_upgrade_of_a_read_that_the_server_does_not_know_loses_it() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (
            20,
            refused("x", 2, AcquireRefusal::NotHeld),
            "lost x
             refused x NotHeld",
        ),
        (30, want("x", Read), "1/100 acquire x read #3 in 1"),
    ]);
}

#[test]
fn a_number_that_is_over_is_replaced_for_an_upgrade_too() {
    check_read(&[
        (10, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (20, refused("x", 2, AcquireRefusal::StaleSeq), "1/100 acquire x write #3 in 1 upgrade"),
        (30, granted("x", 2, Write), ""),
        (40, granted("x", 3, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn only_what_is_held_is_upgraded() {
    check(&[(10, upgrade("x"), "[NotHeld]")]);
    check_write(&[(10, upgrade("x"), "open x write 1.7 on 1")]);
}

#[test]
fn an_upgrade_that_waits_for_a_downgrade_is_asked_after_it() {
    check_write(&[
        (10, revoke("x", 1, Read), "drain x to read by 12"),
        (20, upgrade("x"), ""),
        (
            30,
            drained("x"),
            "1/100 release x #1 keep #2
             1/100 acquire x write #3 in 1 upgrade",
        ),
    ]);
}
