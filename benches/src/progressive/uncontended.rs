//! What a lock and unlock costs when no other thread wants the lock.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lockspan::thread::fair;
use lockspan::thread::progressive::upgrade::{self, UpgradeLock};
use lockspan::thread::progressive::{ClaimLock, Lock, claim};

use crate::args::Args;
use crate::contest::{Contest, Id, Rounds};
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::timing;

pub(crate) const FAMILY: &str = "uncontended";
const ROUNDS: usize = 31;
const MILLIS: u64 = 4;
/// How much more than the cheapest of parking_lot's own a hold may cost.
const MOST: f64 = 1.10;

/// Measures the cycle again and again.
macro_rules! enter {
    ($contest:ident, $length:ident, $name:expr, $new:expr, |$lock:ident| $cycle:expr) => {{
        let lock = Box::new($new);
        $contest.enter($name, &["ns"], move || {
            let $lock = black_box(&*lock);
            timing::of_batches($length, || {
                for _ in 0..timing::BATCH {
                    $cycle;
                }
                Ok::<(), String>(())
            })
        })
    }};
}

/// Looks at the data, so that the hold is not for nothing.
macro_rules! look {
    ($guard:expr) => {
        black_box($guard.load(Relaxed))
    };
}

/// Our locks.
struct Ours {
    read: Id,
    seek: Id,
    write: Id,
    atomic: Id,
    upgrade_read: Id,
    upgrade: Id,
    claim_read: Id,
    claim: Id,
}

/// The locks that ours are compared with: read, upgradable read, write.
struct Peers {
    old: [Id; 3],
    new: [Id; 3],
    fair: [Id; 3],
    /// std has no upgradable read.
    std: [Id; 2],
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let length = args.time(MILLIS);
    let mut contest = Contest::new(FAMILY, "");
    let ours = enter_ours(&mut contest, length);
    let peers = enter_peers(&mut contest, length);
    let rounds = contest.run(args.rounds(ROUNDS), report)?;
    report.cell("One thread, nobody else: lock and unlock");
    rows(report, &rounds, &ours, &peers);
    Ok(())
}

fn data() -> AtomicU64 {
    AtomicU64::new(1)
}

fn enter_ours(contest: &mut Contest<'_>, length: Duration) -> Ours {
    Ours {
        read: enter!(contest, length, "progressive R", Lock::new(data()), |lock| {
            look!(lock.read());
        }),
        seek: enter!(contest, length, "progressive S", Lock::new(data()), |lock| {
            look!(lock.seek());
        }),
        write: enter!(contest, length, "progressive W", Lock::new(data()), |lock| {
            look!(lock.write());
        }),
        atomic: enter!(contest, length, "progressive A", Lock::new(data()), |lock| {
            look!(lock.atomic());
        }),
        upgrade_read: enter!(contest, length, "UpgradeLock R", UpgradeLock::new(data()), |lock| {
            look!(lock.read());
        }),
        upgrade: enter!(contest, length, "UpgradeLock R→A", UpgradeLock::new(data()), |lock| {
            let read = lock.read();
            look!(read);
            look!(upgrade::ReadGuard::atomic(read));
        }),
        claim_read: enter!(contest, length, "ClaimLock R", ClaimLock::new(data()), |lock| {
            look!(lock.read());
        }),
        claim: enter!(contest, length, "ClaimLock R→J→C→A", ClaimLock::new(data()), |lock| {
            let join = claim::ReadGuard::join(lock.read());
            look!(join);
            let claim = claim::JoinGuard::claim(join);
            look!(claim);
            look!(claim::ClaimGuard::atomic(claim));
        }),
    }
}

fn enter_peers(contest: &mut Contest<'_>, length: Duration) -> Peers {
    macro_rules! enter_peer {
        ($name:literal, $lock:path) => {{
            use $lock as Peer;
            [
                enter!(contest, length, concat!($name, " read"), Peer::new(data()), |lock| {
                    look!(lock.read());
                }),
                enter!(contest, length, concat!($name, " upgradable"), Peer::new(data()), |lock| {
                    look!(lock.upgradable_read());
                }),
                enter!(contest, length, concat!($name, " write"), Peer::new(data()), |lock| {
                    look!(lock.write());
                }),
            ]
        }};
    }
    Peers {
        old: enter_peer!("parking_lot-0.12", parking_lot_012::RwLock),
        new: enter_peer!("parking_lot-0.13", parking_lot_013::RwLock),
        fair: enter_peer!("our fair lock", fair::RwLock),
        std: [
            enter!(contest, length, "std read", std::sync::RwLock::new(data()), |lock| {
                look!(lock.read().unwrap());
            }),
            enter!(contest, length, "std write", std::sync::RwLock::new(data()), |lock| {
                look!(lock.write().unwrap());
            }),
        ],
    }
}

fn rows(report: &mut Report, rounds: &Rounds, ours: &Ours, peers: &Peers) {
    let mut row = |what: &str, ours: Id, name: &str, compared_with: &[Id], target: Target| {
        let least = |round: &dyn Fn(Id) -> f64| {
            compared_with.iter().map(|id| round(*id)).fold(f64::INFINITY, f64::min)
        };
        report.row(Row {
            what: what.to_owned(),
            ours: time(rounds.median(ours)),
            compared_with: format!("{} {name}", time(rounds.of(|round| least(round)).median)),
            result: Some(rounds.of(|round| round(ours) / least(round))),
            unit: TIMES,
            target,
        });
    };
    let (most, open) = (Target::AtMost(MOST), Target::Open);
    let Peers { old, new, fair, std } = peers;
    let (reads, seeks, writes) = ([old[0], new[0]], [old[1], new[1]], [old[2], new[2]]);
    row("R", ours.read, "parking_lot, read", &reads, most);
    row("S", ours.seek, "parking_lot, upgradable read", &seeks, most);
    row("W", ours.write, "parking_lot, write", &writes, most);
    row("A", ours.atomic, "parking_lot, write", &writes, open);
    row("R", ours.read, "std, read", &std[..1], open);
    row("W", ours.write, "std, write", &std[1..], open);
    row("R", ours.read, "our fair lock, read", &fair[..1], open);
    row("S", ours.seek, "our fair lock, upgradable read", &fair[1..2], open);
    row("W", ours.write, "our fair lock, write", &fair[2..], open);
    row("UpgradeLock, R", ours.upgrade_read, "parking_lot, read", &reads, open);
    row("UpgradeLock, R→A", ours.upgrade, "parking_lot, write", &writes, open);
    row("ClaimLock, R", ours.claim_read, "parking_lot, read", &reads, open);
    row("ClaimLock, R→J→C→A", ours.claim, "parking_lot, write", &writes, open);
}
