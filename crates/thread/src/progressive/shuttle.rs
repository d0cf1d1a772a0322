//! Everything at once: each thread goes random ways through one lock. The lock must exclude, serve
//! all of them, and be at rest in the end. Shuttle reports a lost wake-up as a deadlock.

use std::time::{Duration, Instant};

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;

use super::base::RawLock;
use super::claim::{RawClaimLock, Unfinished};
use crate::shuttle::in_many_schedules;
use crate::sync::{AtomicUsize, Ordering, thread};

const THREADS: usize = 4;
const ROUNDS: usize = 3;

/// Who says to be inside, by state.
#[derive(Default)]
struct Inside {
    readers: AtomicUsize,
    claimants: AtomicUsize,
    atomics: AtomicUsize,
    alone: AtomicUsize,
}

impl Inside {
    /// Is inside for a while as one of `mine`, and looks for those that must not be there.
    fn stay(&self, mine: &AtomicUsize, others: &[&AtomicUsize]) {
        let before = mine.fetch_add(1, Ordering::SeqCst);
        if core::ptr::eq(mine, &raw const self.alone) {
            assert_eq!(before, 0, "two are alone");
        }
        for other in others {
            assert_eq!(other.load(Ordering::SeqCst), 0, "somebody is inside who must not be");
        }
        thread::yield_now();
        for other in others {
            assert_eq!(other.load(Ordering::SeqCst), 0, "somebody came in who must not");
        }
        mine.fetch_sub(1, Ordering::SeqCst);
    }

    fn read(&self) {
        self.stay(&self.readers, &[&self.claimants, &self.atomics, &self.alone]);
    }

    fn claim(&self) {
        self.stay(&self.claimants, &[&self.readers, &self.atomics, &self.alone]);
    }

    fn change(&self) {
        self.stay(&self.atomics, &[&self.readers, &self.claimants, &self.alone]);
    }

