//! What threads leave for others when they end: a chain of things that are never freed.
//!
//! Each change is one store to `top`, so that the chain is sound at every moment, and a child of a
//! fork, for which the [`Latch`] counts as open, goes on with it. What a thread of the parent was
//! about to take or to leave at that moment the child has, or has not; nothing else is lost, and
//! nobody goes without because somebody else is busy.

use std::ptr;

use super::Latch;
use crate::sync::machine::{AtomicPtr, Ordering};

/// A thing with a place for the next one of a chain.
pub(crate) trait Chained: Sync + Sized + 'static {
    /// Belongs to the chain.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// The chain.
#[derive(Debug)]
pub(crate) struct Spares<T> {
    latch: Latch,
    top: AtomicPtr<T>,
}

impl<T: Chained> Spares<T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self { latch: Latch::new(), top: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Takes one out, unless there is none.
    pub(crate) fn take(&self) -> Option<&'static T> {
        let _latched = self.latch.shut();
        // SAFETY: `leave` was given it for good.
        let top = unsafe { self.top.load(Ordering::Relaxed).as_ref() }?;
        self.top.store(top.next().load(Ordering::Relaxed), Ordering::Relaxed);
        Some(top)
    }

    /// Puts one in, which nobody uses and which is in no chain.
    pub(crate) fn leave(&self, spare: &'static T) {
        let _latched = self.latch.shut();
        spare.next().store(self.top.load(Ordering::Relaxed), Ordering::Relaxed);
        // A child of a fork must not see it before its next.
        self.top.store(ptr::from_ref(spare).cast_mut(), Ordering::Release);
    }
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use std::thread;

    use super::*;
    use crate::sync::machine::AtomicUsize;

    /// Counts who uses it.
    #[derive(Debug, Default)]
    struct Thing {
        next: AtomicPtr<Self>,
        users: AtomicUsize,
    }

    impl Chained for Thing {
        fn next(&self) -> &AtomicPtr<Self> {
            &self.next
        }
    }

    const THREADS: usize = 4;

    #[test]
    fn threads_that_take_and_leave_at_once_need_one_each() {
        static SPARES: Spares<Thing> = Spares::new();
        static THINGS: [Thing; THREADS] =
            [const { Thing { next: AtomicPtr::new(ptr::null_mut()), users: AtomicUsize::new(0) } };
                THREADS];
        THINGS.iter().for_each(|thing| SPARES.leave(thing));
        let rounds = if cfg!(miri) { 30 } else { 50_000 };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let thing = SPARES.take().expect("there is one for each thread");
                        assert_eq!(thing.users.fetch_add(1, Ordering::Relaxed), 0);
                        thing.users.fetch_sub(1, Ordering::Relaxed);
                        SPARES.leave(thing);
                    }
                });
            }
        });
        for _ in 0..THREADS {
            assert!(SPARES.take().is_some());
        }
        assert!(SPARES.take().is_none());
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    #[test]
    fn a_child_of_a_fork_has_them_although_another_thread_was_at_work() {
        use std::sync::mpsc;
        use std::time::Duration;

        static SPARES: Spares<Thing> = Spares::new();
        static THING: Thing =
            Thing { next: AtomicPtr::new(ptr::null_mut()), users: AtomicUsize::new(0) };
        // Forks are counted from now on.
        crate::backend::backend();
        SPARES.leave(&THING);
        let (shut, is_shut) = mpsc::channel();
        let (forked, has_forked) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let _latched = SPARES.latch.shut();
                shut.send(()).unwrap();
                has_forked.recv_timeout(Duration::from_secs(60)).unwrap();
            });
            is_shut.recv().unwrap();
            // SAFETY: the child takes, and leaves without destructors; an alarm ends it.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: its default is to end the process.
                unsafe { libc::alarm(60) };
                let has_it = SPARES.take().is_some_and(|thing| ptr::eq(thing, &raw const THING));
                // SAFETY: this leaves the process.
                unsafe { libc::_exit(if has_it { 0 } else { 1 }) }
            }
            assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
            forked.send(()).unwrap();
            let mut status = 0;
            // SAFETY: our own child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child found none");
        });
    }
}
