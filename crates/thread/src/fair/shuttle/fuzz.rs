//! Everything at once: each thread does random things to one lock, and the lock must exclude, serve
//! all of them, and be at rest in the end. Shuttle reports a lost wake-up as a deadlock.

use std::cell::Cell;
use std::task::{Context, Waker};
use std::time::Duration;

use lockspan_park::Deadline;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;

use super::in_many_schedules;
use crate::fair::node::Kind;
use crate::fair::policy::Policy;
use crate::fair::raw::RawRwLock;
use crate::fair::task::Acquire;
use crate::sync::{Ordering, thread};

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Time stands still, or passes a little at each reading; a scheduler is tired after `LOOKS` looks.
struct Odd<const PASSING: bool, const TICKING: bool, const LOOKS: u32>;

impl<const PASSING: bool, const TICKING: bool, const LOOKS: u32> Policy
    for Odd<PASSING, TICKING, LOOKS>
{
    const PASSING: bool = PASSING;
    const LOOKS: u32 = LOOKS;
    const ASKING: u32 = 3;

    fn now() -> u64 {
        if TICKING {
            NOW.set(NOW.get() + thread_rng().gen_range(0..3));
        }
        NOW.get()
    }

    fn quantum() -> u64 {
        6
    }

    fn bound() -> u64 {
        20
    }

    fn duration(_ticks: u64) -> Duration {
        Duration::ZERO
    }

    fn crowd() -> usize {
        1
    }
}

/// A lock, and who says to be inside it.
struct World<P: Policy> {
    raw: RawRwLock<P>,
    inside: std::sync::Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    readers: usize,
    upgradable: bool,
    writer: bool,
}

impl<P: Policy> World<P> {
    fn new() -> Self {
        NOW.set(0);
        let raw = RawRwLock::new();
        // In the middle of a turn, so that others may pass from the start.
        raw.due.store(P::quantum(), Ordering::Relaxed);
        Self { raw, inside: std::sync::Mutex::default() }
    }

    /// Changes who is inside and checks that they may be there together.
    fn now_inside(&self, change: impl FnOnce(&mut Inside)) {
        let mut inside = self.inside.lock().unwrap();
        change(&mut inside);
        assert!(!inside.writer || inside.readers == 0, "a writer is alone");
        assert!(!inside.upgradable || inside.readers > 0, "an upgradable reader reads");
    }

    /// Comes in, in one of the ways to wait; false if it gave up.
    fn come(&self, kind: Kind) -> bool {
        let soon = Deadline::after(Duration::from_secs(3600));
        let ways = if kind == Kind::Upgradable { 3 } else { 5 };
        let got = match (thread_rng().gen_range(0..ways), kind) {
            (0, Kind::Read) => {
                self.raw.read();
                true
            }
            (0, Kind::Write) => {
                self.raw.write();
                true
            }
            (0 | 1, _) => self.raw.try_acquire(kind) || self.raw.acquire(kind, None),
            (2, _) => self.raw.try_acquire(kind) || self.raw.acquire(kind, soon),
            (3, _) => {
                block_on(Acquire::new(&self.raw, kind));
                true
            }
            _ => self.poll_twice(kind),
        };
        if got {
            self.now_inside(|inside| match kind {
                Kind::Write => inside.writer = true,
                _ => {
                    assert!(kind == Kind::Read || !inside.upgradable, "one upgradable reader");
                    inside.readers += 1;
                    inside.upgradable |= kind == Kind::Upgradable;
                }
            });
            thread::yield_now();
        }
        got
    }

    fn poll_twice(&self, kind: Kind) -> bool {
        let mut future = Box::pin(Acquire::new(&self.raw, kind));
        let mut context = Context::from_waker(Waker::noop());
        (0..2).any(|_| {
            thread::yield_now();
            future.as_mut().poll(&mut context).is_ready()
        })
    }

    /// Goes on from a hold in random ways until it is given up.
    fn go(&self, mut kind: Kind) {
        for steps_left in (0..4).rev() {
            match self.step(kind, steps_left) {
                Some(next) => kind = next,
                None => return,
            }
            thread::yield_now();
        }
        unreachable!("the last step gives the hold up");
    }

