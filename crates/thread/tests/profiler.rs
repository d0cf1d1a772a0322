//! Revocable locks beside a profiler: its signal comes all the time, and its handler needs some
//! kilobytes of stack. Rust gives each thread an alternate stack of 8 KB, for overflows; a handler
//! that did not ask for that stack must not find itself on it.
#![cfg(target_os = "linux")]

mod hostile;

use std::hint::black_box;
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use hostile::{wait_until, with_every_backend};
use lockspan_thread::revocable::{Lock, Steal, Word, backend};

const THREADS: usize = 6;
/// So many signals come while threads take the lock from each other.
const SAMPLES: u64 = 1_000;

static SEEN: AtomicU64 = AtomicU64::new(0);

/// As a profiler does: walks the stack into a buffer.
extern "C" fn sample(_: libc::c_int) {
    let mut frames = [0_u8; 6 * 1024];
    for frame in black_box(&mut frames).iter_mut().step_by(64) {
        *frame = 1;
    }
    black_box(&frames);
    SEEN.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn rlock_r10_a_profilers_handler_has_its_stack_beside_thieves() {
    // SAFETY: zeros are a value of the structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = (sample as extern "C" fn(libc::c_int)) as usize;
    // Not `SA_ONSTACK`.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler writes its own stack and an atomic.
    let result = unsafe { libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()) };
    assert_eq!(result, 0);

    let lock = Arc::new(Lock::new(Word::default()));
    let thieves: Vec<_> = (0..THREADS)
        .map(|_| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let mut added = 0;
                while SEEN.load(Ordering::Relaxed) < SAMPLES {
                    let ticket = lock.acquire(Steal::Force).unwrap();
                    while added % 64 != 63 && ticket.add(|word| word, 1).is_ok() {
                        added += 1;
                    }
                    added += u64::from(ticket.add(|word| word, 1).is_ok());
                }
                added
            })
        })
        .collect();
    wait_until("the profiler sees nothing", || {
        for thief in &thieves {
            // SAFETY: a signal that has a handler, to a thread that has not been joined.
            unsafe { libc::pthread_kill(thief.as_pthread_t(), libc::SIGPROF) };
        }
        SEEN.load(Ordering::Relaxed) >= SAMPLES
    });
    let added: u64 = thieves.into_iter().map(|thief| thief.join().unwrap()).sum();
    assert_eq!(lock.words().peek(), added, "each addition that was reported has happened");
}

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}
