//! A queue under a read-write lock whose threads race for the first item: each takes it by a
//! compare-and-swap, and starts again at the front if another was faster.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot_013::RwLock;

use super::peers::Queue;

struct Slot {
    item: u64,
    is_taken: AtomicBool,
}

/// A thread that pops reads; a thread that pushes writes, and removes taken items from the front.
pub(crate) struct Retry(RwLock<VecDeque<Slot>>);

impl Queue for Retry {
    const NAME: &'static str = "CAS and retry under parking_lot's RwLock";

    fn new() -> Self {
        Self(RwLock::default())
    }

    fn push(&self, item: u64) {
        let mut slots = self.0.write();
        while slots.front().is_some_and(|slot| slot.is_taken.load(Relaxed)) {
            slots.pop_front();
        }
        slots.push_back(Slot { item, is_taken: AtomicBool::new(false) });
    }

    fn pop(&self, failed: &mut u64) -> Option<u64> {
        let slots = self.0.read();
        loop {
            let first = slots.iter().find(|slot| !slot.is_taken.load(Relaxed))?;
            if first.is_taken.compare_exchange(false, true, Relaxed, Relaxed).is_ok() {
                return Some(first.item);
            }
            *failed += 1;
        }
    }
}
