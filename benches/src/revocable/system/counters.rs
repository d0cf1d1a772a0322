//! The processor's counters of instructions and cycles, by `perf_event_open`.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};

/// The first version of the kernel's structure, which every kernel takes.
#[derive(Default)]
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;
const _: () = assert!(SIZE == 64, "the size of the first version");

const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
/// Reads the whole group at once.
const GROUP: u64 = 1 << 3;
/// Neither the kernel nor a hypervisor is counted.
const EXCLUDE: u64 = 1 << 5 | 1 << 6;

/// Counts what the thread that made it does, where there are such counters.
pub(crate) struct Counters {
    group: Option<(File, File)>,
}

impl Counters {
    pub(crate) fn new() -> Self {
        let group = open(CYCLES, -1).and_then(|cycles| {
            let instructions = open(INSTRUCTIONS, cycles.as_raw_fd())?;
            Some((cycles, instructions))
        });
        Self { group }
    }

    /// Cycles and instructions so far, if they are counted.
    fn read(&mut self) -> Option<[u64; 2]> {
        let (group, _) = self.group.as_mut()?;
        let mut bytes = [0; 24];
        group.read_exact(&mut bytes).ok()?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        Some([word(8), word(16)])
    }

    /// Instructions per cycle of `work`; not a number if they are not counted.
    pub(crate) fn of(&mut self, work: impl FnOnce()) -> f64 {
        let before = self.read();
        work();
        let (Some(before), Some(after)) = (before, self.read()) else { return f64::NAN };
        (after[1] - before[1]) as f64 / (after[0] - before[0]) as f64
    }
}

fn open(config: u64, group: RawFd) -> Option<File> {
    let attributes =
        Attributes { size: SIZE, config, read_format: GROUP, flags: EXCLUDE, ..Default::default() };
    let (this_thread, any_cpu, flags) = (0, -1, 0);
    // SAFETY: the structure is as long as it says, and the call only reads it.
    let file = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            group,
            flags,
        )
    };
    let file = RawFd::try_from(file).ok().filter(|file| *file >= 0)?;
    // SAFETY: a new descriptor, which nobody else has.
    Some(unsafe { File::from_raw_fd(file) })
}
