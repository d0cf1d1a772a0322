//! One thread, small cases; `tests/percpu.rs` has the hostile ones.

use std::sync::Arc;

use super::{Counter, Item, Stack};

#[test]
fn a_counter_counts_up_and_down_and_wraps() {
    let counter = Counter::default();
    assert_eq!(counter.sum(), 0);
    for n in 0..1_000 {
        counter.add(n);
    }
    counter.add(-500);
    assert_eq!(counter.sum(), 499_000);
    counter.add(i64::MAX);
    assert_eq!(counter.sum(), i64::MAX.wrapping_add(499_000));
    assert!(format!("{counter:?}").starts_with("Counter("));
}

/// What a stack gives back, wherever its items lie.
fn all(stack: &Stack<u64>) -> Vec<u64> {
    let mut items = stack.drain_all();
    items.sort_unstable();
    items
}

#[test]
fn a_stack_gives_back_what_was_pushed() {
    let stack = Stack::with_capacity(100);
    for n in 0..50 {
        stack.push(n).unwrap();
    }
    assert_eq!(stack.len(), 50);
    let mut popped: Vec<u64> = std::iter::from_fn(|| stack.pop()).collect();
    popped.extend(all(&stack));
    popped.sort_unstable();
    assert_eq!(popped, (0..50).collect::<Vec<_>>());
    assert!(stack.is_empty());
}

#[test]
fn a_full_part_gives_the_item_back() {
    let stack = Stack::with_capacity(2);
    let room = 2 * (stack.cpus() + 1);
    let mut refused = 0;
    for n in 0..=room {
        refused += usize::from(stack.push(n) == Err(n));
    }
    assert!(refused >= 1);
    assert_eq!(stack.len() + refused, room + 1);
    assert_eq!(Stack::with_capacity(0).push(7_u64), Err(7));
}

#[test]
fn batches_of_any_size_move_everything_once() {
    for count in [0, 1, 63, 64, 65, 300] {
        let stack = Stack::with_capacity(300);
        let mut items: Vec<u64> = (0..count).collect();
        assert_eq!(stack.push_many(&mut items), count as usize);
        assert!(items.is_empty());
        let mut out = Vec::new();
        let popped = stack.pop_many(count as usize + 1, &mut out);
        assert_eq!(popped, out.len());
        out.extend(stack.drain_all());
        out.sort_unstable();
        assert_eq!(out, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn a_batch_that_does_not_fit_stays_in_part() {
    let stack = Stack::with_capacity(10);
    let mut items: Vec<u64> = (0..1_000).collect();
    let pushed = stack.push_many(&mut items);
    assert!(pushed >= 10);
    assert_eq!(items, (0..1_000 - pushed as u64).collect::<Vec<_>>(), "taken from the end");
    assert_eq!(all(&stack).len(), pushed);
}

#[test]
fn one_processor_is_drained_alone_and_an_impossible_one_is_empty() {
    let stack = Stack::with_capacity(10);
    stack.push(1_u64).unwrap();
    let drained: usize = (0..stack.cpus()).map(|cpu| stack.drain(cpu).len()).sum();
    assert_eq!(drained + stack.len(), 1);
    assert!(stack.drain(stack.cpus()).is_empty());
    assert!(stack.drain(usize::MAX).is_empty());
}

#[test]
fn items_that_own_something_are_dropped_once() {
    let item = Arc::new(5);
    let stack = Stack::with_capacity(10);
    for _ in 0..8 {
        stack.push(Arc::clone(&item)).unwrap();
    }
    drop(stack.pop());
    assert!(Arc::strong_count(&item) >= 8);
    drop(stack);
    assert_eq!(Arc::strong_count(&item), 1);
    let boxes = Stack::with_capacity(4);
    boxes.push(Box::new(7)).unwrap();
    assert_eq!(boxes.drain_all(), [Box::new(7)]);
}

/// Its making looks at the stack.
struct Curious(u64);

static LOOKED_AT: std::sync::LazyLock<Stack<Curious>> =
    std::sync::LazyLock::new(|| Stack::with_capacity(4));

// SAFETY: the number itself.
unsafe impl Item for Curious {
    fn into_word(self) -> u64 {
        self.0
    }

    unsafe fn from_word(word: u64) -> Self {
        // If the latch were shut, this would wait forever.
        assert!((0..LOOKED_AT.cpus()).all(|cpu| LOOKED_AT.drain(cpu).is_empty()));
        Self(word)
    }
}

#[test]
fn items_are_made_again_when_the_latch_is_open() {
    LOOKED_AT.push(Curious(5)).map_err(drop).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let items: Vec<u64> = LOOKED_AT.drain_all().into_iter().map(|item| item.0).collect();
        done.send(items)
    });
    let limit = std::time::Duration::from_secs(60);
    assert_eq!(is_done.recv_timeout(limit).expect("drain_all waits for itself"), [5]);
}
