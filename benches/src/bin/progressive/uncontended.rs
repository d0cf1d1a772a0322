//! What a hold costs when nobody else wants the lock: one thread, in and out.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockspan::thread::fair;
use lockspan::thread::progressive::upgrade::{self, UpgradeLock};
use lockspan::thread::progressive::{ClaimLock, Lock, claim};
use parking_lot_012 as parking_lot_old;
use parking_lot_013 as parking_lot;

use crate::args::Args;
use crate::contest::{Contest, Id};
use crate::report::{Report, Row, TIMES, Target, time};
use crate::timing;

const ROUNDS: usize = 31;
const MILLIS: u64 = 4;
/// How much more than the cheapest of parking_lot's own a hold may cost.
const MOST: f64 = 1.10;

/// Measures the cycle again and again.
macro_rules! enter {
    ($contest:ident, $length:ident, $new:expr, |$lock:ident| $cycle:expr) => {{
        let lock = Box::new($new);
        $contest.enter(move || {
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

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let length = args.time(MILLIS);
    let data = || AtomicU64::new(1);
    let mut contest = Contest::default();

    let read = enter!(contest, length, Lock::new(data()), |lock| look!(lock.read()));
    let seek = enter!(contest, length, Lock::new(data()), |lock| look!(lock.seek()));
    let write = enter!(contest, length, Lock::new(data()), |lock| look!(lock.write()));
    let atomic = enter!(contest, length, Lock::new(data()), |lock| look!(lock.atomic()));
    let upgrade_read = enter!(contest, length, UpgradeLock::new(data()), |lock| look!(lock.read()));
    let upgrade = enter!(contest, length, UpgradeLock::new(data()), |lock| {
        let read = lock.read();
        look!(read);
        look!(upgrade::ReadGuard::atomic(read));
    });
    let claim_read = enter!(contest, length, ClaimLock::new(data()), |lock| look!(lock.read()));
    let claim = enter!(contest, length, ClaimLock::new(data()), |lock| {
        let join = claim::ReadGuard::join(lock.read());
        look!(join);
        let claim = claim::JoinGuard::claim(join);
        look!(claim);
        look!(claim::ClaimGuard::atomic(claim));
    });

    macro_rules! enter_peer {
        ($lock:path) => {{
            use $lock as Peer;
            [
                enter!(contest, length, Peer::new(data()), |lock| look!(lock.read())),
                enter!(contest, length, Peer::new(data()), |lock| {
                    look!(lock.upgradable_read());
                }),
                enter!(contest, length, Peer::new(data()), |lock| look!(lock.write())),
            ]
        }};
    }
    let old = enter_peer!(parking_lot_old::RwLock);
    let new = enter_peer!(parking_lot::RwLock);
    let fair = enter_peer!(fair::RwLock);
    let std = {
        use std::sync::RwLock;
        [
            enter!(contest, length, RwLock::new(data()), |lock| look!(lock.read().unwrap())),
            enter!(contest, length, RwLock::new(data()), |lock| look!(lock.write().unwrap())),
        ]
    };

    let rounds = contest.run(args.rounds(ROUNDS))?;
    report.cell("One thread, nobody else: in and out");
    let mut row = |what: &str, ours: Id, name: &str, beside: &[Id], target: Target| {
        let least = |round: &dyn Fn(Id) -> f64| {
            beside.iter().map(|id| round(*id)).fold(f64::INFINITY, f64::min)
        };
        report.row(Row {
            what: what.to_owned(),
            ours: time(rounds.median(ours)),
            beside: format!("{} {name}", time(rounds.of(|round| least(round)).median)),
            result: Some(rounds.of(|round| round(ours) / least(round))),
            unit: TIMES,
            target,
        });
    };
    let most = Target::AtMost(MOST);
    let (reads, seeks, writes) = ([old[0], new[0]], [old[1], new[1]], [old[2], new[2]]);
    let open = Target::Open;
    row("R", read, "parking_lot, read", &reads, most);
    row("S", seek, "parking_lot, upgradable read", &seeks, most);
    row("W", write, "parking_lot, write", &writes, most);
    row("A", atomic, "parking_lot, write", &writes, open);
    row("R", read, "std, read", &std[..1], open);
    row("W", write, "std, write", &std[1..], open);
    row("R", read, "our fair lock, read", &fair[..1], open);
    row("S", seek, "our fair lock, upgradable read", &fair[1..2], open);
    row("W", write, "our fair lock, write", &fair[2..], open);
    row("UpgradeLock, R", upgrade_read, "parking_lot, read", &reads, open);
    row("UpgradeLock, R→A", upgrade, "parking_lot, write", &writes, open);
    row("ClaimLock, R", claim_read, "parking_lot, read", &reads, open);
    row("ClaimLock, R→J→C→A", claim, "parking_lot, write", &writes, open);
    Ok(())
}
