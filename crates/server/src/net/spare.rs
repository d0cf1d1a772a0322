//! A descriptor that is kept to accept and refuse a connection with when there is no other left.
//!
//! Without it clients would wait in the system's line, without a word, for as long as the process
//! has none.

use std::fs::File;
use std::io;

use rustix::io::Errno;

/// The descriptor, if there is one.
#[derive(Debug, Default)]
pub(super) struct Spare(Option<File>);

impl Spare {
    /// Takes a descriptor, if none is kept and one can be had.
    pub(super) fn fill(&mut self) {
        if self.0.is_none() {
            self.0 = File::open("/dev/null").ok();
        }
    }

    /// Gives it free for whoever is first to take it; whether there was one.
    pub(super) fn free(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Whether the process, or the system, has no descriptor left.
pub(super) fn is_lacking(why: &io::Error) -> bool {
    matches!(Errno::from_io_error(why), Some(Errno::MFILE | Errno::NFILE))
}
