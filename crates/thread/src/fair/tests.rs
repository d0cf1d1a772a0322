//! The lock as its users see it, on real threads; Miri runs these too.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lock_api::{RawRwLock as _, RawRwLockTimed as _};

use super::*;
use crate::sync::{AtomicUsize, Ordering};

const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll<F: Future>(future: Pin<&mut F>, bell: &Arc<Bell>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(bell.clone())))
}

/// Waits until somebody is in line behind the present holders.
fn until_somebody_waits<T, P: Policy>(lock: &PolicyRwLock<T, P>) {
    // SAFETY: only looked at.
    let raw = unsafe { lock.raw() };
    while word::lacks(raw.state.load(Ordering::SeqCst), word::QUEUED) {
        thread::yield_now();
    }
}

fn is_at_rest<T, P: Policy>(lock: &PolicyRwLock<T, P>) -> bool {
    // SAFETY: only looked at.
    unsafe { lock.raw() }.state.load(Ordering::SeqCst) == 0
}

#[test]
fn a_lock_is_made_at_compile_time_and_has_48_bytes() {
    static LOCK: RwLock<u32> = RwLock::new(7);
    assert_eq!(*LOCK.read(), 7);
    assert_eq!(size_of::<RawRwLock>(), 48);
    assert!(!RawRwLock::<Strict>::new().is_locked());
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let lock = RwLock::new(0);
    let (one, two) = (lock.read(), lock.read());
    assert!(lock.try_write().is_none());
    assert!(lock.is_locked() && !lock.is_locked_exclusive());
    drop((one, two));
    let writer = lock.try_write().unwrap();
    assert!(lock.try_read().is_none() && lock.try_write().is_none());
    assert!(lock.is_locked_exclusive());
    drop(writer);
    assert!(is_at_rest(&lock));
}

fn counts_up_on_many_threads<P: Policy>() {
    let lock = PolicyRwLock::<_, P>::new([0_usize; 2]);
    thread::scope(|scope| {
        for number in 0..4 {
            let lock = &lock;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if (round + number) % 4 == 0 {
                        let mut both = lock.write();
                        both[0] += 1;
                        both[1] += 1;
                    } else {
                        let both = lock.read();
                        assert_eq!(both[0], both[1]);
                    }
                }
            });
        }
    });
    assert_eq!(*lock.read(), [ROUNDS; 2]);
    assert!(is_at_rest(&lock));
}

#[test]
fn nothing_is_lost_on_many_threads() {
    counts_up_on_many_threads::<Bounded>();
}

#[test]
fn nothing_is_lost_on_many_threads_in_strict_order() {
    counts_up_on_many_threads::<Strict>();
}

#[test]
fn nothing_is_lost_on_many_threads_that_go_in_together() {
    counts_up_on_many_threads::<Together>();
}

/// Time stands still, so nobody reaches the bound, and readers come in by two.
struct ByTwo;

impl Policy for ByTwo {
    const PASSING: bool = true;

    fn now() -> u64 {
        0
    }

    fn quantum() -> u64 {
        1
    }

    fn bound() -> u64 {
        2
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }

    fn crowd() -> usize {
        2
    }
}

/// Five readers and a writer gather behind a writer, which then hands the lock over: how many of
/// the readers are let in, and whether the writer is.
fn let_in_after_a_writer<P: Policy>() -> (usize, bool) {
    let lock = PolicyRwLock::<_, P>::new(0);
    let (bell, last) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    let holder = lock.write();
    let mut writer = Box::pin(lock.write_async());
    let mut readers: Vec<_> = (0..5).map(|_| Box::pin(lock.read_async())).collect();
    assert!(poll(writer.as_mut(), &last).is_pending());
    for reader in &mut readers {
        assert!(poll(reader.as_mut(), &bell).is_pending());
    }
    RwLockWriteGuard::unlock_fair(holder);
    // A waker may also ring for a waiter that is only to wake up: a poll tells.
    let guards: Vec<_> = readers
        .iter_mut()
        .filter_map(|reader| match poll(reader.as_mut(), &bell) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        })
        .collect();
    (guards.len(), poll(writer.as_mut(), &last).is_ready())
}

