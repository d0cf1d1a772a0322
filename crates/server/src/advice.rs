//! What to do about an error of the system when a server can't start: each kind has its own advice.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::config::Address;
use crate::private::own_user;

/// The most bytes of the path of a socket that Linux takes.
const PATH: usize = 107;

/// Ports below this one are for the system's services.
const FIRST_FREE_PORT: u16 = 1024;

/// Why a server can't listen at this address, and what to do.
pub(crate) fn listening(address: &Address, why: &io::Error) -> String {
    match address {
        Address::Tcp(at) => match why.kind() {
            ErrorKind::PermissionDenied if (1..FIRST_FREE_PORT).contains(&at.port()) => format!(
                "can't listen on {at}: ports below {FIRST_FREE_PORT} need a privilege \
                 (CAP_NET_BIND_SERVICE). Choose a higher port, such as 7420"
            ),
            _ => tcp(at, why),
        },
        Address::Unix(path) => socket_file(path, why),
    }
}

/// The same for a TCP address, whatever it is for.
pub(crate) fn tcp(at: impl Display, why: &io::Error) -> String {
    match why.kind() {
        ErrorKind::AddrInUse => format!(
            "can't listen on {at}: another process listens there. Stop it, or choose another \
             address"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "can't listen on {at}: no network interface of this machine has that address. Use \
             127.0.0.1 or [::1], or an address that `ip address` shows"
        ),
        _ => format!("can't listen on {at}: {why}. Choose another address"),
    }
}

fn socket_file(path: &Path, why: &io::Error) -> String {
    let (shown, above) = (path.display(), path.parent().unwrap_or_else(|| Path::new("/")));
    let above = above.display();
    match why.kind() {
        ErrorKind::NotFound => format!(
            "can't create the socket {shown}: the directory {above} does not exist. Create it, or \
             choose another path"
        ),
        ErrorKind::NotADirectory => format!(
            "can't create the socket {shown}: {above} is not a directory. Choose another path"
        ),
        // The other errors of this kind say more than the system does, and what to do.
        ErrorKind::PermissionDenied if why.raw_os_error().is_some() => format!(
            "can't create the socket {shown}: user {} may not write to {above}. Choose a path in a \
             directory of that user, or allow the user to write there",
            own_user()
        ),
        ErrorKind::InvalidInput | ErrorKind::InvalidFilename => format!(
            "can't create the socket {shown}: its path has {} bytes, and the maximum is {PATH}. \
             Choose a shorter path",
            path.as_os_str().len()
        ),
        ErrorKind::AddrInUse => format!(
            "can't create the socket {shown}: another process listens there. Stop it, or choose \
             another path"
        ),
        _ => format!("can't create the socket {shown}: {why}"),
    }
}

/// Why the data directory can't be used, and what to do.
pub(crate) fn data(path: &Path, why: &io::Error) -> String {
    let shown = path.display();
    let is_file = |path: &Path| path.exists() && !path.is_dir();
    // A part of the path may be a file, too.
    let file = path.ancestors().find(|part| is_file(part));
    match (why.kind(), file) {
        (ErrorKind::AlreadyExists | ErrorKind::NotADirectory, Some(file)) => {
            let file = file.display();
            format!(
                "{file} is not a directory. Choose a directory, or a path where one can be created"
            )
        }
        (ErrorKind::PermissionDenied, _) if why.raw_os_error().is_some() => format!(
            "can't use {shown}: {why}. Allow user {} to read and write there, or choose another \
             directory",
            own_user()
        ),
        (ErrorKind::ReadOnlyFilesystem, _) => {
            format!("can't use {shown}: {why}. Choose a writable directory")
        }
        _ => format!("can't use {shown}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_own_advice() {
        let tcp = |at: &str, kind: ErrorKind| {
            listening(&Address::Tcp(at.parse().expect("an address")), &kind.into())
        };
        let text = tcp("127.0.0.1:7420", ErrorKind::AddrInUse);
        assert!(
            text.ends_with("another process listens there. Stop it, or choose another address")
        );
        let text = tcp("127.0.0.1:80", ErrorKind::PermissionDenied);
        assert!(text.contains("ports below 1024 need a privilege"), "{text}");
        let text = tcp("10.9.9.9:7420", ErrorKind::AddrNotAvailable);
        assert!(text.contains("no network interface of this machine has that address"), "{text}");
        let unix = |errno: i32| {
            let why = io::Error::from_raw_os_error(errno);
            listening(&Address::Unix("/none/x.sock".into()), &why)
        };
        let text = unix(2);
        assert!(text.contains("the directory /none does not exist. Create it"), "{text}");
        let text = unix(13);
        assert!(text.contains("may not write to /none"), "{text}");
        let text = unix(20);
        assert!(text.contains("/none is not a directory"), "{text}");
        for text in [2, 13, 20].map(unix) {
            assert!(!text.contains("Stop"), "{text}");
        }
    }

    #[test]
    fn a_file_in_the_place_of_a_directory_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        let expected = format!("{} is not a directory", file.display());
        for (path, kind) in [
            (file.clone(), ErrorKind::AlreadyExists),
            (file.join("below"), ErrorKind::NotADirectory),
        ] {
            let text = data(&path, &kind.into());
            assert!(text.starts_with(&expected), "{text}");
        }
    }
}
