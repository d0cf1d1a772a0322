//! What an owner does with its lock.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

use super::lock::{Lock, NO_CPU, Refused, Steal, processor};
use super::owner::Owner;
use super::record::{Name, Record};
use super::word::Word;
#[cfg(test)]
use crate::backend::sabotage::{self, Mistake};
#[cfg(feature = "signals")]
use crate::backend::signal;
use crate::backend::{Area, Claim, Compared};
use crate::sync::machine::{AtomicU64, Ordering, compiler_fence};

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
    /// By sections that a signal interrupts.
    #[cfg(feature = "signals")]
    Signals,
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
/// Each operation gets a closure that chooses a word; it runs before anything else. Choose one of
/// those under the lock, which the closure gets. The compiler cannot know them from others: if it
/// gives a [`Word`] from elsewhere, that one is stored to. It is as safe, but only the lock that a
/// word lies under keeps others from it: two owners of two locks that both change it lose updates.
#[must_use = "dropped, it releases the lock"]
pub struct Ticket<'a, T> {
    lock: &'a Lock<T>,
    record: &'static Record,
    /// The mode's area, if it has one: found by one look.
    area: Option<Area>,
    name: Cell<Name>,
    cpu: Cell<u32>,
    owner: Owner,
    mode: Mode,
    /// Neither `Send` nor `Sync`.
    thread: PhantomData<*mut ()>,
}

impl<T> fmt::Debug for Ticket<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("is_valid", &self.check().is_ok()).finish()
    }
}

impl<T> Drop for Ticket<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let _revoked_before = self.give_up();
    }
}

impl<'a, T> Ticket<'a, T> {
    #[inline]
    pub(super) fn new(
        lock: &'a Lock<T>,
        record: &'static Record,
        mode: Mode,
        (name, owner): (Name, Owner),
        cpu: u32,
    ) -> Self {
        let (name, cpu) = (Cell::new(name), Cell::new(cpu));
        let area = if let Mode::Sections(area) = mode { Some(area) } else { None };
        Self { lock, record, area, name, cpu, owner, mode, thread: PhantomData }
    }

