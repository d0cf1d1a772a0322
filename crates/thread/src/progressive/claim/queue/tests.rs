//! What the queue promises, from one thread and from many.

use std::collections::BTreeSet;
use std::thread;

use super::Queue;
use crate::sync::{AtomicUsize, Ordering};

#[test]
fn items_come_out_in_order() {
    let queue = Queue::new();
    assert!(queue.is_empty());
    (0..10).for_each(|item| queue.push(item));
    assert_eq!(queue.len(), 10);
    assert_eq!(queue.pop(), Some(0));
    assert_eq!(queue.pop_many(3), [1, 2, 3]);
    assert_eq!(queue.pop_many(0), [0; 0]);
    assert_eq!(queue.read().iter().copied().collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9]);
    assert_eq!(queue.pop_many(100), [4, 5, 6, 7, 8, 9]);
    assert_eq!(queue.pop(), None);
    queue.push(10);
    assert_eq!(queue.pop(), Some(10));
}

#[test]
fn items_that_are_left_are_dropped_once() {
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = AtomicUsize::new(0);
    let queue = Queue::new();
    (0..5).for_each(|_| queue.push(Counts(&dropped)));
    drop(queue.pop_many(2));
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    drop(queue);
    assert_eq!(dropped.load(Ordering::Relaxed), 5);
}

#[test]
fn a_view_holds_the_queue_still() {
    let queue = Queue::new();
    queue.push(1);
    thread::scope(|scope| {
        let view = queue.read();
        assert_eq!((queue.len(), format!("{queue:?}").contains("len: 1")), (1, true));
        let pusher = scope.spawn(|| queue.push(2));
        let popper = scope.spawn(|| queue.pop());
        for _ in 0..100 {
            assert_eq!(view.iter().copied().collect::<Vec<_>>(), [1]);
            thread::yield_now();
        }
        drop(view);
        pusher.join().unwrap();
        assert_eq!(popper.join().unwrap(), Some(1));
    });
    assert_eq!(queue.pop_many(9), [2]);
}

#[test]
fn nothing_is_lost_or_taken_twice() {
    let (threads, each) = if cfg!(miri) { (3, 20) } else { (16, 2_000) };
    let queue = Queue::new();
    let seen = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|me| {
                let queue = &queue;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for n in 0..each {
                        queue.push((me, n));
                        match n % 3 {
                            0 => mine.extend(queue.pop()),
                            1 => mine.extend(queue.pop_many(2)),
                            _ => _ = queue.read().iter().count(),
                        }
                    }
                    mine
                })
            })
            .collect();
        let mut all: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        all.push(queue.pop_many(usize::MAX));
        all
    });
    for mine in &seen {
        for from in 0..threads {
            let of_one: Vec<_> = mine.iter().filter(|item| item.0 == from).collect();
            assert!(of_one.is_sorted(), "the order of {from}'s items is not kept");
        }
    }
    let items: Vec<_> = seen.concat();
    assert_eq!(items.len(), threads * each);
    assert_eq!(items.iter().collect::<BTreeSet<_>>().len(), threads * each);
    assert_eq!(queue.len(), 0);
}
