//! How spreads are shown.

use crate::clock;
use crate::stats::Spread;

/// The least of the rounds, and their median.
pub(crate) fn cycles(spread: Spread) -> String {
    format!("{:.2} / {:.2}", spread.low, spread.median)
}

/// The same as nanoseconds.
pub(crate) fn nanos(spread: Spread) -> String {
    let rate = clock::ticks_per_ns();
    format!("{:.2} / {:.2}", spread.low / rate, spread.median / rate)
}
