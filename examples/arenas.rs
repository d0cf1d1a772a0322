//! A memory allocator with an arena for each processor, as jemalloc has, in four versions:
//!
//! 1. each arena behind a mutex;
//! 2. arenas as values of a `percpu::Slot`;
//! 3. free lists in a `percpu::Stack`;
//! 4. free lists as words of a `revocable::PerCpu`: the next thread on a processor takes the arena
//!    from a thread that was preempted in the middle of a change.
//!
//! Run: `cargo run -p lockspan-examples --bin arenas`, and for numbers
//! `cargo run --release -p lockspan-examples --bin arenas measure`.
//!
//! You will see that no block is lost and no block is allocated twice, although threads outnumber
//! processors and a block is often freed on another processor than it was allocated on. The
//! numbers are operations (a block allocated or freed) per second; the last column is the ratio to
//! the mutex.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lockspan::thread::percpu::{Slot, Stack};
use lockspan::thread::revocable::{PerCpu, Revoked, Ticket, Word};

/// Blocks of 16, 32, 64 and 128 bytes.
const CLASSES: usize = 4;
/// How many blocks move at once between an arena and the shared list.
const BATCH: usize = 32;
/// The most free blocks that an arena keeps of a class.
const KEPT: usize = 256;
/// The most blocks that a thread has allocated at a time.
const LIVE: usize = 48;
/// More than all threads and arenas can have.
const BLOCKS: usize = 1 << 16;

/// A block is a number; this example has no real memory behind it.
type Block = u64;

trait Heap: Sync {
    fn take(&self, class: usize) -> Block;
    fn give(&self, class: usize, block: Block);
    /// All blocks that are not allocated.
    fn free(&self) -> Vec<Block>;
}

/// The list that all arenas share: they take blocks from it and return blocks to it in batches.
#[derive(Debug, Default)]
struct Shared {
    spare: Mutex<[Vec<Block>; CLASSES]>,
    carved: AtomicUsize,
}

impl Shared {
    fn refill(&self, class: usize) -> Vec<Block> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = &mut spare[class];
        if spare.len() < BATCH {
            let first = self.carved.fetch_add(BATCH, Ordering::Relaxed);
            assert!(first + BATCH <= BLOCKS, "there are enough blocks for all threads");
            spare.extend((first..first + BATCH).map(|block| block as Block));
        }
        spare.split_off(spare.len() - BATCH)
    }

    fn take_back(&self, class: usize, blocks: Vec<Block>) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)[class].extend(blocks);
    }

    fn free(&self) -> Vec<Block> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).concat()
    }
}

/// The free lists of one arena, for a thread with exclusive access to it.
#[derive(Debug, Default)]
struct Arena([Vec<Block>; CLASSES]);

impl Arena {
    fn take(&mut self, class: usize, shared: &Shared) -> Block {
        let free = &mut self.0[class];
        if free.is_empty() {
            *free = shared.refill(class);
        }
        free.pop().expect("it was just filled")
    }

    fn give(&mut self, class: usize, block: Block, shared: &Shared) {
        let free = &mut self.0[class];
        if free.len() == KEPT {
            shared.take_back(class, free.split_off(KEPT / 2));
        }
        free.push(block);
    }
}

/// A mutex for each arena. Threads get arenas in turn, and each thread keeps its arena.
struct Mutexes {
    arenas: Vec<Mutex<Arena>>,
    shared: Shared,
}

