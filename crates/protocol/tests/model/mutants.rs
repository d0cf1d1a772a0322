//! Mistakes that are put back into the machines, and the worlds in which they are found.

use lockspan_protocol::{Bug, Bugs};
use stateright::Checker;

use super::setup::Setup;
use super::{explore, failure, worlds};

/// Searches a world with a mistake in it.
fn find(bug: Bug, world: Setup) {
    let checker = explore(Setup { bugs: Bugs::only(bug), ..world });
    let unique = checker.unique_state_count();
    let failure = failure(&checker);
    println!("{bug:?}, after {unique} states: {}", failure.as_deref().unwrap_or("not found"));
    assert!(failure.is_some(), "{bug:?} was not found in {unique} states");
}

macro_rules! finds {
    ($($name:ident: $bug:ident in $world:ident,)*) => {
        $(#[test]
        fn $name() {
            find(Bug::$bug, worlds::$world());
        })*
    };
}

finds! {
    no_window: NoWindow in double,
    release_ignores_seq: ReleaseIgnoresSeq in two_writers,
    token_not_taken: TokenNotTaken in two_writers,
    second_upgrader_waits: SecondUpgraderWaits in two_upgrades,
    forget_reservation: ForgetReservation in retry,
    cancel_leaks: CancelLeaks in withdraw_and_lose,
    revoke_once: RevokeOnce in lose,
    grant_in_grace: GrantInGrace in restart,
    restart_forgets_leases: RestartForgetsLeases in restart,
    session_not_stored: SessionNotStored in slow_disk,
    early_revoke_forgotten: EarlyRevokeForgotten in read_and_write,
    revoke_ignores_seq: RevokeIgnoresSeq in upgrade_and_write,
    stray_grant_kept: StrayGrantKept in withdraw_and_lose,
    acquire_once: AcquireOnce in lose,
    downgrade_early: DowngradeEarly in read_and_write,
    seq_not_raised: SeqNotRaised in read_and_write,
    lease_forgotten: LeaseForgotten in leases,
    lease_from_arrival: LeaseFromArrival in leases,
}
