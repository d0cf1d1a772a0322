//! Mistakes on purpose, for tests that must be able to fail. Only in this crate's own tests.
//!
//! A plan is a thread's: others that run beside it do everything right.

#![allow(dead_code, reason = "without sections there is less to get wrong")]

use core::hint::spin_loop;
use std::cell::Cell;

/// What the thread does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// It sends no barrier.
    NoFence,
    /// It sends a barrier that aborts no section.
    WrongFence,
    /// Its stores look at nothing.
    NoCheck,
    /// It does not wait for the flag of whom it robs.
    NoWait,
    /// Its stores do not shut the gate.
    NoGate,
}

/// What the thread does, and how slowly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) mistake: Mistake,
    /// How many rounds it spins between the checks and the store.
    pub(crate) window: u32,
}

thread_local! {
    static PLAN: Cell<Plan> = const { Cell::new(Plan { mistake: Mistake::Nothing, window: 0 }) };
}

/// From now on this thread follows the plan.
pub(crate) fn follow(plan: Plan) {
    PLAN.set(plan);
}

/// Whether this is what the thread does wrong.
pub(crate) fn is(mistake: Mistake) -> bool {
    PLAN.get().mistake == mistake
}

/// The rounds of its window.
pub(crate) fn window() -> u32 {
    PLAN.get().window
}

/// Spins through the window.
pub(crate) fn dawdle() {
    // A pause takes about as long as fifty rounds of a section's loop.
    for _ in 0..window().div_ceil(50) {
        spin_loop();
    }
}

/// Keeps the calling thread on one of the processors that it may use, so that all of them have
/// something to do.
#[cfg(target_os = "linux")]
pub(crate) fn pin(number: usize) {
    // SAFETY: a set of zeros is an empty set.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as the call is told.
    unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) };
    // SAFETY: each number is below the set's size.
    let cpus = (0..1024).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) });
    let cpus: Vec<usize> = cpus.collect();
    // SAFETY: a set of zeros is an empty set.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(cpus[number % cpus.len()], &mut one) };
    // SAFETY: the set is as large as the call is told.
    unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) };
}
