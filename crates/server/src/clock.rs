//! The clock of the leases: it also runs while the machine is suspended, and nobody sets it.

use lockspan_protocol::Tick;
use rustix::time::{ClockId, clock_gettime};

/// Now, on `CLOCK_BOOTTIME`.
pub(crate) fn now() -> Tick {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Tick(seconds * 1_000_000 + nanos / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let mut last = now();
        for _ in 0..1000 {
            let next = now();
            assert!(next >= last, "{next} is before {last}");
            last = next;
        }
    }
}
