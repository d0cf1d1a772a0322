//! A stack of which each processor has a part: what an allocator keeps its free blocks in.
//!
//! # A part
//!
//! ```text
//!  0        8         64
//! ┌────────┬─────────┬──────────────────────────────┐
//! │ latch  │ length  │ items, as many as fit        │
//! └────────┴─────────┴──────────────────────────────┘
//! ```
//!
//! | latch | who changes the part |
//! |---|---|
//! | open | sections on the part's processor |
//! | shut, barrier still to come | sections that saw it open; whoever shut it waits |
//! | shut, barrier over | whoever shut it |
//!
//! # Invariants
//!
//! - **I1** Items below the length are in the stack; what lies above means nothing.
//! - **I2** Each change is one store of the length, after the items that it adds were written. So
//!   at any moment, a fork's as well, the part is sound.
//! - **I3** Who has shut the latch works on the part only after the barrier for its processor.
//!
//! The common part, for threads that can run no section, is changed by those who shut its latch,
//! always. Where there are no sections at all, so is every part.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::parts::Parts;
use crate::backend::{
    Area, Backend, ITEMS, LATCH, LENGTH, Latch, Outcome, backend, stop_sections_on,
};
use crate::sync::machine::{AtomicU64, Ordering};

/// How many items a section moves at most: a section that takes too long never gets done.
const BATCH: usize = 64;

/// A value that fits into a word, so that a [`Stack`] can hold it: `u64`, `usize`, `Box<T>`,
/// `Arc<T>`, and types that you implement it for.
///
/// # Safety
/// [`from_word`](Self::from_word) turns each word that [`into_word`](Self::into_word) returned back
/// into the value that it was made of, once, and on any thread if the type is [`Send`].
pub unsafe trait Item: Sized {
    /// Turns the value into a word.
    fn into_word(self) -> u64;

    /// Turns the word into the value again.
    ///
    /// # Safety
    /// The word came from [`into_word`](Self::into_word) of the same type, and was not used yet.
    unsafe fn from_word(word: u64) -> Self;
}

// SAFETY: the number itself.
unsafe impl Item for u64 {
    #[inline]
    fn into_word(self) -> u64 {
        self
    }

    #[inline]
    unsafe fn from_word(word: u64) -> Self {
        word
    }
}

// SAFETY: the number itself, which has no more bits than the word.
unsafe impl Item for usize {
    #[inline]
    fn into_word(self) -> u64 {
        self as u64
    }

    #[inline]
    unsafe fn from_word(word: u64) -> Self {
        word as Self
    }
}

// SAFETY: the address of the box, which is given up for it and made again of it.
unsafe impl<T> Item for Box<T> {
    #[inline]
    fn into_word(self) -> u64 {
        Self::into_raw(self).expose_provenance() as u64
    }

    #[inline]
    unsafe fn from_word(word: u64) -> Self {
        let at = std::ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: the address of a box that nobody has made again.
        unsafe { Self::from_raw(at) }
    }
}

// SAFETY: the address of the value, with the count that belonged to this handle.
unsafe impl<T> Item for Arc<T> {
    #[inline]
    fn into_word(self) -> u64 {
        Self::into_raw(self).expose_provenance() as u64
    }

    #[inline]
    unsafe fn from_word(word: u64) -> Self {
        let at = std::ptr::with_exposed_provenance(word as usize);
        // SAFETY: the address of a handle that nobody has made again.
        unsafe { Self::from_raw(at) }
    }
}

/// A stack with a part for each processor: the last item pushed on a processor is popped first
/// there.
///
/// ```
/// use lockspan_thread::percpu::Stack;
///
/// let spare: Stack<Box<u64>> = Stack::with_capacity(32);
/// if let Err(full) = spare.push(Box::new(7)) {
///     drop(full); // the part of this processor has 32 items already
/// }
/// assert_eq!(spare.drain_all(), [Box::new(7)]);
/// ```
pub struct Stack<T: Item> {
    parts: Parts,
    items: PhantomData<T>,
}

// SAFETY: the stack owns its items and gives each one out once.
unsafe impl<T: Item + Send> Send for Stack<T> {}
// SAFETY: through a shared stack items move from thread to thread, as `T: Send` allows, and nobody
// gets a reference to one.
unsafe impl<T: Item + Send> Sync for Stack<T> {}

impl<T: Item> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = (0..=self.cpus()).map(|part| self.part(part).length());
        f.debug_struct("Stack")
            .field("capacity", &self.capacity())
            .field("lengths", &lengths.collect::<Vec<_>>())
            .finish()
    }
}

