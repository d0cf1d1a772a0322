//! A node of a run of faults that forks when it is told to: `fork` is answered `forked` when the
//! child has ended and all was as promised.
//!
//! Threads take records, work on the store behind them and write down when they held what. The
//! child must get nothing of it: it tries every record, and fails if it gets one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lockspan::{ConnectError, Locks, Options, Token, WriteGuard};
use lockspan_faults::clock;
use lockspan_faults::journal::{Entry, Journal};
use lockspan_faults::store::Store;
use lockspan_faults::worker::Spell;

use crate::process::{By, Side, end_at_once, fork, say};
use crate::{LEASE, Outcome, ensure, refused};

const THREADS: u32 = 3;

struct Node {
    locks: Locks,
    name: String,
    store: Store,
    journal: Journal,
    records: u32,
    is_over: AtomicBool,
}

/// Works until its input ends.
pub(crate) fn holds(words: &[String]) -> Outcome {
    let [url, name, store, journal, records] = words else {
        return Err("forker holds URL NAME STORE JOURNAL RECORDS".to_owned());
    };
    let node = Arc::new(Node {
        locks: connect(url)?,
        name: name.clone(),
        store: Store::new(store),
        journal: Journal::create(Path::new(journal)).map_err(text)?,
        records: records.parse().map_err(text)?,
        is_over: AtomicBool::new(false),
    });
    let mut threads = Vec::new();
    for number in 0..THREADS {
        let node = Arc::clone(&node);
        threads.push(thread::spawn(move || node.work(number)));
    }
    let mut at = 0;
    for line in std::io::stdin().lines().map_while(Result::ok) {
        ensure!(line == "fork", "it was told {line:?}");
        at += 1;
        node.forks(at)?;
        println!("forked");
    }
    node.is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")??;
    }
    Ok(())
}

/// The server may be down just now.
fn connect(url: &str) -> Result<Locks, String> {
    loop {
        match Options::new().lease(LEASE).name("forker").blocking_connect(url) {
            Ok(locks) => return Ok(locks),
            Err(ConnectError::Unreachable { .. }) => thread::sleep(Duration::from_millis(20)),
            Err(why) => return Err(text(why)),
        }
    }
}

fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}

impl Node {
    fn work(&self, number: u32) -> Outcome {
        let mut rng = fastrand::Rng::with_seed(number.into());
        while !self.is_over.load(Ordering::Relaxed) {
            let number = rng.u32(..self.records);
            let record = self.locks.record("r", number.to_string()).map_err(text)?;
            let asked = clock::now();
            let guard = record.blocking_write().map_err(text)?;
            let mut spell = Spell::new(&format!("r{number}"), true, asked, clock::now());
            spell.look(&guard);
            self.update(&format!("r{number}"), &guard, &mut rng)?;
            spell.look(&guard);
            spell.note(&self.journal, guard.token()).map_err(text)?;
            drop(guard);
            thread::sleep(Duration::from_micros(rng.u64(..20_000)));
        }
        Ok(())
    }

    fn update(&self, name: &str, guard: &WriteGuard<'_>, rng: &mut fastrand::Rng) -> Outcome {
        let token = guard.token().number();
        let fenced = || {
            let entry = Entry::Fenced { record: name.to_owned(), token };
            self.journal.write(&entry).map_err(text)
        };
        let Ok(base) = self.store.open(name, &self.name, token).map_err(text)? else {
            return fenced();
        };
        thread::sleep(Duration::from_micros(rng.u64(..10_000)));
        match self.store.put(name, &self.name, token, base).map_err(text)? {
            Ok(_) => Ok(()),
            Err(_) => fenced(),
        }
    }

    /// Forks, with a guard in hand if one can be had soon.
    fn forks(&self, at: u32) -> Outcome {
        let number = at % self.records;
        let record = self.locks.record("r", number.to_string()).map_err(text)?;
        let asked = clock::now();
        let held = record.blocking_write_timeout(Duration::from_millis(50)).ok();
        let mut spell = Spell::new(&format!("r{number}"), true, asked, clock::now());
        match fork(By::Fork) {
            Side::Child => {
                let told = match held {
                    Some(held) if held.is_valid() => {
                        self.was_inside(number, held.token());
                        Err("the child's copy of the guard is valid".to_owned())
                    }
                    // One child drops it, the next one does not.
                    Some(held) if at.is_multiple_of(2) => {
                        drop(held);
                        self.in_a_child()
                    }
                    _ => self.in_a_child(),
                };
                if let Err(why) = &told {
                    say(&format!("forker: child {at}: {why}"));
                }
                end_at_once(i32::from(told.is_err()))
            }
            Side::Parent(child) => {
                if let Some(held) = &held {
                    spell.look(held);
                }
                child.wait().map_err(|why| format!("fork {at}: {why}"))?;
                if let Some(held) = held {
                    spell.look(&held);
                    spell.note(&self.journal, held.token()).map_err(text)?;
                }
                Ok(())
            }
        }
    }

    /// Tries every record, cached or not.
    fn in_a_child(&self) -> Outcome {
        for number in 0..self.records {
            let record = self.locks.record("r", number.to_string()).map_err(text)?;
            let got = record.blocking_write_timeout(Duration::from_millis(200));
            if let Ok(guard) = &got {
                self.was_inside(number, guard.token());
            }
            refused("write", got.map(drop))?;
        }
        self.locks.give_back_idle();
        Ok(())
    }

    /// Says so. The journal's mutex may be locked by a thread of the parent.
    fn was_inside(&self, number: u32, token: Token) {
        let what = format!("r{number} with token {}", token.number());
        say(&format!("forker: the child of {} was inside of {what}", self.name));
    }
}
