//! Where the service is: what an address may look like.

use std::fmt;
use std::path::PathBuf;

use crate::error::ConnectError;

/// The port of a lock server when none is given.
pub const DEFAULT_PORT: u16 = 7420;

/// What a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The service inside this process with this name.
    Memory(String),
    /// The service of this user on this machine.
    Local,
    /// A server.
    Server(Address),
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `host:port`.
    Tcp(String),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let bad = |why| ConnectError::BadUrl { url: url.to_owned(), why };
        let (scheme, rest) = url.split_once(':').ok_or_else(|| bad("it has no scheme"))?;
        match scheme {
            "memory" => Ok(Self::Memory(rest.to_owned())),
            "local" if rest.is_empty() => Ok(Self::Local),
            "local" => Err(bad("nothing may follow local:")),
            "unix" => match rest.strip_prefix("//").unwrap_or(rest) {
                path if path.starts_with('/') => Ok(Self::Server(Address::Unix(path.into()))),
                _ => Err(bad("the path of the socket has to begin with /")),
            },
            "lockspan" => {
                let host = rest.strip_prefix("//").ok_or_else(|| bad("// is missing"))?;
                let host = host.strip_suffix('/').unwrap_or(host);
                tcp(host).map(Self::Server).map_err(bad)
            }
            "lockspans" => Err(bad("TLS is not there yet")),
            "redis" | "rediss" => {
                Err(bad("locks on Redis are in the crates lockspan and lockspan-redis"))
            }
            _ => Err(bad("the scheme is unknown")),
        }
    }
}

fn tcp(host: &str) -> Result<Address, &'static str> {
    if host.is_empty() {
        return Err("the host is missing");
    }
    if host.contains(['/', '?', '#', ',']) {
        return Err("one host and port is all that may follow");
    }
    if host.contains('@') {
        return Err("users and passwords are not there yet");
    }
    let after_brackets = host.rsplit_once(']').map_or(host, |(_, after)| after);
    let address = match after_brackets.rsplit_once(':') {
        Some((_, port)) => match port.parse::<u16>() {
            Ok(1..) => host.to_owned(),
            _ => return Err("the port has to be a number from 1 to 65535"),
        },
        None => format!("{host}:{DEFAULT_PORT}"),
    };
    Ok(Address::Tcp(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str) -> Target {
        Target::Server(Address::Tcp(address.to_owned()))
    }

    #[test]
    fn addresses_are_read() {
        for (url, target) in [
            ("memory:", Target::Memory(String::new())),
            ("memory:tests", Target::Memory("tests".to_owned())),
            ("local:", Target::Local),
            ("unix:///run/lock.sock", Target::Server(Address::Unix("/run/lock.sock".into()))),
            ("lockspan://db1", server("db1:7420")),
            ("lockspan://127.0.0.1:7421/", server("127.0.0.1:7421")),
            ("lockspan://[::1]:7421", server("[::1]:7421")),
            ("lockspan://[::1]", server("[::1]:7420")),
        ] {
            assert_eq!(Target::parse(url).unwrap(), target, "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        for (url, why) in [
            ("invoice", "it has no scheme"),
            ("http://h", "the scheme is unknown"),
            ("lockspan:h", "// is missing"),
            ("lockspan://", "the host is missing"),
            ("lockspan://h:0", "the port has to be a number from 1 to 65535"),
            ("lockspan://h:port", "the port has to be a number from 1 to 65535"),
            ("lockspan://a,b", "one host and port is all that may follow"),
            ("lockspan://u:p@h", "users and passwords are not there yet"),
            ("unix:lock.sock", "the path of the socket has to begin with /"),
            ("local:x", "nothing may follow local:"),
        ] {
            match Target::parse(url) {
                Err(ConnectError::BadUrl { why: said, .. }) => assert_eq!(said, why, "{url}"),
                other => panic!("{url}: {other:?}"),
            }
        }
    }
}
