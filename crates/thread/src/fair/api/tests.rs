//! Calls that are given a hold and panic release it: the clock of a policy is its user's code.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use lock_api::RwLockUpgradableReadGuard as UpgradableGuard;

use super::super::{Policy, PolicyRwLock, RawCheckedRwLock};

const LONG: Duration = Duration::from_secs(60);

thread_local! {
    static IS_BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// Its clock panics when it is told to.
struct Fragile;

impl Policy for Fragile {
    const PASSING: bool = true;

    fn now() -> u64 {
        assert!(!IS_BROKEN.get(), "the clock is broken");
        0
    }

    fn quantum() -> u64 {
        1
    }

    fn bound() -> u64 {
        1
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }
}

type Lock = PolicyRwLock<u32, Fragile>;
type Upgradable<'a> = super::super::RwLockUpgradableReadGuard<'a, u32, Fragile>;

fn fails_and_releases(upgrade: impl FnOnce(Upgradable<'_>)) {
    let lock = Lock::new(0);
    let reader = lock.read();
    let upgradable = lock.upgradable_read();
    IS_BROKEN.set(true);
    let panic = catch_unwind(AssertUnwindSafe(|| upgrade(upgradable)));
    IS_BROKEN.set(false);
    assert!(panic.is_err(), "the clock was not asked");
    assert!(lock.try_upgradable_read().is_some(), "nobody is the upgradable reader any more");
    drop(reader);
    assert!(!lock.is_locked(), "nobody is left to release it");
    assert!(lock.try_write().is_some());
}

#[test]
fn fair_s27_an_upgrade_whose_clock_panics_releases_the_lock() {
    fails_and_releases(|guard| drop(UpgradableGuard::upgrade(guard)));
    fails_and_releases(|guard| drop(UpgradableGuard::try_upgrade_for(guard, LONG).ok()));
    let soon = Instant::now() + LONG;
    fails_and_releases(|guard| drop(UpgradableGuard::try_upgrade_until(guard, soon).ok()));
}

#[test]
fn fair_s27_a_checked_lock_forgets_a_hold_that_was_lost_to_a_panic() {
    let lock = lock_api::RwLock::<RawCheckedRwLock<Fragile>, u32>::new(0);
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let lock = &lock;
        scope.spawn(move || {
            let reader = lock.read();
            tell.send(()).unwrap();
            ended.recv().unwrap();
            drop(reader);
        });
        told.recv().unwrap();
        let upgradable = lock.upgradable_read();
        IS_BROKEN.set(true);
        let upgrade = || drop(UpgradableGuard::upgrade(upgradable));
        assert!(catch_unwind(AssertUnwindSafe(upgrade)).is_err(), "the clock was not asked");
        IS_BROKEN.set(false);
        end.send(()).unwrap();
        *lock.write() += 1;
    });
    assert_eq!(lock.into_inner(), 1);
}
