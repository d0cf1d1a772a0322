//! Messages that come late, twice or for nobody.

use super::*;

#[test]
fn a_stray_grant_is_given_back() {
    check(&[(10, granted("x", 7, Read), "1/100 release x #7")]);
}

#[test]
fn a_place_in_line_or_a_reservation_that_nobody_wants_is_given_up() {
    check(&[(10, queued("x", 7), "1/100 release x #7"), (20, retry("x", 7), "1/100 release x #7")]);
}

#[test]
fn a_revoke_of_a_finished_number_is_answered_by_release() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, give_back("x"), "drain x now"),
        (40, drained("x"), "1/100 release x #1"),
        (50, revoke("x", 1, Write), "1/100 release x #1"),
        (60, want("x", Write), "1/100 acquire x write #2 in 1"),
        (70, revoke("x", 1, Write), "1/100 release x #1"),
    ]);
}

#[test]
fn a_revoke_of_what_was_downgraded_is_answered_by_the_downgrade() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke("x", 1, Read), "drain x to read by 32"),
        (35, want("y", Write), "1/100 acquire y write #2 in 1"),
        (40, drained("x"), "1/100 release x #1 keep #3"),
        (50, revoke("x", 1, Read), "1/100 release x #2 keep #3"),
        (60, lent("x", 1, Write, Write), "1/100 release x #2 keep #3"),
    ]);
}

#[test]
fn what_comes_late_about_an_earlier_number_does_not_touch_a_write() {
    check(&[
        (10, want("x", Read), "1/100 acquire x read #1 in 1"),
        (20, granted("x", 1, Read), "open x read 1.7 on 1"),
        (30, want("x", Write), "1/100 acquire x write #2 in 1"),
        (40, granted("x", 2, Write), "open x write 1.7 on 1"),
        (50, revoke("x", 1, Write), ""),
        (60, lent("x", 1, Read, Write), ""),
        (70, queued("x", 2), ""),
        (80, retry("x", 2), ""),
        (90, refused("x", 2, AcquireRefusal::UpgradeConflict), ""),
        (95, lost("x", 1), ""),
    ]);
}

#[test]
fn a_grant_that_comes_twice_is_one() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, granted("x", 1, Write), ""),
        (40, lent("x", 1, Write, Read), "drain x to read by 42"),
    ]);
}

#[test]
fn a_grant_that_a_late_refusal_has_hidden_is_turned_into_the_read_that_is_there() {
    check(&[
        (10, want("x", Read), "1/100 acquire x read #1 in 1"),
        (20, granted("x", 1, Read), "open x read 1.7 on 1"),
        (30, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (40, refused("x", 2, AcquireRefusal::UpgradeConflict), "refused x UpgradeConflict"),
        (50, granted("x", 2, Write), "1/100 release x #2 keep #3"),
        (60, revoke("x", 3, Write), "drain x by 62"),
    ]);
}

#[test]
fn what_is_lost_on_the_server_is_lost_here_and_asked_for_again_if_wanted() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke("x", 1, Write), "drain x by 32"),
        (35, want("x", Write), ""),
        (
            40,
            lost("x", 1),
            "lost x
             1/100 release x #1
             1/100 acquire x write #2 in 1",
        ),
        (50, lost("x", 1), ""),
        (60, drained("x"), "[NotDraining]"),
    ]);
}

#[test]
fn a_read_is_lost_with_the_write_that_it_was() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke("x", 1, Read), "drain x to read by 32"),
        (40, drained("x"), "1/100 release x #1 keep #2"),
        (50, lost("x", 1), "lost x\n 1/100 release x #2"),
    ]);
}

#[test]
fn what_is_said_to_another_session_changes_nothing() {
    let grant = grant("x", 1, Write, token(1, 7), None);
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, from(1, 99, grant.clone()), ""),
        (30, from(2, 100, grant), ""),
        (40, from(1, 99, ToNode::NoSession), ""),
        (50, granted("x", 1, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn a_grant_of_less_than_was_asked_for_is_given_back_and_who_waits_hears_so() {
    let refused = "refused x WrongMode { asked: Write, granted: Read }";
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Read), &format!("1/100 cancel x #1\n{refused}")),
        // Nothing of it is left: it is as if it had never been asked for.
        (30, granted("x", 1, Write), "1/100 release x #1"),
        (40, want("x", Write), "1/100 acquire x write #2 in 1"),
        (50, granted("x", 2, Write), "open x write 1.7 on 1"),
    ]);
}

#[test]
fn a_read_that_was_to_be_upgraded_outlives_a_grant_of_less() {
    let refused = "refused x WrongMode { asked: Write, granted: Read }";
    check(&[
        (10, want("x", Read), "1/100 acquire x read #1 in 1"),
        (20, granted("x", 1, Read), "open x read 1.7 on 1"),
        (30, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        (40, granted("x", 2, Read), &format!("1/100 cancel x #2 keep #3\n{refused}")),
        (50, revoke("x", 3, Write), "drain x by 52"),
        (55, drained("x"), "1/100 release x #3"),
    ]);
}
