//! What an owner does with its lock.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

use super::lock::{Lock, processor};
use super::record::{Name, Record};
use super::word::Word;
use crate::backend::{Area, Compared};
use crate::sync::machine::{Ordering, compiler_fence};

/// The ticket's lock has been taken away, or was released: it is good for nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked;

impl fmt::Display for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock was taken away from this ticket")
    }
}

impl std::error::Error for Revoked {}

/// How stores are kept from happening too late.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    /// By sections of the kernel.
    Sections(Area),
    /// By a flag that a thief waits for.
    Flag,
    /// By a lock.
    Gate,
}

/// Ownership of a [`Lock`], until it is taken away. Releases it when dropped.
///
/// It belongs to the thread that acquired it:
///
/// ```compile_fail,E0277
/// use lockspan_thread::revocable::{Lock, Steal, Word};
///
/// static LOCK: Lock<Word> = Lock::new(Word::new(0));
/// let ticket = LOCK.acquire(Steal::Force).unwrap();
/// std::thread::spawn(move || ticket.store(|word| word, 1));
/// ```
///
/// Each operation gets a closure that chooses a word under the lock; it runs before anything else.
#[must_use = "dropped, it releases the lock"]
pub struct Ticket<'a, T> {
    lock: &'a Lock<T>,
    record: &'static Record,
    mode: Mode,
    name: Cell<Name>,
    cpu: Cell<u32>,
    /// Neither `Send` nor `Sync`.
    thread: PhantomData<*mut ()>,
}

impl<T> fmt::Debug for Ticket<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("is_valid", &self.check().is_ok()).finish()
    }
}

impl<T> Drop for Ticket<'_, T> {
    fn drop(&mut self) {
        let _revoked_before = self.give_up();
    }
}

impl<'a, T> Ticket<'a, T> {
    pub(super) fn new(
        lock: &'a Lock<T>,
        record: &'static Record,
        mode: Mode,
        name: Name,
        cpu: u32,
    ) -> Self {
        let (name, cpu) = (Cell::new(name), Cell::new(cpu));
        Self { lock, record, mode, name, cpu, thread: PhantomData }
    }

    /// Whether it owned the lock at this moment.
    ///
    /// # Errors
    /// If it does not.
    #[inline]
    pub fn check(&self) -> Result<(), Revoked> {
        let name = self.name.get();
        let owns = self.lock.owner().load(Ordering::Acquire) == name.word();
        if owns && !self.record.has_released(name) { Ok(()) } else { Err(Revoked) }
    }

    /// A word's value. It was read while this ticket owned the lock, so nobody but this thread has
    /// stored anything between it and the ticket's next store.
    ///
    /// # Errors
    /// If the ticket does not own the lock any more.
    #[inline]
    pub fn load(&self, word: impl FnOnce(&T) -> &Word) -> Result<u64, Revoked> {
        let value = word(self.lock.words()).peek();
        self.check().map(|()| value)
    }

    /// Stores `value` to a word, or nothing.
    ///
    /// # Errors
    /// If the ticket does not own the lock any more. Then nothing was stored.
    #[inline]
    pub fn store(&self, word: impl FnOnce(&T) -> &Word, value: u64) -> Result<(), Revoked> {
        let word = word(self.lock.words());
        match self.mode {
            Mode::Sections(area) => self.by_section(|cpu, owner, name| {
                // SAFETY: both words live as long as the lock, and are atomics.
                unsafe { area.store_if(cpu, owner, name, word.as_ptr(), value) }
            }),
            _ => self.by_other_means(|| word.set(value)),
        }
    }

    /// Adds `n` to a word, wrapping around, or does nothing.
    ///
    /// # Errors
    /// If the ticket does not own the lock any more. Then nothing was added.
    #[inline]
    pub fn add(&self, word: impl FnOnce(&T) -> &Word, n: u64) -> Result<(), Revoked> {
        let word = word(self.lock.words());
        match self.mode {
            Mode::Sections(area) => self.by_section(|cpu, owner, name| {
                // SAFETY: both words live as long as the lock, and are atomics.
                unsafe { area.add_if(cpu, owner, name, word.as_ptr(), n) }
            }),
            _ => self.by_other_means(|| word.set(word.peek().wrapping_add(n))),
        }
    }