    /// The lock that this is a ticket of.
    #[must_use]
    pub fn lock(&self) -> &'a Lock<T> {
        self.lock
    }

    /// The acquisition that this ticket stands for, for
    /// [`Lock::cancel_owner`](super::Lock::cancel_owner).
    #[inline]
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether it owned the lock at this moment.
    ///
    /// # Errors
    /// If it does not.
    #[inline]
    pub fn check(&self) -> Result<(), Revoked> {
        self.held().check().or_else(|Revoked| self.catch_up())
    }

    /// The word has another name than this ticket. If another ticket of the same acquisition has
    /// bound that to another processor (T7), this one takes over the new name.
    #[inline]
    fn catch_up(&self) -> Result<(), Revoked> {
        let (name, cpu) = self.held().name_now()?;
        self.name.set(name);
        self.cpu.set(cpu);
        Ok(())
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
        // SAFETY: the word is an atomic that lives as long as the lock or forever.
        unsafe { self.store_raw(word.as_ptr(), value) }
    }

    /// Stores `value` to a word anywhere, not under the lock, or nothing.
    ///
    /// Only threads that store to `at` through tickets of *this* lock exclude each other. Others
    /// may load it at any time.
    ///
    /// ```
    /// use lockspan_thread::revocable::{Lock, Revoked, Steal};
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let elsewhere = AtomicU64::new(0);
    /// let lock = Lock::new(());
    /// let ticket = lock.acquire(Steal::Force)?;
    /// ticket.store_to(&elsewhere, 7)?;
    /// lock.cancel(Steal::Force)?;
    /// assert_eq!(ticket.store_to(&elsewhere, 8), Err(Revoked));
    /// assert_eq!(elsewhere.load(Ordering::Relaxed), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the ticket does not own the lock any more. Then nothing was stored.
    #[inline]
    pub fn store_to(&self, at: &AtomicU64, value: u64) -> Result<(), Revoked> {
        // SAFETY: an atomic that is borrowed through the call.
        unsafe { self.store_raw(at.as_ptr(), value) }
    }

    /// Stores `value` to any address, or nothing.
    ///
    /// # Faults
    /// If `at` cannot be written, the thread gets a fault (`SIGSEGV`, `SIGBUS`) in the middle of
    /// the store, as with any store. By default that ends the process. A handler may make the
    /// address writable and return: then the store is made, if the ticket still owns the lock. A
    /// thread that takes the lock meanwhile does not wait for the handler with the backend `rseq`,
    /// and the store is not made; the same with `signal`, unless the mask of the handler
    /// (`sa_mask`) blocks `SIGSTKFLT`: then it waits. With `membarrier` and `plain` it waits. With
    /// `rseq` the handler finds the thread at the place where the section begins anew, not at the
    /// store itself; the address of the fault is the right one.
    ///
    /// # Safety
    /// - `at` is aligned to 8 bytes and may be written, or a handler sees to that, through the
    ///   call, even if the ticket is revoked before or during it: the memory must not be unmapped
    ///   or made read-only because the lock was taken.
    /// - Other threads meanwhile only touch the 8 bytes at `at` as atomics, or through tickets of
    ///   this lock. A thread that has acquired the lock after this ticket's owner may use
    ///   ordinary loads and stores for as long as no other thread acquires it: all stores of the
    ///   former owners are visible to it, and no further one comes.
    /// - A handler of a fault returns or ends the process. It does not jump out of this call
    ///   (`siglongjmp`): the lock's flag or gate would stay up.
    ///
    /// # Errors
    /// If the ticket does not own the lock any more. Then nothing was stored.
    #[inline]
    pub unsafe fn store_raw(&self, at: *mut u64, value: u64) -> Result<(), Revoked> {
        let Some(area) = self.area else {
            #[cfg(feature = "signals")]
            if matches!(self.mode, Mode::Signals) {
                return self.held().by_signals(at, value);
            }
            return self.by_other_means(move || {
                // SAFETY: the caller's promise; other threads touch it as an atomic. Not before the
                // ticket is checked: others may use it as they like once the lock was taken.
                unsafe { AtomicU64::from_ptr(at) }.store(value, Ordering::Release);
            });
        };
        self.by_section(area, move |claim| {
            // SAFETY: the caller's promise; the claim's words live as long as the lock or forever.
            let stored = unsafe { area.store_if(claim, at, value) };
            stored.then_some(())
        })
    }

    /// Adds `n` to a word, wrapping around, or does nothing.
    ///
    /// # Errors
    /// If the ticket does not own the lock any more. Then nothing was added.
    #[inline]
    pub fn add(&self, word: impl FnOnce(&T) -> &Word, n: u64) -> Result<(), Revoked> {
        let word = word(self.lock.words());
        let Some(area) = self.area else {
            #[cfg(feature = "signals")]
            if matches!(self.mode, Mode::Signals) {
                // Names never repeat: if the store happens, nobody has stored since the look.
                return self.held().by_signals(word.as_ptr(), word.peek().wrapping_add(n));
            }
            return self.by_other_means(move || word.set(word.peek().wrapping_add(n)));
        };
        self.by_section(area, move |claim| {
            // SAFETY: the words live as long as the lock or forever, and are atomics.
            let added = unsafe { area.add_if(claim, word.as_ptr(), n) };
            added.then_some(())
        })
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
        let Some(area) = self.area else {
            #[cfg(feature = "signals")]
            if matches!(self.mode, Mode::Signals) {
                return match word.peek() {
                    found if found == expected => {
                        self.held().by_signals(word.as_ptr(), new).map(Ok)
                    }
                    found => self.check().map(|()| Err(found)),
                };
            }
            return self.by_other_means(move || match word.peek() {
                found if found == expected => {
                    word.set(new);
                    Ok(())
                }
                found => Err(found),
            });
        };
        let stored = self.by_section(area, move |claim| {
            // SAFETY: the words live as long as the lock or forever, and are atomics.
            match unsafe { area.store_if_equal(claim, word.as_ptr(), (expected, new)) } {
                Compared::Stored => Some(true),
                Compared::Differs => Some(false),
                Compared::Lost => None,
            }
        })?;
        if stored {
            return Ok(Ok(()));
        }
        // Looked at once more, after the section: it must still be the owner's.
        let found = word.peek();
        self.check().map(|()| Err(found))
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

    /// Ends the ticket, and leaves the lock to this thread until another one takes it. The thread's
    /// next [`acquire`](super::Lock::acquire) gets the same ticket again, if none did; its end, or
    /// [`release_all`](super::release_all), releases the lock.
    #[inline]
    pub fn keep(self) {
        mem::forget(self);
    }

    /// The number of the processor that the ticket is bound to, where it is bound to any.
    #[inline]
    pub(super) fn processor(&self) -> usize {
        self.cpu.get() as usize
    }

    /// [`keep`](Self::keep), if the ticket is bound to `cpu`. If it is bound to another processor,
    /// or to none that is known, releases the lock: no thread on `cpu` could take it locally.
    #[inline]
    pub(super) fn keep_on(self, cpu: usize) {
        if self.area.is_none() || self.processor() == cpu {
            self.keep();
        }
    }

    /// Makes the ticket own the lock again, if it was taken away: whether it had to. If the ticket
    /// still owns the lock, this costs a load and a comparison, so it can stand before each batch
    /// of stores.
    ///
    /// # Errors
    /// As [`acquire`](super::Lock::acquire). The ticket stays revoked then.
    #[inline]
    pub fn renew(&mut self, steal: Steal) -> Result<bool, Refused> {
        if self.check().is_ok() {
            return Ok(false);
        }
        // The old ticket is dropped, which changes nothing: its name is not in the word any more.
        *self = self.lock.acquire(steal)?;
        Ok(true)
    }

    /// [`release`](Self::release), without the end of the ticket: [`renew`](Self::renew) makes it
    /// own the lock again.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn give_up(&self) -> Result<(), Revoked> {
        self.held().give_up(self.mode)
    }

    /// Runs a section until it has given something or the lock is lost.
    #[inline]
    fn by_section<R>(
        &self,
        area: Area,
        section: impl Fn(Claim) -> Option<R>,
    ) -> Result<R, Revoked> {
        if let Some(result) = section(self.held().claim(self.cpu.get())) {
            return Ok(result);
        }
        let (name, cpu, result) = self.held().by_section_elsewhere(area, section)?;
        self.name.set(name);
        self.cpu.set(cpu);
        Ok(result)
    }

    #[inline]
    fn by_other_means<R>(&self, work: impl FnOnce() -> R) -> Result<R, Revoked> {
        self.held().by_other_means(self.mode, work)
    }

    #[inline]
    fn held(&self) -> Held<'_, T> {
        let (name, owner) = (self.name.get(), self.owner);
        Held { lock: self.lock, record: self.record, name, owner }
    }
}

