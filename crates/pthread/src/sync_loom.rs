//! `sync.rs` for model runs: loom's atomic, and a futex made of loom's mutex and condvar.
//!
//! It keeps the kernel's promise and no more: the value is compared and the sleeper is put in line
//! in one step, a wake takes out of the line only sleepers of that half and class, and a deadline
//! passes at any time the explorer likes, unless it is [`NEVER`].

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::Ordering;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Condvar, Mutex};

use crate::clock::Deadline;

/// Looking again is the explorer's choice already.
pub(crate) const SPINS: u32 = 0;

/// The second of a deadline that does not pass.
pub(crate) const NEVER: i64 = i64::MAX;

/// Which 32 bits of a [`Word`] a sleeper watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Low,
    High,
}

/// Why [`Word::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Woken, or the half had changed already: look again.
    LookAgain,
    /// The deadline has passed.
    TimedOut,
}

#[derive(Debug, Default)]
struct Line {
    next: usize,
    asleep: Vec<(Half, u32, usize)>,
}

impl Line {
    fn has(&self, id: usize) -> bool {
        self.asleep.iter().any(|&(_, _, other)| other == id)
    }
}

/// 64 bits and those who sleep on them.
#[derive(Debug)]
pub(crate) struct Word {
    value: AtomicU64,
    line: Mutex<Line>,
    woken: Condvar,
}

impl Word {
    pub(crate) fn new() -> Self {
        Self { value: AtomicU64::new(0), line: Mutex::new(Line::default()), woken: Condvar::new() }
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.value.load(order)
    }

    pub(crate) fn change(&self, old: u64, new: u64, order: Ordering) -> Result<(), u64> {
        self.value.compare_exchange(old, new, order, Ordering::Relaxed).map(drop)
    }

    pub(crate) fn fetch_sub(&self, less: u64, order: Ordering) -> u64 {
        self.value.fetch_sub(less, order)
    }

    pub(crate) fn wait(&self, half: Half, seen: u64, class: u32, until: Option<Deadline>) -> Woken {
        let of = |value: u64| match half {
            Half::Low => value as u32,
            Half::High => (value >> 32) as u32,
        };
        let mut line = self.line.lock().unwrap();
        if of(self.value.load(Ordering::Relaxed)) != of(seen) {
            return Woken::LookAgain;
        }
        let id = line.next;
        line.next += 1;
        line.asleep.push((half, class, id));
        if until.is_some_and(|at| at.timespec().tv_sec != NEVER) {
            // Between these two lines the others do as much as the explorer lets them.
            drop(line);
            line = self.line.lock().unwrap();
            if !line.has(id) {
                return Woken::LookAgain;
            }
            line.asleep.retain(|&(_, _, other)| other != id);
            return Woken::TimedOut;
        }
        while line.has(id) {
            line = self.woken.wait(line).unwrap();
        }
        Woken::LookAgain
    }

    pub(crate) fn wake(this: *const Self, half: Half, class: u32) {
        // SAFETY: the models keep every word alive until all their threads are done.
        let this = unsafe { &*this };
        let mut line = this.line.lock().unwrap();
        line.asleep.retain(|&(on, of, _)| on != half || of & class == 0);
        this.woken.notify_all();
    }
}
