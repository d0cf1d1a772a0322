//! A processor's value and its spare ones: a list that only grows.
//!
//! A link is made first and then appended, by one exchange of the last link's `next`. So no thread
//! waits for another one that makes a link, which a fork may have left behind; of two threads that
//! append at once one drops what it made. Links are freed with the first one.

use std::alloc::{self, Layout};
use std::iter;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;

use crate::sync::machine::{AtomicPtr, Ordering};

/// A value, away from others' cache lines, and the next one of the same processor.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Link<V> {
    pub(crate) value: V,
    /// Null, or a box of this link's.
    next: AtomicPtr<Self>,
    /// Makes a link of values that are not `Send` not `Sync`: any thread that shares the chain
    /// moves a value into it, which another thread drops. A mutex has the same rule.
    moves_values: PhantomData<Mutex<V>>,
}

impl<V> Link<V> {
    pub(crate) fn new(value: V) -> Self {
        Self { value, next: AtomicPtr::new(ptr::null_mut()), moves_values: PhantomData }
    }

    pub(crate) fn next(&self) -> Option<&Self> {
        // SAFETY: null, or a box that is this link's and is freed with it.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// Appends a link with `value` to what was the last link. If it no longer is the last one,
    /// `value` is dropped, and the link that follows is returned.
    #[cfg(not(lockspan_loom))]
    pub(crate) fn append(&self, value: V) -> &Self {
        self.try_append(value).unwrap_or_else(|| alloc::handle_alloc_error(Layout::new::<Self>()))
    }

    /// The same; none if there is no memory for the link, and then `value` is dropped.
    pub(crate) fn try_append(&self, value: V) -> Option<&Self> {
        // SAFETY: the layout is not empty: a link has a pointer.
        let new = unsafe { alloc::alloc(Layout::new::<Self>()) }.cast::<Self>();
        if new.is_null() {
            return None;
        }
        // SAFETY: fresh memory with a link's layout, which a box can free.
        unsafe { new.write(Self::new(value)) };
        let null = ptr::null_mut();
        // Release: a thread that finds the link sees its value. Acquire: for the other's value.
        Some(match self.next.compare_exchange(null, new, Ordering::Release, Ordering::Acquire) {
            // SAFETY: a box that is this link's from now on and is freed with it.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `next`.
                unsafe { &*theirs }
            }
        })
    }

    /// The value, and the next link.
    #[cfg(not(lockspan_loom))]
    pub(crate) fn split(&mut self) -> (&mut V, Option<&mut Self>) {
        // SAFETY: null, or a box that is this link's, which is borrowed for as long.
        (&mut self.value, unsafe { self.next.get_mut().as_mut() })
    }

    fn take_next(&mut self) -> Option<Box<Self>> {
        let next = std::mem::replace(self.next.get_mut(), ptr::null_mut());
        // SAFETY: a box that was this link's, and no longer is.
        (!next.is_null()).then(|| unsafe { Box::from_raw(next) })
    }

    /// This link and those behind it.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |link| link.next())
    }
}

impl<V> Drop for Link<V> {
    fn drop(&mut self) {
        // One after the other, not in ever deeper calls.
        let mut next = self.take_next();
        while let Some(mut link) = next {
            next = link.take_next();
        }
    }
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn of_two_spares_that_are_made_at_once_one_is_used_and_one_dropped() {
        let (one, other) = (Arc::new(1), Arc::new(2));
        let first = Link::new(Arc::new(0));
        thread::scope(|scope| {
            for value in [&one, &other] {
                scope.spawn(|| {
                    let next = first.append(Arc::clone(value));
                    assert!(ptr::eq(next, first.next().unwrap()));
                });
            }
        });
        assert_eq!(first.chain().count(), 2);
        assert_eq!(Arc::strong_count(&one) + Arc::strong_count(&other), 3);
        drop(first);
        assert_eq!(Arc::strong_count(&one) + Arc::strong_count(&other), 2);
    }
}