/// What a ticket holds, by value: if no reference to a ticket is ever passed on, the compiler can
/// keep its fields in registers.
struct Held<'a, T> {
    lock: &'a Lock<T>,
    record: &'static Record,
    name: Name,
    owner: Owner,
}

impl<T> Held<'_, T> {
    #[inline]
    fn check(&self) -> Result<(), Revoked> {
        let owns = self.lock.word().load(Ordering::Acquire) == self.name.word();
        if owns && !self.record.has_released(self.name) { Ok(()) } else { Err(Revoked) }
    }

    #[inline]
    fn claim(&self, cpu: u32) -> Claim {
        let owner = self.lock.word().as_ptr().cast_const();
        let floor = self.record.floor().as_ptr().cast_const();
        Claim { owner, name: self.name.word(), floor, cpu }
    }

    /// Runs a section that has failed once, after the thread has moved.
    #[cold]
    #[inline(never)]
    fn by_section_elsewhere<R>(
        mut self,
        area: Area,
        section: impl Fn(Claim) -> Option<R>,
    ) -> Result<(Name, u32, R), Revoked> {
        loop {
            let cpu = self.follow(area)?;
            if let Some(result) = section(self.claim(cpu)) {
                return Ok((self.name, cpu, result));
            }
        }
    }

    /// A section has failed. If that is because the thread has moved, binds the lock to where the
    /// thread is now (T7): if the exchange finds the old name, nobody else has owned it meanwhile.
    fn follow(&mut self, area: Area) -> Result<u32, Revoked> {
        let (name, bound) = self.name_now()?;
        self.name = name;
        let cpu = processor(area).map_err(|_| Revoked)?;
        if bound == cpu {
            return Ok(cpu);
        }
        let new = self.record.name(cpu).moved();
        if !self.lock.exchange(self.name.word(), new.word()) {
            return Err(Revoked);
        }
        self.record.settle(new);
        self.name = new;
        Ok(cpu)
    }

    /// The name that the acquisition has by now, and its processor, if that owns the lock.
    #[cold]
    #[inline(never)]
    fn name_now(&self) -> Result<(Name, u32), Revoked> {
        let (seen, owner) = self.lock.look();
        let name = self.record.own_name(seen).filter(|_| owner == Some(self.owner));
        let name = name.filter(|name| !self.record.has_released(*name)).ok_or(Revoked)?;
        Ok((name, self.record.cpu_of(name).unwrap_or(NO_CPU)))
    }

    /// Stores in a section that a signal interrupts.
    #[cfg(feature = "signals")]
    #[inline]
    fn by_signals(&self, at: *mut u64, value: u64) -> Result<(), Revoked> {
        if self.record.has_released(self.name) {
            return Err(Revoked);
        }
        // A foreign handler that jumped out has broken this promise; thieves must not trust it.
        if self.record.comes_again.load(Ordering::Relaxed) != 0 {
            self.record.section.store(0, Ordering::Relaxed);
            self.record.comes_again.store(0, Ordering::Release);
        }
        let (flag, owner) = (self.record.section.as_ptr(), self.lock.word().as_ptr());
        let name = self.name.word();
        // SAFETY: `at` is an atomic that lives through the call, as all callers see to; the flag is
        // this thread's, as a ticket stays with its thread.
        let stored = unsafe { signal::store_if(flag, owner, name, at, value) };
        stored.then_some(()).ok_or(Revoked)
    }

    /// Runs `work` while a thief waits for it, if the ticket owns the lock. Out of the way: a call
    /// costs it little, and the sections come out shorter.
    #[cold]
    #[inline(never)]
    fn by_other_means<R>(self, mode: Mode, work: impl FnOnce() -> R) -> Result<R, Revoked> {
        #[cfg(test)]
        if sabotage::is(Mistake::NoCheck) {
            sabotage::dawdle();
        }
        let gated = matches!(mode, Mode::Gate);
        #[cfg(test)]
        let gated = gated && !sabotage::is(Mistake::NoGate);
        let _gate = gated.then(|| self.lock.gate().shut());
        // A thread that ends has released all its names before another one has its record, and the
        // flag with it. A ticket that lies in a thread-local value comes here even later.
        if self.record.has_released(self.name) {
            return Err(Revoked);
        }
        // The barrier of a thief makes the flag visible, or the thief's name to the check.
        self.record.section.store(self.lock.address(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let result = self.check_before_work().map(|()| work());
        self.record.section.store(0, Ordering::Release);
        result
    }

    fn check_before_work(&self) -> Result<(), Revoked> {
        #[cfg(test)]
        if sabotage::is(Mistake::NoCheck) {
            return Ok(());
        }
        let result = self.check();
        #[cfg(test)]
        sabotage::dawdle();
        result
    }

    #[inline(never)]
    fn give_up(mut self, mode: Mode) -> Result<(), Revoked> {
        let _gate = matches!(mode, Mode::Gate).then(|| self.lock.gate().shut());
        loop {
            let released = self.record.has_released(self.name);
            // T6. An atomic exchange, so that it cannot wipe out the name of a thief.
            if self.lock.exchange(self.name.word(), 0) {
                return if released { Err(Revoked) } else { Ok(()) };
            }
            // Another ticket of the same acquisition may have given it another name.
            self.name = self.name_now()?.0;
        }
    }
}
