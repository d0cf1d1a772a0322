//! A deterministic simulator that tries to break the lock protocol.
//!
//! A *world* has servers, nodes with threads, a network and clocks, all in one thread of one
//! process, with a virtual time. It follows from its seed alone: the same seed gives the same
//! events, byte for byte. Things go wrong in it, and an oracle that knows only what clients were
//! told watches the promises of `docs/protocol.md`.
//!
//! | file | what is in it |
//! |---|---|
//! | [`plan`] | what a world is made of, drawn from its seed |
//! | `world` | machines and their drivers, threads, faults, the end |
//! | [`oracle`] | what must hold |
//! | `local` | the fair lock between a node's threads and its cache |
//! | `fence` | the store behind the records, with its fence |
//! | `disk`, `cluster` | what servers store |
//! | `net`, `clock`, `queue`, `stream` | messages, time, events, chance |
//! | [`shrink`] | a smaller world that fails in the same way |
//! | [`bugs`] | bugs put back on purpose, and the worlds that find them |

#![forbid(unsafe_code)]

pub mod bugs;
mod clock;
mod cluster;
mod coverage;
mod disk;
mod fence;
mod local;
mod log;
mod net;
pub mod oracle;
pub mod plan;
mod queue;
pub mod shrink;
mod stream;
mod words;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use lockspan_protocol::Bugs;

pub use coverage::Coverage;
pub use oracle::{Failure, Kind};
pub use plan::Plan;
pub use world::Outcome;

use world::World;

/// Runs a world to its end. A panic of a machine is a failure like any other.
#[must_use]
pub fn run(plan: &Plan, bugs: Bugs) -> Outcome {
    run_world(plan, bugs, false).0
}

/// The same, with a line for everything that happens.
#[must_use]
pub fn trace(plan: &Plan, bugs: Bugs) -> (Outcome, String) {
    let (outcome, world) = run_world(plan, bugs, true);
    (outcome, world.log.text())
}

/// The same, with the last `limit` messages as a Mermaid sequence diagram.
#[must_use]
pub fn mermaid(plan: &Plan, bugs: Bugs, limit: usize) -> (Outcome, String) {
    let (outcome, world) = run_world(plan, bugs, true);
    (outcome, world.log.mermaid(limit))
}

fn run_world(plan: &Plan, bugs: Bugs, log: bool) -> (Outcome, World) {
    let mut world = World::new(plan, bugs, log);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    let mut outcome = world.outcome();
    if let Err(panic) = ran {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        let what = words.unwrap_or("without words");
        outcome.failure = Some(Failure { kind: Kind::Panic, what: what.to_owned() });
    }
    (outcome, world)
}