impl Mutexes {
    fn new() -> Self {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let arenas = (0..count).map(|_| Mutex::default()).collect();
        Self { arenas, shared: Shared::default() }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Arena) -> R) -> R {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        let arena = &self.arenas[MINE.with(|mine| *mine) % self.arenas.len()];
        work(&mut arena.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Heap for Mutexes {
    fn take(&self, class: usize) -> Block {
        self.with(|arena| arena.take(class, &self.shared))
    }

    fn give(&self, class: usize, block: Block) {
        self.with(|arena| arena.give(class, block, &self.shared));
    }

    fn free(&self) -> Vec<Block> {
        let mut all = self.shared.free();
        for arena in &self.arenas {
            all.extend(arena.lock().unwrap_or_else(PoisonError::into_inner).0.concat());
        }
        all
    }
}

/// An arena for each processor, and a spare one where a thread was preempted while using it.
struct Slots {
    arenas: Slot<Arena>,
    shared: Shared,
}

impl Heap for Slots {
    fn take(&self, class: usize) -> Block {
        self.arenas.with(|arena| arena.take(class, &self.shared))
    }

    fn give(&self, class: usize, block: Block) {
        self.arenas.with(|arena| arena.give(class, block, &self.shared));
    }

    fn free(&self) -> Vec<Block> {
        let mut all = self.shared.free();
        self.arenas.for_each(|arena| all.extend(arena.0.concat()));
        all
    }
}

/// Free lists for each processor, without any lock.
struct Stacks {
    free: [Stack<Block>; CLASSES],
    shared: Shared,
}

impl Heap for Stacks {
    fn take(&self, class: usize) -> Block {
        let free = &self.free[class];
        free.pop().unwrap_or_else(|| {
            let mut blocks = self.shared.refill(class);
            let block = blocks.pop().expect("a batch is not empty");
            free.push_many(&mut blocks);
            // Another thread may have filled the list meanwhile.
            self.shared.take_back(class, blocks);
            block
        })
    }

    fn give(&self, class: usize, block: Block) {
        let free = &self.free[class];
        if let Err(block) = free.push(block) {
            let mut blocks = vec![block];
            free.pop_many(KEPT / 2, &mut blocks);
            self.shared.take_back(class, blocks);
        }
    }

    fn free(&self) -> Vec<Block> {
        let mut all = self.shared.free();
        all.extend(self.free.iter().flat_map(Stack::drain_all));
        all
    }
}

/// The free lists of an arena that can be taken from its owner at any time. The length of a list
/// decides which blocks belong to it, and the store to the length is the last one of each change.
#[derive(Debug)]
struct Lists {
    lengths: [Word; CLASSES],
    blocks: [[Word; KEPT]; CLASSES],
}

impl Default for Lists {
    fn default() -> Self {
        let blocks = std::array::from_fn(|_| std::array::from_fn(|_| Word::new(0)));
        Self { lengths: Default::default(), blocks }
    }
}

impl Lists {
    fn pop(ticket: &Ticket<'_, Self>, class: usize) -> Result<Option<Block>, Revoked> {
        let length = ticket.load(|lists| &lists.lengths[class])?;
        let Some(last) = length.checked_sub(1) else { return Ok(None) };
        let block = ticket.load(|lists| &lists.blocks[class][last as usize])?;
        ticket.store(|lists| &lists.lengths[class], last)?;
        Ok(Some(block))
    }

    /// Returns whether there was room.
    fn push(ticket: &Ticket<'_, Self>, class: usize, block: Block) -> Result<bool, Revoked> {
        let length = ticket.load(|lists| &lists.lengths[class])?;
        if length == KEPT as u64 {
            return Ok(false);
        }
        ticket.store(|lists| &lists.blocks[class][length as usize], block)?;
        ticket.store(|lists| &lists.lengths[class], length + 1)?;
        Ok(true)
    }
}

/// Free lists for each processor, which can be taken from threads that were preempted.
struct Evictable {
    lists: PerCpu<Lists>,
    shared: Shared,
}

impl Evictable {
    fn pop(&self, class: usize) -> Option<Block> {
        self.lists.with(|ticket| Lists::pop(ticket, class)).expect("a thread that goes on can own")
    }

    fn push(&self, class: usize, block: Block) -> bool {
        let push = |ticket: &Ticket<'_, Lists>| Lists::push(ticket, class, block);
        self.lists.with(push).expect("a thread that goes on can own")
    }
}

impl Heap for Evictable {
    fn take(&self, class: usize) -> Block {
        self.pop(class).unwrap_or_else(|| {
            let mut blocks = self.shared.refill(class);
            let block = blocks.pop().expect("a batch is not empty");
            blocks.retain(|block| !self.push(class, *block));
            self.shared.take_back(class, blocks);
            block
        })
    }

    fn give(&self, class: usize, block: Block) {
        if !self.push(class, block) {
            let mut blocks = vec![block];
            blocks.extend((0..KEPT / 2).map_while(|_| self.pop(class)));
            self.shared.take_back(class, blocks);
        }
    }

    fn free(&self) -> Vec<Block> {
        let mut all = self.shared.free();
        let read = |ticket: &Ticket<'_, Lists>| {
            let mut blocks = Vec::new();
            for class in 0..CLASSES {
                for at in 0..ticket.load(|lists| &lists.lengths[class])? as usize {
                    blocks.push(ticket.load(|lists| &lists.blocks[class][at])?);
                }
            }
            Ok(blocks)
        };
        // Each arena is taken from its owner, whichever processor this thread runs on.
        let arenas = self.lists.for_each(read).expect("a thread that goes on can own");
        all.extend(arenas.into_iter().flatten());
        all
    }
}

/// One thread: allocates and frees until `stop` says so. Returns the number of operations.
fn work(
    heap: &dyn Heap,
    seed: u64,
    taken: Option<&[AtomicBool]>,
    stop: impl Fn(u64) -> bool,
) -> u64 {
    let mark = |block: Block, is_taken: bool| {
        if let Some(taken) = taken {
            let was = taken[block as usize].swap(is_taken, Ordering::Relaxed);
            assert_ne!(was, is_taken, "block {block} was allocated twice");
        }
    };
    let (mut random, mut live, mut done) = (seed, Vec::with_capacity(LIVE), 0);
    while !stop(done) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = (random >> 40) as usize;
        if live.is_empty() || live.len() < LIVE && number & 64 == 0 {
            let class = number % CLASSES;
            let block = heap.take(class);
            mark(block, true);
            live.push((class, block));
        } else {
            let (class, block) = live.swap_remove(number % live.len());
            mark(block, false);
            heap.give(class, block);
        }
        done += 1;
    }
    for (class, block) in live {
        mark(block, false);
        heap.give(class, block);
    }
    done
}

