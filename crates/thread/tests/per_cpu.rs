//! Words of each processor, taken from preempted owners and by threads that iterate, among more
//! threads than processors that are moved about: nothing is lost and nothing is seen twice.
#![cfg(target_os = "linux")]

mod hostile;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use hostile::{Running, Worker, disturb, in_a_child, pin, with_every_backend};
use lockspan_thread::revocable::{PerCpu, Refused, Revoked, Steal, Ticket, Word, backend};

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}

/// `begun` is stored first. So a thread that loads `done` first finds it at most as large.
#[derive(Debug, Default)]
struct Pair {
    begun: Word,
    done: Word,
}

fn sum(words: &PerCpu<Word>) -> u64 {
    words.for_each(|ticket| ticket.load(|word| word)).unwrap().iter().sum()
}

#[test]
fn a_thread_keeps_its_part_and_iteration_takes_it() {
    let words: PerCpu<Word> = PerCpu::default();
    assert_eq!(words.parts().count(), words.cpus());
    thread::scope(|scope| {
        let words = &words;
        scope.spawn(move || {
            pin(0, 0);
            let owner = words.with(|ticket| ticket.add(|word| word, 1).map(|()| ticket.owner()));
            for _ in 0..100 {
                let again =
                    words.with(|ticket| ticket.add(|word| word, 1).map(|()| ticket.owner()));
                assert_eq!(again, owner, "nobody else wants the part");
            }
            assert_eq!(words.parts().filter(|part| part.is_owned()).count(), 1);
            assert_eq!(sum(words), 101);
            let again = words.with(|ticket| ticket.check().map(|()| ticket.owner()));
            assert_eq!(again, owner, "a thread that iterates keeps what it owned before");
            thread::scope(|scope| scope.spawn(|| assert_eq!(sum(words), 101)).join().unwrap());
            assert!(!words.parts().any(|part| part.is_owned()), "iteration leaves them to nobody");
            let next = words.with(|ticket| ticket.add(|word| word, 1).map(|()| ticket.owner()));
            assert_ne!(next, owner);
        });
    });
    assert_eq!(sum(&words), 102);
    assert!(format!("{words:?}").starts_with("PerCpu { cpus: "));
}

/// What the collection is for: an owner that does not run holds nothing up, and needs no spare.
#[test]
fn the_next_thread_on_a_processor_takes_the_part_of_one_that_sleeps() {
    if backend().backend().name() == "membarrier" {
        println!("where a local steal is refused, the next thread takes a spare part");
        return;
    }
    let words: PerCpu<Word> = PerCpu::default();
    let (owned, is_owned) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let words = &words;
        scope.spawn(move || {
            pin(0, 0);
            let ticket = words.acquire().unwrap();
            ticket.add(|word| word, 1).unwrap();
            owned.send(()).unwrap();
            let _ = goes_on.recv();
            if backend().backend().name() == "rseq" {
                assert_eq!(ticket.add(|word| word, 1), Err(Revoked));
            }
            ticket.keep();
        });
        is_owned.recv().unwrap();
        let next = scope.spawn(move || {
            pin(0, 0);
            words.with(|ticket| ticket.add(|word| word, 1)).unwrap();
        });
        next.join().unwrap();
        if backend().backend().name() == "rseq" {
            assert_eq!(words.parts().count(), words.cpus(), "no spare part was needed");
        }
        drop(go_on);
    });
    let evicted = u64::from(backend().backend().name() == "rseq");
    assert!((2..=3 - evicted).contains(&sum(&words)));
}