    /// Stores `new` to a word if that is `expected`; else gives what it is.
    ///
    /// # Errors
    /// The outer one if the ticket does not own the lock any more. Then nothing was stored.
    #[inline]
    pub fn compare_and_store(
        &self,
        word: impl FnOnce(&T) -> &Word,
        expected: u64,
        new: u64,
    ) -> Result<Result<(), u64>, Revoked> {
        let word = word(self.lock.words());
        let Mode::Sections(area) = self.mode else {
            return self.by_other_means(|| match word.peek() {
                found if found == expected => {
                    word.set(new);
                    Ok(())
                }
                found => Err(found),
            });
        };
        let mut found = Ok(());
        self.by_section(|cpu, owner, name| {
            found = Ok(());
            let (at, values) = (word.as_ptr(), (expected, new));
            // SAFETY: both words live as long as the lock, and are atomics.
            match unsafe { area.store_if_equal(cpu, owner, name, at, values) } {
                Compared::Stored => true,
                Compared::Differs => {
                    found = Err(word.peek());
                    true
                }
                Compared::Lost => false,
            }
        })?;
        if found.is_err() {
            // The value was looked at once more, after the section: it must still be the owner's.
            self.check()?;
        }
        Ok(found)
    }

    /// Leaves the lock to nobody.
    ///
    /// # Errors
    /// If the ticket did not own it any more.
    pub fn release(self) -> Result<(), Revoked> {
        let result = self.give_up();
        mem::forget(self);
        result
    }

    fn give_up(&self) -> Result<(), Revoked> {
        let _gate = matches!(self.mode, Mode::Gate).then(|| self.lock.gate().shut());
        let name = self.name.get();
        let released = self.record.has_released(name);
        // T6. Interlocked, so that it cannot wipe out the name of a thief.
        let given = self.lock.exchange(name.word(), 0);
        if given && !released { Ok(()) } else { Err(Revoked) }
    }

    /// Runs a section until it has done its work or the lock is lost.
    #[inline]
    fn by_section(
        &self,
        mut section: impl FnMut(u32, *const u64, u64) -> bool,
    ) -> Result<(), Revoked> {
        if self.record.has_released(self.name.get()) {
            return Err(Revoked);
        }
        let owner = self.lock.owner().as_ptr().cast_const();
        while !section(self.cpu.get(), owner, self.name.get().word()) {
            self.follow()?;
        }
        Ok(())
    }

    /// A section has failed. If that is because the thread has moved, binds the lock to where the
    /// thread is now (T7): if the exchange finds the old name, nobody else has owned it meanwhile.
    #[cold]
    fn follow(&self) -> Result<(), Revoked> {
        self.check()?;
        let Mode::Sections(area) = self.mode else { return Ok(()) };
        let cpu = processor(area).map_err(|_| Revoked)?;
        let (old, new) = (self.name.get(), self.record.name(cpu));
        if !self.lock.exchange(old.word(), new.word()) {
            return Err(Revoked);
        }
        self.record.settle(new);
        self.name.set(new);
        self.cpu.set(cpu);
        Ok(())
    }

    /// Runs `work` while a thief waits for it, if the ticket owns the lock.
    #[inline]
    fn by_other_means<R>(&self, work: impl FnOnce() -> R) -> Result<R, Revoked> {
        let _gate = matches!(self.mode, Mode::Gate).then(|| self.lock.gate().shut());
        // The barrier of a thief makes the flag visible, or the thief's name to the check.
        self.record.section.store(self.lock.address(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let result = self.check().map(|()| work());
        self.record.section.store(0, Ordering::Release);
        result
    }
}
