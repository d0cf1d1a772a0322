//! How many processors there can ever be.

use std::sync::OnceLock;

/// One more than the highest number that a processor of this machine can have. Processors that are
/// offline, or that this process may not use yet, are among them.
pub(crate) fn possible_cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        highest(&list).map_or_else(configured, |highest| highest + 1)
    })
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
