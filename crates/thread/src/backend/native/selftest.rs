//! Do sections end when they must, on this kernel?
//!
//! A thread enters a section while `asked` is 0 and stays inside until it is thrown out, or until
//! it sees `returned`. A tester sets `asked`, makes sure that the section must be gone, and sets
//! `returned`: if the thread sees that from inside, it does not work. There are two testers:
//!
//! - One sends the barrier. Preemption throws the thread out as well; then it enters again.
//! - One sends nothing and runs on the thread's own processor: when it sets the two, the thread was
//!   taken off, which alone must be enough. Where threads may not choose their processor, this one
//!   has nothing to say.

use core::arch::asm;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::Latch;
use super::area::Area;
use super::membarrier;
use crate::spin::Patience;
use crate::sync::Arc;
use crate::sync::machine::{AtomicU32, Ordering};

/// A machine on which a new thread does not run for so long has other worries.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Flags {
    inside: AtomicU32,
    asked: AtomicU32,
    returned: AtomicU32,
    /// The thread has no area, or is done.
    gone: AtomicU32,
    /// 1 + the processor that the thread stays on; 0 if on none.
    cpu: AtomicU32,
}

impl Flags {
    /// Until the thread is inside, or will not be.
    fn wait_for_sitter(&self) {
        let (start, mut patience) = (Instant::now(), Patience::new());
        let is_set = |flag: &AtomicU32| flag.load(Ordering::Acquire) != 0;
        while !is_set(&self.inside) && !is_set(&self.gone) && start.elapsed() < LIMIT {
            patience.wait();
        }
    }
}

/// Both tests, by one thread at a time: those who need a processor for themselves would be in each
/// other's way. What has passed once is not tried again. Forks are counted already, so that the
/// latch is no trap in the child of one.
pub(super) fn run() -> Result<(), String> {
    static ONE_AT_A_TIME: Latch = Latch::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let _alone = ONE_AT_A_TIME.shut();
    if PASSED.load(Ordering::Relaxed) == 0 {
        by_barrier()?;
        by_preemption()?;
        PASSED.store(1, Ordering::Relaxed);
    }
    Ok(())
}

fn by_barrier() -> Result<(), String> {
    let flags = Arc::new(Flags::default());
    let sitter = start("lockspan-selftest", &flags, sit_somewhere)?;
    flags.wait_for_sitter();
    flags.asked.store(1, Ordering::SeqCst);
    membarrier::stop_sections();
    flags.returned.store(1, Ordering::SeqCst);
    end(sitter)?.map_err(|why| format!("barrier: {why}"))
}

fn by_preemption() -> Result<(), String> {
    let flags = Arc::new(Flags::default());
    let sitter = start("lockspan-selftest", &flags, |flags| {
        let cpu = stay_on_this_cpu();
        flags.cpu.store(cpu.map_or(0, |cpu| cpu + 1), Ordering::Release);
        if cpu.is_some() { sit_somewhere(flags) } else { Ok(()) }
    })?;
    let tester = start("lockspan-preempt", &flags, |flags| {
        flags.wait_for_sitter();
        let cpu = flags.cpu.load(Ordering::Acquire);
        // Nothing but the stores may be left to do: the sitter waits for both.
        let is_there = cpu == 0 || stay_on(cpu - 1);
        flags.asked.store(1, Ordering::SeqCst);
        if !is_there {
            membarrier::stop_sections();
        }
        flags.returned.store(1, Ordering::SeqCst);
    });
    let tested = tester.and_then(end);
    if tested.is_err() {
        flags.asked.store(1, Ordering::SeqCst);
        membarrier::stop_sections();
        flags.returned.store(1, Ordering::SeqCst);
    }
    end(sitter)?.map_err(|why| format!("preemption: {why}"))?;
    tested
}

fn start<R: Send + 'static>(
    name: &str,
    flags: &Arc<Flags>,
    work: impl FnOnce(&Flags) -> R + Send + 'static,
) -> Result<JoinHandle<R>, String> {
    let flags = Arc::clone(flags);
    let thread = thread::Builder::new().name(name.to_owned());
    thread
        .spawn(move || {
            calm_down();
            let result = work(&flags);
            flags.gone.store(1, Ordering::Release);
            result
        })
        .map_err(|error| format!("the self-test cannot start a thread: {error}"))
}

/// Gives up a real-time priority that the thread was born with: whoever spins with one would keep
/// the processor from those that it waits for.
pub(super) fn calm_down() {
    // SAFETY: zeros are a value of the structure: the priority of ordinary threads.
    let ordinary: libc::sched_param = unsafe { std::mem::zeroed() };
    // If it may not, it has none that matters: to have less is always allowed.
    // SAFETY: the structure lives through the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &ordinary) };
}

fn end<R>(thread: JoinHandle<R>) -> Result<R, String> {
    thread.join().map_err(|_| "the self-test panicked".to_owned())
}

/// Keeps the calling thread on the processor that it is on, and gives that; none if it may not.
fn stay_on_this_cpu() -> Option<u32> {
    // SAFETY: a query without side effects.
    let cpu = u32::try_from(unsafe { libc::sched_getcpu() }).ok()?;
    stay_on(cpu).then_some(cpu)
}

/// Keeps the calling thread on a processor, from the return on. False if it may not.
fn stay_on(cpu: u32) -> bool {
    // SAFETY: a set of zeros is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE.cast_unsigned() {
        return false;
    }
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the set is as large as the call is told.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) == 0 }
}

fn sit_somewhere(flags: &Flags) -> Result<(), &'static str> {
    let area = Area::from_source().ok_or("a new thread has no area")?;
    sit(area, flags)
}

/// Sits in a section until it is thrown out after `asked`.
fn sit(area: Area, flags: &Flags) -> Result<(), &'static str> {
    // SAFETY:
    // - memory: reads the flags, which outlive the call, and writes `inside`, an atomic that the
    //   tester only waits for, and the area's pointer, which is this thread's;
    // - ordering: the barrier's; no two flags are compared;
    // - registers: one is spoilt, and the flags;
    // - stack: not used;
    // - control: to `done` after `asked`; falls through when still inside after `returned`.
    //   Interrupted anywhere between labels 2 and 3, it begins anew and reads `asked` again.
    unsafe {
        asm!(
            begin!(),
            "cmp dword ptr [{asked}], 0",
            "jne {done}",
            "mov dword ptr [{inside}], 1",
            "5:",
            "pause",
            "cmp dword ptr [{returned}], 0",
            "je 5b",
            end!(),
            area = in(reg) area.pointer(),
            cs = out(reg) _,
            asked = in(reg) flags.asked.as_ptr(),
            inside = in(reg) flags.inside.as_ptr(),
            returned = in(reg) flags.returned.as_ptr(),
            done = label { return Ok(()) },
            options(nostack)
        );
    }
    Err("a section went on although it was interrupted")
}
