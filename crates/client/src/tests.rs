//! What takes a hand on the locks of a node to be seen.

use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use lockspan_protocol::Mode;
use tokio::runtime::Runtime;

use crate::entry::lock;
use crate::line::PASSING;
use crate::{LockError, Locks, Options, Owner, Record};

const SOON: Duration = Duration::from_secs(20);

fn connect(runtime: &Runtime, name: &str) -> (Locks, Record) {
    let options = Options::new().try_for(Duration::from_millis(200));
    let locks = runtime.block_on(options.connect(&format!("memory:{name}"))).unwrap();
    let record = locks.record("invoice", "42").unwrap();
    (locks, record)
}

/// Does something in another thread, which has to come back.
fn elsewhere<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(act()));
    receive.recv_timeout(SOON).expect("it waits for itself")
}

#[test]
fn nobody_gets_a_record_before_the_guards_of_a_node_that_closes_are_lost() {
    let runtime = Runtime::new().unwrap();
    let (here, ours) = connect(&runtime, "closing");
    let (_there, theirs) = connect(&runtime, "closing");
    let held = ours.blocking_write().unwrap();
    let node = Arc::clone(ours.handle.node());
    // The node comes to the end of its session, but not past this line.
    let line = lock(&ours.entry.line);
    let closing = thread::spawn({
        let node = Arc::clone(&node);
        move || node.close()
    });
    while node.core.try_lock().is_ok() {
        thread::yield_now();
    }
    // Somebody else sends what was put to be sent.
    for _ in 0..1000 {
        node.way.flush(&node, true);
        thread::yield_now();
    }
    let got = runtime.block_on(theirs.try_write()).unwrap();
    assert!(got.is_none() || !held.is_valid(), "two hold it");
    drop((line, got));
    closing.join().unwrap();
    assert!(!held.is_valid());
    drop(here);
}

#[test]
fn a_reader_that_was_lost_does_not_get_in_line_to_upgrade() {
    let runtime = Runtime::new().unwrap();
    let (_locks, record) = connect(&runtime, "lost");
    let held = record.blocking_read().unwrap();
    // As when the session ends.
    let mut wakes = Vec::new();
    lock(&record.entry.line).lose(&record.entry.gate, &mut wakes);
    let place = record.get_in_line(Mode::Write, Some(held.pass().reader()), None, Waker::noop());
    assert_eq!(place, Err(LockError::Lost));
    let again = record.clone();
    elsewhere(move || again.blocking_write().map(drop)).unwrap();
}

/// Does something when it is woken, and something when it goes.
struct Rude<F: Fn() + Send + Sync, T: Send + Sync>(F, T);

