//! To whom a password may be sent, looked at when the connection is there and before anything is
//! said on it. Names and paths are not enough: while the server is down, another user of the
//! machine can take its port, and `localhost` is what the resolver says.
//!
//! | URL | a password is sent |
//! |---|---|
//! | `lockspans://` | to a server with a certificate for its name; looked at by TLS |
//! | `lockspan://` | if the socket is connected to a loopback address, or with `?insecure=yes` |
//! | `unix://` | if the server runs as root, as our user, or as the owner of the file: see below |
//! | `local:` | never; its service has to run as our own user in any case |
//!
//! The owner of a socket file counts if not everybody may write to its directory: in `/tmp` anybody
//! could have put it there.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lockspan_park::privilege;

use crate::error::ConnectError;

/// Variables that name the authorities for certificates, in the place of those of the system.
const AUTHORITIES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The user that this process acts as.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A password may be sent in the clear to this address, which `name` has led to.
pub(crate) fn check_address(name: &str, at: SocketAddr) -> Result<(), ConnectError> {
    // An address of IPv4 may be written as one of IPv6.
    if at.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let what = format!(
        "the password is not sent to {name}: its address is {}, which is not a loopback address, \
         and the connection is not encrypted. Use lockspans://, or ?insecure=yes if nobody can \
         read the traffic",
        at.ip()
    );
    Err(ConnectError::BadOption { what })
}

/// A password may be sent to a server of this user, who listens on this socket file.
pub(crate) fn check_server(socket: &Path, server: u32) -> Result<(), ConnectError> {
    let own = own_user();
    if server == own || server == 0 {
        return Ok(());
    }
    let refused = |why: String| {
        let socket = socket.display();
        let what = format!(
            "the password is not sent to {socket}: the server there runs as user {server}, and \
             this process as user {own}; {why}"
        );
        Err(ConnectError::BadOption { what })
    };
    let looked = fs::symlink_metadata(socket).and_then(|found| {
        let dir = fs::metadata(socket.parent().unwrap_or_else(|| Path::new("/")))?;
        io::Result::Ok((found.uid(), dir.mode()))
    });
    match looked {
        Ok((owner, _)) if owner != server => {
            refused(format!("the socket file belongs to user {owner}"))
        }
        Ok((_, mode)) if mode & 0o002 != 0 => refused(
            "every user may write to the directory of the socket, so any user could have created \
             it. Let the server listen in a directory that only its user can write to"
                .to_owned(),
        ),
        Ok(_) => Ok(()),
        Err(why) => refused(format!("the socket can't be examined: {why}")),
    }
}

/// The authorities of the system are believed, but not those that somebody else has named: in a
/// setuid program that is whoever started it. To be called before TLS without authorities of one's
/// own.
pub fn check_authorities() -> Result<(), ConnectError> {
    let is_set = |name: &&str| std::env::var_os(name).is_some();
    match AUTHORITIES.iter().find(|name| privilege::is_privileged() && is_set(name)) {
        None => Ok(()),
        Some(name) => Err(ConnectError::BadOption {
            what: format!(
                "this program is setuid, setgid or has capabilities, and does not trust {name}: \
                 unset it, or let the program set its certificate authorities (ca)"
            ),
        }),
    }
}

/// Says which of these files, each with a secret, everybody may read.
pub(crate) fn warn_of_readers<const N: usize>(files: [Option<&Path>; N]) {
    for path in files.into_iter().flatten() {
        let mode = fs::metadata(path).map_or(0, |found| found.mode());
        if mode & 0o004 != 0 {
            tracing::warn!(
                "every user of this machine may read {0}; run: chmod o-r {0}",
                path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn service_f110_a_password_goes_in_the_clear_to_a_loopback_address_alone() {
        for (at, is_good) in [
            ("127.0.0.1:7420", true),
            ("127.9.9.9:7420", true),
            ("[::1]:7420", true),
            ("[::ffff:127.0.0.1]:7420", true),
            ("10.99.0.1:7420", false),
            ("[::ffff:10.99.0.1]:7420", false),
            ("[fe80::1]:7420", false),
        ] {
            let checked = check_address("localhost:7420", at.parse().unwrap());
            assert_eq!(checked.is_ok(), is_good, "{at}");
        }
        let why = check_address("localhost:7420", "10.99.0.1:7420".parse().unwrap());
        let why = why.unwrap_err().to_string();
        assert!(why.contains("not sent to localhost:7420: its address is 10.99.0.1"), "{why}");
    }

    #[test]
    fn service_f111_a_password_goes_to_a_server_that_may_have_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        fs::write(&socket, "").unwrap();
        let own = own_user();
        let other = own + 1;
        assert!(check_server(&socket, own).is_ok() && check_server(&socket, 0).is_ok());
        let why = check_server(&socket, other).unwrap_err().to_string();
        assert!(why.contains(&format!("the socket file belongs to user {own}")), "{why}");
        // Only root can make a file of somebody else; `cargo xtask test users` has more.
        if own == 0 {
            chown(&socket, Some(other), None).unwrap();
            for (mode, is_good) in [(0o755, true), (0o1777, false), (0o777, false)] {
                fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
                assert_eq!(check_server(&socket, other).is_ok(), is_good, "{mode:o}");
            }
        }
        let gone = check_server(&dir.path().join("gone"), other).unwrap_err().to_string();
        assert!(gone.contains("can't be examined"), "{gone}");
    }

    #[test]
    fn the_environment_of_an_ordinary_program_names_its_authorities() {
        assert!(check_authorities().is_ok());
    }
}
