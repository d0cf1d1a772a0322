//! Models of the gate that ships. The data behind it is a loom cell, so a model fails on any access
//! that is not ordered.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::{Gate, Left, Opening, Use};
use crate::sync::{AtomicBool, Ordering, thread};

const OPEN: Opening = Opening { reads: true, writes: true, watched: false };
const SHUT: Opening = Opening { reads: false, writes: false, watched: true };

/// More do not finish in minutes where three threads take part.
const PREEMPTIONS: usize = 3;

struct Guarded {
    gate: Gate,
    data: UnsafeCell<u32>,
    /// What belongs to the opening.
    token: UnsafeCell<u32>,
    /// The keeper was told.
    told: AtomicBool,
}

impl Guarded {
    fn new() -> Self {
        let (data, token) = (UnsafeCell::new(0), UnsafeCell::new(0));
        Self { gate: Gate::new(), data, token, told: AtomicBool::new(false) }
    }

    fn read(&self) {
        // SAFETY: whoever calls is in, and writers are kept out by the gate; loom checks it.
        self.data.with(|data| unsafe { *data });
    }

    fn write(&self) {
        // SAFETY: whoever calls is in alone, by the gate; loom checks it.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn use_once(&self, how: Use) {
        let Some(pass) = self.gate.enter(how) else { return };
        // SAFETY: it is written before the gate is opened and not after; loom checks it.
        let token = self.token.with(|token| unsafe { *token });
        assert_eq!(token, 1);
        match how {
            Use::Read => self.read(),
            Use::Write => self.write(),
        }
        if self.gate.leave(pass) == Left::Watched {
            self.told.store(true, Ordering::Relaxed);
        }
    }

    fn open(&self) {
        // SAFETY: nobody is in before the gate is opened; loom checks it.
        self.token.with_mut(|token| unsafe { *token = 1 });
        self.gate.open(OPEN);
    }
}

/// Each part in a thread of its own, at once, in every interleaving; then `after`.
fn side_by_side(parts: &'static [fn(&Guarded)], after: fn(&Guarded)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let guarded = Arc::new(Guarded::new());
        let threads: Vec<_> = parts
            .iter()
            .map(|part| {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || part(&guarded))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        after(&guarded);
    });
}

#[test]
fn loom_gate_who_comes_in_sees_the_opening_and_who_was_in_before() {
    side_by_side(
        &[Guarded::open, |one| one.use_once(Use::Write), |one| one.use_once(Use::Read)],
        |_| {},
    );
}

#[test]
fn loom_gate_a_keeper_that_shuts_the_gate_sees_who_is_out_or_is_told() {
    side_by_side(
        &[
            |one| {
                one.open();
                one.gate.open(SHUT);
                if one.gate.inside().is_empty() {
                    // It is the keeper's now.
                    one.write();
                } else {
                    one.told.store(false, Ordering::Relaxed);
                }
            },
            |one| one.use_once(Use::Write),
        ],
        |one| assert!(one.gate.inside().is_empty()),
    );
}

#[test]
fn loom_gate_nobody_leaves_unseen_while_the_keeper_waits() {
    side_by_side(
        &[
            |one| {
                one.open();
                let Some(pass) = one.gate.enter(Use::Write) else { return };
                one.write();
                if one.gate.leave(pass) == Left::Watched {
                    one.told.store(true, Ordering::Relaxed);
                }
            },
            |one| {
                one.gate.open(SHUT);
            },
        ],
        |one| assert!(one.gate.inside().is_empty()),
    );
}

#[test]
fn loom_gate_an_upgraded_reader_is_alone() {
    side_by_side(
        &[
            |one| {
                one.open();
                let Some(pass) = one.gate.enter(Use::Read) else { return };
                one.read();
                if let Some(pass) = one.gate.upgrade(pass.reader(), true) {
                    one.write();
                    one.gate.leave(pass);
                } else {
                    one.gate.leave(pass);
                }
            },
            |one| one.use_once(Use::Read),
            |one| one.use_once(Use::Read),
        ],
        |_| {},
    );
}

#[test]
fn loom_gate_readers_beside_a_downgraded_writer_see_what_it_wrote() {
    side_by_side(
        &[
            |one| {
                one.open();
                let Some(pass) = one.gate.enter(Use::Write) else { return };
                one.write();
                let (pass, _) = one.gate.downgrade(pass).unwrap();
                one.read();
                one.gate.leave(pass);
            },
            |one| one.use_once(Use::Read),
        ],
        |_| {},
    );
}

#[test]
fn loom_gate_the_lost_change_nothing_for_those_after_them() {
    side_by_side(
        &[
            |one| {
                one.open();
                let Some(pass) = one.gate.enter(Use::Write) else { return };
                // It does nothing with it: what the lost do is not ordered with anything.
                let left = one.gate.leave(pass);
                assert!(matches!(left, Left::Unseen | Left::Lost));
            },
            |one| {
                one.gate.lose();
                if let Some(pass) = one.gate.admit(Use::Write) {
                    assert!(one.gate.inside().writer && one.gate.has(&pass));
                    assert_eq!(one.gate.leave(pass), Left::Unseen);
                }
            },
        ],
        |one| assert!(one.gate.inside().is_empty()),
    );
}
