//! Readers that find something to add, and add it once: read, seek, write.
//!
//! Run: `cargo run -p lockspan-examples --bin seek_then_write`
//!
//! Eight threads look up the same names in a directory. Whoever misses one becomes the seeker,
//! looks again (another may have been quicker), and writes. Every name is added once.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::thread;

use lockspan::thread::progressive::base::{Lock, ReadGuard, SeekGuard, WriteGuard};

type Directory = BTreeMap<&'static str, usize>;

/// The number of a name; a new one if it has none.
fn number_of(directory: &Lock<Directory>, name: &'static str) -> usize {
    let read = directory.read();
    if let Some(number) = read.get(name) {
        return *number;
    }
    // Nobody can write before us, unless there is a seeker already: then we look again.
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
    let read = WriteGuard::read(write); // readers come in again
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
