//! The machine a run was made on, and how much of it others took meanwhile.

use std::fs;
use std::path::Path;
use std::process::Command;

/// CPU time so far in clock ticks: of the whole machine, idle time apart, and of this process.
#[derive(Clone, Copy)]
struct Times {
    all: u64,
    busy: u64,
    own: u64,
}

/// A watch over the CPU time that other processes take.
pub(crate) struct Load(Option<Times>);

impl Load {
    pub(crate) fn start() -> Self {
        Self(times())
    }

    /// The share of the machine's CPU time that others took since the start; `NaN` if unknown.
    pub(crate) fn foreign(&self) -> f64 {
        let (Some(before), Some(after)) = (self.0, times()) else {
            return f64::NAN;
        };
        let others = (after.busy - before.busy).saturating_sub(after.own - before.own);
        others as f64 / (after.all - before.all).max(1) as f64
    }
}

fn times() -> Option<Times> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> = stat.lines().next()?.split_whitespace().flat_map(str::parse).collect();
    // user nice system idle iowait irq softirq steal; the guest fields after them repeat user.
    let all: u64 = fields.iter().take(8).sum();
    let idle = fields.get(3)? + fields.get(4)?;
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    // Field 2 is the program's name in parentheses; utime and stime are fields 14 and 15.
    let own: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
    let own = own.get(11)?.parse::<u64>().ok()? + own.get(12)?.parse::<u64>().ok()?;
    Some(Times { all, busy: all - idle, own })
}

/// What `command` prints, or a note that it failed.
pub(crate) fn output(command: &str, args: &[&str]) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    match Command::new(command).args(args).current_dir(folder).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
        }
        _ => format!("({command} failed)"),
    }
}

/// The load averages of now.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim_end().to_owned()
}

/// The text of `machine.txt`.
pub(crate) fn describe(load_before: &str) -> String {
    let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        .unwrap_or_else(|_| "unknown".to_owned());
    format!(
        "kernel: {}\nload before: {load_before}\nload after: {}\ngovernor: {}\n\
         clock: {:.4} ticks/ns\n\n{}\n",
        output("uname", &["-sr"]),
        load(),
        governor.trim_end(),
        crate::clock::ticks_per_ns(),
        output("lscpu", &[]),
    )
}

/// `name version` of each package of the lock file whose name is one of `names`.
pub(crate) fn versions(names: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let text = root.and_then(|root| fs::read_to_string(root.join("Cargo.lock")).ok());
    let text = text.unwrap_or_default();
    let mut found = Vec::new();
    let mut name = None;
    for line in text.lines() {
        let value = |key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
        if let Some(value) = value("name = ") {
            name = names.contains(&value.as_str()).then_some(value);
        } else if let (Some(version), Some(name)) = (value("version = "), name.take()) {
            found.push(format!("{name} {version}"));
        }
    }
    found
}
