//! `LS.LOCKALL` in an order of events that clients can't bring about on purpose.

use std::sync::Arc;
use std::time::Duration;

use lockspan_protocol::{Mode, Record};
use lockspan_tls::Stream;
use lockspan_wire::{LockId, Wait};
use tokio::net::UnixStream;

use super::super::lock::{LockTag, LockWish, session_of};
use super::super::tests::service;
use super::super::{Service, Work};
use super::{Chain, LockAllWish};
use crate::net::budget::Budget;
use crate::net::outbox::Outbox;

const LEASE: Duration = Duration::from_secs(60);

struct World {
    service: Service,
    /// The clients' ends.
    ends: Vec<UnixStream>,
}

impl World {
    fn new() -> Self {
        Self { service: service(true), ends: Vec::new() }
    }

    fn connection(&mut self) -> Arc<Outbox> {
        let (here, there) = UnixStream::pair().expect("two ends");
        self.ends.push(there);
        let number = self.ends.len() as u64;
        Outbox::new(number, Stream::Unix(here), 1 << 20, &Budget::new(1 << 20))
    }

    /// Locks both records.
    fn lock_both(&self, outbox: &Arc<Outbox>, tag: LockTag) -> Arc<Chain> {
        let records = vec![(record(1), Mode::Write), (record(2), Mode::Write)];
        let (wait, ttl) = (Wait::Forever, LEASE);
        let wish = LockAllWish { records, wait, ttl, tag, owner: None, label: None, note: None };
        let mut work = Work::default();
        let (chain, _) = self.service.lock_all(outbox, wish, &mut work).expect("it is allowed");
        self.service.finish(&mut work);
        chain
    }

    /// Another client locks the second record.
    fn lock_second(&mut self, tag: LockTag) {
        let outbox = self.connection();
        let (record, mode, wait) = (record(2), Mode::Write, Wait::Forever);
        let wish = LockWish { record, mode, wait, tag, note: None };
        let mut work = Work::default();
        self.service.lock(&outbox, LEASE, None, wish, &mut work).expect("it is allowed");
        self.service.finish(&mut work);
        assert_eq!(outbox.waiting(), 0, "it is held");
    }

    /// That client unlocks it.
    fn unlock_second(&self, tag: LockTag) {
        let mut work = Work::default();
        self.service.close(session_of(tag.id, &record(2)), &mut work).expect("it is held");
        self.service.finish(&mut work);
    }

    /// Whether the lock with this id is there.
    fn is_there(&self, tag: LockTag, number: u64) -> bool {
        let desk = crate::lock(&self.service.desk);
        desk.registry.check_open(session_of(tag.id, &record(number))).is_ok()
    }
}

fn record(number: u64) -> Record {
    Record::new("a", number.to_string()).expect("a name")
}

fn tag(id: u128, brought: bool) -> LockTag {
    LockTag { id: LockId::new(id), brought }
}

#[tokio::test]
async fn service_f121_a_command_that_fails_leaves_the_locks_that_its_repeat_goes_on_with() {
    let mut world = World::new();
    let (own, other) = (tag(1, true), tag(2, true));
    world.lock_second(other);
    let (first, again) = (world.connection(), world.connection());
    let [failing, _going_on] = [&first, &again].map(|outbox| world.lock_both(outbox, own));
    // As when its `WAIT` is over.
    failing.failed();
    world.service.finish(&mut Work::default());
    assert!(world.is_there(own, 1), "the repeat holds it");
    world.unlock_second(other);
    assert_eq!(again.waiting(), 0, "the repeat has its reply");
    assert!(world.is_there(own, 1) && world.is_there(own, 2));
}

#[tokio::test]
async fn service_f121_a_connection_that_closes_just_before_a_grant_leaves_no_lock() {
    let mut world = World::new();
    let (own, other) = (tag(1, false), tag(2, true));
    world.lock_second(other);
    let outbox = world.connection();
    drop(world.lock_both(&outbox, own));
    assert!(world.is_there(own, 1), "it waits for the second and holds the first");
    // The connection's task has not heard of it yet.
    outbox.close();
    world.unlock_second(other);
    assert!(!world.is_there(own, 2));
    assert!(!world.is_there(own, 1));
}

#[tokio::test]
async fn service_f121_a_connection_that_closes_beside_the_last_grant_leaves_no_lock() {
    let mut world = World::new();
    let (own, other) = (tag(1, false), tag(2, true));
    world.lock_second(other);
    let outbox = world.connection();
    let chain = world.lock_both(&outbox, own);
    // Its task has heard that the connection is closed, and has ended the chain, but the command
    // that waits is still to be withdrawn.
    chain.forsaken();
    world.unlock_second(other);
    assert!(!world.is_there(own, 1) && !world.is_there(own, 2));
}

#[tokio::test]
async fn service_f121_a_session_that_is_waited_in_is_known_before_its_lock_can_be_granted() {
    let mut world = World::new();
    let own = tag(1, true);
    let outbox = world.connection();
    let chain = world.lock_both(&outbox, own);
    let mut seen = None;
    let slot = || {
        seen = chain.current().map(|seat| seat.id);
        outbox.open_slot()
    };
    let next = (record(3), Mode::Write);
    world.service.lock_one(&chain, next, slot, &mut Work::default()).expect("it is allowed");
    assert_eq!(seen, Some(session_of(own.id, &record(3))));
}
