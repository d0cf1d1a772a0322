//! Models of the queue: every item comes out once, and no node is used after it was freed.

use loom::sync::Arc;

use super::{Node, Queue};
use crate::sync::thread;

/// What a thread does; what it has taken.
type Part = fn(&Queue<u32>) -> Vec<u32>;

/// Each part in a thread of its own, in every interleaving of `preemptions`.
fn side_by_side(preemptions: usize, items: &'static [u32], parts: &'static [Part]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let queue = Arc::new(Queue::new());
        items.iter().for_each(|item| queue.push(*item));
        let threads: Vec<_> = parts
            .iter()
            .map(|part| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || part(&queue))
            })
            .collect();
        let mut out = Vec::new();
        for thread in threads {
            let mine = thread.join().unwrap();
            assert!(mine.is_sorted(), "{mine:?} is not in the order of the queue");
            out.extend(mine);
        }
        let left = queue.pop_many(usize::MAX);
        out.extend(left);
        out.sort_unstable();
        assert!(out.iter().copied().eq(1..=u32::try_from(out.len()).unwrap()), "{out:?}");
        assert!(out.len() >= items.len());
        assert!(queue.is_empty());
    });
}

fn pop(queue: &Queue<u32>) -> Vec<u32> {
    queue.pop().into_iter().collect()
}

/// By the claim phase, even if the lock is idle.
fn pop_beside_others(queue: &Queue<u32>) -> Vec<u32> {
    let mut items = Vec::new();
    queue.take_beside_others(1, |item| items.push(item));
    items
}

fn pop_two_beside_others(queue: &Queue<u32>) -> Vec<u32> {
    let mut items = Vec::new();
    queue.take_beside_others(2, |item| items.push(item));
    items
}

fn push_third_beside_others(queue: &Queue<u32>) -> Vec<u32> {
    queue.push_beside_others(Node::make(3));
    Vec::new()
}

fn pop_twice(queue: &Queue<u32>) -> Vec<u32> {
    [pop(queue), pop(queue)].concat()
}

fn pop_two(queue: &Queue<u32>) -> Vec<u32> {
    queue.pop_many(2)
}

fn push_third(queue: &Queue<u32>) -> Vec<u32> {
    queue.push(3);
    Vec::new()
}

fn look(queue: &Queue<u32>) -> Vec<u32> {
    let view = queue.read();
    let seen: Vec<_> = view.iter().copied().collect();
    assert!(seen.is_sorted());
    Vec::new()
}

#[test]
fn loom_queue_two_take() {
    side_by_side(3, &[1, 2], &[pop, pop]);
}

#[test]
fn loom_queue_two_want_the_only_item() {
    side_by_side(3, &[1], &[pop, pop]);
}

#[test]
fn loom_queue_one_takes_and_one_pushes() {
    side_by_side(2, &[1, 2], &[pop_two, push_third]);
}

#[test]
fn loom_queue_one_takes_twice_beside_another() {
    side_by_side(2, &[1, 2, 3], &[pop_twice, pop]);
}

#[test]
fn loom_queue_one_looks_while_another_takes() {
    side_by_side(3, &[1, 2], &[pop, look]);
}

#[test]
fn loom_queue_two_take_and_one_pushes() {
    side_by_side(1, &[1, 2], &[pop, pop, push_third]);
}

#[test]
fn loom_queue_two_claim_at_once() {
    side_by_side(3, &[1, 2], &[pop_beside_others, pop_beside_others]);
}

#[test]
fn loom_queue_two_claim_the_only_item() {
    side_by_side(3, &[1], &[pop_beside_others, pop_beside_others]);
}

#[test]
fn loom_queue_one_claims_and_one_pushes() {
    side_by_side(3, &[1, 2], &[pop_two_beside_others, push_third_beside_others]);
}

#[test]
fn loom_queue_two_push_at_once() {
    side_by_side(
        3,
        &[1, 2],
        &[push_third_beside_others, |queue| {
            queue.push_beside_others(Node::make(4));
            Vec::new()
        }],
    );
}

#[test]
fn loom_queue_two_claim_and_one_pushes() {
    side_by_side(1, &[1, 2], &[pop_beside_others, pop_beside_others, push_third_beside_others]);
}

#[test]
fn loom_queue_what_was_put_aside_is_freed_while_others_claim() {
    side_by_side(
        2,
        &[1, 2, 3],
        &[|queue| [pop_beside_others(queue), pop_beside_others(queue)].concat(), pop_beside_others],
    );
}
