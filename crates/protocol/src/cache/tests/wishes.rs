//! What others want of a grant, over changes of term and of number.

use super::*;

fn granted_in_2(name: &str, seq: u64, mode: Mode, give_back: Option<Mode>) -> Input {
    says(grant(name, seq, mode, token(2, 1), give_back))
}

#[test]
fn a_keep_of_an_earlier_term_does_not_hide_the_give_back_of_the_next() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        // Its grant is late or lost.
        (11, keep_at(6, "x", 1), "1/100 acquire x write #1 in 1"),
        (20, serving(2), "1/100 reasserted 0-255 in 2 for 100: 0\n1/100 acquire x write #1 in 2"),
        (21, recovered(2), ""),
        (30, granted_in_2("x", 1, Write, Some(Write)), "open x write 2.1 on 1\ndrain x now"),
    ]);
}

#[test]
fn a_revoke_of_an_earlier_term_does_not_drain_the_grant_of_the_next() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (11, revoke_at(6, "x", 1, Write), "1/100 acquire x write #1 in 1"),
        (20, serving(2), "1/100 reasserted 0-255 in 2 for 100: 0\n1/100 acquire x write #1 in 2"),
        (21, recovered(2), ""),
        (30, granted_in_2("x", 1, Write, None), "open x write 2.1 on 1"),
    ]);
}

#[test]
fn a_keep_does_not_open_what_is_traded() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (10, want("x", Read), "1/100 acquire x read #1 in 1"),
            (20, granted("x", 1, Read), "open x read 1.7 on 1"),
            (30, revoke_at(5, "x", 1, Write), "drain x by 32"),
            (31, want("x", Write), ""),
        ],
    );
    let said = step(&mut cache, 32, keep_at(6, "x", 1));
    let opens = said.iter().any(|it| it.starts_with("open"));
    let trades = said.iter().any(|it| it.contains("acquire x write"));
    assert!(!(opens && trades), "{said:?}");
}

#[test]
fn an_upgrade_without_a_place_is_asked_for_again_when_its_read_is_recovered() {
    let mut cache = node(config());
    run(
        &mut cache,
        &[
            (10, want("x", Read), "1/100 acquire x read #1 in 1"),
            (20, granted("x", 1, Read), "open x read 1.7 on 1"),
            (30, upgrade("x"), "1/100 acquire x write #2 in 1 upgrade"),
        ],
    );
    step(&mut cache, 35, serving(2));
    let said = step(&mut cache, 40, recovered(2));
    assert_eq!(said, ["1/100 acquire x write #2 in 2 upgrade"]);
}

#[test]
fn a_node_that_drains_asks_again_what_is_wanted_when_the_way_was_broken() {
    check(&[
        (10, want("x", Write), "1/100 acquire x write #1 in 1"),
        (20, granted("x", 1, Write), "open x write 1.7 on 1"),
        (30, revoke_at(5, "x", 1, Write), "drain x by 32"),
        (40, Input::Connected { server: ServerId(1) }, "1/100 alive 1\n1/100 release x #0 keep #1"),
        (50, keep_at(6, "x", 1), "open x write 1.7 on 1"),
    ]);
}
