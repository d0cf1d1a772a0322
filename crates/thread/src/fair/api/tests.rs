//! User code that the lock calls: the clock of a policy, which may panic, and wakers.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use lock_api::RwLockUpgradableReadGuard as UpgradableGuard;

use super::super::{Policy, PolicyRwLock, RawCheckedRwLock, RwLock, RwLockExt as _};

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

/// A task that is polled inside `wake`, on the stack of whoever releases the lock.
struct Inline(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Inline {
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        // Not while the mutex is held: the task may be woken meanwhile.
        let task = self.0.lock().unwrap().take();
        let Some(mut task) = task else { return };
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.0.lock().unwrap() = Some(task);
        }
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

#[test]
fn fair_s28_tasks_that_are_polled_inside_wake_take_their_turns() {
    const TASKS: u32 = if cfg!(miri) { 20 } else { 500 };
    static LOCK: RwLock<u32> = RwLock::new(0);
    let held = LOCK.write();
    for _ in 0..TASKS {
        let task = async { *LOCK.write_async().await += 1 };
        Arc::new(Inline(Mutex::new(Some(Box::pin(task))))).poll();
    }
    assert_eq!(*held, 0);
    // Each release wakes the next one, one level deeper: as `RwLockExt::read_async` says.
    drop(held);
    assert_eq!(*LOCK.read(), TASKS);
}
