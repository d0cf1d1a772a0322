//! Processor time: what a step costs, however busy the machine is.
//!
//! Wall-clock seconds on a machine that others use say little. Linux counts the processor time of
//! each process in `/proc`; elsewhere these functions return `None`.

use std::fs;
use std::time::{Duration, Instant};

/// What a piece of work cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// Processor time of all programs that it started, where the system tells it. On a busy
    /// machine it says more than the wall-clock time.
    pub(crate) cpu: Option<Duration>,
}

impl Took {
    /// Runs `work` and says what it cost.
    pub(crate) fn of<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let (start, before) = (Instant::now(), of_children());
        let result = work();
        let after = of_children();
        let cpu = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        (result, Self { wall: start.elapsed(), cpu })
    }

    /// The two times in seconds, for a table.
    pub(crate) fn cells(self) -> [String; 2] {
        let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
        [seconds(self.wall), self.cpu.map_or(String::new(), seconds)]
    }
}

/// Clock ticks per second in `/proc/PID/stat`: a constant of Linux's interface on every platform
/// that Rust supports.
const TICKS_PER_SECOND: u32 = 100;

/// Processor time of the process with this id so far, without its children. A process that has
/// ended and has not been waited for still shows its total.
pub(crate) fn of_process(id: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(times(&stat)?.own)
}

/// Processor time of every child of this process that has been waited for, with the children that
/// they have waited for.
fn of_children() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    Some(times(&stat)?.children)
}

#[derive(Debug, PartialEq, Eq)]
struct Times {
    own: Duration,
    children: Duration,
}

/// The fields `utime`, `stime`, `cutime` and `cstime` of a `stat` file (14 to 17 in proc(5)).
fn times(stat: &str) -> Option<Times> {
    // The second field is the program's name in parentheses, which may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<u32> = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [user, system, child_user, child_system] = ticks[..] else { return None };
    let time = |user: u32, system: u32| {
        Duration::from_millis(u64::from(user) + u64::from(system)) * (1000 / TICKS_PER_SECOND)
    };
    Some(Times { own: time(user, system), children: time(child_user, child_system) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_times_are_read_behind_a_name_with_spaces_and_parentheses() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 1000 7 20 0";
        let expected =
            Times { own: Duration::from_secs(2), children: Duration::from_millis(10_070) };
        assert_eq!(times(stat), Some(expected));
        assert_eq!(times("7 (a) S 1"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_that_computes_is_counted() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        while of_process(child.id()).unwrap() < Duration::from_millis(50) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(of_children().unwrap() >= Duration::from_millis(50));
        assert_eq!(of_process(child.id()), None);
    }
}