impl<T: Item> Stack<T> {
    /// An empty stack with room for `capacity` items on each processor.
    ///
    /// # Panics
    /// If the size overflows.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let bytes = capacity.saturating_mul(size_of::<u64>()).saturating_add(ITEMS);
        Self { parts: Parts::new(bytes, capacity), items: PhantomData }
    }

    /// How many items each processor has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.parts.regions().capacity
    }

    /// How many processors have a part: all that the machine can have.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.parts.cpus()
    }

    /// How many items there are. A guess while other threads push and pop.
    #[must_use]
    pub fn len(&self) -> usize {
        (0..=self.cpus()).map(|part| self.part(part).length()).sum()
    }

    /// Whether [`len`](Self::len) is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pushes `item` to the part of this processor.
    ///
    /// # Errors
    /// Returns the item if the part is full.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), T> {
        let word = item.into_word();
        // SAFETY: the regions are this stack's; all others shut the latch first (I3).
        let section = |area: Area| unsafe { area.push(self.parts.regions(), word) };
        match self.parts.area().map(section) {
            Some(Outcome::Moved(1)) => Ok(()),
            _ => self.push_slowly(word),
        }
    }

    /// The part is full or shut, or this thread can run no section.
    #[cold]
    #[inline(never)]
    fn push_slowly(&self, word: u64) -> Result<(), T> {
        match self.push_words(&[word]) {
            1 => Ok(()),
            // SAFETY: it was made for this call and is not in the stack.
            _ => Err(unsafe { T::from_word(word) }),
        }
    }

    /// Pops the top item of this processor's part. `None` means that this part is empty; others may
    /// have items: see [`drain_all`](Self::drain_all).
    #[inline]
    #[must_use]
    pub fn pop(&self) -> Option<T> {
        // SAFETY: the regions are this stack's; all others shut the latch first (I3).
        let section = |area: Area| unsafe { area.pop(self.parts.regions()) };
        let word = match self.parts.area().map(section) {
            Some(Ok(word)) => word,
            Some(Err(Outcome::Moved(_))) => return None,
            _ => self.pop_slowly()?,
        };
        // SAFETY: it was in the stack, and is not any more.
        Some(unsafe { T::from_word(word) })
    }

    /// The part is shut, or this thread can run no section.
    #[cold]
    #[inline(never)]
    fn pop_slowly(&self) -> Option<u64> {
        let mut word = [0];
        (self.pop_words(&mut word) == 1).then_some(word[0])
    }

    /// Moves items from the end of `items` to this processor's part, up to 64 at once, until the
    /// part is full. If the thread moves meanwhile, it goes on with its new processor's part.
    /// Returns the number of items moved.
    pub fn push_many(&self, items: &mut Vec<T>) -> usize {
        let before = items.len();
        while !items.is_empty() {
            let rest = items.len().saturating_sub(BATCH);
            let mut words = [0; BATCH];
            let mut count = 0;
            for item in items.drain(rest..).rev() {
                words[count] = item.into_word();
                count += 1;
            }
            let done = self.push_words(&words[..count]);
            for word in words[done..count].iter().rev() {
                // SAFETY: it was made above and is not in the stack.
                items.push(unsafe { T::from_word(*word) });
            }
            if done < count {
                break;
            }
        }
        before - items.len()
    }

    /// Moves up to `count` items from this processor's part to the end of `items`, up to 64 at
    /// once. Returns their number, which is smaller than `count` only if the part ran empty.
    pub fn pop_many(&self, count: usize, items: &mut Vec<T>) -> usize {
        let before = items.len();
        items.reserve(count.min(self.capacity()));
        while items.len() - before < count {
            let mut words = [0; BATCH];
            let wanted = (count - (items.len() - before)).min(BATCH);
            let done = self.pop_words(&mut words[..wanted]);
            // SAFETY: they were in the stack, and are not any more.
            items.extend(words[..done].iter().map(|word| unsafe { T::from_word(*word) }));
            if done < wanted {
                break;
            }
        }
        items.len() - before
    }

    /// Takes all items of one processor, from any thread on any processor. Returns nothing for a
    /// processor number that the machine cannot have.
    #[must_use]
    pub fn drain(&self, cpu: usize) -> Vec<T> {
        if cpu < self.cpus() { self.drain_part(cpu) } else { Vec::new() }
    }

    /// Takes all items, processor by processor. An item that is pushed meanwhile may stay.
    #[must_use]
    pub fn drain_all(&self) -> Vec<T> {
        let parts = (0..=self.cpus()).filter(|part| self.part(*part).length() > 0);
        parts.flat_map(|part| self.drain_part(part)).collect()
    }

    fn drain_part(&self, part: usize) -> Vec<T> {
        // Nothing may allocate while the latch is shut: the allocator may be our user. Nor may the
        // items' own code run, which may want the stack.
        let mut words = Vec::with_capacity(self.capacity());
        let mut batch = [0; BATCH];
        self.alone_in(part, |part| {
            loop {
                let done = part.pop(&mut batch);
                words.extend_from_slice(&batch[..done]);
                if done < batch.len() {
                    break;
                }
            }
        });
        // SAFETY: they were in the stack, and are not any more.
        words.into_iter().map(|word| unsafe { T::from_word(word) }).collect()
    }

    pub(super) fn push_words(&self, words: &[u64]) -> usize {
        // SAFETY: the regions are this stack's; all others shut the latch first (I3).
        self.by_section(|area| unsafe { area.push_many(self.parts.regions(), words) })
            .unwrap_or_else(|| {
                self.alone_in(self.without_section(), |part| part.push(words, self.capacity()))
            })
    }

    pub(super) fn pop_words(&self, words: &mut [u64]) -> usize {
        // SAFETY: the regions are this stack's; all others shut the latch first (I3).
        self.by_section(|area| unsafe { area.pop_many(self.parts.regions(), words) })
            .unwrap_or_else(|| self.alone_in(self.without_section(), |part| part.pop(words)))
    }

    /// Runs the section until it meets an open latch; none if this thread can run no section.
    fn by_section(&self, mut section: impl FnMut(Area) -> Outcome) -> Option<usize> {
        let area = self.parts.area()?;
        loop {
            match section(area) {
                Outcome::Moved(count) => return Some(count),
                Outcome::Shut => self.wait_on(area),
                Outcome::NoCpu => return None,
            }
        }
    }

    /// Waits until the latch of this processor is open; if the thread has moved, another's.
    fn wait_on(&self, area: Area) {
        self.part(area.cpu().min(self.cpus())).latch().wait();
    }

    /// The part of a thread that can run no section: among sections the common one.
    fn without_section(&self) -> usize {
        match backend().backend() {
            Backend::Rseq => self.cpus(),
            _ => self.parts.of_this_thread(),
        }
    }

    /// Calls `work` when nobody else can touch the part.
    fn alone_in<R>(&self, number: usize, work: impl FnOnce(Part<'_>) -> R) -> R {
        let part = self.part(number);
        let _open_again = part.latch().shut();
        if number < self.cpus() && backend().backend() == Backend::Rseq {
            stop_sections_on(number);
        }
        work(part)
    }

    fn part(&self, number: usize) -> Part<'_> {
        Part { at: self.parts.part(number), stack: PhantomData }
    }
}

