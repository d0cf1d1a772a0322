//! A map that many threads read and some change, behind the fair read-write lock.
//!
//! Run: `cargo run -p lockspan-examples --bin fair_lock`
//!
//! You will see that no sale is lost, that no reader sees a change half made, and what `downgrade`
//! is for. The lock has the methods of the `lock_api` crate, as the locks of parking_lot do.
#![forbid(unsafe_code)]

use std::thread;
use std::time::Duration;

use lockspan::thread::fair::{RwLock, RwLockWriteGuard};

/// Apples move from the shelf to the basket; together there are always 1000.
struct Shop {
    shelf: u32,
    basket: u32,
}

static SHOP: RwLock<Shop> = RwLock::new(Shop { shelf: 1000, basket: 0 });

fn main() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut shop = SHOP.write();
                    shop.shelf -= 1;
                    shop.basket += 1;
                }
            });
            scope.spawn(|| {
                for _ in 0..200 {
                    let shop = SHOP.read();
                    assert_eq!(shop.shelf + shop.basket, 1000, "a half-made change");
                }
            });
        }
    });
    let shop = SHOP.read();
    println!("shelf {}, basket {}", shop.shelf, shop.basket);

    // A reader is inside, so a writer can't enter. With a timeout it does not wait forever.
    let refused = SHOP.try_write_for(Duration::from_millis(10)).is_none();
    println!("a writer while a reader is inside: {}", if refused { "refused" } else { "let in" });
    drop(shop);

    // Write, then keep reading what was just written: no other writer can come in between.
    let mut shop = SHOP.write();
    shop.shelf += shop.basket;
    shop.basket = 0;
    let shop = RwLockWriteGuard::downgrade(shop);
    println!(
        "shelf {} after a downgrade; others can read too: {}",
        shop.shelf,
        SHOP.try_read().is_some()
    );
}
