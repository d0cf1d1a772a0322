//! Models of the claim lock that ships: every pair of ways through it, and the seven cases in which
//! the original goes wrong (`plock_p1` to `plock_p7` of `docs/failures.md`).

use std::time::{Duration, Instant};

use super::super::loom::{Watched, side_by_side};
use super::RawClaimLock;
use Do::{
    Alone, AloneToAtomic, AloneToClaim, AloneToRead, Atomic, AtomicInTime, AtomicToJoin,
    AtomicToRead, AtomicToReadInTime, Claim, ClaimInTime, Join, Leave, Read, ReadInTime,
};

/// One transition; the thread uses what it then holds.
#[derive(Clone, Copy, Debug)]
enum Do {
    Read,
    ReadInTime,
    Join,
    Claim,
    ClaimInTime,
    Atomic,
    AtomicInTime,
    AtomicToRead,
    AtomicToReadInTime,
    AtomicToJoin,
    Alone,
    AloneToClaim,
    AloneToAtomic,
    AloneToRead,
    Leave,
}

/// What the thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Nothing,
    Read,
    Join,
    Claim,
    Atomic,
    Alone,
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// Follows a script. A timed step that a model lets fail ends it.
fn follow(watched: &Watched<RawClaimLock>, me: usize, script: &[Do]) {
    let raw = &watched.raw;
    let mut hold = Hold::Nothing;
    for step in script {
        let (next, in_time) = match step {
            Read => (Hold::Read, {
                raw.read();
                true
            }),
            ReadInTime => (Hold::Read, raw.read_until(soon())),
            Join => (Hold::Join, {
                raw.read_to_join();
                true
            }),
            Claim => (Hold::Claim, {
                raw.join_to_claim();
                true
            }),
            ClaimInTime => (Hold::Claim, raw.join_to_claim_until(soon())),
            Atomic => (Hold::Atomic, {
                raw.claim_to_atomic();
                true
            }),
            AtomicInTime => (Hold::Atomic, raw.claim_to_atomic_until(soon())),
            AtomicToRead => (Hold::Read, {
                raw.atomic_to_read();
                true
            }),
            AtomicToReadInTime => (Hold::Read, raw.atomic_to_read_until(soon())),
            AtomicToJoin => (Hold::Join, {
                raw.atomic_to_join();
                true
            }),
            Alone => (Hold::Alone, {
                raw.join_alone();
                true
            }),
            AloneToClaim => (Hold::Claim, {
                raw.alone_to_claim();
                true
            }),
            AloneToAtomic => (Hold::Atomic, {
                raw.alone_to_atomic();
                true
            }),
            AloneToRead => (Hold::Read, {
                raw.alone_to_read();
                true
            }),
            Leave => (Hold::Nothing, {
                leave(raw, hold);
                true
            }),
        };
        if !in_time {
            break;
        }
        hold = next;
        r#use(watched, me, hold);
    }
    leave(raw, hold);
}

fn r#use(watched: &Watched<RawClaimLock>, me: usize, hold: Hold) {
    match hold {
        Hold::Nothing | Hold::Join => {}
        Hold::Read => watched.look(),
        Hold::Claim => watched.mark(me),
        Hold::Atomic => watched.change(me),
        Hold::Alone => watched.change_all(),
    }
}

fn leave(raw: &RawClaimLock, hold: Hold) {
    match hold {
        Hold::Nothing => {}
        Hold::Read => raw.read_done(),
        Hold::Join => raw.join_done(),
        Hold::Claim => raw.claim_done(),
        Hold::Atomic => raw.atomic_done(),
        Hold::Alone => raw.alone_done(),
    }
}

