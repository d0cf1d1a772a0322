//! Many readers at once, one writer alone; a reader that upgrades to a writer, and a writer that
//! downgrades to a reader.
//!
//! Run: `cargo run -p lockspan-examples --bin readers_and_writers`
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;

use lockspan::LockError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Two nodes of one service, as if they were two processes.
    let (one, other) = (lockspan::connect("memory:").await?, lockspan::connect("memory:").await?);
    let (here, there) = (one.record("page", "home")?, other.record("page", "home")?);

    let (a, b) = (here.read().await?, there.read().await?);
    println!("two nodes read at once: {}", a.is_valid() && b.is_valid());

    match here.write_timeout(Duration::from_millis(20)).await {
        Err(LockError::Timeout(_)) => println!("a writer waits for both, and gives up after 20 ms"),
        other => println!("unexpected: {other:?}"),
    }

    // Both want to upgrade. The first one waits for the second to stop reading; the second one is
    // refused at once, because the two would deadlock.
    let mut upgrade = Box::pin(a.upgrade());
    tokio::select! {
        biased;
        _ = &mut upgrade => println!("unexpected: the other still reads"),
        () = tokio::task::yield_now() => {}
    }
    let Err(refused) = b.upgrade().await else { return Err("both upgraded".into()) };
    println!("the second upgrader: {}", refused.cause());
    let b = refused.into_guard();
    println!("it still reads: {}", b.is_valid());
    drop(b);
    let writer = upgrade.await?;
    println!("the first upgrader writes");

    // From here on others may read too. Nobody could write in between.
    let reader = writer.downgrade();
    println!("both read again: {}", there.read().await?.is_valid() && reader.is_valid());
    Ok(())
}
