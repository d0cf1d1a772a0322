//! A record that is held, released, and taken again without a call.
//!
//! Run: `cargo run -p lockspan-examples --bin first_lock`
//!
//! Without an argument the whole service is inside this program; with a URL, such as
//! `lockspan://127.0.0.1:7420` or `local:`, it is that service.
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

    // Nobody else wanted it, so this node still has it: no message, and the same token.
    let asked = locks.stats().acquires;
    let held = invoice.write().await?;
    println!(
        "again: same token {}, calls {}",
        held.token() == first,
        locks.stats().acquires - asked
    );
    drop(held);

    // Another node wants it. It is taken back from us, and its token is higher than ours.
    let other = lockspan::connect(&url).await?;
    let theirs = other.record("invoice", "42")?;
    let held = theirs.write().await?;
    println!("the other node: higher token {}", held.token() > first);
    match invoice.try_read().await? {
        Some(_) => println!("we read beside a writer?"),
        None => println!("we: not while it writes"),
    }
    drop(held);
    println!("we: {}", if invoice.try_read().await?.is_some() { "now we read" } else { "no" });
    Ok(())
}
