//! The machine: memory, two processors with store buffers, threads on and off them.

use super::program::{self, Step, Thread};
use super::{Means, Program};

pub(super) const THREADS: usize = 3;
pub(super) const CPUS: usize = 2;

/// A place in memory. The arrays have a place for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Owner,
    Origin,
    Word,
    Era(usize),
    Settled(usize),
    Floor(usize),
    Flag(usize),
}

impl Place {
    const COUNT: usize = 3 + 4 * THREADS;

    fn index(self) -> usize {
        match self {
            Self::Owner => 0,
            Self::Word => 1,
            Self::Origin => 2,
            Self::Era(thread) => 3 + thread,
            Self::Settled(thread) => 3 + THREADS + thread,
            Self::Floor(thread) => 3 + 2 * THREADS + thread,
            Self::Flag(thread) => 3 + 3 * THREADS + thread,
        }
    }
}

/// What a processor has stored and others do not see yet, the oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Buffer {
    stores: [Option<(Place, u8)>; BUFFER],
}

/// How many stores a buffer holds.
const BUFFER: usize = 6;

/// All that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    memory: [u8; Place::COUNT],
    buffers: [Buffer; CPUS],
    /// Who is on each processor.
    on: [Option<u8>; CPUS],
    pub(super) threads: [Thread; THREADS],
    /// To whom a signal was sent that has not come yet.
    pub(super) pending: [bool; THREADS],
    /// How often a thread may still be taken off.
    moves: u8,
    /// How many stores were said to have happened.
    pub(super) stored: u8,
    /// How much a thread that empties the word has taken out.
    pub(super) drained: u8,
    /// Not of the machine: the owners of each thread whose cancel has returned, a bit for each
    /// number, and what has happened that must not.
    pub(super) cancelled: [u8; THREADS],
    pub(super) wrong: Option<Wrong>,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wrong {
    /// An owner has stored although its cancel had returned.
    StoredAfterCancel,
    /// An owner was told that it still owns the lock although its cancel had returned.
    OwnsAfterCancel,
    /// A cancel has taken the lock from another owner than it was given.
    HitAnother,
}

impl State {
    pub(super) fn new(program: Program) -> Self {
        Self {
            memory: [0; Place::COUNT],
            buffers: [Buffer::default(); CPUS],
            on: [Some(0), Some(1)],
            threads: std::array::from_fn(|at| Thread::new(program.adds[at], program.roles[at])),
            pending: [false; THREADS],
            moves: program.moves,
            stored: 0,
            drained: 0,
            cancelled: [0; THREADS],
            wrong: None,
        }
    }

    /// What a processor reads: its own latest store, or memory.
    pub(super) fn load(&self, cpu: usize, place: Place) -> u8 {
        let mut mine = self.buffers[cpu].stores.iter().flatten().rev();
        let mine = mine.find(|(at, _)| *at == place);
        mine.map_or_else(|| self.memory[place.index()], |(_, value)| *value)
    }

    pub(super) fn store(&mut self, cpu: usize, place: Place, value: u8) {
        let free = self.buffers[cpu].stores.iter_mut().find(|store| store.is_none());
        *free.expect("a step is only taken if there is room") = Some((place, value));
    }

    /// Whether there is room for the three stores that a step makes at most.
    pub(super) fn has_room(&self, cpu: usize) -> bool {
        self.buffers[cpu].stores[BUFFER - 3].is_none()
    }

    /// Whether an atomic read-modify-write or a barrier can go ahead.
    pub(super) fn is_drained(&self, cpu: usize) -> bool {
        self.buffers[cpu].stores[0].is_none()
    }

    /// An atomic exchange; the buffer is empty.
    pub(super) fn exchange(&mut self, place: Place, seen: u8, new: u8) -> bool {
        let found = self.memory[place.index()] == seen;
        if found {
            self.memory[place.index()] = new;
        }
        found
    }

    /// The part of a barrier that runs on one processor; it can, once the buffer there is empty.
    pub(super) fn interrupt(&mut self, cpu: usize, aborts: bool) {
        let Some(thread) = self.on[cpu] else { return };
        if aborts {
            self.threads[usize::from(thread)].abort();
        }
        self.deliver(usize::from(thread));
    }

    /// A signal comes, if one was sent: before the thread's next step.
    fn deliver(&mut self, thread: usize) {
        if std::mem::take(&mut self.pending[thread]) {
            self.threads[thread].abort();
        }
    }

    /// Calls `found` with each state that may come next.
    pub(super) fn successors(&self, program: Program, mut found: impl FnMut(Self)) {
        for cpu in 0..CPUS {
            if let Some((place, value)) = self.buffers[cpu].stores[0] {
                let mut next = *self;
                next.memory[place.index()] = value;
                next.buffers[cpu].stores[0] = None;
                next.buffers[cpu].stores.rotate_left(1);
                found(next);
            }
            match self.on[cpu] {
                Some(thread) => self.with_thread(program, cpu, usize::from(thread), &mut found),
                None => self.without_thread(cpu, &mut found),
            }
        }
    }

    fn with_thread(
        &self,
        program: Program,
        cpu: usize,
        thread: usize,
        found: &mut impl FnMut(Self),
    ) {
        let mut next = *self;
        match program::step(&mut next, program, cpu, thread) {
            Step::Done => found(next),
            Step::Waits => {}
            Step::Ends => {
                next.on[cpu] = None;
                found(next);
            }
        }
        // A signal may take its time to come to a thread that runs.
        if self.pending[thread] {
            let mut next = *self;
            next.deliver(thread);
            found(next);
        }
        // A thread that has ended is no longer on a processor, so it is not taken off.
        if self.moves > 0 && self.is_drained(cpu) {
            let mut next = *self;
            next.moves -= 1;
            next.on[cpu] = None;
            if program.means == Means::Sections {
                next.threads[thread].abort();
            }
            found(next);
        }
    }

    fn without_thread(&self, cpu: usize, found: &mut impl FnMut(Self)) {
        for thread in 0..THREADS as u8 {
            if !self.on.contains(&Some(thread)) && !self.threads[usize::from(thread)].has_ended() {
                let mut next = *self;
                next.on[cpu] = Some(thread);
                next.deliver(usize::from(thread));
                found(next);
            }
        }
    }

    /// Nothing more can happen: all is as it was said to be.
    ///
    /// # Panics
    /// If that is because somebody waits.
    pub(super) fn check_end(&self) -> Result<(), String> {
        assert!(self.threads.iter().all(Thread::has_ended), "stuck: {self:?}");
        let sum = self.memory[Place::Word.index()] + self.drained;
        if sum == self.stored { Ok(()) } else { Err(format!("{sum}, not {}", self.stored)) }
    }
}
