//! A bad neighbourhood for sections: signals, threads that are moved about, forks; and the same
//! tests again with every backend.

use std::os::unix::thread::JoinHandleExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Nothing here takes so long unless it is stuck.
const LIMIT: Duration = Duration::from_secs(60);

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Joins `threads` while it sends them signals and moves them from processor to processor.
pub(crate) fn disturb(threads: Vec<JoinHandle<()>>) {
    let handler = count_signal as extern "C" fn(libc::c_int);
    // SAFETY: the handler only adds to an atomic.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let start = Instant::now();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    for round in 0.. {
        if threads.iter().all(JoinHandle::is_finished) {
            break;
        }
        assert!(start.elapsed() < LIMIT, "the threads do not come to an end");
        for (number, thread) in threads.iter().enumerate() {
            if thread.is_finished() {
                continue;
            }
            // SAFETY: a thread that was not joined may be named, even after its end.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
            if round % 8 == 0 {
                pin(thread.as_pthread_t(), (round / 8 + number) % cpus);
            }
        }
        // A pace, or the signals would be all that the machine does.
        thread::sleep(Duration::from_micros(50));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Lets a thread run on the nth of the processors that this one may use.
fn pin(thread: libc::pthread_t, nth: usize) {
    // SAFETY: a set of zeros is an empty set.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as the call is told.
    unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) };
    // SAFETY: each number is below the set's size.
    let mut cpus = (0..1024).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) });
    let Some(cpu) = cpus.nth(nth) else { return };
    // SAFETY: a set of zeros is an empty set.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(cpu, &mut one) };
    // SAFETY: the set is as large as the call is told; the thread was not joined.
    unsafe { libc::pthread_setaffinity_np(thread, size_of_val(&one), &one) };
}

/// Whether `work` is true in a child of this process, which it must be before the limit.
pub(crate) fn in_a_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `work` and then leaves at once, without destructors.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let code = if work() { 0 } else { 1 };
            // SAFETY: this leaves the process.
            unsafe { libc::_exit(code) }
        }
        child => wait_for(child),
    }
}

fn wait_for(child: libc::pid_t) -> bool {
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
