//! The C library's `pthread_rwlock`, default and writer-preferring.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use super::locks::{Data, Lock};

/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP` of glibc's `pthread.h`.
const PREFER_WRITER_NONRECURSIVE: libc::c_int = 2;

/// A `pthread_rwlock_t` and its data, in a box because C forbids to move the lock.
pub(crate) struct Pthread<const WRITERS_FIRST: bool>(Box<Inner>);

struct Inner {
    raw: UnsafeCell<libc::pthread_rwlock_t>,
    data: UnsafeCell<Data>,
}

// SAFETY: `raw` is made to be shared by threads; `data` is reached only under `raw`: shared under a
// read lock, exclusively under a write lock; `Data` is plain integers.
unsafe impl Sync for Inner {}

/// Gives the lock back, also when the section panics.
struct Held<'a>(&'a Inner);

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the lock is initialised and this thread holds it since `Held` was made.
        unsafe { libc::pthread_rwlock_unlock(self.0.raw.get()) };
    }
}

impl<const WRITERS_FIRST: bool> Lock for Pthread<WRITERS_FIRST> {
    const NAME: &'static str = if WRITERS_FIRST { "pthread-writer" } else { "pthread" };
    const SIZE: usize = size_of::<Inner>();

    fn new() -> Self {
        let inner = Box::new(Inner {
            raw: UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER),
            data: UnsafeCell::new([0; 4]),
        });
        if WRITERS_FIRST {
            prefer_writers(inner.raw.get());
        }
        Self(inner)
    }

    #[inline]
    fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
        // SAFETY: the lock is initialised, stays in its box, and this thread does not hold it.
        let error = unsafe { libc::pthread_rwlock_rdlock(self.0.raw.get()) };
        assert_eq!(error, 0, "pthread_rwlock_rdlock");
        let _held = Held(&self.0);
        // SAFETY: the read lock is held until after `f`, so nobody writes.
        f(unsafe { &*self.0.data.get() })
    }

    #[inline]
    fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R {
        // SAFETY: the lock is initialised, stays in its box, and this thread does not hold it.
        let error = unsafe { libc::pthread_rwlock_wrlock(self.0.raw.get()) };
        assert_eq!(error, 0, "pthread_rwlock_wrlock");
        let _held = Held(&self.0);
        // SAFETY: the write lock is held until after `f`, so nobody else reads or writes.
        f(unsafe { &mut *self.0.data.get() })
    }
}

/// Initialises the unused lock anew, with writers preferred.
fn prefer_writers(raw: *mut libc::pthread_rwlock_t) {
    let mut attributes = MaybeUninit::<libc::pthread_rwlockattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: `attributes` is writable memory of the right type.
    let mut error = unsafe { libc::pthread_rwlockattr_init(attributes) };
    assert_eq!(error, 0, "pthread_rwlockattr_init");
    // SAFETY: `attributes` was initialised above.
    error = unsafe { libc::pthread_rwlockattr_setkind_np(attributes, PREFER_WRITER_NONRECURSIVE) };
    assert_eq!(error, 0, "pthread_rwlockattr_setkind_np");
    // SAFETY: nobody knows the lock yet, so it may be overwritten; `attributes` is initialised.
    error = unsafe { libc::pthread_rwlock_init(raw, attributes.cast_const()) };
    assert_eq!(error, 0, "pthread_rwlock_init");
}
