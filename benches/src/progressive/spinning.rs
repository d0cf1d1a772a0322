//! A read-write lock that only spins: one word, and never a yield or a sleep.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const WRITTEN: u32 = 1 << 31;

/// Readers are counted; the highest bit is the writer.
pub(crate) struct Spinning<T> {
    word: AtomicU32,
    data: UnsafeCell<T>,
}

// SAFETY: the word lets in one writer or any number of readers.
unsafe impl<T: Send + Sync> Sync for Spinning<T> {}

/// Among readers.
pub(crate) struct ReadGuard<'a, T>(&'a Spinning<T>);
/// Alone.
pub(crate) struct WriteGuard<'a, T>(&'a Spinning<T>);

impl<T> Spinning<T> {
    pub(crate) const fn new(data: T) -> Self {
        Self { word: AtomicU32::new(0), data: UnsafeCell::new(data) }
    }

    pub(crate) fn into_inner(self) -> T {
        self.data.into_inner()
    }

    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & WRITTEN == 0 && self.exchange(word, word + 1) {
                return ReadGuard(self);
            }
            spin_loop();
        }
    }

    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        while self.word.load(Ordering::Relaxed) != 0 || !self.exchange(0, WRITTEN) {
            spin_loop();
        }
        WriteGuard(self)
    }

    fn exchange(&self, old: u32, new: u32) -> bool {
        let exchange = AtomicU32::compare_exchange_weak;
        exchange(&self.word, old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: among readers there is no writer.
        unsafe { &*self.0.data.get() }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the writer is alone.
        unsafe { &*self.0.data.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the writer is alone.
        unsafe { &mut *self.0.data.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.0.word.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.0.word.fetch_and(!WRITTEN, Ordering::Release);
    }
}