#[test]
fn an_owner_on_another_processor_keeps_its_part_and_the_limit_holds() {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if backend().backend().name() != "rseq" || cpus < 2 {
        println!("an owner that was moved is known by its processor");
        return;
    }
    const LIMIT: usize = 3;
    let words = PerCpu::with_limit(LIMIT, Word::default);
    thread::scope(|scope| {
        let words = &words;
        let (owned, is_owned) = mpsc::channel();
        let mut ends = Vec::new();
        // Each takes a part on processor 0, and stores to it on processor 1.
        for number in 0..LIMIT + 1 {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let owned = owned.clone();
            scope.spawn(move || {
                pin(0, 0);
                let ticket = words.acquire().unwrap();
                pin(0, 1);
                ticket.add(|word| word, 1).unwrap();
                owned.send(()).unwrap();
                let _ = ended.recv();
                // The last one has found no spare part, and has taken the first by force.
                let expected = if number == 0 { Err(Revoked) } else { Ok(()) };
                assert_eq!(ticket.check(), expected, "{number}");
            });
            is_owned.recv().unwrap();
            assert_eq!(words.parts().count(), words.cpus() + number.min(LIMIT - 1));
        }
        drop(ends);
    });
    assert_eq!(sum(&words), LIMIT as u64 + 1);
}

/// A thread that `with` finds on one processor and that stores on another one has no use for the
/// first one's part. If it kept that, each thread there would need a spare part from then on.
#[test]
fn a_thread_that_is_moved_away_leaves_the_part_to_the_next_thread_on_its_processor() {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if backend().backend().name() != "rseq" || cpus < 2 {
        println!("threads have processors with rseq alone");
        return;
    }
    // Moved with a part that it has just acquired, with one that it had before, and with one that
    // it had before it went through all parts.
    for (had_it_before, iterates) in [(false, false), (true, false), (true, true)] {
        let words: PerCpu<Word> = PerCpu::default();
        let (moved, has_moved) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let words = &words;
            scope.spawn(move || {
                pin(0, 0);
                if had_it_before {
                    words.with(|ticket| ticket.check()).unwrap();
                }
                let add_elsewhere = |ticket: &Ticket<'_, Word>| {
                    pin(0, 1);
                    ticket.add(|word| word, 1)
                };
                if iterates {
                    words.for_each(add_elsewhere).unwrap();
                } else {
                    words.with(add_elsewhere).unwrap();
                }
                moved.send(()).unwrap();
                let _ = ended.recv();
            });
            has_moved.recv().unwrap();
            assert!(!words.parts().any(|part| part.is_owned()));
            let next = scope.spawn(move || {
                pin(0, 0);
                words.with(|ticket| ticket.add(|word| word, 1)).unwrap();
            });
            next.join().unwrap();
            assert_eq!(words.parts().count(), words.cpus(), "no spare part was needed");
            drop(end);
        });
        let expected = if iterates { words.cpus() as u64 + 1 } else { 2 };
        assert_eq!(sum(&words), expected);
    }
}

/// The inner iteration visits the part that the outer call owns. If it left that to nobody, the
/// outer call would begin anew forever.
#[test]
fn iteration_inside_iteration_and_inside_with_ends() {
    let words: PerCpu<Word> = PerCpu::default();
    let mut tries = 0;
    let mut count = || {
        tries += 1;
        assert!(tries < 100, "the same call begins anew again and again");
    };
    let sums = words.for_each(|ticket| {
        count();
        let inner = sum(&words);
        ticket.add(|word| word, 1).map(|()| inner)
    });
    assert_eq!(sums.unwrap(), (0..words.cpus() as u64).collect::<Vec<_>>());
    let all = words.cpus() as u64;
    let add_all = |ticket: &Ticket<'_, Word>| {
        count();
        let inner = sum(&words);
        ticket.add(|word| word, inner)
    };
    words.with(add_all).unwrap();
    assert_eq!(sum(&words), 2 * all);
}

/// Has no memory for parts, which are aligned to two cache lines, while a thread says so.
struct Meagre;

