//! Linux.

use std::sync::atomic::{AtomicU64, Ordering};

use lockspan::thread::revocable::{Backend, backend};

pub(crate) use super::counters::Counters;

/// A thread's number in the kernel.
pub(crate) type Thread = libc::pid_t;

fn no_cpus() -> libc::cpu_set_t {
    // SAFETY: a set of zeros is an empty set.
    unsafe { std::mem::zeroed() }
}

/// The processors that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    static CPUS: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    let find = || {
        let mut allowed = no_cpus();
        // SAFETY: the set is as large as the call is told.
        unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) };
        // SAFETY: each number is below the set's size.
        (0..1024).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) }).collect()
    };
    // Asked for once, before anybody is pinned.
    CPUS.get_or_init(find).clone()
}

/// Keeps the calling thread on one processor.
pub(crate) fn pin(cpu: usize) {
    let mut one = no_cpus();
    // SAFETY: the number came from `cpus`, so it is below the set's size.
    unsafe { libc::CPU_SET(cpu, &mut one) };
    // SAFETY: the set is as large as the call is told.
    unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) };
}

/// How often the calling thread was taken off a processor.
pub(crate) fn switches() -> u64 {
    // SAFETY: zeros are a value of the structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills in the structure.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

pub(crate) fn this_thread() -> Thread {
    // SAFETY: a query without side effects.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process waits for something.
pub(crate) fn is_asleep(thread: Thread) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    let stat = stat.unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// The barrier that the backend sends, if it sends one.
pub(crate) fn membarrier() -> Option<()> {
    const PLAIN: libc::c_int = 1 << 3;
    const FOR_SECTIONS: libc::c_int = 1 << 7;
    let command = match backend().backend() {
        Backend::Plain => return None,
        Backend::Rseq => FOR_SECTIONS,
        _ => PLAIN,
    };
    // SAFETY: the call takes three numbers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    (result == 0).then_some(())
}

/// What interrupts found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) interrupts: u64,
    /// Those that came while a section was open.
    pub(crate) inside: u64,
}

static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static INSIDE: AtomicU64 = AtomicU64::new(0);

#[cfg(target_arch = "x86_64")]
extern "C" fn look(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    unsafe extern "C" {
        /// The places where the kernel sends a thread that was in a section; from the linker.
        #[link_name = "__start___rseq_failure"]
        static START: u8;
        #[link_name = "__stop___rseq_failure"]
        static STOP: u8;
    }
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel gives a handler with `SA_SIGINFO` the interrupted thread's context.
    let at = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize;
    // The kernel has already moved a thread out of its section when it calls the handler.
    let (start, stop) = ((&raw const START).addr(), (&raw const STOP).addr());
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    if (start..stop).contains(&at) {
        INSIDE.fetch_add(1, Ordering::Relaxed);
    }
}

/// Interrupts `thread` with signals, `count` of them, one after the other.
#[cfg(target_arch = "x86_64")]
pub(crate) fn sample(thread: Thread, count: u64) -> Option<Sampled> {
    if backend().backend() != Backend::Rseq {
        return None;
    }
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = look;
    // SAFETY: zeros are a value of the structure: no flags, nothing blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler reads its context and adds to atomics, nothing else.
    unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
    let now = || Sampled {
        interrupts: INTERRUPTS.load(Ordering::Acquire),
        inside: INSIDE.load(Ordering::Acquire),
    };
    let process = std::process::id();
    let before = now();
    for sent in 1..=count {
        // SAFETY: a signal to a thread of this process, which has a handler for it.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
        if result != 0 {
            return None;
        }
        while now().interrupts < before.interrupts + sent {
            std::thread::yield_now();
        }
        // Not always as soon as the handler has returned, or all would hit the same place.
        (0..sent % 97).for_each(|_| std::hint::spin_loop());
    }
    let after = now();
    Some(Sampled {
        interrupts: after.interrupts - before.interrupts,
        inside: after.inside - before.inside,
    })
}

/// There are no sections.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn sample(_: Thread, _: u64) -> Option<Sampled> {
    None
}
