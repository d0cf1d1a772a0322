//! What the machine can carry, and the limits that follow from it.
//!
//! | limit | share of the memory | each takes at most |
//! |---|---|---|
//! | records | a half | 1 KiB: a name of 512 bytes, its entry, [`CLAIMS_PER_RECORD`] claims |
//! | connections | an eighth | 64 KiB: the system's buffers, TLS, what was read of a command |
//! | what waits for clients | an eighth | |
//! | sessions | a 16th | 4 KiB |
//! | waiters of one record | a 64th | 1 KiB: the wait, its command, the owners that it names |
//!
//! The memory is what this process may have: that of the machine, or less if its cgroup (version 2
//! or 1) or `ulimit -v` says so. A limit is never above its default because of much memory; larger
//! ones have to be chosen. What is chosen holds, with a warning if it does not fit.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{CLAIMS_PER_RECORD, Config};
use crate::net::admission::BEYOND;

/// Descriptors that a server needs beside its connections: the data file and its successor, the
/// lock files, listeners, the system's queues of events, the log, and some to spare.
const OWN_DESCRIPTORS: usize = 64;

/// The least that follows from a small machine: with less a server is of no use.
const LEAST: usize = 16;

/// What this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of memory, if the system says how many.
    pub memory: Option<u64>,
    /// What bounds the memory, in a word or two.
    pub memory_of: &'static str,
    /// Open files.
    pub descriptors: u64,
}

impl Machine {
    /// Raises this process's soft limit of descriptors to its hard one, then looks at what it may
    /// use.
    #[must_use]
    pub fn prepare() -> Self {
        let limit = getrlimit(Resource::Nofile);
        if limit.current != limit.maximum {
            // A sandbox may forbid it; then the soft limit is what there is.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        }
        Self::look(Path::new("/"))
    }

    /// What the files below `root` and the limits of this process say.
    fn look(root: &Path) -> Self {
        let address_space = getrlimit(Resource::As).current;
        let bounds = [
            (memory_of_machine(root), "memory"),
            (memory_of_cgroup(root), "memory of the cgroup"),
            (address_space, "ulimit -v"),
        ];
        let known = bounds.into_iter().filter_map(|(bytes, of)| Some((bytes?, of)));
        let least = known.min_by_key(|(bytes, _)| *bytes);
        Self {
            memory: least.map(|(bytes, _)| bytes),
            memory_of: least.map_or("memory", |(_, of)| of),
            descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        }
    }

    /// How many things of this size fit into a part of the memory.
    fn carries(&self, part: u64, each: u64) -> usize {
        let fit = self.memory.map_or(u64::MAX, |bytes| bytes / part / each);
        usize::try_from(fit).unwrap_or(usize::MAX).max(LEAST)
    }

    fn describe_memory(&self) -> String {
        self.memory.map_or_else(
            || "unknown".to_owned(),
            |bytes| format!("{}: {}", self.memory_of, Size(bytes)),
        )
    }
}

fn memory_of_machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The lowest limit of this process's cgroup and of those above it.
fn memory_of_cgroup(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    // number:controllers:path
    let groups = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    let mounts = groups.filter_map(|(controllers, path)| {
        let is_v1 = controllers.split(',').any(|name| name == "memory");
        match (controllers.is_empty(), is_v1) {
            (true, _) => Some((PathBuf::from("sys/fs/cgroup"), "memory.max", path)),
            (_, true) => {
                Some((PathBuf::from("sys/fs/cgroup/memory"), "memory.limit_in_bytes", path))
            }
            _ => None,
        }
    });
    let limits = mounts.flat_map(|(mount, file, path)| {
        let own = Path::new(path.trim_start_matches('/')).to_owned();
        // In a container the path may be that outside, and the container's own group the root.
        let all: Vec<_> = own.ancestors().map(|above| root.join(&mount).join(above)).collect();
        all.into_iter().filter_map(move |dir| fs::read_to_string(dir.join(file)).ok())
    });
    // "max" in version 2; version 1 says a number beyond all memories.
    limits.filter_map(|text| text.trim().parse::<u64>().ok()).min()
}

/// Bytes, as people say them.
#[derive(Clone, Copy, Debug)]
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let unit = units.into_iter().find(|(shift, _)| self.0 >> shift > 0);
        let Some((shift, unit)) = unit else { return write!(f, "{} bytes", self.0) };
        // One decimal, rounded down: never more than there is.
        let tenths = (u128::from(self.0) * 10) >> shift;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole} {unit}"),
            (whole, tenth) => write!(f, "{whole}.{tenth} {unit}"),
        }
    }
}

/// The limits of a server on a machine: [`Config::fit`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fitted {
    /// Each limit, and where it comes from.
    pub limits: Vec<String>,
    /// What was chosen and does not fit.
    pub warnings: Vec<String>,
}

impl fmt::Display for Fitted {
    /// One line with all limits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.limits.join(", "))
    }
}

