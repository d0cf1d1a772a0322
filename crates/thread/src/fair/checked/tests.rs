//! What a checked lock says, and what it leaves behind when it has said it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use lock_api::{RwLockUpgradableReadGuard as UpgradableGuard, RwLockWriteGuard as WriteGuard};

use super::super::CheckedRwLock;

const LONG: Duration = Duration::from_secs(60);

/// The message of the panic in `f`.
fn panic_in(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("this thread would wait for itself");
    panic.downcast_ref::<String>().expect("the message is a text").clone()
}

/// Nobody holds the lock, in the eyes of this thread and of another one.
fn assert_free(lock: &CheckedRwLock<u32>) {
    assert!(!lock.is_locked(), "nobody is left to release it");
    *lock.write() += 1;
    thread::scope(|scope| {
        let write = || lock.try_write().is_some();
        assert!(scope.spawn(write).join().unwrap(), "another thread gets it");
    });
}

#[test]
fn fair_s25_an_upgrade_that_panics_releases_the_lock() {
    let lock = CheckedRwLock::new(0);
    let reader = lock.try_read().unwrap();
    let upgradable = lock.try_upgradable_read().unwrap();
    let message = panic_in(|| drop(UpgradableGuard::upgrade(upgradable)));
    assert!(message.contains("for reading since"), "{message}");
    assert!(lock.is_locked(), "the read guard still holds it");
    assert!(lock.try_upgradable_read().is_some(), "nobody is the upgradable reader any more");
    drop(reader);
    assert_free(&lock);
}

#[test]
fn fair_s25_what_a_refused_call_held_stays_as_it_was() {
    let lock = CheckedRwLock::new(0);
    let mut upgradable = lock.upgradable_read();
    for _ in 0..2 {
        panic_in(|| drop(lock.read()));
        panic_in(|| drop(lock.write()));
        panic_in(|| drop(lock.upgradable_read()));
    }
    let reader = lock.try_read().unwrap();
    upgradable = UpgradableGuard::try_upgrade(upgradable).expect_err("there is a reader");
    drop(reader);
    let writer = UpgradableGuard::upgrade(upgradable);
    panic_in(|| drop(lock.read()));
    let upgradable = WriteGuard::downgrade_to_upgradable(writer);
    let reader = UpgradableGuard::downgrade(upgradable);
    panic_in(|| drop(lock.write()));
    drop(reader);
    assert_free(&lock);
}

/// Takes the lock by `$take`, asks for it again by `$again`, and looks for this line and `$mode` in
/// the message.
macro_rules! named {
    ($mode:literal, $lock:ident, $take:expr) => {{
        let $lock = CheckedRwLock::new(0);
        let (guard, line) = ($take, line!());
        let guard = guard.expect("nobody else has it");
        let place = format!("for {} since {}:{line}:", $mode, file!());
        for message in [
            panic_in(|| drop($lock.read())),
            panic_in(|| drop($lock.write())),
            panic_in(|| drop($lock.upgradable_read())),
        ] {
            assert!(message.contains(&place), "{message}, and not {place}");
        }
        drop(guard);
        assert_free(&$lock);
    }};
}

#[test]
fn fair_s26_a_checked_lock_names_the_callers_line_for_every_way_to_take_it() {
    let soon = || Instant::now() + LONG;
    named!("reading", lock, Some(lock.read()));
    named!("reading", lock, lock.try_read());
    named!("reading", lock, lock.try_read_for(LONG));
    named!("reading", lock, lock.try_read_until(soon()));
    named!("writing", lock, Some(lock.write()));
    named!("writing", lock, lock.try_write());
    named!("writing", lock, lock.try_write_for(LONG));
    named!("writing", lock, lock.try_write_until(soon()));
    named!("upgradable reading", lock, Some(lock.upgradable_read()));
    named!("upgradable reading", lock, lock.try_upgradable_read());
}

#[test]
fn fair_s26_a_hold_that_changes_its_mode_keeps_its_line() {
    let lock = CheckedRwLock::new(0);
    let (guard, line) = (lock.upgradable_read(), line!());
    let place = |mode| format!("for {mode} since {}:{line}:", file!());
    let guard = UpgradableGuard::upgrade(guard);
    assert!(panic_in(|| drop(lock.read())).contains(&place("writing")));
    let guard = WriteGuard::downgrade_to_upgradable(guard);
    assert!(panic_in(|| drop(lock.write())).contains(&place("upgradable reading")));
    let guard = UpgradableGuard::downgrade(guard);
    assert!(panic_in(|| drop(lock.write())).contains(&place("reading")));
    drop(guard);
    assert_free(&lock);
}