impl<T: Item> Drop for Stack<T> {
    fn drop(&mut self) {
        for part in 0..=self.cpus() {
            let mut word = [0];
            // Nobody else has the stack: no latch is needed.
            while self.part(part).pop(&mut word) == 1 {
                // SAFETY: it was in the stack, and is not any more.
                drop(unsafe { T::from_word(word[0]) });
            }
        }
    }
}

/// One processor's part.
#[derive(Clone, Copy)]
struct Part<'a> {
    at: *mut u8,
    stack: PhantomData<&'a ()>,
}

impl<'a> Part<'a> {
    fn latch(self) -> &'a Latch {
        // SAFETY: within the part.
        let latch = unsafe { self.at.add(LATCH) };
        // SAFETY: a latch is a word; zeros are an open one; the part lives for 'a.
        unsafe { &*latch.cast() }
    }

    fn word(self, offset: usize) -> &'a AtomicU64 {
        // SAFETY: callers stay within the part.
        let word = unsafe { self.at.add(offset) };
        // SAFETY: aligned as the offsets are; only touched as an atomic and by whole instructions.
        unsafe { &*word.cast() }
    }

    fn length(self) -> usize {
        self.word(LENGTH).load(Ordering::Relaxed) as usize
    }

    fn item(self, at: usize) -> &'a AtomicU64 {
        self.word(ITEMS + at * size_of::<u64>())
    }

    /// Pushes what fits, the first one first; only for who is alone.
    fn push(self, words: &[u64], capacity: usize) -> usize {
        let length = self.length();
        let count = words.len().min(capacity - length);
        for (at, word) in (length..).zip(&words[..count]) {
            self.item(at).store(*word, Ordering::Relaxed);
        }
        self.word(LENGTH).store((length + count) as u64, Ordering::Release);
        count
    }

    /// Pops what is there, from the top; only for who is alone.
    fn pop(self, words: &mut [u64]) -> usize {
        let length = self.length();
        let count = words.len().min(length);
        for (at, word) in (0..length).rev().zip(&mut words[..count]) {
            *word = self.item(at).load(Ordering::Relaxed);
        }
        self.word(LENGTH).store((length - count) as u64, Ordering::Release);
        count
    }
}
