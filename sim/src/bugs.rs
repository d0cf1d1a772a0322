//! Bugs put back on purpose, and the world that finds each. A simulator that finds nothing proves
//! nothing, unless it finds these.

use lockspan_protocol::{Bug, Bugs};

use crate::Plan;
use crate::oracle::Failure;
use crate::plan::Class;
use crate::run;

/// A bug and the seed of a world that finds it: of the class that the seed draws, or of this one.
pub const TABLE: &[(Bug, Option<Class>, u64)] = &[
    (Bug::ForgetReservation, None, 3),
    (Bug::ReserveForEver, None, 1735),
    (Bug::GrantInGrace, None, 0),
    (Bug::EpochNotStored, None, 12),
    (Bug::SessionNotStored, None, 15),
    (Bug::ForgetNotStored, None, 1),
    (Bug::RestartForgetsLeases, None, 0),
    (Bug::CancelLeaks, None, 5),
    (Bug::NoWindow, None, 5),
    (Bug::ReleaseIgnoresSeq, None, 9),
    (Bug::ReadersPassWriters, None, 2),
    (Bug::SecondUpgraderWaits, None, 2),
    (Bug::TokenNotTaken, None, 0),
    (Bug::TicketsIgnored, None, 80),
    (Bug::RevokeOnce, None, 4),
    (Bug::AnybodyReasserts, None, 5106),
    (Bug::ReportsIgnored, None, 59),
    (Bug::ZombieServes, None, 96),
    (Bug::PageTakenForAll, None, 7),
    (Bug::AliveForAll, None, 1133),
    (Bug::ForgetWithoutScope, None, 3723),
    (Bug::FormerForgottenEarly, None, 403),
    (Bug::SpeakerEndsFirst, None, 6097),
    (Bug::GraceWithoutOwn, None, 96),
    (Bug::StrangerRecoveredEarly, None, 262),
    (Bug::LowestGroupOnly, None, 5860),
    (Bug::RevokeIgnoresSeq, None, 7),
    (Bug::LeaseFromArrival, None, 6188),
    (Bug::NoMargin, None, 35),
    (Bug::EarlyRevokeForgotten, None, 139),
    (Bug::StrayGrantKept, None, 7),
    (Bug::AcquireOnce, None, 4),
    (Bug::DowngradeEarly, None, 1),
    (Bug::LeaseForgotten, None, 1),
    (Bug::WaitsNotReasserted, None, 94),
    (Bug::EndBeforePages, None, 7),
    (Bug::SeqNotRaised, None, 2),
    (Bug::CapForgotten, None, 13),
    (Bug::RecoveredExtends, None, 7129),
    (Bug::FormerAnsweredOnce, None, 54),
    (Bug::AnswersReplaced, None, 770),
    (Bug::HeedsReplaced, None, 30),
    (Bug::LeaveNotStored, None, 3417),
];

/// The first of these worlds that finds the bug, and what it says. It passes without the bug.
#[must_use]
pub fn find(bug: Bug, plans: impl Iterator<Item = Plan>) -> Option<(u64, Failure)> {
    for plan in plans {
        let failure = run(&plan, Bugs::only(bug)).failure;
        if let Some(failure) = failure.filter(|_| run(&plan, Bugs::NONE).failure.is_none()) {
            return Some((plan.seed, failure));
        }
    }
    None
}

/// The bug with this name.
#[must_use]
pub fn named(name: &str) -> Option<Bug> {
    Bug::ALL.iter().copied().find(|bug| format!("{bug:?}").eq_ignore_ascii_case(name))
}
