//! A bad neighbourhood for sections: signals, threads that are moved about, forks; and the same
//! tests again with every backend.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Who makes no step for so long is stuck. How long the whole takes is up to the machine: where
/// threads wait for a lock, and its holder gets a small share of a busy processor, all of them
/// together are as fast as that share.
const LIMIT: Duration = Duration::from_secs(60);

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// What a worker has done so far.
#[derive(Debug, Default)]
pub(crate) struct Steps(AtomicU64);

impl Steps {
    /// To be called now and then.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread to be disturbed.
#[derive(Debug)]
pub(crate) struct Worker {
    thread: JoinHandle<()>,
    /// The kernel's number of the thread, while it runs.
    number: Arc<AtomicI32>,
    steps: Arc<Steps>,
}

impl Worker {
    pub(crate) fn spawn(work: impl FnOnce(&Steps) + Send + 'static) -> Self {
        let (number, steps) = (Arc::new(AtomicI32::new(0)), Arc::new(Steps::default()));
        let (its_number, its_steps) = (Arc::clone(&number), Arc::clone(&steps));
        let thread = thread::spawn(move || {
            // SAFETY: a query without side effects.
            its_number.store(unsafe { libc::gettid() }, Ordering::Relaxed);
            work(&its_steps);
            its_number.store(0, Ordering::Relaxed);
        });
        Self { thread, number, steps }
    }
}

/// Joins `workers` while it sends them signals and moves them from processor to processor.
///
/// The signals come at a pace. Each one aborts the section that it meets; if they came faster than
/// a section takes, with all that the kernel does for a signal, it would never get done. That is
/// the same with any work: a thread that is always in its handler does nothing else.
pub(crate) fn disturb(workers: Vec<Worker>) {
    let handler = count_signal as extern "C" fn(libc::c_int);
    // SAFETY: the handler only adds to an atomic.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let process = std::process::id();
    let (mut last, mut steps) = (Instant::now(), 0);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    for round in 0.. {
        if workers.iter().all(|worker| worker.thread.is_finished()) {
            break;
        }
        let now = workers.iter().map(|worker| worker.steps.0.load(Ordering::Relaxed)).sum();
        if now != steps {
            (last, steps) = (Instant::now(), now);
        }
        assert!(last.elapsed() < LIMIT, "the workers are stuck after {steps} steps");
        for (nth, worker) in workers.iter().enumerate() {
            let number = worker.number.load(Ordering::Relaxed);
            if number != 0 {
                // By number: of a thread that has just ended the C library would make 0, which
                // means the caller.
                // SAFETY: a signal that has a handler, to a thread of this process or to none.
                unsafe { libc::syscall(libc::SYS_tgkill, process, number, libc::SIGUSR1) };
                if round % 8 == 0 {
                    pin(number, (round / 8 + nth) % cpus);
                }
            }
        }
        thread::sleep(Duration::from_micros(50));
    }
    workers.into_iter().for_each(|worker| worker.thread.join().unwrap());
}

/// The processors that this program may use, as it was before any thread was pinned.
fn allowed() -> &'static [usize] {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        // SAFETY: a set of zeros is an empty set.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is as large as the call is told.
        unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) };
        // SAFETY: each number is below the set's size.
        (0..1024).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) }).collect()
    })
}

/// Lets a thread run on the nth of the processors that this program may use. 0 means this thread.
pub(crate) fn pin(number: libc::pid_t, nth: usize) {
    let Some(cpu) = allowed().get(nth) else { return };
    // SAFETY: a set of zeros is an empty set.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(*cpu, &mut one) };
    // SAFETY: the set is as large as the call is told; a thread that has ended is an error.
    unsafe { libc::sched_setaffinity(number, size_of_val(&one), &one) };
}

/// Waits for something to become true.
pub(crate) fn wait_until(otherwise: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{otherwise}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// No signal reaches the calling thread any more.
pub(crate) fn block_all_signals() {
    // SAFETY: a set of zeros is as good as any before it is filled.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of ours.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: a set of ours; what was blocked before is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut()) };
}

/// Whether `work` is true in a child of this process, which it must be before the limit.
pub(crate) fn in_a_child(work: impl FnOnce() -> bool) -> bool {
    wait_for(start_child(work), |_| {})
}

/// The same, with a child that is stopped and continued again and again.
pub(crate) fn stopped_at_times(work: impl FnOnce() -> bool) -> bool {
    wait_for(start_child(work), |child| {
        for signal in [libc::SIGSTOP, libc::SIGCONT] {
            // SAFETY: our own child, which was not waited for yet.
            unsafe { libc::kill(child, signal) };
            thread::sleep(Duration::from_micros(300));
        }
    })
}

fn start_child(work: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child calls `work` and then leaves at once, without destructors.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // A panic must not go on into what is a copy of the test's runner.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let code = if done.unwrap_or(false) { 0 } else { 1 };
            // SAFETY: this leaves the process.
            unsafe { libc::_exit(code) }
        }
        child => child,
    }
}

fn wait_for(child: libc::pid_t, meanwhile: impl Fn(libc::pid_t)) -> bool {
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: our own child, and a place for its status.
        let done = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) };
        if done == child {
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        }
        if start.elapsed() > LIMIT {
            // SAFETY: our own child, which was not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: our own child, and a place for its status.
            unsafe { libc::waitpid(child, &mut status, 0) };
            panic!("the child is stuck");
        }
        meanwhile(child);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Set in processes that run the tests with another backend.
const AGAIN: &str = "LOCKSPAN_TEST_EXPECTS";

/// Runs this file's other tests with each backend, and with glibc's registration switched off.
pub(crate) fn with_every_backend(this_test: &str, backend: impl Fn() -> String) {
    if let Ok(expected) = std::env::var(AGAIN) {
        assert!(backend().starts_with(&expected), "{} and not {expected}", backend());
        return;
    }
    const VARIABLE: &str = "LOCKSPAN_REVOCABLE_BACKEND";
    let own = "rseq: restartable sequences are registered by this library";
    let mut worlds = vec![(VARIABLE, "plain", "plain: ")];
    if backend().starts_with("rseq") {
        worlds.push(("GLIBC_TUNABLES", "glibc.pthread.rseq=0", own));
        worlds.push((VARIABLE, "membarrier", "membarrier: "));
        if cfg!(feature = "signals") {
            worlds.push((VARIABLE, "signal", "signal: "));
        }
    }
    for (variable, value, expected) in worlds {
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--test-threads", "2"])
            .env(variable, value)
            .env(AGAIN, expected)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{value}: {said}\n{}", String::from_utf8_lossy(&run.stderr));
        assert!(said.contains(&format!("{this_test} ... ok")), "{said}");
    }
}

/// True until it goes: for threads that work until others are done.
#[derive(Debug, Default)]
pub(crate) struct Running(AtomicBool);

impl Running {
    pub(crate) fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}
