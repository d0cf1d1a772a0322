//! An index that is mostly read: lookups of some hundred nanoseconds, of which few find that
//! something has to be changed.

mod contestants;
mod tree;

use contestants::{Again, ByAtomic, BySeek, Fair, ParkingLot, Shared, Spin, Std};
use tree::Index;

use crate::args::Args;
use crate::contest::Contest;
use crate::crowd::{self, Seen, Spec};
use crate::entry::Entry;
use crate::report::{Report, Target};

const THREADS: [usize; 3] = [2, 8, 64];
/// How many of a hundred lookups are followed by a change.
const UPDATES: [u32; 4] = [0, 1, 5, 20];
const ROUNDS: usize = 11;
/// Rounds with many threads: the lock that only spins needs seconds for its last turns there.
const ROUNDS_OF_MANY: usize = 3;
const MILLIS: u64 = 100;

/// At the beginning of a cache line, where all contestants stand alike.
#[repr(align(128))]
struct Aligned<S>(S);

fn sample<S: Shared>(spec: Spec, updates: u32) -> Seen {
    let shared = Aligned(S::new(Index::new()));
    let seen = crowd::run(spec, |dice, tally| {
        let has_to = dice.roll() < updates;
        *tally += u64::from(has_to);
        shared.0.visit(dice.below(Index::end()), has_to)
    });
    let changes = shared.0.into_inner().changes();
    assert_eq!(changes, seen.tally, "{}: a change was lost", S::NAME);
    seen
}

fn enter<S: Shared>(contest: &mut Contest<'_>, mut spec: Spec, updates: u32) -> Entry {
    Entry::new(S::NAME, false, contest, move || {
        spec.seed += 1;
        sample::<S>(spec, updates)
    })
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    for threads in THREADS {
        for updates in UPDATES {
            cell(args, report, threads, updates)?;
        }
    }
    Ok(())
}

fn cell(args: &Args, report: &mut Report, threads: usize, updates: u32) -> Result<(), String> {
    let spec = Spec { threads, time: args.time(MILLIS), seed: 0 };
    let mut contest = Contest::default();
    let ours = [
        enter::<BySeek>(&mut contest, spec, updates),
        enter::<ByAtomic>(&mut contest, spec, updates),
    ];
    let parking_lot = enter::<ParkingLot>(&mut contest, spec, updates);
    let again = enter::<Again>(&mut contest, spec, updates);
    let spinning = enter::<Spin>(&mut contest, spec, updates);
    let others =
        [enter::<Std>(&mut contest, spec, updates), enter::<Fair>(&mut contest, spec, updates)];
    let rounds = if threads > 8 { ROUNDS_OF_MANY } else { ROUNDS };
    let rounds = contest.run(args.rounds(rounds))?;
    report.cell(&format!(
        "Index, {threads} threads, {updates} % updates: throughput (longest wait, Jain's index)"
    ));
    let (enough, much) = match threads {
        64.. => (Target::AtLeast(0.8), Target::AtLeast(10.0)),
        _ => (Target::AtLeast(1.0), Target::Open),
    };
    for our in ours {
        report.row(our.beside(&parking_lot, &rounds, enough));
        report.row(our.beside(&spinning, &rounds, much));
        for other in &others {
            report.row(our.beside(other, &rounds, Target::Open));
        }
    }
    report.row(again.beside(&parking_lot, &rounds, Target::Open));
    Ok(())
}
