//! An index that is mostly read: lookups of some hundred nanoseconds, of which few find that
//! something has to be changed.

mod contestants;
mod tree;

use contestants::{Again, ByAtomic, BySeek, Fair, ParkingLot, Shared, Spin, Std};
use tree::Index;

use super::crowd::{self, Seen, Spec};
use super::entry::Entry;
use crate::args::Args;
use crate::comparison::Cell;
use crate::contest::Contest;
use crate::padded::Padded;
use crate::report::{Report, Target};

pub(crate) const FAMILY: &str = "index";
/// The contestants in the plot.
pub(crate) const DRAWN: [&str; 6] =
    [BySeek::NAME, ByAtomic::NAME, ParkingLot::NAME, Fair::NAME, Std::NAME, Spin::NAME];

const THREADS: [usize; 3] = [2, 8, 64];
/// How many of a hundred lookups are followed by a change.
const UPDATES: [u32; 4] = [0, 1, 5, 20];
const ROUNDS: usize = 11;
/// Rounds with many threads: the lock that only spins needs seconds for its last turns there.
const ROUNDS_OF_MANY: usize = 3;
const MILLIS: u64 = 100;

fn sample<S: Shared>(spec: Spec, updates: u32) -> Seen {
    // At the beginning of a cache line, as all contestants are.
    let shared = Padded(S::new(Index::new()));
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

pub(crate) fn cells() -> impl Iterator<Item = Cell> {
    let all = THREADS.into_iter().flat_map(|threads| UPDATES.map(|updates| (threads, updates)));
    all.map(|(threads, updates)| {
        let path = format!("{FAMILY}/{}", path(threads, updates));
        Cell::new(path, move |args, report| cell(args, report, threads, updates))
    })
}

fn path(threads: usize, updates: u32) -> String {
    format!("{threads}t/{updates}%")
}

fn cell(args: &Args, report: &mut Report, threads: usize, updates: u32) -> Result<(), String> {
    let spec = Spec { threads: args.threads(threads), time: args.time(MILLIS), seed: 0 };
    let mut contest = Contest::new(FAMILY, path(threads, updates));
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
    let rounds = contest.run(args.rounds(rounds), report)?;
    report.cell(&format!("Index, {threads} threads, {updates} % updates"));
    let (enough, much) = match threads {
        64.. => (Target::AtLeast(0.8), Target::AtLeast(10.0)),
        _ => (Target::AtLeast(1.0), Target::Open),
    };
    for our in ours {
        report.row(our.against(&parking_lot, &rounds, enough));
        report.row(our.against(&spinning, &rounds, much));
        for other in &others {
            report.row(our.against(other, &rounds, Target::Open));
        }
    }
    report.row(again.against(&parking_lot, &rounds, Target::Open));
    Ok(())
}