fn check(name: &str, heap: &dyn Heap, carved: impl Fn() -> usize) {
    let taken: Vec<_> = (0..BLOCKS).map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        for seed in 0..8 {
            let taken = &taken;
            scope.spawn(move || work(heap, seed, Some(taken), |done| done == 20_000));
        }
    });
    let mut free = heap.free();
    free.sort_unstable();
    free.dedup();
    let verdict = if free.len() == carved() { "none was lost" } else { "some were LOST" };
    println!("{name}: no block was allocated twice, {verdict}");
}

/// Operations per second, the best of some short runs.
fn measure(heap: &dyn Heap, threads: u64) -> f64 {
    const RUN: Duration = Duration::from_millis(150);
    let run = || {
        let begun = Instant::now();
        let late = |done: u64| done.is_multiple_of(1024) && begun.elapsed() >= RUN;
        let done: u64 = thread::scope(|scope| {
            let late = &late;
            let all: Vec<_> = (0..threads)
                .map(|seed| scope.spawn(move || work(heap, seed, None, late)))
                .collect();
            all.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
        });
        done as f64 / begun.elapsed().as_secs_f64()
    };
    (0..5).map(|_| run()).fold(0.0, f64::max)
}

fn main() {
    let mutexes = Mutexes::new();
    let slots = Slots { arenas: Slot::default(), shared: Shared::default() };
    let stacks = Stacks {
        free: std::array::from_fn(|_| Stack::with_capacity(KEPT)),
        shared: Shared::default(),
    };
    let evictable = Evictable { lists: PerCpu::default(), shared: Shared::default() };
    let heaps: [(&str, &dyn Heap, &Shared); 4] = [
        ("a mutex for each arena", &mutexes, &mutexes.shared),
        ("arenas in a percpu::Slot", &slots, &slots.shared),
        ("lists in percpu::Stacks", &stacks, &stacks.shared),
        ("lists in a revocable::PerCpu", &evictable, &evictable.shared),
    ];
    if std::env::args().nth(1).as_deref() != Some("measure") {
        for (name, heap, shared) in heaps {
            check(name, heap, || shared.carved.load(Ordering::Relaxed));
        }
        return;
    }
    println!("{}", lockspan::thread::percpu::backend());
    for threads in [1, 2, 16] {
        println!("{threads} threads");
        let mut base = None;
        for (name, heap, _) in heaps {
            let rate = measure(heap, threads);
            let ratio = rate / *base.get_or_insert(rate);
            println!("  {name:28} {:7.1} M operations/s  {ratio:5.2}", rate / 1e6);
        }
    }
}
