//! Which process of a line of forks this is: a number that changes in the child of every fork.
//!
//! A child of `fork` has only the thread that forked. State that another thread of the parent left
//! half-done in memory will never be finished there. A lock that stamps such state with
//! [`generation`] can tell: a stamp other than the present number was written by a thread that is
//! gone, unless the thread that forked wrote it itself.
//!
//! The number lies in a page of its own that the kernel fills with zeros in a child
//! (`MADV_WIPEONFORK`, Linux 4.14). So it has changed before anything else runs in the child,
//! the program's own `pthread_atfork` handlers included, and also where there are no handlers:
//! `_Fork` and the bare system call. On an older kernel a handler of `pthread_atfork` writes the
//! zero instead; in such a child the number changes only after the handlers that the program has
//! registered before.
//!
//! A child of `vfork` shares its parent's memory and is no process of its own here.
//!
//! | word | what it says                                                  |
//! |------|---------------------------------------------------------------|
//! | 0    | nobody has asked since the fork; the number is `LAST` + 1      |
//! | n+1  | the number is n                                                |
//!
//! **Invariant:** `LAST` is at least the number in the word: it is raised first. A fork between
//! the two steps leaves a number out, and never gives the parent's number to the child.

#[cfg(all(target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
pub use self::linux::generation;

/// The number of this process. Where forks are not noticed (other systems, models, Miri), always 0.
#[cfg(not(all(target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle)))))]
#[inline]
pub fn generation() -> u32 {
    0
}

#[cfg(all(target_os = "linux", not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod linux {
    use std::ptr;

    use crate::sync::{AtomicPtr, AtomicU32, Ordering};

    /// Points to the word, once there is one.
    static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    /// The highest number so far.
    static LAST: AtomicU32 = AtomicU32::new(0);

    /// The number of this process: 0 in the first one that asked, and another one in each child.
    ///
    /// Whoever compares two of them has asked for the first before the fork: a process that has
    /// never asked has no number to change. The first call asks the kernel for a page; all others
    /// are two loads.
    #[inline]
    pub fn generation() -> u32 {
        let word = WORD.load(Ordering::Acquire);
        // SAFETY: null, or a word that is never freed.
        match unsafe { word.as_ref() } {
            Some(word) => number(word, &LAST),
            None => first(),
        }
    }

    #[cold]
    fn first() -> u32 {
        let mine = by_page().unwrap_or_else(by_handler);
        let null = ptr::null_mut();
        // Another thread may have been faster; its word counts, and a page of ours stays unused.
        // To wait for that thread instead would be a deadlock in a child that it is not in.
        let set = WORD.compare_exchange(null, mine, Ordering::AcqRel, Ordering::Acquire);
        let word = set.err().unwrap_or(mine);
        // SAFETY: a word that is never freed.
        number(unsafe { &*word }, &LAST)
    }

    /// The number in `word`, which is told a new one first if a fork has set it to zero.
    #[inline]
    fn number(word: &AtomicU32, last: &AtomicU32) -> u32 {
        match word.load(Ordering::Acquire) {
            0 => renew(word, last),
            seen => seen - 1,
        }
    }

    #[cold]
    fn renew(word: &AtomicU32, last: &AtomicU32) -> u32 {
        let mut word_then = 0;
        // The highest number of all is left out: one more than that is zero.
        while word_then == 0 {
            word_then = last.fetch_add(1, Ordering::Relaxed).wrapping_add(2);
        }
        match word.compare_exchange(0, word_then, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => word_then - 1,
            Err(seen) => seen - 1,
        }
    }

    /// A word in a page that is all zeros in a child; none if the kernel has no such pages.
    fn by_page() -> Option<*mut AtomicU32> {
        // SAFETY: a query without side effects.
        let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: fresh memory, wherever the kernel has some.
        let page = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the page that was just mapped, and nobody else's.
        if unsafe { libc::madvise(page, size, libc::MADV_WIPEONFORK) } != 0 {
            // SAFETY: mapped above, and nobody has a pointer into it.
            unsafe { libc::munmap(page, size) };
            return None;
        }
        let word = page.cast::<AtomicU32>();
        // SAFETY: mapped, aligned, and not yet shared.
        unsafe { word.write(AtomicU32::new(1)) };
        Some(word)
    }

    /// A word that a handler sets to zero in a child. If there is no memory for the handler, forks
    /// go unnoticed: this process had no memory for a page either.
    fn by_handler() -> *mut AtomicU32 {
        static HANDLED: AtomicU32 = AtomicU32::new(1);
        extern "C" fn in_child() {
            HANDLED.store(0, Ordering::Relaxed);
        }
        // SAFETY: the handler writes one atomic, which is allowed in a child at any moment.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        ptr::from_ref(&HANDLED).cast_mut()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Runs `body` in a child of a fork, which must return true.
        fn in_child(body: impl FnOnce() -> bool) {
            // SAFETY: the child calls `body`, which only reads numbers and forks, and leaves
            // without destructors; an alarm ends it.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: its default is to end the process.
                unsafe { libc::alarm(60) };
                let code = if body() { 0 } else { 1 };
                // SAFETY: this leaves the process.
                unsafe { libc::_exit(code) }
            }
            assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
            let mut status = 0;
            // SAFETY: our own child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child found it otherwise");
        }

        #[test]
        fn every_child_has_a_number_of_its_own() {
            let ours = generation();
            assert_eq!(generation(), ours);
            in_child(|| {
                let child = generation();
                in_child(|| generation() != child && generation() != ours);
                child != ours && child == generation()
            });
            in_child(|| generation() != ours);
            assert_eq!(generation(), ours, "a fork changes nothing in the parent");
        }

        #[test]
        fn a_handler_does_what_the_page_does() {
            static LAST: AtomicU32 = AtomicU32::new(0);
            // SAFETY: a word that is never freed.
            let word: &'static AtomicU32 = unsafe { &*by_handler() };
            assert_eq!(number(word, &LAST), 0);
            in_child(|| number(word, &LAST) == 1 && number(word, &LAST) == 1);
            assert_eq!(number(word, &LAST), 0);
        }

        #[test]
        fn a_number_that_wraps_leaves_out_the_one_that_means_zero() {
            let (word, last) = (AtomicU32::new(0), AtomicU32::new(u32::MAX - 2));
            assert_eq!(number(&word, &last), u32::MAX - 1);
            word.store(0, Ordering::Relaxed);
            assert_eq!(number(&word, &last), 0);
        }
    }
}
