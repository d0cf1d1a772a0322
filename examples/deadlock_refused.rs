//! Two transactions that want each other's record: one of them is refused, with the circle.
//!
//! Run: `cargo run -p lockspan-examples --bin deadlock_refused`
//!
//! Whoever names an owner is looked after: the service sees who waits for whom.
#![forbid(unsafe_code)]

use std::error::Error;

use lockspan::{LockError, Owner};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (one, other) = (lockspan::connect("memory:").await?, lockspan::connect("memory:").await?);
    // Each transaction has a number, on whichever node it runs.
    let (first, second) = (one.as_owner(Owner(1)), other.as_owner(Owner(2)));

    let from = first.record("account", "from")?.write_owned().await?;
    let to = second.record("account", "to")?.write_owned().await?;
    println!("transaction 1 holds account:from, transaction 2 holds account:to");

    let mut one = tokio::spawn(first.record("account", "to")?.write_owned());
    let mut two = tokio::spawn(second.record("account", "from")?.write_owned());
    println!("each wants the other's");
    let (refused, goes_on, lets_go) = tokio::select! {
        refused = &mut one => (refused?, two, from),
        refused = &mut two => (refused?, one, to),
    };
    match refused {
        Err(LockError::Deadlock { cycle }) => {
            let mut cycle: Vec<_> = cycle.iter().map(|owner| owner.0).collect();
            cycle.sort_unstable();
            println!("one is refused; in the circle: {cycle:?}");
        }
        other => println!("unexpected: {other:?}"),
    }
    drop(lets_go);
    drop(goes_on.await??);
    println!("it let go of its record, and the other has both");
    Ok(())
}