fn check(preemptions: usize, scripts: &[&'static [Do]]) {
    side_by_side(preemptions, RawClaimLock::new, scripts, follow, RawClaimLock::assert_at_rest);
}

/// The whole way, and where one can leave it.
const WAYS: &[&[Do]] = &[
    &[Read],
    &[Read, Join],
    &[Read, Join, Claim],
    &[Read, Join, Claim, Atomic],
    &[Read, Join, Claim, Atomic, AtomicToRead],
    &[Read, Join, Claim, Atomic, AtomicToJoin, Claim, Atomic],
    &[Read, Join, Claim, Atomic, AtomicToJoin],
    &[Alone],
    &[Alone, AloneToClaim, Atomic],
    &[Alone, AloneToAtomic],
    &[Alone, AloneToRead],
];

/// `way` beside every other.
fn beside_all(way: &'static [Do]) {
    for other in WAYS {
        check(3, &[way, other]);
    }
}

#[test]
fn loom_claim_a_reader_beside_every_way() {
    beside_all(&[Read]);
}

#[test]
fn loom_claim_who_retracts_from_join_beside_every_way() {
    beside_all(&[Read, Join]);
}

#[test]
fn loom_claim_who_retracts_from_claim_beside_every_way() {
    beside_all(&[Read, Join, Claim]);
}

#[test]
fn loom_claim_an_atomic_beside_every_way() {
    beside_all(&[Read, Join, Claim, Atomic]);
}

#[test]
fn loom_claim_who_takes_refuge_beside_every_way() {
    beside_all(&[Read, Join, Claim, Atomic, AtomicToRead]);
}

#[test]
fn loom_claim_who_joins_again_beside_every_way() {
    beside_all(&[Read, Join, Claim, Atomic, AtomicToJoin, Claim, Atomic]);
}

#[test]
fn loom_claim_who_is_alone_beside_every_way() {
    beside_all(&[Alone, AloneToClaim, Atomic]);
    beside_all(&[Alone]);
}

#[test]
fn loom_claim_timed_steps_that_fail_leave_nothing() {
    const TIMED: &[Do] = &[ReadInTime, Join, ClaimInTime, AtomicInTime, AtomicToReadInTime];
    for other in [WAYS[0], WAYS[2], WAYS[3], WAYS[4], WAYS[7], TIMED] {
        check(3, &[TIMED, other]);
    }
}

#[test]
fn loom_claim_plock_p1_two_who_return_to_read_and_one_who_joins() {
    check(
        1,
        &[
            &[Read, Join, Claim, Atomic],
            &[Read, Join, Claim],
            &[Read, Join, Claim, Atomic, AtomicToRead],
        ],
    );
}

#[test]
fn loom_claim_plock_p2_one_retracts_from_claim_and_the_other_from_join() {
    check(2, &[&[Read, Join, Claim], &[Read, Join], &[Read]]);
}

#[test]
fn loom_claim_plock_p3_alone_is_never_beside_an_atomic() {
    check(2, &[&[Alone], &[Read, Join, Claim, Atomic], &[Read]]);
}

#[test]
fn loom_claim_plock_p4_the_last_claimant_leaves_in_one_step() {
    check(2, &[&[Read, Join, Claim], &[Read, Join, Claim, Atomic], &[Read]]);
}

#[test]
fn loom_claim_plock_p5_a_reader_that_must_wait_is_never_counted() {
    check(2, &[&[Read], &[Read, Join, Claim], &[Read, Leave, Read]]);
}

#[test]
fn loom_claim_plock_p6_who_joins_again_claims_after_the_last_atomic() {
    check(2, &[&[Read, Join, Claim, Atomic], &[Read, Join, Claim, Atomic, AtomicToJoin, Claim]]);
    check(
        1,
        &[&[Read, Join, Claim, Atomic], &[Read, Join, Claim, Atomic, AtomicToJoin, Claim], &[Read]],
    );
}

#[test]
fn loom_claim_plock_p7_one_joins_again_and_the_other_reads_again() {
    check(
        3,
        &[
            &[Read, Join, Claim, Atomic, AtomicToJoin, Claim],
            &[Read, Join, Claim, Atomic, AtomicToRead],
        ],
    );
    check(
        1,
        &[
            &[Read, Join, Claim, Atomic, AtomicToJoin, Claim],
            &[Read, Join, Claim, Atomic, AtomicToRead],
            &[Read, Join],
        ],
    );
}
