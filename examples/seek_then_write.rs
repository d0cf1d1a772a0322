//! Threads that look up a name, and add it if it is missing, exactly once: read, seek, write.
//!
//! Run: `cargo run -p lockspan-examples --bin seek_then_write`
//!
//! Eight threads look up the same names in a directory. A thread that misses a name becomes the
//! seeker, looks again (another thread may have been quicker), and writes. Every name is added
//! once.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::thread;

use lockspan::thread::progressive::base::{Lock, ReadGuard, SeekGuard, WriteGuard};

type Directory = BTreeMap<&'static str, usize>;

/// Returns the number of a name, and gives it a new number if it has none.
fn number_of(directory: &Lock<Directory>, name: &'static str) -> usize {
    let read = directory.read();
    if let Some(number) = read.get(name) {
        return *number;
    }
    // As the seeker no other thread can write before us. If there is a seeker already, wait for it
    // and look again.
    let seek = ReadGuard::try_seek(read).unwrap_or_else(|read| {
        drop(read);
        directory.seek()
    });
    if let Some(number) = seek.get(name) {
        return *number;
    }
    let mut write = SeekGuard::write(seek);
    let number = write.len();
    write.insert(name, number);
    let read = WriteGuard::read(write); // from here on other readers may enter
    read[name]
}

fn main() {
    let directory = Lock::new(Directory::new());
    let names = ["ann", "bob", "cat", "dan"];
    let answers: Vec<Vec<usize>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| names.map(|name| number_of(&directory, name)).to_vec()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("names: {}", directory.read().len());
    println!("all threads agree: {}", answers.iter().all(|answer| *answer == answers[0]));
}
