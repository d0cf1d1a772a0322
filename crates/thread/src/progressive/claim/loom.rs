//! Models of the claim lock that ships: every pair of ways through it, the seven cases in which the
//! original goes wrong (`plock_p1` to `plock_p7` of `docs/failures.md`), and four of its own. The
//! races of a timed step that gives up need four preemptions; they have two threads each.

use std::time::{Duration, Instant};

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::super::loom::{Watched, side_by_side};
use super::{RawClaimLock, Unfinished};
use crate::sync::{AtomicU32, Ordering, thread};
use Do::{
    Alone, AloneToAtomic, AloneToClaim, AloneToRead, Atomic, AtomicInTime, AtomicToClaim,
    AtomicToClaimInTime, AtomicToJoin, AtomicToRead, AtomicToReadInTime, Claim, ClaimInTime,
    ClaimToRead, ClaimToReadInTime, Join, JoinToAtomic, JoinToAtomicInTime, JoinToRead,
    JoinToReadInTime, Leave, OutToAtomic, OutToAtomicInTime, OutToClaim, OutToClaimInTime, Read,
    ReadInTime, ReadToClaim, ReadToClaimInTime, TryAtomic, TryAtomicToClaim, TryAtomicToRead,
    TryClaim, TryClaimToRead, TryJoinToAtomic, TryJoinToRead, TryOutToAtomic, TryOutToClaim,
    TryReadToClaim,
};

/// One transition; the thread uses what it then holds.
#[derive(Clone, Copy, Debug)]
enum Do {
    Read,
    ReadInTime,
    OutToClaim,
    TryOutToClaim,
    OutToClaimInTime,
    OutToAtomic,
    TryOutToAtomic,
    OutToAtomicInTime,
    Join,
    ReadToClaim,
    TryReadToClaim,
    ReadToClaimInTime,
    Claim,
    TryClaim,
    ClaimInTime,
    JoinToRead,
    TryJoinToRead,
    JoinToReadInTime,
    JoinToAtomic,
    TryJoinToAtomic,
    JoinToAtomicInTime,
    Atomic,
    TryAtomic,
    AtomicInTime,
    ClaimToRead,
    TryClaimToRead,
    ClaimToReadInTime,
    AtomicToRead,
    TryAtomicToRead,
    AtomicToReadInTime,
    AtomicToJoin,
    AtomicToClaim,
    TryAtomicToClaim,
    AtomicToClaimInTime,
    Alone,
    AloneToClaim,
    AloneToAtomic,
    AloneToRead,
    Leave,
}