    fn be_alone(&self) {
        self.stay(&self.alone, &[&self.readers, &self.claimants, &self.atomics]);
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

fn coin() -> bool {
    thread_rng().gen_range(0..2) == 0
}

/// Threads that each do `way` some times on one lock.
fn many<R: Default + Send + Sync + 'static>(way: fn(&R, &Inside), at_rest: fn(&R)) {
    in_many_schedules(move || {
        let shared = Arc::new((R::default(), Inside::default()));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (0..ROUNDS).for_each(|_| way(&shared.0, &shared.1)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        at_rest(&shared.0);
    });
}

#[test]
fn shuttle_base_random_ways() {
    many::<RawLock>(base_way, RawLock::assert_at_rest);
}

fn base_way(raw: &RawLock, inside: &Inside) {
    match thread_rng().gen_range(0..8) {
        0 => {
            raw.write();
            base_from_write(raw, inside);
        }
        1 => {
            raw.seek();
            base_from_seek(raw, inside);
        }
        2 => {
            raw.atomic();
            base_from_atomic(raw, inside);
        }
        3 if raw.write_until(soon()) => base_from_write(raw, inside),
        4 if raw.atomic_until(soon()) => base_from_atomic(raw, inside),
        5 if raw.seek_until(soon()) => base_from_seek(raw, inside),
        6 | 7 => {
            raw.read();
            base_from_read(raw, inside);
        }
        _ => {}
    }
}

fn base_from_read(raw: &RawLock, inside: &Inside) {
    inside.read();
    match thread_rng().gen_range(0..5) {
        0 if raw.try_read_to_seek() => base_from_seek(raw, inside),
        1 if raw.read_to_atomic() => base_from_atomic(raw, inside),
        2 if raw.read_to_atomic_until(soon()) => base_from_atomic(raw, inside),
        3 if raw.try_read_to_atomic() => base_from_atomic(raw, inside),
        _ => {
            inside.read();
            raw.read_done();
        }
    }
}

fn base_from_seek(raw: &RawLock, inside: &Inside) {
    inside.read();
    match thread_rng().gen_range(0..4) {
        0 => {
            raw.seek_to_write();
            base_from_write(raw, inside);
        }
        1 if raw.seek_to_write_until(soon()) => base_from_write(raw, inside),
        2 => {
            raw.seek_to_read();
            inside.read();
            raw.read_done();
        }
        _ => raw.seek_done(),
    }
}

fn base_from_write(raw: &RawLock, inside: &Inside) {
    inside.be_alone();
    match thread_rng().gen_range(0..3) {
        0 => {
            raw.write_to_seek();
            inside.read();
            raw.seek_done();
        }
        1 => {
            raw.write_to_read();
            inside.read();
            raw.read_done();
        }
        _ => raw.write_done(),
    }
}

fn base_from_atomic(raw: &RawLock, inside: &Inside) {
    inside.change();
    let has_moved = match thread_rng().gen_range(0..4) {
        0 => false,
        1 => raw.atomic_to_read_until(soon()),
        2 => raw.try_atomic_to_read(),
        _ => {
            raw.atomic_to_read();
            true
        }
    };
    if has_moved {
        inside.read();
        raw.read_done();
    } else {
        inside.change();
        raw.atomic_done();
    }
}

#[test]
fn shuttle_claim_random_ways() {
    many::<RawClaimLock>(claim_way, RawClaimLock::assert_at_rest);
}

/// How a transition is made: waiting, trying, or within a time.
fn in_some_form(
    wait: impl FnOnce(),
    attempt: impl FnOnce() -> bool,
    in_time: impl FnOnce() -> bool,
) -> bool {
    match thread_rng().gen_range(0..3) {
        0 => attempt(),
        1 => in_time(),
        _ => {
            wait();
            true
        }
    }
}

fn claim_way(raw: &RawClaimLock, inside: &Inside) {
    match thread_rng().gen_range(0..5) {
        0 => {
            let wait = || raw.join_alone();
            if in_some_form(wait, || raw.try_join_alone(), || raw.join_alone_until(soon())) {
                from_alone(raw, inside);
            }
        }
        1 => {
            if in_some_form(|| raw.claim(), || raw.try_claim(), || raw.claim_until(soon())) {
                from_claim(raw, inside);
            }
        }
        2 => {
            if in_some_form(|| raw.atomic(), || raw.try_atomic(), || raw.atomic_until(soon())) {
                from_atomic(raw, inside);
            }
        }
        _ => {
            if in_some_form(|| raw.read(), || raw.try_read(), || raw.read_until(soon())) {
                from_read(raw, inside);
            }
        }
    }
}

fn from_alone(raw: &RawClaimLock, inside: &Inside) {
    inside.be_alone();
    match thread_rng().gen_range(0..4) {
        0 => raw.alone_done(),
        1 => {
            raw.alone_to_claim();
            from_claim(raw, inside);
        }
        2 => {
            raw.alone_to_atomic();
            from_atomic(raw, inside);
        }
        _ => {
            raw.alone_to_read();
            from_read(raw, inside);
        }
    }
}

fn from_read(raw: &RawClaimLock, inside: &Inside) {
    inside.read();
    match thread_rng().gen_range(0..3) {
        0 => return raw.read_done(),
        1 => {
            raw.read_to_join();
            return from_join(raw, inside);
        }
        _ => {}
    }
    let (attempt, in_time) = (|| raw.try_read_to_claim(), || raw.read_to_claim_until(soon()));
    if in_some_form(|| raw.read_to_claim(), attempt, in_time) {
        return from_claim(raw, inside);
    }
    inside.read();
    raw.read_done();
}

fn from_join(raw: &RawClaimLock, inside: &Inside) {
    match thread_rng().gen_range(0..5) {
        0 => raw.join_done(),
        1 => {
            if coin() {
                match raw.join_to_read_until(soon()) {
                    Ok(()) => {}
                    Err(Unfinished::Back(())) => return raw.join_done(),
                    Err(Unfinished::HalfWay(())) => {
                        inside.change();
                        return raw.atomic_done();
                    }
                }
            } else if coin() {
                raw.join_to_read();
            } else if !raw.try_join_to_read() {
                return raw.join_done();
            }
            inside.read();
            raw.read_done();
        }
        2 => {
            let (attempt, in_time) =
                (|| raw.try_join_to_atomic(), || raw.join_to_atomic_until(soon()));
            if in_some_form(|| raw.join_to_atomic(), attempt, in_time) {
                inside.change();
                return raw.atomic_done();
            }
            raw.join_done();
        }
        _ => {
            let (attempt, in_time) =
                (|| raw.try_join_to_claim(), || raw.join_to_claim_until(soon()));
            if in_some_form(|| raw.join_to_claim(), attempt, in_time) {
                return from_claim(raw, inside);
            }
            raw.join_done();
        }
    }
}

fn from_claim(raw: &RawClaimLock, inside: &Inside) {
    inside.claim();
    match thread_rng().gen_range(0..4) {
        0 => raw.claim_done(),
        1 => match raw.claim_to_read_until(soon()) {
            Ok(()) => {
                inside.read();
                raw.read_done();
            }
            Err(Unfinished::Back(())) => {
                inside.claim();
                raw.claim_done();
            }
            Err(Unfinished::HalfWay(())) => {
                inside.change();
                raw.atomic_done();
            }
        },
        2 => {
            if coin() {
                raw.claim_to_read();
            } else if !raw.try_claim_to_read() {
                inside.claim();
                return raw.claim_done();
            }
            inside.read();
            raw.read_done();
        }
        _ => {
            let (attempt, in_time) =
                (|| raw.try_claim_to_atomic(), || raw.claim_to_atomic_until(soon()));
            if in_some_form(|| raw.claim_to_atomic(), attempt, in_time) {
                return from_atomic(raw, inside);
            }
            inside.claim();
            raw.claim_done();
        }
    }
}

fn from_atomic(raw: &RawClaimLock, inside: &Inside) {
    inside.change();
    match thread_rng().gen_range(0..5) {
        0 => raw.atomic_done(),
        1 => {
            let (attempt, in_time) =
                (|| raw.try_atomic_to_read(), || raw.atomic_to_read_until(soon()));
            if in_some_form(|| raw.atomic_to_read(), attempt, in_time) {
                inside.read();
                return raw.read_done();
            }
            inside.change();
            raw.atomic_done();
        }
        2 => match raw.atomic_to_claim_until(soon()) {
            Ok(()) => {
                inside.claim();
                raw.claim_done();
            }
            Err(Unfinished::Back(())) => {
                inside.change();
                raw.atomic_done();
            }
            Err(Unfinished::HalfWay(())) => raw.join_done(),
        },
        3 => {
            if coin() {
                raw.atomic_to_claim();
            } else if !raw.try_atomic_to_claim() {
                inside.change();
                return raw.atomic_done();
            }
            from_claim(raw, inside);
        }
        _ => {
            raw.atomic_to_join();
            from_join(raw, inside);
        }
    }
}