thread_local! {
    static NO_PARTS: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the system's allocator does the work, or null says that there is no memory.
unsafe impl GlobalAlloc for Meagre {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() == 128 && NO_PARTS.get() {
            return ptr::null_mut();
        }
        // SAFETY: the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static MEAGRE: Meagre = Meagre;

#[test]
fn a_part_without_memory_is_none_at_first_and_not_needed_later() {
    let words: PerCpu<Word> = PerCpu::default();
    let (owned, is_owned) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let words = &words;
        scope.spawn(move || {
            let tickets: Vec<_> =
                words.parts().map(|part| part.acquire(Steal::Force).unwrap()).collect();
            owned.send(()).unwrap();
            let _ = ended.recv();
            drop(tickets);
        });
        is_owned.recv().unwrap();
        NO_PARTS.set(true);
        assert!(PerCpu::try_with_limit(1, || Some(Word::default())).is_none());
        // From each processor, so from one at least where the owner is not.
        for cpu in 0..words.cpus() {
            pin(0, cpu);
            assert_eq!(words.with(|ticket| ticket.add(|word| word, 1)), Ok(()));
        }
        NO_PARTS.set(false);
        drop(end);
    });
    assert_eq!((words.parts().count(), sum(&words)), (words.cpus(), words.cpus() as u64));
}

#[test]
fn a_spare_part_that_cannot_be_made_is_not_needed() {
    let cpus = PerCpu::<Word>::default().cpus() as u64;
    let made = AtomicU64::new(0);
    let words = PerCpu::try_with_limit(8, move || {
        (made.fetch_add(1, Ordering::Relaxed) < cpus).then(Word::default)
    });
    let words = words.unwrap();
    // All parts belong to another thread, which has them for good.
    let (owned, is_owned) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let words = &words;
        scope.spawn(move || {
            let tickets: Vec<_> =
                words.parts().map(|part| part.acquire(Steal::Force).unwrap()).collect();
            owned.send(()).unwrap();
            let _ = ended.recv();
            drop(tickets);
        });
        is_owned.recv().unwrap();
        assert_eq!(words.with(|ticket| ticket.add(|word| word, 1)), Ok(()));
        drop(end);
    });
    assert_eq!((words.parts().count() as u64, sum(&words)), (cpus, 1));
    assert!(PerCpu::<Word>::try_with_limit(1, || None).is_none());
}

const WORKERS: u64 = 6;
const ROUNDS: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

/// Takes what one part has; none of it may be lost, neither by the thread that had it nor by this
/// one. `early` is the mistake: it looks before the part is taken from its owner.
fn drain(words: &PerCpu<Word>, early: bool) -> Result<u64, Refused> {
    if !early {
        let empty = |ticket: &Ticket<'_, Word>| {
            let value = ticket.load(|word| word)?;
            ticket.store(|word| word, 0).map(|()| value)
        };
        // The store may have been made although its part was lost right after it: then the value
        // must count, so this does not leave it to `for_each` to try again.
        let mut all = 0;
        words.for_each(|ticket| {
            all += empty(ticket)?;
            Ok(())
        })?;
        return Ok(all);
    }
    words.parts().try_fold(0, |all, part| {
        let value = part.words().peek();
        // As long as it takes another thread to store once more.
        (0..200).for_each(|_| std::hint::spin_loop());
        let ticket = part.acquire(Steal::Force)?;
        Ok(all + ticket.store(|word| word, 0).map_or(0, |()| value))
    })
}

