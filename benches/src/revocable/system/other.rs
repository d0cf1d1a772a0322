//! Where nothing of this can be asked.

/// Nothing stands for a thread.
pub(crate) type Thread = ();

pub(crate) fn cpus() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

pub(crate) fn pin(_: usize) {}

pub(crate) fn switches() -> u64 {
    0
}

pub(crate) fn this_thread() -> Thread {}

pub(crate) fn is_asleep((): Thread) -> bool {
    true
}

pub(crate) fn membarrier() -> Option<()> {
    None
}

/// What interrupts found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampled {
    pub(crate) interrupts: u64,
    pub(crate) inside: u64,
}

pub(crate) fn sample((): Thread, _: u64) -> Option<Sampled> {
    None
}

/// There are no counters.
pub(crate) struct Counters;

impl Counters {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn of(&mut self, work: impl FnOnce()) -> f64 {
        work();
        f64::NAN
    }
}
