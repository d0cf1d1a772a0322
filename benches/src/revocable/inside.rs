//! How often an interrupt finds a thread inside of a section: the share of evictions that the
//! article calls hard. Another thread interrupts the owner again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use lockspan::thread::revocable::{Lock, Steal, Word};

use super::system;
use crate::args::Args;
use crate::report::Report;

pub(crate) const FAMILY: &str = "inside";

const INTERRUPTS: usize = 20_000;

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let cpus = system::cpus();
    let (first, last) = (*cpus.first().ok_or("no processors")?, *cpus.last().unwrap_or(&0));
    system::pin(first);
    let (lock, stop) = (Lock::new(Word::default()), AtomicBool::new(false));
    let (tell, told) = mpsc::channel();
    let (sampled, stores) = std::thread::scope(|scope| {
        let (lock, stop) = (&lock, &stop);
        scope.spawn(move || {
            system::pin(last);
            let ticket = lock.acquire(Steal::Force).expect("a new lock is free");
            let _ = tell.send(system::this_thread());
            while !stop.load(Ordering::Relaxed) {
                let value = lock.words().peek() + 1;
                ticket.store(|word| word, value).expect("nobody steals it");
            }
        });
        let thread = told.recv().map_err(|why| why.to_string())?;
        let before = lock.words().peek();
        let sampled = system::sample(thread, args.count(INTERRUPTS, 50) as u64);
        let stores = lock.words().peek() - before;
        stop.store(true, Ordering::Relaxed);
        Ok::<_, String>((sampled, stores))
    })?;
    let columns =
        ["interrupts of an owner that stores all the time", "inside of a section", "share"];
    report.table("Inside of a section", &columns);
    let cells = match sampled {
        Some(seen) => {
            let share = seen.inside as f64 / seen.interrupts.max(1) as f64;
            let counts = [seen.interrupts, seen.inside, stores].map(|count| count as f64);
            let metrics = ["interrupts", "inside", "stores"].into_iter().zip(counts);
            report.once(FAMILY, "owned store", &metrics.collect::<Vec<_>>());
            let of = format!("{} in {stores} stores", seen.interrupts);
            [of, seen.inside.to_string(), format!("{:.1} %", 100.0 * share)]
        }
        None => ["n/a".to_owned(), "n/a".to_owned(), "n/a".to_owned()],
    };
    report.line(&cells);
    Ok(())
}
