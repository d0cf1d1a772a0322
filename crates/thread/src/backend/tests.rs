//! Which backend is chosen, and what the environment can do about it.

use super::{Backend, Choice, backend, choose};

fn pick(wish: Option<&str>, working: &[Backend]) -> Choice {
    choose(wish, |backend| {
        let works = working.contains(&backend);
        if works { Ok("it works".to_owned()) } else { Err("it is missing".to_owned()) }
    })
}

#[test]
fn the_best_that_works_is_chosen_and_the_reason_tells_what_does_not() {
    let all = pick(None, Backend::ALL);
    assert_eq!(all.to_string(), "rseq: it works");
    let less = pick(None, &[Backend::Membarrier, Backend::Plain]);
    assert_eq!(less.to_string(), "membarrier: no rseq: it is missing; it works");
    let nothing = pick(None, &[]);
    assert_eq!(nothing.backend(), Backend::Plain);
    assert!(nothing.reason().contains("no membarrier: it is missing"), "{nothing}");
}

#[test]
fn a_wish_rules_out_what_is_better() {
    for &backend in Backend::ALL {
        let choice = pick(Some(backend.name()), Backend::ALL);
        assert_eq!(choice.backend(), backend);
        assert!(choice.reason().contains("LOCKSPAN_REVOCABLE_BACKEND="), "{choice}");
    }
    let choice = pick(Some("rseq"), &[Backend::Plain]);
    assert_eq!(choice.backend(), Backend::Plain);
}

#[cfg(feature = "signals")]
#[test]
fn signals_are_for_those_who_name_them() {
    assert_eq!(pick(None, &[Backend::Signal, Backend::Membarrier]).backend(), Backend::Membarrier);
    let without = pick(Some("signal"), &[Backend::Rseq, Backend::Membarrier]);
    assert_eq!(without.backend(), Backend::Membarrier);
    assert!(without.reason().contains("no signal: it is missing"), "{without}");
}

#[test]
fn a_wish_that_nobody_understands_is_said_to_be_ignored() {
    let choice = pick(Some("fast"), Backend::ALL);
    assert_eq!(choice.backend(), Backend::Rseq);
    assert!(choice.reason().contains("fast is ignored: it is none of rseq"), "{choice}");
    assert_eq!(pick(Some(""), Backend::ALL), pick(None, Backend::ALL));
}

#[test]
fn the_choice_of_this_process_stays() {
    let choice = backend();
    assert_eq!(choice, backend());
    assert!(!choice.reason().is_empty());
}
