//! The thread's `errno`, which the calls of this library leave as they found it.
//!
//! POSIX has them return their errors, and glibc's own never touch `errno`; a program may take a
//! lock between a failing call and the look at its error.

use crate::held;

/// The thread's `errno`.
#[inline(always)]
pub(crate) fn get() -> i32 {
    // SAFETY: the address is this thread's own, aligned and live as long as the thread.
    unsafe { held::errno().read() }
}

/// Sets the thread's `errno`.
#[inline(always)]
fn set(value: i32) {
    // SAFETY: as in `get`, and only this thread uses it.
    unsafe { held::errno().write(value) };
}

/// Does `work`, then puts `errno` back.
#[inline(always)]
pub(crate) fn keep<T>(work: impl FnOnce() -> T) -> T {
    let before = get();
    let result = work();
    set(before);
    result
}

#[cfg(test)]
mod tests {
    #[test]
    fn errno_is_put_back() {
        super::set(7);
        assert_eq!(super::keep(|| super::set(9)), ());
        assert_eq!(super::get(), 7);
        super::set(0);
    }
}