/// How many additions there were, and how many came out.
fn drained(rounds: u64, early: bool) -> (u64, u64) {
    let words: Arc<PerCpu<Word>> = Arc::default();
    let running = Arc::new(Running::default());
    let workers = (0..WORKERS).map(|_| {
        let words = Arc::clone(&words);
        Worker::spawn(move |steps| {
            for round in 0..rounds {
                if round % 64 == 0 {
                    steps.step();
                }
                // By a load and a store: a store that comes too late puts an old value back.
                let add = |ticket: &Ticket<'_, Word>| {
                    let value = ticket.load(|word| word)?;
                    ticket.store(|word| word, value + 1)
                };
                words.with(add).unwrap();
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let iterating = {
        let (words, running) = (Arc::clone(&words), Arc::clone(&running));
        thread::spawn(move || {
            let mut all = 0;
            while running.goes_on() {
                all += drain(&words, early).unwrap();
            }
            all
        })
    };
    disturb(workers);
    running.stop();
    let all = iterating.join().unwrap();
    (WORKERS * rounds, all + drain(&words, false).unwrap())
}

#[test]
fn iteration_from_elsewhere_loses_no_store_of_those_that_it_evicts() {
    let (added, out) = drained(ROUNDS, false);
    assert_eq!(added, out);
}

#[test]
fn iteration_that_looks_before_it_evicts_loses_some() {
    let start = std::time::Instant::now();
    while {
        let (added, out) = drained(ROUNDS / 10, true);
        added == out
    } {
        assert!(start.elapsed().as_secs() < 60, "nothing was lost: the test could not find it");
    }
}

#[test]
fn what_iteration_loads_from_a_part_belongs_together() {
    let pairs: Arc<PerCpu<Pair>> = Arc::default();
    let running = Arc::new(Running::default());
    let workers = (0..WORKERS).map(|_| {
        let (pairs, running) = (Arc::clone(&pairs), Arc::clone(&running));
        Worker::spawn(move |steps| {
            while running.goes_on() {
                steps.step();
                let add = |ticket: &Ticket<'_, Pair>| {
                    let value = ticket.load(|pair| &pair.done)?;
                    ticket.store(|pair| &pair.begun, value + 1)?;
                    ticket.store(|pair| &pair.done, value + 1)
                };
                pairs.with(add).unwrap();
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let reading = {
        let (pairs, running) = (Arc::clone(&pairs), Arc::clone(&running));
        thread::spawn(move || {
            let mut seen = 0;
            for round in 0..300 {
                let read = |ticket: &Ticket<'_, Pair>| {
                    // In the wrong order on purpose: others' stores between the two would show.
                    let begun = ticket.load(|pair| &pair.begun)?;
                    if round % 50 == 0 {
                        thread::yield_now();
                    }
                    Ok((begun, ticket.load(|pair| &pair.done)?))
                };
                for (begun, done) in pairs.for_each(read).unwrap() {
                    assert!(begun == done || begun == done + 1, "{begun} begun, {done} done");
                    seen += u64::from(begun > 0);
                }
            }
            running.stop();
            seen
        })
    };
    disturb(workers);
    assert!(reading.join().unwrap() > 30, "there was hardly anything to see");
}

#[test]
fn what_was_read_from_a_part_that_was_taken_meanwhile_is_read_again() {
    let words: PerCpu<Word> = PerCpu::default();
    let mut calls = 0;
    let parts = words.for_each(|ticket| {
        calls += 1;
        if calls == 1 {
            // After the last load: nobody else would notice.
            ticket.lock().cancel(Steal::Force).unwrap();
        }
        Ok(calls)
    });
    assert_eq!(parts.unwrap()[0], 2);
    assert_eq!(calls, words.cpus() + 1);
}

#[test]
fn a_child_of_a_fork_goes_on_with_all_parts() {
    let words: Arc<PerCpu<Word>> = Arc::default();
    let running = Arc::new(Running::default());
    let others = (0..3).map(|_| {
        let (words, running) = (Arc::clone(&words), Arc::clone(&running));
        thread::spawn(move || {
            while running.goes_on() {
                words.with(|ticket| ticket.add(|word| word, 1)).unwrap();
            }
        })
    });
    let others: Vec<_> = others.collect();
    for _ in 0..20 {
        let fine = in_a_child(|| {
            let before = sum(&words);
            words.with(|ticket| ticket.add(|word| word, 1)).unwrap();
            sum(&words) == before + 1
        });
        assert!(fine, "the child found something wrong");
    }
    running.stop();
    others.into_iter().for_each(|thread| thread.join().unwrap());
}
