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
    (Bug::GrantInGrace, None, 6),
    (Bug::EpochNotStored, None, 12),
    (Bug::SessionNotStored, None, 15),
    (Bug::ForgetNotStored, None, 6),
    (Bug::RestartForgetsLeases, None, 3),
    (Bug::CancelLeaks, None, 0),
    (Bug::NoWindow, None, 1),
    (Bug::ReleaseIgnoresSeq, None, 17),
    (Bug::ReadersPassWriters, None, 2),
    (Bug::SecondUpgraderWaits, None, 2),
    (Bug::TokenNotTaken, None, 0),
    (Bug::TicketsIgnored, None, 80),
    (Bug::RevokeOnce, None, 1),
    (Bug::AnybodyReasserts, None, 5106),
    (Bug::ReportsIgnored, None, 59),
    (Bug::ZombieServes, None, 115),
    (Bug::PageTakenForAll, None, 7),
    (Bug::AliveForAll, None, 341),
    (Bug::ForgetWithoutScope, None, 11999),
    (Bug::FormerForgottenEarly, None, 16664),
    (Bug::SpeakerEndsFirst, None, 9074),
    (Bug::GraceWithoutOwn, None, 13),
    (Bug::StrangerRecoveredEarly, None, 13),
    (Bug::RevokeIgnoresSeq, None, 7),
    (Bug::LeaseFromArrival, None, 6188),
    (Bug::NoMargin, None, 35),
    (Bug::EarlyRevokeForgotten, None, 139),
    (Bug::StrayGrantKept, None, 7),
    (Bug::AcquireOnce, None, 0),
    (Bug::DowngradeEarly, None, 2),
    (Bug::LeaseForgotten, None, 16),
    (Bug::WaitsNotReasserted, None, 94),
    (Bug::EndBeforePages, None, 7),
    (Bug::SeqNotRaised, None, 0),
    (Bug::CapForgotten, None, 337),
    (Bug::AnswersReplaced, None, 16795),
    (Bug::FormerAnsweredOnce, None, 1172),
    (Bug::HeedsReplaced, None, 362),
    (Bug::LeaveNotStored, None, 3333),
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
