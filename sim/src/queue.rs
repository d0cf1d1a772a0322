//! What will happen, in order of time; at one moment, in order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events that wait for their moment.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    /// Moment, number of insertion, place in `events`.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<E>>,
    free: Vec<usize>,
    inserted: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { order: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), inserted: 0 }
    }

    /// Lets `event` happen at the moment `at`.
    pub(crate) fn push(&mut self, at: u64, event: E) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                self.events.len() - 1
            }
        };
        self.order.push(Reverse((at, self.inserted, place)));
        self.inserted += 1;
    }

    /// Takes out what happens next.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse((at, _, place)) = self.order.pop()?;
        self.free.push(place);
        let event = self.events[place].take().expect("each place in the order has its event");
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_they_were_put_in() {
        let mut queue = Queue::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            queue.push(at, name);
        }
        assert_eq!(queue.pop(), Some((1, 'a')));
        queue.push(5, 'e');
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [(3, 'b'), (5, 'c'), (5, 'd'), (5, 'e')]);
    }
}
