//! A record is locked, released, and locked again without a call to the server.
//!
//! Run: `cargo run -p lockspan-examples --bin first_lock`
//!
//! Without an argument the whole service runs inside this program. With a URL as its argument, such
//! as `lockspan://127.0.0.1:7420` or `local:`, the program uses that service.
#![forbid(unsafe_code)]

use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = lockspan::connect(&url).await?;

    // A record is a datatype and an id.
    let invoice = locks.record("invoice", "42")?;

    let held = invoice.write().await?;
    println!("held: {:?}, valid: {}", held.record().name().to_string(), held.is_valid());
    let first = held.token();
    drop(held);

    // No other node wanted the record, so this node still has it cached: no message is sent, and
    // the token is the same.
    let asked = locks.stats().acquires;
    let held = invoice.write().await?;
    println!(
        "again: same token {}, calls {}",
        held.token() == first,
        locks.stats().acquires - asked
    );
    drop(held);

    // Another node wants the record. The server revokes ours, and the new token is higher.
    let other = lockspan::connect(&url).await?;
    let theirs = other.record("invoice", "42")?;
    let held = theirs.write().await?;
    println!("the other node: higher token {}", held.token() > first);
    match invoice.try_read().await? {
        Some(_) => println!("unexpected: we read while it writes"),
        None => println!("we: refused while it writes"),
    }
    drop(held);
    println!("we: {}", if invoice.try_read().await?.is_some() { "now we read" } else { "no" });
    Ok(())
}
