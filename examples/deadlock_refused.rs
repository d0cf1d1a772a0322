//! A deadlock: two transactions want each other's record. One of them is refused, with the cycle.
//!
//! Run: `cargo run -p lockspan-examples --bin deadlock_refused`
//!
//! The service detects deadlocks for clients that name an owner: it sees which owner waits for
//! which, and refuses the youngest acquire of a cycle.
#![forbid(unsafe_code)]

use std::error::Error;

use lockspan::{LockError, Owner};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (one, other) = (lockspan::connect("memory:").await?, lockspan::connect("memory:").await?);
    // Each transaction has an owner number, whichever node it runs on.
    let (first, second) = (one.as_owner(Owner(1)), other.as_owner(Owner(2)));

    let from = first.record("account", "from")?.write_owned().await?;
    let to = second.record("account", "to")?.write_owned().await?;
    println!("transaction 1 holds account:from, transaction 2 holds account:to");

    let mut one = tokio::spawn(first.record("account", "to")?.write_owned());
    let mut two = tokio::spawn(second.record("account", "from")?.write_owned());
    println!("each wants the record of the other");
    let (refused, goes_on, lets_go) = tokio::select! {
        refused = &mut one => (refused?, two, from),
        refused = &mut two => (refused?, one, to),
    };
    match refused {
        Err(LockError::Deadlock { cycle }) => {
            let mut cycle: Vec<_> = cycle.iter().map(|owner| owner.0).collect();
            cycle.sort_unstable();
            println!("one is refused; deadlock between owners {cycle:?}");
        }
        other => println!("unexpected: {other:?}"),
    }
    drop(lets_go);
    drop(goes_on.await??);
    println!("it released its record, and the other transaction got both");
    Ok(())
}
