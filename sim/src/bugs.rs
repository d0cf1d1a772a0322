//! Bugs put back on purpose, and the world that finds each. A simulator that finds nothing proves
//! nothing, unless it finds these.

use lockspan_protocol::{Bug, Bugs};

use crate::Plan;
use crate::oracle::Failure;
use crate::run;

/// A bug and the seed of a world that finds it.
pub const TABLE: &[(Bug, u64)] = &[
    (Bug::ForgetReservation, 9),
    (Bug::ReserveForEver, 53),
    (Bug::GrantInGrace, 9),
    (Bug::EpochNotStored, 28),
    (Bug::SessionNotStored, 5),
    (Bug::ForgetNotStored, 7),
    (Bug::RestartForgetsLeases, 28),
    (Bug::CancelLeaks, 5),
    (Bug::NoWindow, 10),
    (Bug::ReleaseIgnoresSeq, 9),
    (Bug::ReadersPassWriters, 2),
    (Bug::SecondUpgraderWaits, 1),
    (Bug::TokenNotTaken, 0),
    (Bug::TicketsIgnored, 515),
    (Bug::RevokeOnce, 4),
    (Bug::LeaveNotStored, 53689),
    (Bug::AnybodyReasserts, 3804),
    (Bug::ReportsIgnored, 45),
    (Bug::ZombieServes, 324),
    (Bug::PageTakenForAll, 42),
    (Bug::RevokeIgnoresSeq, 12),
    (Bug::LeaseFromArrival, 96),
    (Bug::NoMargin, 18),
    (Bug::EarlyRevokeForgotten, 3),
    (Bug::StrayGrantKept, 82),
    (Bug::AcquireOnce, 4),
    (Bug::DowngradeEarly, 1),
    (Bug::LeaseForgotten, 18),
    (Bug::WaitsNotReasserted, 51),
    (Bug::EndBeforePages, 45),
    (Bug::SeqNotRaised, 1),
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
