//! The forms of acquiring several records: with a time limit, without waiting, and for threads.

use std::time::Duration;

use super::{All, AllGuard};
use crate::error::LockError;
use crate::record::unless_late;

macro_rules! forms {
    ($($mode:literal $wait:ident $timeout:ident $try:ident
        $blocking:ident $blocking_timeout:ident $blocking_try:ident;)*) => {
        impl All {
            $(
            #[doc = concat!("[`All::", $mode, "`] that waits for at most `time`,")]
            /// for all records together.
            ///
            /// # Errors
            ///
            /// [`LockError::Timeout`] when the time is over; otherwise as [`All`] says.
            pub async fn $timeout(self, time: Duration) -> Result<AllGuard, LockError> {
                self.$wait().within(time).await
            }

            #[doc = concat!("[`All::", $mode, "`] that does not wait for holders: `None` if one")]
            /// of the records is in use. Fetches what other processes have cached and do not use,
            /// for at most [`Options::try_for`](crate::Options::try_for) for all of them together.
            ///
            /// # Errors
            ///
            /// As [`All`] says.
            pub async fn $try(self) -> Result<Option<AllGuard>, LockError> {
                let time = self.locks.handle().try_for;
                let acquire = self.$wait();
                if acquire.is_in_use_here()? {
                    return Ok(None);
                }
                unless_late(acquire.within(time).await)
            }

            #[doc = concat!("[`All::", $mode, "`] that blocks the thread.")]
            /// Do not call it in an async task.
            ///
            /// # Errors
            ///
            /// As [`All`] says.
            pub fn $blocking(self) -> Result<AllGuard, LockError> {
                self.$wait().block(None)
            }

            #[doc = concat!("[`All::", $mode, "_timeout`] that blocks the thread.")]
            /// Do not call it in an async task.
            ///
            /// # Errors
            ///
            /// [`LockError::Timeout`] when the time is over; otherwise as [`All`] says.
            pub fn $blocking_timeout(self, time: Duration) -> Result<AllGuard, LockError> {
                self.$wait().block(Some(time))
            }

            #[doc = concat!("[`All::try_", $mode, "`] that blocks the thread.")]
            /// Do not call it in an async task.
            ///
            /// # Errors
            ///
            /// As [`All`] says.
            pub fn $blocking_try(self) -> Result<Option<AllGuard>, LockError> {
                let time = self.locks.handle().try_for;
                let acquire = self.$wait();
                if acquire.is_in_use_here()? {
                    return Ok(None);
                }
                unless_late(acquire.block(Some(time)))
            }
            )*
        }
    };
}

forms! {
    "write" write write_timeout try_write
        blocking_write blocking_write_timeout blocking_try_write;
    "read" read read_timeout try_read
        blocking_read blocking_read_timeout blocking_try_read;
    "lock" lock lock_timeout try_lock
        blocking_lock blocking_lock_timeout blocking_try_lock;
}