impl Fitted {
    /// Settles a limit that has this value now, by choice or by default, and of which the memory
    /// carries so much.
    fn settle(
        &mut self,
        value: usize,
        (option, what): (&str, &str),
        carried: usize,
        is_chosen: bool,
        machine: &Machine,
    ) -> usize {
        let memory = machine.describe_memory();
        let (value, source) = match (is_chosen, value > carried) {
            (true, true) => {
                self.warnings.push(format!(
                    "{option} {value} may need more than the available memory ({memory}): about \
                     {carried} fit"
                ));
                (value, option.to_owned())
            }
            (true, false) => (value, option.to_owned()),
            (false, true) => (carried, memory),
            (false, false) => (value, "default".to_owned()),
        };
        self.limits.push(format!("{value} {what} ({source})"));
        value
    }
}

impl Config {
    /// [`Config::default`] with limits that fit this machine. Raises this process's soft limit of
    /// descriptors to its hard one.
    #[must_use]
    pub fn for_this_machine() -> Self {
        let mut config = Self::default();
        // Nothing was chosen, so nothing can be too much.
        config.fit(&Machine::prepare(), |_| false);
        config
    }

    /// Lowers limits to what the machine can carry, apart from those whose option was `chosen`; an
    /// option is named as in `lockspan serve`, such as `max-records`. The number of connections is
    /// lowered to what there are descriptors for in any case.
    ///
    /// What one user may have is a quarter of the whole, unless it was chosen.
    pub fn fit(&mut self, machine: &Machine, chosen: impl Fn(&str) -> bool) -> Fitted {
        let mut fitted = Fitted::default();
        self.fit_connections(machine, &chosen, &mut fitted);
        let limits = &mut self.protocol;
        let mut settle = |value: &mut usize, option, what, carried| {
            *value = fitted.settle(*value, (option, what), carried, chosen(option), machine);
        };
        let carried = machine.carries(16, 4 << 10);
        settle(&mut limits.sessions, "max-sessions", "sessions", carried);
        let carried = machine.carries(2, 1 << 10);
        settle(&mut limits.records, "max-records", "records", carried);
        limits.claims = limits.records.saturating_mul(CLAIMS_PER_RECORD);
        let carried = machine.carries(64, 1 << 10);
        settle(&mut limits.waiters_per_record, "max-waiters", "waiters per record", carried);
        // A single client may need this much.
        let carried = machine.carries(8, 1).max(self.outbox).max(self.wire.frame);
        let what = "bytes queued for clients";
        settle(&mut self.outboxes, "max-outboxes", what, carried);
        for (of_user, option, all) in [
            (&mut self.connections_per_user, "max-connections-per-user", self.connections),
            (&mut self.sessions_per_user, "max-sessions-per-user", limits.sessions),
            (&mut self.records_per_user, "max-records-per-user", limits.records),
            (&mut limits.waiters_per_user, "max-waiters-per-user", limits.waiters_per_record),
        ] {
            if !chosen(option) {
                *of_user = (all / 4).max(1);
            }
        }
        if self.users.is_some() {
            fitted.limits.push(format!(
                "per user {} connections, {} sessions, {} records, {} waiters per record",
                self.connections_per_user,
                self.sessions_per_user,
                self.records_per_user,
                limits.waiters_per_user
            ));
        }
        fitted
    }

