//! Services of versions that had other places for `local:`, which hung on a variable. One that
//! still runs would grant what ours grants too, so it is found and refused.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use lockspan_park::privilege;

use super::{error, place, process};
use crate::error::ConnectError;
use crate::trust::own_user;

/// Fails if such a service of this user runs.
pub fn refuse() -> Result<(), ConnectError> {
    let user = own_user();
    let runtime = privilege::variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|dir| dir.is_absolute()).map(|dir| dir.join("lockspan"));
    let places = [
        Some(PathBuf::from(format!("/tmp/lockspan-{user}"))),
        Some(PathBuf::from(format!("/run/user/{user}/lockspan"))),
        runtime,
    ];
    // Tests leave the services of the person who runs them alone.
    let skip = if place::test_passwd().is_some() { 2 } else { 0 };
    for folder in places.into_iter().flatten().skip(skip) {
        // What somebody else has put there is none of ours.
        if !fs::symlink_metadata(&folder).is_ok_and(|found| found.uid() == user) {
            continue;
        }
        let socket = folder.join("lock.sock");
        if let Some(process) = process(&socket) {
            return Err(error(format!(
                "an older version of lockspan is still running as this user's service: {process}, \
                 at {}. Two services would grant the same lock twice. Replace the old binary, and \
                 stop that process or wait: it exits a minute after its last use",
                socket.display()
            )));
        }
    }
    Ok(())
}
