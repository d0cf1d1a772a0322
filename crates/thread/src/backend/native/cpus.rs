//! How many processors there can ever be.

use lockspan_park::uncancelled;

use crate::sync::machine::{AtomicU32, Ordering};

/// One more than the highest number that a processor of this machine can have. Processors that are
/// offline, or that this process may not use yet, are among them.
pub(crate) fn possible_cpus() -> usize {
    /// 0 until it is known. Who comes too early finds it out again: to wait for another thread is
    /// to wait forever, if that was left behind by a fork.
    static CPUS: AtomicU32 = AtomicU32::new(0);
    match CPUS.load(Ordering::Relaxed) {
        0 => {
            let path = "/sys/devices/system/cpu/possible";
            // Reading a file is a cancellation point.
            let list = uncancelled(|| std::fs::read_to_string(path)).unwrap_or_default();
            let cpus = highest(&list).map_or_else(configured, |highest| highest + 1);
            CPUS.store(u32::try_from(cpus).unwrap_or(u32::MAX), Ordering::Relaxed);
            cpus
        }
        cpus => cpus as usize,
    }
}

/// The highest number in a list such as `0-3,8-11`.
fn highest(list: &str) -> Option<usize> {
    let ends = list.trim().split(',').map(|range| range.rsplit('-').next().unwrap_or(range));
    ends.map(|end| end.parse().ok()).collect::<Option<Vec<usize>>>()?.into_iter().max()
}

/// What the C library says, if the kernel's list cannot be read. Should it be too few, the threads
/// on the others share a region and a lock.
fn configured() -> usize {
    // SAFETY: a query without side effects.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(count).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_of_a_list_counts() {
        assert_eq!(highest("0\n"), Some(0));
        assert_eq!(highest("0-7\n"), Some(7));
        assert_eq!(highest("0,2-3,16-31"), Some(31));
        assert_eq!(highest(""), None);
        assert_eq!(highest("0-x"), None);
    }

    #[test]
    fn there_is_a_processor() {
        assert!(possible_cpus() >= 1);
        assert!(configured() >= 1);
    }
}
