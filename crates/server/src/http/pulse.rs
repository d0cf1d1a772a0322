//! Whether the runtime of the locks still runs. The page has a thread of its own, so that it
//! answers tells nothing about that: a task over there leaves a sign every second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the sign is left.
const EVERY: Duration = Duration::from_secs(1);

/// How long none may be left. Short standstills are common where processors are few.
const STILL: Duration = Duration::from_secs(10);

/// When the last sign was left. The clock does not run while the machine is suspended, which is no
/// standstill.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    /// In milliseconds since then.
    last: AtomicU64,
}

impl Pulse {
    /// Leaves signs by a task of the present runtime, for as long as what this returns is kept.
    pub(super) fn start() -> Arc<Self> {
        let pulse = Arc::new(Self { began: Instant::now(), last: AtomicU64::new(0) });
        tokio::spawn(beat(Arc::downgrade(&pulse)));
        pulse
    }

    /// An error if there was no sign for too long.
    pub(super) fn check(&self, now: Instant) -> Result<(), String> {
        let last = self.began + Duration::from_millis(self.last.load(Ordering::Relaxed));
        let still = now.saturating_duration_since(last);
        if still < STILL {
            return Ok(());
        }
        Err(format!(
            "the runtime that serves the locks has not responded for {} s",
            still.as_secs()
        ))
    }
}

async fn beat(pulse: Weak<Pulse>) {
    while let Some(pulse) = pulse.upgrade() {
        let now = u64::try_from(pulse.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        pulse.last.store(now, Ordering::Relaxed);
        drop(pulse);
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn service_f98_a_runtime_that_stands_still_is_noticed() {
        let pulse = Pulse::start();
        // Nothing else runs here until it is waited for, so there is no sign but the first.
        let after = |seconds| pulse.check(pulse.began + Duration::from_secs(seconds));
        assert_eq!(after(0), Ok(()));
        assert_eq!(after(9), Ok(()));
        let why = after(12).expect_err("no sign for 12 s");
        assert_eq!(why, "the runtime that serves the locks has not responded for 12 s");
        let sign = async {
            while pulse.last.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(EVERY / 100).await;
            }
        };
        tokio::time::timeout(20 * EVERY, sign).await.expect("a sign is left when it goes on");
    }
}
