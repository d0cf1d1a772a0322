//! Which of a session's last seqs were seen, so that a doubled acquire grants nothing twice.

use crate::ids::Seq;

/// The last 128 numbers, as bits below the highest that was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    highest: u64,
    /// Bit `i` stands for `highest - i`.
    seen: u128,
}

impl Window {
    const WIDTH: u64 = u128::BITS as u64;

    /// Whether `seq` is new: not seen, and not so far behind that nobody can tell.
    pub(super) fn is_new(&self, seq: Seq) -> bool {
        if seq.0 > self.highest {
            return true;
        }
        let behind = self.highest - seq.0;
        seq != Seq::NONE && behind < Self::WIDTH && self.seen & (1 << behind) == 0
    }

    /// `seq` has been seen.
    pub(super) fn mark(&mut self, seq: Seq) {
        if seq.0 > self.highest {
            let ahead = seq.0 - self.highest;
            self.seen = if ahead < Self::WIDTH { self.seen << ahead } else { 0 };
            self.highest = seq.0;
        }
        let behind = self.highest - seq.0;
        if behind < Self::WIDTH {
            self.seen |= 1 << behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let mut window = Window::default();
        assert!(!window.is_new(Seq::NONE), "before the first there is nothing to acquire");
        for seq in [1, 5, 3, 200, 199, 73] {
            assert!(window.is_new(Seq(seq)), "{seq} was not seen");
            window.mark(Seq(seq));
            assert!(!window.is_new(Seq(seq)), "{seq} was seen");
        }
        assert!(window.is_new(Seq(198)));
    }

    #[test]
    fn what_is_too_far_behind_is_not_new() {
        let mut window = Window::default();
        window.mark(Seq(1000));
        assert!(!window.is_new(Seq(872)));
        assert!(window.is_new(Seq(873)));
        window.mark(Seq(1));
        assert!(!window.is_new(Seq(1)));
        window.mark(Seq(u64::MAX));
        assert!(!window.is_new(Seq(1000)));
        assert!(window.is_new(Seq(u64::MAX - 1)));
    }
}
