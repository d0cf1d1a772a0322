//! The line of a progressive lock with waiters that get next to no processor time: threads of the
//! class SCHED_IDLE beside busy ones, all on one processor.
#![cfg(all(target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockspan_thread::progressive::base::Lock;

/// Busy threads that take the lock in a loop.
const LOOPERS: usize = 2;
/// Threads that do the same and run only when no other thread wants the processor.
const IDLE: usize = 2;
/// How often the thread takes the lock whose waits are looked at.
const ROUNDS: usize = 1_000;
/// With four in line before it, a thread can be passed in five quanta of 200 µs: 1 ms, in which a
/// looper on a fast processor gets in and out 100,000 times. Some more, as the thread can lose its
/// own processor for some milliseconds before it is in line.
const PASSES: u64 = 1_000_000;

/// Keeps the calling thread, and those that it starts, on one processor of those it may use.
fn stay_on_one_processor() {
    // SAFETY: zeros are an empty set.
    let mut may: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills in the set, whose size it is told.
    assert_eq!(unsafe { libc::sched_getaffinity(0, size_of_val(&may), &mut may) }, 0);
    // SAFETY: the number is below the set's size.
    let one = (0..libc::CPU_SETSIZE as usize).find(|cpu| unsafe { libc::CPU_ISSET(*cpu, &may) });
    // SAFETY: zeros are an empty set.
    let mut only: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(one.expect("this thread runs somewhere"), &mut only) };
    // SAFETY: the call reads the set, whose size it is told.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&only), &only) }, 0);
}

/// Cannot fail: lowering one's own priority is always permitted.
fn run_when_idle() {
    // SAFETY: zeros are a value of the structure.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the call reads the structure.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) }, 0);
}

#[test]
fn plock_p8_a_line_behind_waiters_without_a_processor_moves_on() {
    static LOCK: Lock<u64> = Lock::new(0);
    static TURNS: AtomicU64 = AtomicU64::new(0);
    static IS_OVER: AtomicBool = AtomicBool::new(false);

    fn take_turns() {
        while !IS_OVER.load(Ordering::Relaxed) {
            *LOCK.write() += 1;
            TURNS.fetch_add(1, Ordering::Relaxed);
        }
    }

    stay_on_one_processor();
    let loopers = (0..LOOPERS).map(|_| thread::spawn(take_turns));
    let idle = (0..IDLE).map(|_| {
        thread::spawn(|| {
            run_when_idle();
            take_turns();
        })
    });
    let threads: Vec<_> = loopers.chain(idle).collect();
    let (mut passes, mut longest) = (Vec::new(), Duration::ZERO);
    for _ in 0..ROUNDS {
        let (before, begun) = (TURNS.load(Ordering::Relaxed), Instant::now());
        let held = LOCK.write();
        longest = longest.max(begun.elapsed());
        passes.push(TURNS.load(Ordering::Relaxed) - before);
        drop(held);
        thread::sleep(Duration::from_micros(500));
    }
    IS_OVER.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    passes.sort_unstable();
    let (p50, p99, most) = (passes[ROUNDS / 2], passes[ROUNDS * 99 / 100], passes[ROUNDS - 1]);
    println!("passed in one wait: p50 {p50}, p99 {p99}, max {most}; longest wait {longest:?}");
    assert!(most <= PASSES, "passed {most} times in one wait");
}