impl<F: Fn() + Send + Sync, T: Send + Sync> Wake for Rude<F, T> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_waker_that_is_replaced_may_let_go_of_the_same_record() {
    let runtime = Runtime::new().unwrap();
    let (_locks, record) = connect(&runtime, "replaced");
    let read = runtime.block_on(record.clone().read_owned()).unwrap();
    elsewhere(move || {
        let mut writing = Box::pin(record.clone().write_owned());
        let waker = Waker::from(Arc::new(Rude(|| {}, read)));
        assert!(writing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        let mut context = Context::from_waker(Waker::noop());
        let mut polled = writing.as_mut().poll(&mut context);
        if polled.is_pending() {
            polled = writing.as_mut().poll(&mut context);
        }
        assert!(matches!(polled, Poll::Ready(Ok(_))));
    });
}

#[test]
fn a_waker_that_goes_with_its_wait_may_let_go_of_the_same_record() {
    let runtime = Runtime::new().unwrap();
    let (_locks, record) = connect(&runtime, "gone");
    let read = runtime.block_on(record.clone().read_owned()).unwrap();
    elsewhere(move || {
        let mut writing = Box::pin(record.clone().write_owned());
        let waker = Waker::from(Arc::new(Rude(|| {}, read)));
        assert!(writing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        drop(writing);
        drop(record.blocking_write().unwrap());
    });
}

#[test]
fn who_is_woken_by_a_loss_may_use_the_node() {
    let runtime = Runtime::new().unwrap();
    let (locks, record) = connect(&runtime, "rude");
    let held = runtime.block_on(record.clone().write_owned()).unwrap();
    elsewhere(move || {
        let mut lost = Box::pin(held.lost());
        let waker = Waker::from(Arc::new(Rude(
            {
                let (locks, record) = (locks.clone(), record.clone());
                move || {
                    locks.give_back_idle();
                    drop(lock(&record.entry.line));
                }
            },
            (),
        )));
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        record.node().close();
        assert!(lost.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    });
}

#[test]
fn an_owner_that_is_let_in_while_a_cycle_is_found_has_the_record() {
    let runtime = Runtime::new().unwrap();
    let (locks, free) = connect(&runtime, "cycle");
    let record = |owner, id| locks.as_owner(Owner(owner)).record("invoice", id).unwrap();
    let (ours, theirs) = (record(1, "7"), record(2, "42"));
    let held = runtime.block_on(ours.clone().write_owned()).unwrap();
    let in_the_way = runtime.block_on(theirs.write_owned()).unwrap();
    let mut waiting = Box::pin(record(2, "7").write_owned());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Owner 1 gets in line behind owner 2, and looks whom that one waits for: here it stops.
    let line = lock(&ours.entry.line);
    let getting = thread::spawn({
        let record = record(1, "42");
        move || record.blocking_write().map(drop)
    });
    let is_in_line = || !lock(&free.entry.line).waits().is_empty();
    until(is_in_line);
    thread::sleep(PASSING * 2);
    // Owner 2 leaves, and lets it in.
    let leaving = thread::spawn(move || drop(in_the_way));
    until(|| !is_in_line());
    drop(line);
    getting.join().unwrap().unwrap();
    leaving.join().unwrap();
    drop((waiting, held));
    elsewhere(move || free.blocking_write().map(drop)).unwrap();
}

#[test]
fn readers_go_first_only_if_they_waited_when_a_writer_left() {
    let runtime = Runtime::new().unwrap();
    let (_locks, record) = connect(&runtime, "order");
    drop(record.blocking_write().unwrap());
    // As when it leaves while the gate is watched, and nobody waits any more.
    lock(&record.entry.line).writer_left();
    let reader = record.blocking_read().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut writing = Box::pin(record.clone().write_owned());
    assert!(writing.as_mut().poll(&mut context).is_pending());
    let began = Instant::now();
    until(|| began.elapsed() > PASSING);
    record.node().with_line(&record.entry, |line, look, wakes| line.serve(look, wakes));
    let mut reading = Box::pin(record.clone().read_owned());
    assert!(reading.as_mut().poll(&mut context).is_pending(), "the writer came first");
    drop(reader);
    let Poll::Ready(Ok(writer)) = writing.as_mut().poll(&mut context) else {
        panic!("the writer is next")
    };
    // This one waits when a writer leaves: no other writer goes before it.
    let mut writing = Box::pin(record.clone().write_owned());
    assert!(writing.as_mut().poll(&mut context).is_pending());
    drop(writer);
    until(|| began.elapsed() > 3 * PASSING);
    record.node().with_line(&record.entry, |line, look, wakes| line.serve(look, wakes));
    assert!(reading.as_mut().poll(&mut context).is_ready(), "the reader is next");
}

#[test]
fn records_that_are_given_back_are_free_before_the_last_of_very_many_is() {
    let runtime = Runtime::new().unwrap();
    let (locks, record) = connect(&runtime, "many");
    let (there, _) = connect(&runtime, "many");
    for number in 0..200 {
        let one = locks.record("many", number.to_string()).unwrap();
        drop(one.blocking_write().unwrap());
    }
    let all = record.node().entries.which(|entry| entry.name != *record.name());
    let (first, last) = (all[0].name.clone(), Arc::clone(&all[all.len() - 1]));
    // The node comes to the last one, and not past it.
    let line = lock(&last.line);
    let giving = thread::spawn(move || locks.give_back_idle());
    let theirs = there.record(first.datatype(), first.id()).unwrap();
    // Long before the lease of the node that stands still is over.
    elsewhere(move || theirs.blocking_write_timeout(SOON / 4).map(drop)).unwrap();
    drop(line);
    giving.join().unwrap();
}

/// Waits until something is so.
fn until(is_so: impl Fn() -> bool) {
    let late = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < late, "it takes too long");
        thread::yield_now();
    }
}
