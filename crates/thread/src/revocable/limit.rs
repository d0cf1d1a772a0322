//! A ticket that gives the lock up after a number of stores.

use std::cell::Cell;

use super::lock::{Lock, Refused, Steal};
use super::owner::Owner;
use super::ticket::{Revoked, Ticket};
use super::word::Word;
use crate::sync::machine::AtomicU64;

/// A [`Ticket`] with a limit, made by [`Ticket::limit`]: after so many successful stores it
/// releases the lock, and its owner has to acquire it anew. So a thread that stores all the time
/// cannot keep the lock forever from threads that acquire with [`Steal::Never`].
///
/// Loads and checks do not count. The price is a counter, in this type only: a ticket without a
/// limit has none.
///
/// ```
/// use lockspan_thread::revocable::{Lock, Revoked, Steal, Word};
///
/// let lock = Lock::new(Word::new(0));
/// let ticket = lock.acquire(Steal::Never)?.limit(2);
/// assert_eq!(ticket.add(|word| word, 1), Ok(()));
/// assert_eq!(ticket.add(|word| word, 1), Ok(()));
/// assert!(!lock.is_owned());
/// assert_eq!(ticket.add(|word| word, 1), Err(Revoked));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropped, it releases the lock"]
pub struct Limited<'a, T> {
    ticket: Ticket<'a, T>,
    /// 0 for none.
    limit: Cell<u64>,
    left: Cell<u64>,
}

impl<'a, T> Ticket<'a, T> {
    /// The same ticket, good for `stores` successful stores. 0 stands for as many as one likes.
    pub fn limit(self, stores: u64) -> Limited<'a, T> {
        let limited = Limited { ticket: self, limit: Cell::new(0), left: Cell::new(0) };
        limited.set_limit(stores);
        limited
    }
}

impl<'a, T> Limited<'a, T> {
    /// Begins to count anew, with another limit. 0 stands for as many stores as one likes.
    pub fn set_limit(&self, stores: u64) {
        self.limit.set(stores);
        // With one store each nanosecond the count ends after 584 years.
        self.left.set(if stores == 0 { u64::MAX } else { stores });
    }

    /// After how many stores it releases the lock; 0 if there is no limit.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.limit.get()
    }

    /// The ticket, for stores that do not count.
    pub fn uncounted(&self) -> &Ticket<'a, T> {
        &self.ticket
    }

    /// The ticket without its limit.
    pub fn without_limit(self) -> Ticket<'a, T> {
        self.ticket
    }

    /// [`Ticket::renew`]. If the lock had to be acquired, the count begins anew.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn renew(&mut self, steal: Steal) -> Result<bool, Refused> {
        let renewed = self.ticket.renew(steal)?;
        if renewed {
            self.set_limit(self.limit.get());
        }
        Ok(renewed)
    }

    /// [`Ticket::lock`].
    #[must_use]
    pub fn lock(&self) -> &'a Lock<T> {
        self.ticket.lock()
    }

    /// [`Ticket::owner`].
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.ticket.owner()
    }

    /// [`Ticket::check`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn check(&self) -> Result<(), Revoked> {
        self.ticket.check()
    }

    /// [`Ticket::load`].
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn load(&self, word: impl FnOnce(&T) -> &Word) -> Result<u64, Revoked> {
        self.ticket.load(word)
    }

    /// [`Ticket::store`], counted.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn store(&self, word: impl FnOnce(&T) -> &Word, value: u64) -> Result<(), Revoked> {
        self.ticket.store(word, value)?;
        self.count();
        Ok(())
    }

    /// [`Ticket::store_to`], counted.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn store_to(&self, at: &AtomicU64, value: u64) -> Result<(), Revoked> {
        self.ticket.store_to(at, value)?;
        self.count();
        Ok(())
    }

    /// [`Ticket::store_raw`], counted.
    ///
    /// # Safety
    /// The same.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub unsafe fn store_raw(&self, at: *mut u64, value: u64) -> Result<(), Revoked> {
        // SAFETY: the same contract.
        unsafe { self.ticket.store_raw(at, value) }?;
        self.count();
        Ok(())
    }

    /// [`Ticket::add`], counted.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn add(&self, word: impl FnOnce(&T) -> &Word, n: u64) -> Result<(), Revoked> {
        self.ticket.add(word, n)?;
        self.count();
        Ok(())
    }

    /// [`Ticket::compare_and_store`], counted if it has stored.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub fn compare_and_store(
        &self,
        word: impl FnOnce(&T) -> &Word,
        expected: u64,
        new: u64,
    ) -> Result<Result<(), u64>, Revoked> {
        let compared = self.ticket.compare_and_store(word, expected, new)?;
        if compared.is_ok() {
            self.count();
        }
        Ok(compared)
    }

    /// [`Ticket::give_up`].
    ///
    /// # Errors
    /// The same.
    pub fn give_up(&self) -> Result<(), Revoked> {
        self.ticket.give_up()
    }

    /// [`Ticket::release`].
    ///
    /// # Errors
    /// The same.
    pub fn release(self) -> Result<(), Revoked> {
        self.ticket.release()
    }

    #[inline]
    fn count(&self) {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left == 0 {
            self.reach_limit();
        }
    }

    /// From here on each store is refused before it is counted.
    #[cold]
    fn reach_limit(&self) {
        let _revoked_before = self.ticket.give_up();
    }
}
