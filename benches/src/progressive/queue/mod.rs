//! A queue that every thread takes from and adds to: each turn pops the first item and pushes it
//! back, so that all threads want the same item all the time.

mod peers;
mod retry;

use peers::{Claims, Crossbeam, ParkingLotMutex, Queue, StdMutex};
use retry::Retry;

use super::crowd::{self, Seen, Spec, timed};
use super::entry::Entry;
use crate::args::Args;
use crate::comparison::Cell;
use crate::contest::Contest;
use crate::report::{Report, Target};

pub(crate) const FAMILY: &str = "queue";

const THREADS: [usize; 4] = [1, 2, 8, 64];
/// Items that go round: enough for each thread to have one in hand.
const ITEMS: u64 = 256;
const ROUNDS: usize = 5;
const MILLIS: u64 = 60;

fn sample<Q: Queue>(spec: Spec) -> Seen {
    let queue = Q::new();
    (0..ITEMS).for_each(|item| queue.push(item));
    let seen = crowd::run(spec, |_, failed| {
        let (item, wait) = timed(|| {
            loop {
                // There are more items than threads: if there is none, others were faster.
                match queue.pop(failed) {
                    Some(item) => break item,
                    None => *failed += 1,
                }
            }
        });
        queue.push(item);
        wait
    });
    let left: u64 = std::iter::from_fn(|| queue.pop(&mut 0)).sum();
    assert_eq!(left, ITEMS * (ITEMS - 1) / 2, "{}: items were lost or doubled", Q::NAME);
    seen
}

fn enter<Q: Queue>(contest: &mut Contest<'_>, mut spec: Spec) -> Entry {
    Entry::new(Q::NAME, true, contest, move || {
        spec.seed += 1;
        sample::<Q>(spec)
    })
}

pub(crate) fn cells() -> impl Iterator<Item = Cell> {
    THREADS.into_iter().map(|threads| {
        let path = format!("{FAMILY}/{}", path(threads));
        Cell::new(path, move |args, report| cell(args, report, threads))
    })
}

fn path(threads: usize) -> String {
    format!("{threads}t")
}

fn cell(args: &Args, report: &mut Report, threads: usize) -> Result<(), String> {
    let spec = Spec { threads: args.threads(threads), time: args.time(MILLIS), seed: 0 };
    let mut contest = Contest::new(FAMILY, path(threads));
    let ours = enter::<Claims>(&mut contest, spec);
    let others = [
        enter::<Retry>(&mut contest, spec),
        enter::<StdMutex>(&mut contest, spec),
        enter::<ParkingLotMutex>(&mut contest, spec),
        enter::<Crossbeam>(&mut contest, spec),
    ];
    let rounds = contest.run(args.rounds(ROUNDS), report)?;
    report.cell(&format!("Queue, {threads} threads"));
    for other in &others {
        report.row(ours.against(other, &rounds, Target::Open));
    }
    Ok(())
}
