//! How much of the machine's CPU time other processes take, from `/proc`.
//!
//! What this process and all its descendants use is ours. The rest of the time that the processors
//! spend on programs is the others', and so is the time that a hypervisor gives to other machines.
//! Time in interrupts is left out: the network traffic of a comparison over the loopback interface
//! is accounted there.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Above this share of the machine's CPU time taken by others, a run is not recorded.
pub(crate) const LIMIT: f64 = 0.05;

/// CPU time so far, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    /// Of all processors, idle time too.
    all: u64,
    /// Spent on programs, or stolen by the hypervisor.
    busy: u64,
    /// Of this process and its descendants.
    own: u64,
}

/// Watches the CPU time that other processes take.
pub(crate) struct Load {
    since: Instant,
    before: Option<Times>,
}

impl Load {
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), before: times() }
    }

    /// Watches for a time in which this process does nothing.
    pub(crate) fn watch(time: Duration) -> f64 {
        let load = Self::start();
        std::thread::sleep(time);
        load.others()
    }

    /// The share of the machine's CPU time that others took since the start; NaN if unknown.
    pub(crate) fn others(&self) -> f64 {
        match (self.before, times()) {
            (Some(before), Some(after)) => share(before, after),
            _ => f64::NAN,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}

fn share(before: Times, after: Times) -> f64 {
    let own = after.own.saturating_sub(before.own);
    let others = after.busy.saturating_sub(before.busy).saturating_sub(own);
    others as f64 / after.all.saturating_sub(before.all).max(1) as f64
}

fn times() -> Option<Times> {
    let (all, busy) = machine_times(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(Times { all, busy, own: own_time(&processes(), std::process::id()) })
}

/// From `/proc/stat`: all CPU time, and that spent on programs or stolen.
fn machine_times(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> = stat.lines().next()?.split_whitespace().flat_map(str::parse).collect();
    // The guest fields after these repeat `user`.
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    let busy = user + nice + system + steal;
    Some((busy + idle + iowait + irq + softirq, busy))
}

/// A process of the system.
#[derive(Debug, PartialEq)]
struct Process {
    parent: u32,
    /// CPU time of its threads and of the children that it has waited for.
    time: u64,
}

fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A process that has ended meanwhile has no file any more.
    ids.filter_map(|id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some((id, process(&stat)?))
    })
    .collect()
}

/// From `/proc/<id>/stat`, whose second field is the program's name in parentheses.
fn process(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // utime, stime, cutime and cstime are fields 14 to 17.
    let times = fields.get(11..15)?.iter().map(|time| time.parse::<u64>());
    Some(Process { parent: fields.get(1)?.parse().ok()?, time: times.sum::<Result<_, _>>().ok()? })
}

/// The CPU time of a process and of all its descendants.
fn own_time(processes: &BTreeMap<u32, Process>, root: u32) -> u64 {
    let is_ours = |mut id: u32| {
        // A bound, in case the files were read while process ids were used again.
        for _ in 0..processes.len() {
            match processes.get(&id) {
                _ if id == root => return true,
                Some(process) => id = process.parent,
                None => return false,
            }
        }
        false
    };
    processes.iter().filter(|(id, _)| is_ours(**id)).map(|(_, process)| process.time).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn interrupts_are_left_out_and_stolen_time_counts_as_the_others() {
        let stat = "cpu  10 1 20 300 40 5 6 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine_times(stat), Some((389, 38)));
        let before = Times { all: 0, busy: 0, own: 0 };
        assert_eq!(share(before, Times { all: 200, busy: 50, own: 40 }), 0.05);
        assert_eq!(share(before, Times { all: 200, busy: 39, own: 40 }), 0.0);
    }

    #[test]
    fn descendants_are_ours_and_the_parent_is_not() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4 9 9 0 0 11 12 13 14 20 0 1 0";
        assert_eq!(process(stat), Some(Process { parent: 3, time: 50 }));
        let tree = [(1, 0, 1), (3, 1, 10), (7, 3, 100), (8, 7, 1_000), (9, 1, 10_000)];
        let process = |(id, parent, time)| (id, Process { parent, time });
        assert_eq!(own_time(&tree.map(process).into(), 3), 1_110);
    }

    #[test]
    fn the_work_of_a_child_is_ours() {
        let own = || own_time(&processes(), std::process::id());
        let before = own();
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        // A tick is a hundredth of a second.
        assert!(own() >= before + 5, "{before} {}", own());
    }
}