#[test]
fn while_a_writer_waits_readers_come_in_by_as_many_as_the_policy_says_or_together() {
    assert_eq!(let_in_after_a_writer::<ByTwo>(), (2, false));
    assert_eq!(let_in_after_a_writer::<Together<ByTwo>>(), (5, false));
    assert_eq!(let_in_after_a_writer::<Strict>(), (5, false));
    assert_eq!(let_in_after_a_writer::<Together<Strict>>(), (5, false));
    let processors = thread::available_parallelism().unwrap().get();
    assert_eq!(
        (Bounded::<10_000>::crowd(), Together::<Bounded>::crowd()),
        (processors, usize::MAX)
    );
    assert_eq!(format!("{:?}", Together::<Bounded>::default()), "Together<Bounded<10000 µs>>");
}

#[test]
fn a_timed_wait_ends_and_leaves_nothing_behind() {
    let lock = StrictRwLock::new(0);
    let writer = lock.write();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.try_read_for(Duration::from_millis(2)).is_none());
            assert!(lock.try_write_until(Instant::now() + Duration::from_millis(2)).is_none());
            assert!(lock.try_upgradable_read_for(Duration::from_millis(2)).is_none());
        });
    });
    drop(writer);
    assert!(is_at_rest(&lock));
    assert!(lock.try_write_for(Duration::from_secs(60)).is_some());
}

#[test]
fn a_timed_wait_is_granted_in_time() {
    let lock = RwLock::new(0);
    let writer = lock.write();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| *lock.try_read_for(Duration::from_secs(60)).unwrap());
        until_somebody_waits(&lock);
        drop(writer);
        assert_eq!(waiter.join().unwrap(), 0);
    });
}

#[test]
fn a_timed_out_upgrade_keeps_its_read() {
    let lock = RwLock::new(0);
    let reader = lock.read();
    let upgradable = lock.upgradable_read();
    let upgradable =
        RwLockUpgradableReadGuard::try_upgrade_for(upgradable, Duration::from_millis(2))
            .expect_err("a reader is there");
    assert_eq!(*upgradable, 0);
    assert!(lock.try_upgradable_read().is_none());
    drop(reader);
    *RwLockUpgradableReadGuard::upgrade(upgradable) += 1;
    assert_eq!(*lock.read(), 1);
    assert!(is_at_rest(&lock));
}

#[test]
fn two_upgraders_go_one_after_the_other() {
    let lock = RwLock::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS / 4 {
                    let upgradable = lock.upgradable_read();
                    let seen = *upgradable;
                    let mut writer = RwLockUpgradableReadGuard::upgrade(upgradable);
                    assert_eq!(*writer, seen, "nobody wrote during the upgrade");
                    *writer += 1;
                }
            });
        }
    });
    assert_eq!(*lock.read(), ROUNDS / 4 * 2);
}

#[test]
fn a_downgrade_lets_the_waiting_reader_in() {
    let lock = StrictRwLock::new(0);
    let mut writer = lock.write();
    thread::scope(|scope| {
        let reader = scope.spawn(|| *lock.read());
        until_somebody_waits(&lock);
        *writer = 5;
        let read = RwLockWriteGuard::downgrade(writer);
        assert_eq!(reader.join().unwrap(), 5, "it reads beside the downgraded writer");
        assert_eq!(*read, 5);
        drop(read);
    });
    assert!(is_at_rest(&lock));
}

#[test]
fn a_fair_release_hands_the_lock_over() {
    let lock = RwLock::new(0);
    let writer = lock.write();
    thread::scope(|scope| {
        let (let_go, told) = mpsc::channel();
        let lock = &lock;
        scope.spawn(move || {
            let _held = lock.write();
            told.recv().unwrap();
        });
        until_somebody_waits(lock);
        RwLockWriteGuard::unlock_fair(writer);
        assert!(lock.is_locked_exclusive(), "the lock is the waiter's, whether it runs or not");
        let_go.send(()).unwrap();
    });
    assert!(is_at_rest(&lock));
}

