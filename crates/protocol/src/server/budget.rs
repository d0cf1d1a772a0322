//! Limits that the tables of a server share: so many records in all, so many of one user.
//!
//! Each table counts what it uses in a [`Share`] of its own, as a plain number. A share draws from
//! the [`Budget`] in lots and gives back in lots, so that a table which goes up and down around
//! some number touches no memory that other tables write to.
//!
//! # Invariants
//!
//! - **B1** `drawn` of a budget is the sum of `used + spare` of its shares.
//! - **B2** whoever takes only where there is room leaves `drawn <= max`, but for tables that look
//!   at the same moment: it may be exceeded by one for each of them.
//! - **B3** a share keeps at most `2 * lot` spare, and a server's shares together at most a 32nd of
//!   the limit: so much earlier may a table find the budget empty. Limits below 64 for each table
//!   are exact.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest lot: a draw is rare then, and a larger one would only lie around.
const LOT_MAX: usize = 64;

/// How much there may be of something in all tables together.
#[derive(Debug)]
pub struct Budget {
    max: usize,
    /// A share that is empty draws this many to spare.
    lot: usize,
    /// What shares have drawn. Relaxed: nothing else is read because of it.
    drawn: AtomicUsize,
}

impl Budget {
    /// A limit that so many tables share.
    #[must_use]
    pub fn new(max: usize, tables: usize) -> Arc<Self> {
        // A table that is alone draws all of it at once.
        let lot = if tables > 1 { (max / (64 * tables)).min(LOT_MAX) } else { max };
        Arc::new(Self { max, lot, drawn: AtomicUsize::new(0) })
    }

    /// The limit.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// How much the tables have drawn: what they use, and what they keep to spare.
    #[must_use]
    pub fn drawn(&self) -> usize {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Draws one, and what there is room for of a lot to spare: how many that is.
    fn draw(&self) -> usize {
        let spare = self.lot.min(self.max.saturating_sub(self.drawn() + 1));
        self.drawn.fetch_add(1 + spare, Ordering::Relaxed);
        spare
    }
}

/// What one table uses of a budget.
pub(super) struct Share {
    budget: Arc<Budget>,
    /// The budget's, so that only a draw looks there.
    lot: usize,
    used: usize,
    spare: usize,
}

impl Share {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self { lot: budget.lot, budget, used: 0, spare: 0 }
    }

    /// Whether [`Share::take`] stays within the limit.
    pub(super) fn has_room(&self) -> bool {
        self.spare > 0 || self.budget.drawn() < self.budget.max
    }

    /// Whether it stays within twice the limit.
    pub(super) fn has_room_beyond(&self) -> bool {
        self.has_room_with(self.budget.max)
    }

    /// Whether it stays within the limit and so many more.
    pub(super) fn has_room_with(&self, more: usize) -> bool {
        self.spare > 0 || self.budget.drawn() < self.budget.max.saturating_add(more)
    }

    /// How much is used beyond the limit, by all tables.
    pub(super) fn excess(&self) -> usize {
        self.budget.drawn().saturating_sub(self.budget.max)
    }

    /// Uses one more, if need be beyond the limit.
    pub(super) fn take(&mut self) {
        self.spare = match self.spare.checked_sub(1) {
            Some(spare) => spare,
            None => self.budget.draw(),
        };
        self.used += 1;
    }

    /// Uses one less.
    pub(super) fn give_back(&mut self) {
        self.used -= 1;
        self.spare += 1;
        let is_much = self.spare > self.lot.saturating_mul(2);
        // What is drawn beyond the limit is not kept to spare.
        let beyond = (self.used + self.spare).saturating_sub(self.budget.max).min(self.spare);
        let back = if is_much { self.spare - self.lot } else { beyond };
        if back > 0 {
            self.budget.drawn.fetch_sub(back, Ordering::Relaxed);
            self.spare -= back;
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn max(&self) -> usize {
        self.budget.max
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.drawn.fetch_sub(self.used + self.spare, Ordering::Relaxed);
    }
}

/// A copy of a table has its limits for itself: what happens to one does not change the other.
impl Clone for Share {
    fn clone(&self) -> Self {
        let (max, lot, used, spare) = (self.budget.max, self.lot, self.used, self.spare);
        let budget = Arc::new(Budget { max, lot, drawn: AtomicUsize::new(used + spare) });
        Self { budget, lot, used, spare }
    }
}

/// What is used follows from the claims, and what is spare decides nothing: two tables that differ
/// in it alone are the same to a model checker.
impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Share")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as long as there is room; how many there were.
    fn fill(share: &mut Share) -> usize {
        let mut taken = 0;
        while share.has_room() {
            share.take();
            taken += 1;
        }
        taken
    }

    #[test]
    fn a_small_limit_is_exact_however_it_is_divided() {
        let budget = Budget::new(10, 16);
        let (mut one, mut two) = (Share::new(Arc::clone(&budget)), Share::new(Arc::clone(&budget)));
        (0..3).for_each(|_| {
            assert!(one.has_room());
            one.take();
        });
        assert_eq!((fill(&mut two), one.has_room(), budget.drawn()), (7, false, 10));
        one.give_back();
        assert!(two.has_room(), "what one table gives back another may use at once");
        drop((one, two));
        assert_eq!(budget.drawn(), 0);
    }

    #[test]
    fn a_large_limit_keeps_little_to_spare() {
        let tables = 16;
        let budget = Budget::new(100_000, tables);
        let mut shares: Vec<_> = (0..tables).map(|_| Share::new(Arc::clone(&budget))).collect();
        for share in &mut shares {
            (0..1000).for_each(|_| share.take());
            (0..990).for_each(|_| share.give_back());
        }
        assert!(budget.drawn() <= 10 * tables + 100_000 / 32, "{}", budget.drawn());
        let (last, others) = shares.split_last_mut().expect("some");
        let taken = fill(last) + last.used().min(10) + 10 * others.len();
        assert!((100_000 - 100_000 / 32..=100_000).contains(&taken), "{taken}");
        drop(shares);
        assert_eq!(budget.drawn(), 0);
    }

    #[test]
    fn a_table_that_goes_up_and_down_draws_once() {
        let budget = Budget::new(16_000_000, 16);
        let mut share = Share::new(Arc::clone(&budget));
        share.take();
        let drawn = budget.drawn();
        for _ in 0..1000 {
            assert!(share.has_room());
            share.take();
            share.give_back();
            assert_eq!(budget.drawn(), drawn);
        }
    }

    #[test]
    fn beyond_the_limit_is_counted_too() {
        let budget = Budget::new(4, 2);
        let mut share = Share::new(Arc::clone(&budget));
        let mut taken = 0;
        while share.has_room_beyond() {
            share.take();
            taken += 1;
        }
        assert_eq!((taken, budget.drawn(), share.has_room()), (8, 8, false));
        (0..4).for_each(|_| share.give_back());
        assert!(!share.has_room());
        share.give_back();
        assert!(share.has_room());
    }

    #[test]
    fn a_copy_counts_for_itself() {
        let budget = Budget::new(4, 1);
        let mut share = Share::new(Arc::clone(&budget));
        share.take();
        let mut copy = share.clone();
        assert_eq!(fill(&mut copy), 3);
        assert_eq!(fill(&mut share), 3);
        drop((share, copy));
        assert_eq!(budget.drawn(), 0);
    }
}
