//! Whether the environment variables of this process can be trusted.
//!
//! A program that is setuid or setgid, or has file capabilities, runs with rights that the user who
//! starts it does not have, in an environment that this user has chosen. If it trusted a variable
//! that names a program, a directory or a certificate, the user could abuse those rights.

use std::env;
use std::ffi::OsString;

/// Whether this program runs with rights that whoever started it does not have.
#[must_use]
pub fn is_privileged() -> bool {
    imp::is_privileged()
}

/// A variable of the environment; none in a [privileged](is_privileged) program, as with
/// `secure_getenv` of the C library.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|_| !is_privileged())
}

#[cfg(all(target_os = "linux", not(miri)))]
mod imp {
    /// The kernel says so, and goes on saying so when the program has given its rights up.
    pub(super) fn is_privileged() -> bool {
        // SAFETY: it reads a number that the kernel gave this process; 0 if there is none.
        unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
    }
}

#[cfg(all(unix, not(any(target_os = "linux", miri))))]
mod imp {
    /// It acts as another user, or another group, than whoever started it.
    pub(super) fn is_privileged() -> bool {
        // SAFETY: it always succeeds, and changes nothing.
        let (user, acts_as) = (unsafe { libc::getuid() }, unsafe { libc::geteuid() });
        // SAFETY: it always succeeds, and changes nothing.
        let (group, acts_in) = (unsafe { libc::getgid() }, unsafe { libc::getegid() });
        (user, group) != (acts_as, acts_in)
    }
}

#[cfg(any(not(unix), miri))]
mod imp {
    pub(super) fn is_privileged() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_has_no_rights_of_its_own_believes_its_environment() {
        assert!(!is_privileged());
        assert_eq!(variable("PATH"), env::var_os("PATH"));
        assert_eq!(variable("LOCKSPAN_NO_SUCH_VARIABLE"), None);
    }
}
