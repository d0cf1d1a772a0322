//! Thread cancellation (`pthread_cancel`), which no lock call may act on.
//!
//! A thread with a pending cancellation ends in the next *cancellation point* that it calls: most
//! functions of libc that may block (`nanosleep`, `read`, `write`, `pthread_join`, …). In the
//! middle of a lock call that would leave a hold, or a place in line, that nobody gives back. So:
//!
//! - Sleeping and waking are bare system calls (`libc::syscall`), which are no cancellation points.
//! - [`nap`] is the sleep without a waker; `std::thread::sleep` is not used below the C libraries.
//! - [`stop`] writes a last message to standard error and aborts.
//! - Whatever else has to call such a function is done in [`uncancelled`].

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

/// Does `work` with cancellation switched off for this thread, and then switches it back to what it
/// was. A cancellation that arrives meanwhile stays pending.
pub fn uncancelled<R>(work: impl FnOnce() -> R) -> R {
    let _off = Off::new();
    work()
}

/// Puts the thread's state back when it goes, also in a panic.
struct Off {
    #[cfg(target_os = "linux")]
    before: libc::c_int,
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    /// POSIX; libc's crate leaves it out for Linux.
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

#[cfg(target_os = "linux")]
impl Off {
    /// `PTHREAD_CANCEL_DISABLE`, the same number in glibc and musl.
    const DISABLE: libc::c_int = 1;

    fn new() -> Self {
        let mut before = 0;
        if !cfg!(miri) {
            // SAFETY: changes the calling thread's state only; a place for the state before.
            unsafe { pthread_setcancelstate(Self::DISABLE, &raw mut before) };
        }
        Self { before }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Off {
    fn drop(&mut self) {
        if !cfg!(miri) {
            let mut unused = 0;
            // SAFETY: a state that this thread had before.
            unsafe { pthread_setcancelstate(self.before, &raw mut unused) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Off {
    fn new() -> Self {
        Self {}
    }
}

/// Sleeps for that long, or less if a signal comes: for waiting by polling. Not a cancellation
/// point on Linux.
pub fn nap(time: Duration) {
    #[cfg(target_os = "linux")]
    {
        // A futex that nobody wakes: libc's own sleeps are cancellation points.
        let word = 0_u32;
        let time = libc::timespec {
            tv_sec: crate::deadline::saturating(time.as_secs()),
            tv_nsec: time.subsec_nanos() as _,
        };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word and the time live through the call, which only reads them.
        unsafe {
            libc::syscall(libc::SYS_futex, &raw const word, operation, 0_u32, &raw const time)
        };
    }
    #[cfg(not(target_os = "linux"))]
    std::thread::sleep(time);
}

/// Ends the process with one line on standard error: `lockspan: ` and `why`. The line goes out in
/// one write, without the heap; one that is too long is cut. Not a cancellation point on Linux.
#[cold]
pub fn stop(why: fmt::Arguments<'_>) -> ! {
    let mut line = [0; 256];
    let mut rest = &mut line[..];
    // It fails if the line is too long: then what fits is written.
    let _ = writeln!(rest, "lockspan: {why}");
    let left = rest.len();
    let length = line.len() - left;
    // An error cannot be told to anybody.
    write(&line[..length]);
    std::process::abort()
}

#[cfg(all(target_os = "linux", not(miri)))]
fn write(line: &[u8]) {
    let (start, length) = (line.as_ptr(), line.len());
    // SAFETY: the bytes live through the call, which only reads them.
    unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, start, length) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn write(line: &[u8]) {
    let _ = std::io::stderr().write_all(line);
}

#[cfg(all(test, target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod tests {
    use super::*;

    fn state() -> libc::c_int {
        let Off { before } = Off::new();
        let off = std::mem::ManuallyDrop::new(Off { before });
        drop(std::mem::ManuallyDrop::into_inner(off));
        before
    }

    #[test]
    fn the_state_is_put_back_even_by_a_panic() {
        let before = state();
        assert_eq!(uncancelled(state), Off::DISABLE);
        assert_eq!(uncancelled(|| uncancelled(state)), Off::DISABLE);
        assert_eq!(state(), before);
        std::panic::catch_unwind(|| uncancelled(|| panic!("on purpose"))).unwrap_err();
        assert_eq!(state(), before);
    }

    #[test]
    fn a_nap_ends() {
        nap(Duration::ZERO);
        nap(Duration::from_micros(50));
    }
}
