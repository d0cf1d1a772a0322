//! Tasks in the line: waiting, being dropped while they wait, being dropped with the lock.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use loom::future::block_on;

use super::*;
use crate::fair::task::Acquire;

fn writes_as_task<P: Policy>(lock: &Counted<P>) {
    block_on(Acquire::new(&lock.raw, Kind::Write));
    lock.add();
    lock.raw.write_done();
}

fn reads_as_task<P: Policy>(lock: &Counted<P>) {
    block_on(Acquire::new(&lock.raw, Kind::Read));
    lock.look();
    lock.raw.read_done();
}

/// Polls once and drops the future, whatever it has by then.
fn gives_up_as_task<P: Policy>(lock: &Counted<P>) {
    let mut future = pin!(Acquire::new(&lock.raw, Kind::Write));
    let mut context = Context::from_waker(Waker::noop());
    if future.as_mut().poll(&mut context).is_ready() {
        lock.add();
        lock.raw.write_done();
    }
}

/// Polls twice, with two wakers, and drops the future.
fn changes_its_waker<P: Policy>(lock: &Counted<P>) {
    let mut future = pin!(Acquire::new(&lock.raw, Kind::Read));
    let wakers = [Waker::noop().clone(), std::sync::Arc::new(Idle).into()];
    for waker in wakers {
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            lock.look();
            lock.raw.read_done();
            return;
        }
    }
}

struct Idle;

impl std::task::Wake for Idle {
    fn wake(self: std::sync::Arc<Self>) {}
}

#[test]
fn loom_a_task_and_a_thread_exclude_each_other() {
    together::<Strict>(&[writes_as_task, writes]);
}

#[test]
fn loom_tasks_read_beside_each_other() {
    together::<Strict>(&[reads_as_task, reads_as_task, writes]);
}

#[test]
fn loom_a_task_waits_while_others_pass() {
    together::<Passing>(&[writes_as_task, writes, reads]);
}

#[test]
fn fair_s14_a_dropped_future_hands_on_what_it_was_given() {
    together::<Strict>(&[gives_up_as_task, writes, writes]);
}

#[test]
fn loom_a_dropped_future_leaves_the_line_when_passing() {
    together::<Passing>(&[gives_up_as_task, writes, reads]);
}

#[test]
fn loom_a_task_may_change_its_waker_while_it_is_granted() {
    together::<Strict>(&[changes_its_waker, writes]);
}

#[test]
fn loom_tasks_come_and_go_under_a_tired_scheduler() {
    together::<ShortOffice>(&[gives_up_as_task, writes_as_task, writes]);
}