impl Do {
    fn begins_in(self, hold: Hold) -> bool {
        match self {
            Read | ReadInTime | OutToClaim | TryOutToClaim | OutToClaimInTime | OutToAtomic
            | TryOutToAtomic | OutToAtomicInTime | Alone => hold == Hold::Nothing,
            Join | ReadToClaim | TryReadToClaim | ReadToClaimInTime => hold == Hold::Read,
            Claim | TryClaim | ClaimInTime | JoinToRead | TryJoinToRead | JoinToReadInTime
            | JoinToAtomic | TryJoinToAtomic | JoinToAtomicInTime => hold == Hold::Join,
            Atomic | TryAtomic | AtomicInTime | ClaimToRead | TryClaimToRead
            | ClaimToReadInTime => hold == Hold::Claim,
            AtomicToRead | TryAtomicToRead | AtomicToReadInTime | AtomicToJoin | AtomicToClaim
            | TryAtomicToClaim | AtomicToClaimInTime => hold == Hold::Atomic,
            AloneToClaim | AloneToAtomic | AloneToRead => hold == Hold::Alone,
            Leave => true,
        }
    }
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

/// Follows a script: the steps that begin in what the thread holds. So those after a step that can
/// be refused, or that a model lets fail for the time, say how the thread goes on either way.
///
/// Checked after a step that did not come to its end: that the phase follows from the counts (after
/// every step, the look at the word would make models take five times as long). Checked in Claim:
/// that nobody has changed what the thread read before it joined.
fn follow(watched: &Watched<RawClaimLock>, me: usize, script: &[Do]) {
    let raw = &watched.raw;
    let (mut hold, mut has_read) = (Hold::Nothing, None);
    for step in script {
        if step.begins_in(hold) {
            let (next, has_moved) = go(raw, *step, hold);
            hold = next;
            if !has_moved {
                let inside = raw.holders();
                assert!(inside.phase_follows_from_counts(), "after {step:?}: {inside:?}");
            }
            has_read = r#use(watched, me, hold, has_read);
        }
    }
    leave(raw, hold);
}

/// What the thread holds after the step, and whether that is what the step is for.
fn go(raw: &RawClaimLock, step: Do, before: Hold) -> (Hold, bool) {
    let done = |to, step: &dyn Fn()| {
        step();
        (to, true)
    };
    let tried = |to, has_moved| if has_moved { (to, true) } else { (before, false) };
    let timed = |to, half_way, result| match result {
        Ok(()) => (to, true),
        Err(Unfinished::Back(())) => (before, false),
        Err(Unfinished::HalfWay(())) => (half_way, false),
    };
    match step {
        Read => done(Hold::Read, &|| raw.read()),
        ReadInTime => tried(Hold::Read, raw.read_until(soon())),
        OutToClaim => done(Hold::Claim, &|| raw.claim()),
        TryOutToClaim => tried(Hold::Claim, raw.try_claim()),
        OutToClaimInTime => tried(Hold::Claim, raw.claim_until(soon())),
        OutToAtomic => done(Hold::Atomic, &|| raw.atomic()),
        TryOutToAtomic => tried(Hold::Atomic, raw.try_atomic()),
        OutToAtomicInTime => tried(Hold::Atomic, raw.atomic_until(soon())),
        Join => done(Hold::Join, &|| raw.read_to_join()),
        ReadToClaim => done(Hold::Claim, &|| raw.read_to_claim()),
        TryReadToClaim => tried(Hold::Claim, raw.try_read_to_claim()),
        ReadToClaimInTime => tried(Hold::Claim, raw.read_to_claim_until(soon())),
        Claim => done(Hold::Claim, &|| raw.join_to_claim()),
        TryClaim => tried(Hold::Claim, raw.try_join_to_claim()),
        ClaimInTime => tried(Hold::Claim, raw.join_to_claim_until(soon())),
        JoinToRead => done(Hold::Read, &|| raw.join_to_read()),
        TryJoinToRead => tried(Hold::Read, raw.try_join_to_read()),
        JoinToReadInTime => timed(Hold::Read, Hold::Atomic, raw.join_to_read_until(soon())),
        JoinToAtomic => done(Hold::Atomic, &|| raw.join_to_atomic()),
        TryJoinToAtomic => tried(Hold::Atomic, raw.try_join_to_atomic()),
        JoinToAtomicInTime => tried(Hold::Atomic, raw.join_to_atomic_until(soon())),
        Atomic => done(Hold::Atomic, &|| raw.claim_to_atomic()),
        TryAtomic => tried(Hold::Atomic, raw.try_claim_to_atomic()),
        AtomicInTime => tried(Hold::Atomic, raw.claim_to_atomic_until(soon())),
        ClaimToRead => done(Hold::Read, &|| raw.claim_to_read()),
        TryClaimToRead => tried(Hold::Read, raw.try_claim_to_read()),
        ClaimToReadInTime => timed(Hold::Read, Hold::Atomic, raw.claim_to_read_until(soon())),
        AtomicToRead => done(Hold::Read, &|| raw.atomic_to_read()),
        TryAtomicToRead => tried(Hold::Read, raw.try_atomic_to_read()),
        AtomicToReadInTime => tried(Hold::Read, raw.atomic_to_read_until(soon())),
        AtomicToJoin => done(Hold::Join, &|| raw.atomic_to_join()),
        AtomicToClaim => done(Hold::Claim, &|| raw.atomic_to_claim()),
        TryAtomicToClaim => tried(Hold::Claim, raw.try_atomic_to_claim()),
        AtomicToClaimInTime => timed(Hold::Claim, Hold::Join, raw.atomic_to_claim_until(soon())),
        Alone => done(Hold::Alone, &|| raw.join_alone()),
        AloneToClaim => done(Hold::Claim, &|| raw.alone_to_claim()),
        AloneToAtomic => done(Hold::Atomic, &|| raw.alone_to_atomic()),
        AloneToRead => done(Hold::Read, &|| raw.alone_to_read()),
        Leave => done(Hold::Nothing, &|| leave(raw, before)),
    }
}

/// Uses what the thread holds. `has_read` is how many changes it saw when it last read, as long as
/// it may rely on that; the same is returned.
fn r#use(
    watched: &Watched<RawClaimLock>,
    me: usize,
    hold: Hold,
    has_read: Option<u32>,
) -> Option<u32> {
    match hold {
        Hold::Nothing => return None,
        Hold::Join => return has_read,
        Hold::Read => return Some(watched.look()),
        Hold::Claim => {
            let changes = watched.mark(me);
            assert_eq!(changes, has_read.unwrap_or(changes), "changed since it read");
            return has_read;
        }
        Hold::Atomic => watched.change(me),
        Hold::Alone => watched.change_all(),
    }
    None
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
    &[OutToAtomic],
    &[OutToClaim, ClaimToRead],
    &[Read, Join, JoinToRead],
    &[Read, Join, JoinToAtomic],
    &[OutToAtomic, AtomicToJoin, JoinToAtomic],
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
fn loom_claim_an_atomic_that_reads_again_beside_every_way() {
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
fn loom_claim_an_atomic_from_outside_beside_every_way() {
    beside_all(&[OutToAtomic]);
    beside_all(&[OutToAtomic, AtomicToRead]);
}

#[test]
fn loom_claim_a_claimant_from_outside_that_takes_refuge_beside_every_way() {
    beside_all(&[OutToClaim, ClaimToRead]);
}

#[test]
fn loom_claim_a_joiner_that_reads_again_beside_every_way() {
    beside_all(&[Read, Join, JoinToRead]);
}

#[test]
fn loom_claim_a_joiner_that_gives_up_to_atomic_beside_every_way() {
    beside_all(&[Read, Join, JoinToAtomic]);
    beside_all(&[OutToAtomic, AtomicToJoin, JoinToAtomic]);
}

#[test]
fn loom_claim_steps_that_do_not_wait_beside_every_way() {
    beside_all(&[TryOutToClaim, TryAtomic, TryAtomicToRead, TryReadToClaim]);
    beside_all(&[TryOutToAtomic, TryAtomicToClaim, TryClaimToRead]);
}

#[test]
fn loom_claim_joiners_that_do_not_wait_beside_every_way() {
    beside_all(&[Read, Join, TryJoinToRead]);
    beside_all(&[Read, Join, TryClaim]);
    beside_all(&[OutToAtomic, AtomicToJoin, TryJoinToAtomic]);
}

#[test]
fn loom_claim_timed_steps_that_fail_leave_nothing() {
    const TIMED: &[Do] = &[ReadInTime, Join, ClaimInTime, AtomicInTime, AtomicToReadInTime];
    for other in [WAYS[0], WAYS[2], WAYS[3], WAYS[4], WAYS[7], TIMED] {
        check(3, &[TIMED, other]);
    }
}

#[test]
fn loom_claim_plock_p11_a_timed_atomic_from_outside_that_fails_leaves_nothing() {
    beside_all(&[OutToAtomicInTime]);
}

#[test]
fn loom_claim_a_timed_claim_that_fails_leaves_the_state_before() {
    beside_all(&[OutToClaimInTime]);
    beside_all(&[Read, ReadToClaimInTime]);
}

#[test]
fn loom_claim_plock_p13_a_timed_next_round_that_fails_leaves_atomic_or_join() {
    beside_all(&[OutToAtomic, AtomicToClaimInTime]);
    check(1, &[&[OutToAtomic, AtomicToClaimInTime], &[OutToAtomic, AtomicToRead], &[OutToAtomic]]);
}

#[test]
fn loom_claim_a_timed_refuge_that_fails_leaves_claim_or_atomic() {
    beside_all(&[OutToClaim, ClaimToReadInTime]);
    check(1, &[&[Read, Join, Claim, ClaimToReadInTime], &[Read, Join, Claim, Atomic], &[Read]]);
}

#[test]
fn loom_claim_a_joiner_whose_time_to_give_up_is_over_can_go_on() {
    beside_all(&[Read, Join, JoinToReadInTime]);
    beside_all(&[Read, Join, JoinToAtomicInTime]);
    beside_all(&[OutToAtomic, AtomicToJoin, JoinToReadInTime]);
}

#[test]
fn loom_claim_a_reader_or_claimant_that_gives_up_as_its_phase_comes() {
    check(4, &[&[Read, ReadToClaimInTime], &[Read, Join, Claim]]);
    check(4, &[&[OutToClaimInTime], &[Read, Join, Claim]]);
    check(4, &[&[Read, Join, Claim, AtomicInTime], &[Read, Join, Claim]]);
}

#[test]
fn loom_claim_an_atomic_from_outside_that_gives_up_as_its_phase_comes() {
    check(4, &[&[OutToAtomicInTime], &[Read]]);
    check(4, &[&[OutToAtomicInTime], &[Read, Join, Claim]]);
}

#[test]
fn loom_claim_a_joiner_from_atomic_that_gives_up_as_the_phase_ends() {
    check(4, &[&[OutToAtomic, AtomicToJoin, JoinToReadInTime, Claim], &[OutToAtomic]]);
    check(4, &[&[OutToAtomic, AtomicToReadInTime], &[OutToAtomic]]);
    check(4, &[&[OutToAtomic, AtomicToClaimInTime], &[OutToAtomic]]);
}

#[test]
fn loom_claim_plock_p14_a_joiner_that_is_back_in_join_claims_by_what_it_has_read() {
    check(4, &[&[Read, Join, JoinToReadInTime, Claim, Atomic], &[OutToAtomic]]);
    check(4, &[&[Read, Join, JoinToReadInTime, Claim], &[Read, Join, Claim, Atomic]]);
}

/// Two threads claim together. One wrote something before, and shows it with its mark, as one that
/// comes by Read may do too.
#[test]
fn loom_claim_plock_p15_what_a_claimant_from_outside_did_before_is_visible_in_claim() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(5);
    model.check(|| {
        let shared = Arc::new((RawClaimLock::new(), AtomicU32::new(0), UnsafeCell::new(0)));
        let other = Arc::clone(&shared);
        let claimant = thread::spawn(move || {
            let (raw, mark, node) = &*other;
            // SAFETY: nobody else reaches it before the mark; loom fails the model otherwise.
            node.with_mut(|node| unsafe { *node = 1 });
            raw.claim();
            mark.store(1, Ordering::Relaxed);
            raw.claim_done();
        });
        let (raw, mark, node) = &*shared;
        raw.read();
        raw.read_to_claim();
        if mark.load(Ordering::Relaxed) == 1 {
            // SAFETY: it was written before the mark; loom fails the model otherwise.
            assert_eq!(node.with(|node| unsafe { *node }), 1);
        }
        raw.claim_done();
        claimant.join().unwrap();
        raw.assert_at_rest();
    });
}

#[test]
fn loom_claim_who_joins_again_at_once_beside_a_reader_and_an_atomic() {
    check(2, &[&[OutToAtomic, AtomicToClaim], &[OutToAtomic], &[Read, ReadToClaim]]);
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