#[test]
fn a_recursive_read_passes_a_waiting_writer() {
    let lock = StrictRwLock::new(0);
    let outer = lock.read();
    thread::scope(|scope| {
        let writer = scope.spawn(|| *lock.write() += 1);
        until_somebody_waits(&lock);
        assert!(lock.try_read().is_none(), "a plain read stands in line");
        assert_eq!(*lock.read_recursive(), 0);
        assert!(lock.try_read_recursive().is_some());
        drop(outer);
        writer.join().unwrap();
    });
    assert_eq!(*lock.read(), 1);
}

#[test]
fn a_panic_under_a_guard_releases_the_lock() {
    let lock = RwLock::new(0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        *lock.write() = 9;
        let _held = lock.write();
        panic!("under the lock");
    }));
    assert!(result.is_err());
    assert_eq!(*lock.read(), 9);
}

#[test]
fn too_many_readers_are_refused() {
    let lock = RawRwLock::<Bounded>::new();
    lock.state.store(word::CROWDED, Ordering::SeqCst);
    assert!(lock.try_lock_shared().is_none());
    assert!(!lock.try_lock_shared_recursive());
    assert!(lock.try_lock_exclusive_for(Duration::from_millis(1)).is_none(), "a writer waits");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.lock_shared()));
    assert!(panic.is_err(), "a count that would wrap is refused");
    assert_eq!(lock.state.load(Ordering::SeqCst), word::CROWDED, "and nothing changed");
}

#[test]
fn fair_s19_a_timed_reader_waits_for_room_in_the_count_until_its_time() {
    let lock = RawRwLock::<Bounded>::new();
    lock.state.store(word::CROWDED, Ordering::SeqCst);
    let end = Instant::now() + Duration::from_millis(20);
    assert!(lock.try_lock_shared_until(end).is_none());
    assert!(Instant::now() >= end, "it gave up before its time");
    thread::scope(|scope| {
        let waits = scope.spawn(|| lock.try_lock_shared_for(Duration::from_secs(600)).is_some());
        thread::sleep(Duration::from_millis(5));
        lock.state.store(word::CROWDED - word::READER, Ordering::SeqCst);
        assert!(waits.join().unwrap(), "there was room in time");
    });
    assert_eq!(lock.state.load(Ordering::SeqCst), word::CROWDED);
}

#[test]
fn guards_may_move_to_another_thread() {
    let lock = Arc::new(RwLock::new(1));
    let guard = lock.write_arc();
    thread::spawn(move || drop(guard)).join().unwrap();
    let lock = RwLock::new(2);
    let guard = lock.read();
    thread::scope(|scope| {
        scope.spawn(move || assert_eq!(*guard, 2));
    });
    assert!(is_at_rest(&lock));
}

#[test]
fn fair_s12_a_release_wakes_only_whose_turn_it_is() {
    let lock = StrictRwLock::new(());
    let holder = lock.write();
    let bells = [(); 3].map(|()| Arc::new(Bell::default()));
    let mut writers = bells.each_ref().map(|_| Box::pin(lock.write_async()));
    for (writer, bell) in writers.iter_mut().zip(&bells) {
        assert!(poll(writer.as_mut(), bell).is_pending());
    }
    assert_eq!(bells.each_ref().map(|bell| bell.rung()), [0, 0, 0], "an arrival wakes nobody");
    drop(holder);
    assert_eq!(bells.each_ref().map(|bell| bell.rung()), [1, 0, 0]);
    drop(poll(writers[0].as_mut(), &bells[0]));
    assert_eq!(bells.each_ref().map(|bell| bell.rung()), [1, 1, 0]);
}

#[test]
fn tasks_and_threads_stand_in_one_line() {
    let lock = StrictRwLock::new(Vec::new());
    let holder = lock.write();
    let bell = Arc::new(Bell::default());
    let mut task = pin!(lock.write_async());
    assert!(poll(task.as_mut(), &bell).is_pending());
    thread::scope(|scope| {
        scope.spawn(|| lock.write().push("thread"));
        // SAFETY: only looked at.
        let raw = unsafe { lock.raw() };
        while raw.inbox.load(Ordering::SeqCst).is_null() {
            thread::yield_now();
        }
        drop(holder);
        assert_eq!(bell.rung(), 1, "the task came first");
        let Poll::Ready(mut guard) = poll(task.as_mut(), &bell) else {
            panic!("the lock is the task's");
        };
        guard.push("task");
        drop(guard);
    });
    assert_eq!(*lock.read(), ["task", "thread"]);
}

