//! Atomics, cells and threads for Lockspan's locks: those of the standard library.
//!
//! With `--cfg lockspan_loom` or `--cfg lockspan_shuttle` every name below is that of the model
//! checker, so a model run checks the code that ships.

#[cfg(lockspan_loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Mutex},
    thread,
};
#[cfg(lockspan_shuttle)]
pub use shuttle::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Mutex},
    thread,
};
#[cfg(not(any(lockspan_loom, lockspan_shuttle)))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Mutex},
    thread,
};

/// Atomics that are the machine's own even in a model: for words that the kernel or a section of
/// assembly reads, and for what a process finds out once.
pub mod machine {
    pub use std::sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
    };
}

#[cfg(not(lockspan_loom))]
pub use self::cell::UnsafeCell;

/// True when a model checker runs this code: nothing may spin for the sake of time there.
pub const MODEL: bool = cfg!(any(lockspan_loom, lockspan_shuttle));

#[cfg(not(lockspan_loom))]
mod cell {
    //! loom's `UnsafeCell` interface over the standard one.

    /// A cell whose contents are reached through raw pointers, as loom's is.
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell holding `value`.
        #[inline]
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Calls `f` with a pointer for reading.
        #[inline]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Calls `f` with a pointer for reading and writing.
        #[inline]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}