    fn fit_connections(
        &mut self,
        machine: &Machine,
        chosen: &impl Fn(&str) -> bool,
        fitted: &mut Fitted,
    ) {
        let descriptors = machine.descriptors;
        let own = OWN_DESCRIPTORS + BEYOND + self.http.map_or(0, |_| crate::http::PLACES);
        let left = usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(own);
        let (option, what) = ("max-connections", "connections");
        let is_chosen = chosen(option);
        if self.connections <= left {
            let carried = machine.carries(8, 64 << 10);
            let settled =
                fitted.settle(self.connections, (option, what), carried, is_chosen, machine);
            self.connections = settled;
            return;
        }
        let carried = machine.carries(8, 64 << 10).min(left).max(LEAST);
        if is_chosen || left < LEAST {
            fitted.warnings.push(format!(
                "there are {descriptors} file descriptors (ulimit -n), and the server needs {own} \
                 of them for itself: {carried} connections are accepted instead of {}",
                self.connections
            ));
        }
        self.connections = carried;
        fitted.limits.push(format!("{carried} {what} (descriptors: {descriptors})"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Machine =
        Machine { memory: Some(64 << 30), memory_of: "memory", descriptors: 1 << 20 };

    fn fitted(machine: &Machine, chosen: &[&str], config: Config) -> (Config, Fitted) {
        let mut config = config;
        let fitted = config.fit(machine, |option| chosen.contains(&option));
        (config, fitted)
    }

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn a_machine_with_room_for_all_has_the_defaults() {
        let (config, fitted) = fitted(&ROOMY, &[], Config::default());
        let plain = Config::default();
        assert_eq!(format!("{config:?}"), format!("{plain:?}"));
        assert_eq!(fitted.warnings, [""; 0]);
        assert_eq!(
            fitted.to_string(),
            "10000 connections (default), 100000 sessions (default), 16000000 records (default), \
             100000 waiters per record (default), 268435456 bytes queued for clients (default)"
        );
    }

    #[test]
    fn service_f82_limits_fit_a_small_machine() {
        let small = Machine {
            memory: Some(1536 << 20),
            memory_of: "memory of the cgroup",
            descriptors: 1 << 20,
        };
        let (config, fitted) = fitted(&small, &[], Config::default());
        let limits = &config.protocol;
        assert_eq!((config.connections, limits.sessions), (3072, 24_576));
        assert_eq!((limits.records, limits.claims), (768 << 10, 4 * (768 << 10)));
        assert_eq!((limits.waiters_per_record, limits.waiters_per_user), (24_576, 6144));
        assert_eq!((config.connections_per_user, config.records_per_user), (768, 192 << 10));
        assert_eq!(config.outboxes, 192 << 20);
        let line = fitted.to_string();
        assert!(line.contains("786432 records (memory of the cgroup: 1.5 GiB)"), "{line}");
        // The worst that all of it can need is less than there is.
        let records = limits.records * 1024 + limits.sessions * 4096;
        let worst = records + config.connections * (64 << 10) + config.outboxes;
        assert!((worst as u64) < 1536 << 20, "{worst}");
    }

    #[test]
    fn what_is_chosen_holds_and_is_warned_of() {
        let small = Machine { memory: Some(1 << 30), ..ROOMY };
        let mut config = Config { records_per_user: 5, ..Config::default() };
        config.protocol.records = 16_000_000;
        let chosen = ["max-records", "max-records-per-user"];
        let (config, fitted) = fitted(&small, &chosen, config);
        assert_eq!((config.protocol.records, config.records_per_user), (16_000_000, 5));
        assert_eq!(config.protocol.claims, 64_000_000);
        assert_eq!(
            fitted.warnings,
            ["max-records 16000000 may need more than the available memory (memory: 1 GiB): \
                 about 524288 fit"]
        );
        assert!(fitted.to_string().contains("16000000 records (max-records)"), "{fitted}");
    }

    #[test]
    fn service_f81_connections_fit_the_descriptors() {
        let few = Machine { descriptors: 1024, ..ROOMY };
        let (config, fitted_) = fitted(&few, &[], Config::default());
        assert_eq!(config.connections, 1024 - OWN_DESCRIPTORS - BEYOND);
        assert_eq!(fitted_.limits[0], "896 connections (descriptors: 1024)");
        assert_eq!(fitted_.warnings, [""; 0]);
        let (_, fitted_) = fitted(&few, &["max-connections"], Config::default());
        assert_eq!(fitted_.warnings.len(), 1, "{fitted_:?}");
        let none = Machine { descriptors: 100, ..ROOMY };
        let (config, fitted_) = fitted(&none, &[], Config::default());
        assert_eq!((config.connections, fitted_.warnings.len()), (LEAST, 1));
        let unknown = Machine { memory: None, descriptors: u64::MAX, ..ROOMY };
        let (config, _) = fitted(&unknown, &[], Config::default());
        assert_eq!(config.connections, 10_000);
    }

    #[test]
    fn service_f82_the_limits_of_cgroups_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        put(root, "proc/meminfo", "MemTotal:       24684112 kB\nMemFree:  1 kB\n");
        assert_eq!(memory_of_machine(root), Some(24_684_112 * 1024));
        assert_eq!(memory_of_cgroup(root), None, "no cgroups");
        put(root, "proc/self/cgroup", "0::/system.slice/lockspan.service\n");
        assert_eq!(memory_of_cgroup(root), None, "no limits");
        let v2 = "sys/fs/cgroup/system.slice/lockspan.service/memory.max";
        put(root, v2, "max\n");
        assert_eq!(memory_of_cgroup(root), None);
        put(root, "sys/fs/cgroup/system.slice/memory.max", "8589934592\n");
        assert_eq!(memory_of_cgroup(root), Some(8 << 30), "that of the slice");
        put(root, v2, "1073741824\n");
        assert_eq!(memory_of_cgroup(root), Some(1 << 30));
        // A container sees its own group as the root, and its path outside.
        put(root, "proc/self/cgroup", "4:memory:/docker/0abc\n2:cpu,cpuacct:/\n0::/\n");
        put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        assert_eq!(memory_of_cgroup(root), Some(512 << 20));
        put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        put(root, "sys/fs/cgroup/memory/docker/0abc/memory.limit_in_bytes", "268435456\n");
        assert_eq!(memory_of_cgroup(root), Some(256 << 20));
        assert_eq!(Machine::look(root).memory, Some(256 << 20));
    }

    #[test]
    fn sizes_are_rounded_down() {
        for (bytes, text) in [
            (1536 << 20, "1.5 GiB"),
            (1 << 30, "1 GiB"),
            ((1 << 30) - 1, "1023.9 MiB"),
            (9, "9 bytes"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
