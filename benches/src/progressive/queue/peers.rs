//! Queues that many threads push to and pop from.

use std::collections::VecDeque;

use crossbeam_queue::SegQueue;
use lockspan::thread::progressive::claim;

/// First in, first out.
pub(crate) trait Queue: Sync {
    const NAME: &'static str;

    fn new() -> Self;
    fn push(&self, item: u64);
    /// The first item; attempts that failed because another thread was faster go to `failed`.
    fn pop(&self, failed: &mut u64) -> Option<u64>;
}

/// Ours: all threads that want an item at the same moment get one.
pub(crate) struct Claims(claim::Queue<u64>);

impl Queue for Claims {
    const NAME: &'static str = "claim::Queue";

    fn new() -> Self {
        Self(claim::Queue::new())
    }

    fn push(&self, item: u64) {
        self.0.push(item);
    }

    fn pop(&self, _: &mut u64) -> Option<u64> {
        self.0.pop()
    }
}

/// A deque behind std's mutex.
pub(crate) struct StdMutex(std::sync::Mutex<VecDeque<u64>>);

impl Queue for StdMutex {
    const NAME: &'static str = "VecDeque, std's mutex";

    fn new() -> Self {
        Self(std::sync::Mutex::default())
    }

    fn push(&self, item: u64) {
        self.0.lock().unwrap().push_back(item);
    }

    fn pop(&self, _: &mut u64) -> Option<u64> {
        self.0.lock().unwrap().pop_front()
    }
}

/// A deque behind parking_lot's mutex.
pub(crate) struct ParkingLotMutex(parking_lot_013::Mutex<VecDeque<u64>>);

impl Queue for ParkingLotMutex {
    const NAME: &'static str = "VecDeque, parking_lot's mutex";

    fn new() -> Self {
        Self(parking_lot_013::Mutex::default())
    }

    fn push(&self, item: u64) {
        self.0.lock().push_back(item);
    }

    fn pop(&self, _: &mut u64) -> Option<u64> {
        self.0.lock().pop_front()
    }
}

/// crossbeam's queue without locks.
pub(crate) struct Crossbeam(SegQueue<u64>);

impl Queue for Crossbeam {
    const NAME: &'static str = "crossbeam's SegQueue";

    fn new() -> Self {
        Self(SegQueue::new())
    }

    fn push(&self, item: u64) {
        self.0.push(item);
    }

    fn pop(&self, _: &mut u64) -> Option<u64> {
        self.0.pop()
    }
}
