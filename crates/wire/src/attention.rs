//! When to keep looking for the next message instead of going to sleep.
//!
//! To be woken takes longer than all that a message needs besides, most of all in a virtual
//! machine, whose sleeping processor has to be woken by the host. So who has just heard many
//! messages in a row looks for the next one for a moment. Who hears one now and then sleeps at
//! once.
//!
//! Only the one thread of a runtime may do so. It lets all others have their turn first; but of
//! several threads it would wake the others all the time, since the runtime takes a task that
//! yields for work that somebody else might do.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{available_parallelism, yield_now};
use std::time::Duration;

use lockspan_protocol::Tick;

/// Messages are in a row if they are no further apart. It is also how long to look for the next.
const MOMENT: Duration = Duration::from_micros(200);

/// After so many in a row, another is expected.
const ROW: u32 = 16;

/// What one end of a connection, or of many, has heard lately.
///
/// It is about speed alone: if threads see each other late, somebody sleeps too early or too late.
#[derive(Debug, Default)]
pub struct Attention {
    last: AtomicU64,
    row: AtomicU32,
    looks: AtomicBool,
}

impl Attention {
    /// For a runtime with so many threads.
    #[must_use]
    pub fn of_threads(count: usize) -> Option<Self> {
        (count == 1).then(Self::default)
    }

    /// Something has been heard. True if it is time to begin to look for more.
    pub fn heard(&self, now: Tick) -> bool {
        let before = Tick(self.last.swap(now.0, Ordering::Relaxed));
        if now.since(before) >= MOMENT {
            self.row.store(0, Ordering::Relaxed);
            return false;
        }
        let row = self.row.load(Ordering::Relaxed);
        if row < ROW {
            self.row.store(row + 1, Ordering::Relaxed);
            return false;
        }
        !self.looks.swap(true, Ordering::Relaxed) && has_others()
    }

    /// Whether to go on looking. Once it is not, [`Attention::heard`] says when to begin again.
    /// Whoever else wants this processor has it first: they may be the ones that are waited for.
    pub fn goes_on(&self, now: Tick) -> bool {
        let goes_on = now.since(Tick(self.last.load(Ordering::Relaxed))) < MOMENT;
        if goes_on {
            yield_now();
        } else {
            self.looks.store(false, Ordering::Relaxed);
        }
        goes_on
    }
}

/// Whether there is another processor, for those who are to say something.
fn has_others() -> bool {
    static OTHERS: OnceLock<bool> = OnceLock::new();
    *OTHERS.get_or_init(|| available_parallelism().is_ok_and(|count| count.get() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_for_the_next_of_a_row_and_not_for_long() {
        let attention = Attention::of_threads(1).expect("one thread may look");
        let row = |from: u64| (0..).map(move |at| Tick(from + 100 * at)).take(ROW as usize + 1);
        assert!(!row(1_000).any(|now| attention.heard(now)), "not a row yet");
        let last = row(1_000).last().expect("there are some");
        assert!(!attention.heard(last + MOMENT), "too far apart");
        assert!(!row(100_000).any(|now| attention.heard(now)), "it counts from the start");
        let last = row(100_000).last().expect("there are some");
        assert_eq!(attention.heard(last), has_others());
        assert!(!attention.heard(last), "it looks already");
        assert!(attention.goes_on(last + MOMENT / 2));
        assert!(!attention.goes_on(last + MOMENT));
        assert_eq!(attention.heard(last), has_others(), "it begins again");
        assert!(Attention::of_threads(2).is_none());
    }
}
