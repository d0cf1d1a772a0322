//! Sleeping on Linux: a private futex on the spot's own word.

use crate::sync::{AtomicU32, Ordering};
use crate::{Deadline, Woken};

/// The kernel finds the sleeper by the word's address; nothing else is kept.
#[derive(Debug)]
pub(crate) struct Sleeper;

impl Sleeper {
    #[inline]
    pub(crate) fn current() -> Self {
        Self
    }

    pub(crate) fn sleep(
        &self,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Deadline>,
    ) -> Woken {
        // The caller looks at the word again with the ordering that it needs.
        while word.load(Ordering::Relaxed) == expected {
            if wait(word, expected, deadline) == Woken::TimedOut {
                return Woken::TimedOut;
            }
        }
        Woken::Changed
    }

    #[inline]
    pub(crate) fn alarm(&self, word: &AtomicU32) -> Bell {
        Bell(std::ptr::from_ref(word))
    }
}

/// The address of a word that somebody may sleep on.
#[derive(Debug)]
pub(crate) struct Bell(*const AtomicU32);

// SAFETY: the pointer is never dereferenced; it only names a futex to the kernel.
unsafe impl Send for Bell {}

impl Bell {
    /// Wakes at most one sleeper. If the word's memory has gone, or serves another futex by now,
    /// the kernel wakes nobody, or somebody who will look and sleep again.
    pub(crate) fn ring(self) {
        // SAFETY: FUTEX_WAKE does not read the word; a dead address is answered by an error.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0,
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1_i32,
            )
        };
    }
}

/// One FUTEX_WAIT_BITSET, whose time-out is absolute. Signals and races count as a change: the
/// caller loops.
fn wait(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) -> Woken {
    let mut operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let time = deadline.map(|deadline| {
        if deadline.is_realtime() {
            operation |= libc::FUTEX_CLOCK_REALTIME;
        }
        deadline.timespec()
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` and `time` live through the call; the kernel only reads them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word),
            operation,
            expected,
            time,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if answer != -1 {
        return Woken::Changed;
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    // Any other error would come again at once, and the caller's loop would never sleep.
    debug_assert!(
        matches!(error, Some(libc::ETIMEDOUT | libc::EAGAIN | libc::EINTR)),
        "the kernel refuses to sleep: {error:?}"
    );
    if error == Some(libc::ETIMEDOUT) { Woken::TimedOut } else { Woken::Changed }
}
