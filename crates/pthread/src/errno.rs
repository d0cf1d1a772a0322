//! The thread's `errno`, which the calls of this library leave as they found it.
//!
//! POSIX has them return their errors, and glibc's own never touch `errno`; a program may take a
//! lock between a failing call and the look at its error.

/// The thread's `errno`.
pub(crate) fn get() -> i32 {
    // SAFETY: it has no preconditions and gives the address of this thread's errno.
    let at = unsafe { libc::__errno_location() };
    // SAFETY: the address is this thread's own, aligned and live as long as the thread.
    unsafe { at.read() }
}

/// Sets the thread's `errno`.
fn set(value: i32) {
    // SAFETY: as in `get`.
    let at = unsafe { libc::__errno_location() };
    // SAFETY: as in `get`, and only this thread uses it.
    unsafe { at.write(value) };
}

/// Does `work`, then puts `errno` back.
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
