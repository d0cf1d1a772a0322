//! Forks amid threads that use the connection: each child must come to its end, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use lockspan::{Locks, Options, OwnedReadGuard, Record, blocking_connect};

use crate::process::{By, Side, end_at_once, fork, say};
use crate::{LEASE, Outcome, SOON, Way, ensure, record, refused};

const THREADS: u64 = 8;
const FORKS: usize = 200;
const FORKS_AMID_CONNECTS: usize = 30;

/// Eight threads take records, cached and not, give them back, get in line and leave it. Each of
/// the children finds the locks of the client as those threads have left them.
pub(crate) fn storm(url: &str) -> Outcome {
    let options = Options::new().lease(LEASE);
    let locks = options.blocking_connect(url).map_err(|why| why.to_string())?;
    let other = Options::new().lease(LEASE).blocking_connect(url);
    let other = other.map_err(|why| why.to_string())?;
    let stop = Arc::new(AtomicBool::new(false));
    let turns = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    for number in 0..THREADS {
        let locks = if number < THREADS - 1 { locks.clone() } else { other.clone() };
        let (stop, turns) = (Arc::clone(&stop), Arc::clone(&turns));
        threads.push(thread::spawn(move || {
            let mut at = number;
            while !stop.load(Ordering::Relaxed) {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number + 1);
                let record = record(&locks, &format!("storm:{}", (at >> 33) % 12));
                let got = match at >> 60 {
                    0 => record.blocking_read_timeout(LEASE / 1000).map(drop),
                    1 => record.blocking_write_timeout(LEASE / 1000).map(drop),
                    2 => {
                        locks.give_back_idle();
                        Ok(())
                    }
                    3..8 => record.blocking_read().map(drop),
                    _ => record.blocking_write().map(drop),
                };
                match got {
                    Ok(()) => turns.fetch_add(1, Ordering::Relaxed),
                    Err(_) => 0,
                };
            }
        }));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|why| why.to_string())?;
    let mut told = Ok(());
    for number in 0..FORKS {
        let before = turns.load(Ordering::Relaxed);
        // Each of them meets the threads somewhere else.
        while turns.load(Ordering::Relaxed) < before + 1 + number as u64 % 7 {
            thread::yield_now();
        }
        let ours = record(&locks, &format!("storm:{}", number % 12));
        // Others may want what is held across the fork.
        let held = match number % 2 {
            0 => None,
            _ => Some(ours.clone().read_owned()),
        };
        let held = held.map(|held| runtime.block_on(held)).transpose();
        let held = held.map_err(|why| why.to_string())?;
        match fork(By::Fork) {
            Side::Child => {
                if let Err(why) = in_a_child(&locks, &ours, held) {
                    say(&format!("child {number}: {why}"));
                    end_at_once(1);
                }
                match number % 4 {
                    // Everything is dropped on the way out of `main`.
                    0 => return Ok(()),
                    1 => {
                        drop((ours, locks, other));
                        std::process::exit(0);
                    }
                    2 => std::process::exit(0),
                    _ => {
                        drop((ours, locks, other));
                        let anew = Way::Threads.connect(url);
                        let anew = anew.and_then(|locks| {
                            let record = record(&locks, &format!("storm:child{number}"));
                            let got = record.blocking_write_timeout(SOON).map(drop);
                            got.map_err(|why| why.to_string())
                        });
                        if let Err(why) = &anew {
                            say(&format!("child {number} connects: {why}"));
                        }
                        end_at_once(i32::from(anew.is_err()));
                    }
                }
            }
            Side::Parent(child) => {
                if let Err(why) = child.wait() {
                    told = Err(format!("fork {number}: {why}"));
                    break;
                }
                ensure!(held.is_none_or(|held| held.is_valid()), "the parent's guard is lost");
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a thread of the parent has panicked")?;
    }
    told?;
    let ours = record(&locks, "storm:0");
    let after = ours.blocking_write_timeout(SOON);
    ensure!(after.is_ok_and(|guard| guard.is_valid()), "the parent's connection is broken");
    ensure!(locks.stats().lost == 0, "the parent has lost {} grants", locks.stats().lost);
    ensure!(locks.stats().connects <= 1, "the parent had to connect again");
    Ok(())
}

/// Each call of a child that would take a mutex of the client in the parent.
fn in_a_child(locks: &Locks, ours: &Record, held: Option<OwnedReadGuard>) -> Outcome {
    refused("write", ours.blocking_write().map(drop))?;
    refused("read", ours.blocking_read().map(drop))?;
    for number in 0..64 {
        let other = record(locks, &format!("storm:{number}"));
        refused("timed", other.blocking_write_timeout(SOON).map(drop))?;
    }
    if let Some(held) = held {
        ensure!(!held.is_valid(), "the child's copy of the guard is valid");
        drop(held);
    }
    let _ = locks.stats();
    ensure!(locks.last_will().is_none(), "the child has the parent's session");
    locks.give_back_idle();
    locks.publish_metrics();
    Ok(())
}

/// Other threads of the parent are inside of `connect` when it forks; the child connects.
pub(crate) fn connecting(url: &str) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for _ in 0..3 {
        let (stop, url) = (Arc::clone(&stop), url.to_owned());
        threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                drop(blocking_connect(&url));
            }
        }));
    }
    let mut told = Ok(());
    for number in 0..FORKS_AMID_CONNECTS {
        match fork(By::Fork) {
            Side::Child => {
                let anew = Way::Threads.connect(url).and_then(|locks| {
                    let record = record(&locks, &format!("connecting:{number}"));
                    let got = record.blocking_write_timeout(SOON).map(drop);
                    got.map_err(|why| why.to_string())
                });
                if let Err(why) = &anew {
                    say(&format!("child {number}: {why}"));
                }
                end_at_once(i32::from(anew.is_err()));
            }
            Side::Parent(child) => {
                if let Err(why) = child.wait() {
                    told = Err(format!("fork {number}: {why}"));
                    break;
                }
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a thread of the parent has panicked")?;
    }
    told
}
