//! Ends the process where a panic would leave a lock in pieces.

/// Aborts when it is dropped by a panic. There is user code in the middle of a hand-over: the
/// policy's clock. If that panics, others may still point to this thread's stack.
#[derive(Debug)]
pub(super) struct Bomb {
    message: &'static str,
}

impl Bomb {
    pub(super) fn new(message: &'static str) -> Self {
        Self { message }
    }

    pub(super) fn defuse(self) {
        core::mem::forget(self);
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        // A model's panic is its verdict, and is to reach the model.
        if !crate::sync::MODEL {
            lockspan_park::stop(format_args!("{}; the process ends here", self.message));
        }
    }
}