#[test]
fn a_future_that_is_dropped_with_the_lock_hands_it_on() {
    let lock = StrictRwLock::new(0);
    let bells = [(); 2].map(|()| Arc::new(Bell::default()));
    let holder = lock.write();
    let mut first = Box::pin(lock.write_async());
    let mut second = Box::pin(lock.write_async());
    assert!(poll(first.as_mut(), &bells[0]).is_pending());
    assert!(poll(second.as_mut(), &bells[1]).is_pending());
    drop(holder);
    assert_eq!(bells[0].rung(), 1);
    drop(first);
    assert_eq!(bells[1].rung(), 1, "the lock went on");
    assert!(poll(second.as_mut(), &bells[1]).is_ready());
    assert!(is_at_rest(&lock));
}

#[test]
fn a_future_that_is_dropped_in_line_is_forgotten() {
    let lock = StrictRwLock::new(0);
    let bell = Arc::new(Bell::default());
    let holder = lock.read();
    let mut writer = Box::pin(lock.write_async());
    assert!(poll(writer.as_mut(), &bell).is_pending());
    assert!(lock.try_read().is_none(), "a writer waits");
    drop(writer);
    assert!(lock.try_read().is_some(), "and is gone");
    drop(holder);
    assert!(is_at_rest(&lock));
    assert_eq!(bell.rung(), 0);
    assert_eq!(Arc::strong_count(&bell), 1, "its waker went with it");
}

#[test]
fn a_future_wakes_the_waker_of_its_last_poll() {
    let lock = StrictRwLock::new(0);
    let bells = [(); 2].map(|()| Arc::new(Bell::default()));
    let holder = lock.write();
    let mut task = pin!(lock.read_async());
    for bell in &bells {
        assert!(poll(task.as_mut(), bell).is_pending());
    }
    drop(holder);
    assert_eq!(bells.each_ref().map(|bell| bell.rung()), [0, 1]);
    assert!(poll(task.as_mut(), &bells[1]).is_ready());
}

struct Rude;

impl Wake for Rude {
    fn wake(self: Arc<Self>) {
        panic!("woken");
    }
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    let lock = StrictRwLock::new(0);
    let holder = lock.write();
    let bell = Arc::new(Bell::default());
    let rude_waker = Waker::from(Arc::new(Rude));
    let mut rude: Vec<_> = (0..20).map(|_| Box::pin(lock.read_async())).collect();
    for future in &mut rude {
        assert!(future.as_mut().poll(&mut Context::from_waker(&rude_waker)).is_pending());
    }
    let mut polite = Box::pin(lock.read_async());
    assert!(poll(polite.as_mut(), &bell).is_pending());
    drop(holder);
    assert_eq!(bell.rung(), 1);
    assert!(poll(polite.as_mut(), &bell).is_ready());
    drop((rude, polite));
    assert!(is_at_rest(&lock));
}

/// Reads beside the woken readers from within the wake.
struct Eager(Arc<StrictRwLock<usize>>, Bell);