    /// One step; the kind of the hold after it, if there is one.
    fn step(&self, kind: Kind, steps_left: u32) -> Option<Kind> {
        let choice = thread_rng().gen_range(0..if steps_left > 0 { 6 } else { 3 });
        match (kind, choice) {
            (_, 0..3) => self.leave(kind, choice),
            (Kind::Read, _) => {
                assert!(self.raw.try_read_recursive(), "no writer can be inside");
                self.now_inside(|inside| inside.readers += 1);
                thread::yield_now();
                self.leave(Kind::Read, 0);
                return Some(Kind::Read);
            }
            (Kind::Write, 3) => return self.becomes(kind, Kind::Upgradable, true),
            (Kind::Write, _) => return self.becomes(kind, Kind::Read, true),
            (_, 3) => return self.becomes(kind, Kind::Read, true),
            (_, _) => return Some(self.upgrade(choice == 4)),
        }
        None
    }

    fn leave(&self, kind: Kind, how: u32) {
        self.now_inside(|inside| match kind {
            Kind::Write => inside.writer = false,
            _ => {
                inside.upgradable &= kind != Kind::Upgradable;
                inside.readers -= 1;
            }
        });
        match (how, kind) {
            (1, _) => self.raw.done_fairly(kind),
            // SAFETY: alive and held.
            (2, Kind::Read | Kind::Write) => unsafe { RawRwLock::leave(&raw const self.raw, kind) },
            (_, Kind::Read) => self.raw.read_done(),
            (_, Kind::Write) => self.raw.write_done(),
            _ => self.raw.upgradable_done(),
        }
    }

    /// A downgrade, or the note of an upgrade that was made.
    fn becomes(&self, from: Kind, to: Kind, downgrade: bool) -> Option<Kind> {
        self.now_inside(|inside| {
            inside.writer = to == Kind::Write;
            inside.upgradable = to == Kind::Upgradable || (inside.upgradable && from == Kind::Read);
            match (from, to) {
                (Kind::Write, _) => inside.readers += 1,
                (_, Kind::Write) => inside.readers -= 1,
                _ => {}
            }
        });
        match (from, to) {
            (Kind::Write, _) => self.raw.downgrade(to),
            (_, Kind::Read) if downgrade => self.raw.downgrade_upgradable(),
            _ => {}
        }
        Some(to)
    }

    fn upgrade(&self, timed: bool) -> Kind {
        let deadline = if timed { Deadline::after(Duration::from_secs(3600)) } else { None };
        let upgraded = match thread_rng().gen_range(0..3) {
            0 => self.raw.try_upgrade(),
            _ => self.raw.upgrade(deadline),
        };
        if upgraded {
            self.becomes(Kind::Upgradable, Kind::Write, false);
            return Kind::Write;
        }
        Kind::Upgradable
    }
}

fn fuzz<P: Policy>() {
    for (threads, turns) in [(2, 3), (3, 2), (5, 2)] {
        in_many_schedules(move || {
            let world = Arc::new(World::<P>::new());
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let world = world.clone();
                    thread::spawn(move || {
                        for _ in 0..turns {
                            let kinds = [Kind::Read, Kind::Write, Kind::Upgradable];
                            let kind = kinds[thread_rng().gen_range(0..3)];
                            if world.come(kind) {
                                world.go(kind);
                            }
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
            assert!(world.raw.retire(), "the word is zero at rest");
            assert!(world.raw.inbox.load(Ordering::Relaxed).is_null());
            assert_eq!(world.raw.waiting.load(Ordering::Relaxed), 0);
        });
    }
}

#[test]
fn shuttle_everything_in_strict_order() {
    fuzz::<Odd<false, false, 64>>();
}

#[test]
fn shuttle_everything_while_others_pass() {
    fuzz::<Odd<true, false, 64>>();
}

#[test]
fn shuttle_everything_while_time_passes() {
    fuzz::<Odd<true, true, 3>>();
}

#[test]
fn fair_s11_shuttle_a_tired_scheduler_forgets_nobody_while_others_pass() {
    fuzz::<Odd<true, false, 1>>();
    fuzz::<Odd<true, false, 2>>();
}

#[test]
fn fair_s11_shuttle_a_tired_scheduler_forgets_nobody_in_strict_order() {
    fuzz::<Odd<false, false, 1>>();
    fuzz::<Odd<false, false, 2>>();
}