impl Wake for Eager {
    fn wake(self: Arc<Self>) {
        assert_eq!(*self.0.try_read_for(Duration::from_secs(60)).expect("readers share"), 0);
        self.1.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_waker_may_use_the_lock() {
    let lock = Arc::new(StrictRwLock::new(0));
    let holder = lock.write();
    let eager = Arc::new(Eager(lock.clone(), Bell::default()));
    let waker = Waker::from(eager.clone());
    let mut tasks: Vec<_> = (0..20).map(|_| Box::pin(lock.read_async())).collect();
    for task in &mut tasks {
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(holder);
    assert_eq!(eager.1.rung(), 20);
}

#[test]
fn an_upgrade_is_a_writer_s_turn() {
    let lock = StrictRwLock::new(0);
    let bells = [(); 2].map(|()| Arc::new(Bell::default()));
    let upgradable = lock.upgradable_read();
    let mut writer = Box::pin(lock.write_async());
    let mut reader = Box::pin(lock.read_async());
    assert!(poll(writer.as_mut(), &bells[0]).is_pending());
    assert!(poll(reader.as_mut(), &bells[1]).is_pending());
    drop(RwLockUpgradableReadGuard::upgrade(upgradable));
    assert_eq!(bells.each_ref().map(|bell| bell.rung()), [0, 1], "the reader is next");
}

/// A policy that may not be asked for the time.
struct Timeless;

impl Policy for Timeless {
    const PASSING: bool = false;

    fn now() -> u64 {
        unreachable!("nobody's age matters")
    }

    fn quantum() -> u64 {
        0
    }

    fn bound() -> u64 {
        0
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn where_nobody_passes_no_clock_is_read() {
    let lock = PolicyRwLock::<_, Timeless>::new(0);
    let reader = lock.read();
    assert!(lock.try_write_for(Duration::from_millis(1)).is_none());
    drop(reader);
    assert!(is_at_rest(&lock));
}

#[test]
fn a_checked_lock_names_an_upgrade_that_waits_for_its_own_thread() {
    let lock = CheckedRwLock::new(0);
    let upgradable = lock.upgradable_read();
    let _reader = lock.try_read().unwrap();
    let upgrade = || drop(lock_api::RwLockUpgradableReadGuard::upgrade(upgradable));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(upgrade))
        .expect_err("this thread would wait for its own read");
    assert!(panic.downcast_ref::<String>().unwrap().contains("for reading since"));
}

#[test]
fn a_checked_lock_may_be_used_while_a_thread_ends() {
    struct AtTheEnd(&'static CheckedRwLock<u32>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            assert_eq!(*self.0.read(), 3);
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Option<AtTheEnd>> = const { std::cell::RefCell::new(None) };
    }
    static LOCK: CheckedRwLock<u32> = CheckedRwLock::new(3);
    thread::spawn(|| {
        LAST.set(Some(AtTheEnd(&LOCK)));
        drop(LOCK.read());
    })
    .join()
    .unwrap();
    assert!(LOCK.try_write().is_some());
}

#[test]
fn a_checked_lock_names_the_self_deadlock() {
    let lock = CheckedRwLock::new(0);
    let _held = lock.read();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lock.write())))
        .expect_err("this thread would wait for itself");
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("self-deadlock") && message.contains("tests.rs"), "{message}");
    assert!(message.contains("for reading since"), "{message}");
}

#[test]
fn a_checked_lock_changes_hands_and_modes() {
    let lock = CheckedRwLock::new(0);
    *lock.write() += 1;
    let upgradable = lock.upgradable_read();
    let writer = lock_api::RwLockUpgradableReadGuard::upgrade(upgradable);
    let reader = lock_api::RwLockWriteGuard::downgrade(writer);
    assert!(lock.try_write().is_none());
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(*lock.read(), 1));
    });
    drop(reader);
    assert!(lock.try_write_for(Duration::from_millis(1)).is_some());
}

#[test]
fn the_last_owner_may_free_the_lock_at_once() {
    for _ in 0..ROUNDS / 20 {
        let lock = Box::into_raw(Box::new((RawRwLock::<Bounded>::new(), AtomicUsize::new(2))));
        let address = lock.expose_provenance();
        let leave = move || {
            let lock = core::ptr::with_exposed_provenance_mut::<(RawRwLock<Bounded>, AtomicUsize)>(
                address,
            );
            // SAFETY: alive until the last owner has retired it.
            let (raw, owners) = unsafe { &*lock };
            raw.lock_exclusive();
            let last = owners.fetch_sub(1, Ordering::Relaxed) == 1;
            // SAFETY: alive and held.
            unsafe { RawRwLock::leave_exclusive(raw) };
            if last {
                // SAFETY: alive: we are the last owner.
                assert!(unsafe { (*lock).0.retire() });
                // SAFETY: made by `Box::into_raw` above, and nobody is left.
                drop(unsafe { Box::from_raw(lock) });
            }
        };
        let other = thread::spawn(leave);
        leave();
        other.join().unwrap();
    }
}
