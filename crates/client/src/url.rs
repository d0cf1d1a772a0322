//! Where the service is: what an address may look like.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use lockspan_tls::ClientFiles;
use lockspan_wire::Secret;

use crate::error::ConnectError;
use crate::local;

/// The port of a lock server when none is given.
pub const DEFAULT_PORT: u16 = 7420;

/// Why a URL with TLS is refused in a build without it.
pub(crate) const NEEDS_TLS: &str = "lockspans:// needs the feature `tls` of the crate lockspan";

/// What a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The service inside this process with this name.
    Memory(String),
    /// The service of this user on this machine.
    Local,
    /// A server.
    Server(Box<Site>),
}

/// A server, and what it is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) address: Address,
    pub(crate) login: Login,
    pub(crate) tls: ClientFiles,
    /// A password may be sent where others read along.
    pub(crate) insecure: bool,
}

/// Who to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) password_file: Option<PathBuf>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `host:port`.
    Tcp(String),
    /// `host:port`, with TLS.
    Tls(String),
    Unix(PathBuf),
}

impl Address {
    /// The host of `host:port`, as a certificate names it.
    pub(crate) fn host(at: &str) -> &str {
        let host = at.rsplit_once(':').map_or(at, |(host, _)| host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) | Self::Tls(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Site {
    pub(crate) fn new(address: Address) -> Self {
        let (login, tls) = (Login::default(), ClientFiles::default());
        Self { address, login, tls, insecure: false }
    }

    /// Whether a password would be read by whoever reads the network along, as far as the URL says.
    /// What `localhost` is shows when the connection is there: see `trust`.
    pub(crate) fn shows_password(&self) -> bool {
        let Address::Tcp(at) = &self.address else { return false };
        let host = Address::host(at);
        let is_here = host.parse::<IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback());
        self.login.has_password() && !is_here && !self.insecure
    }
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let bad = |why| ConnectError::bad_url(url, why);
        let (scheme, rest) = url.split_once(':').ok_or_else(|| bad("it has no scheme"))?;
        match scheme {
            "memory" => Ok(Self::Memory(rest.to_owned())),
            "local" if rest.is_empty() => Ok(Self::Local),
            "local" => Err(bad("nothing may follow local:")),
            "unix" => match rest.strip_prefix("//").unwrap_or(rest) {
                path if path.starts_with('/') => {
                    Ok(Self::Server(Box::new(Site::new(Address::Unix(path.into())))))
                }
                _ => Err(bad("the path of the socket must begin with /")),
            },
            "lockspan" | "lockspans" => {
                let rest = rest.strip_prefix("//").ok_or_else(|| bad("// is missing"))?;
                let site = site(rest, scheme == "lockspans").map_err(bad)?;
                Ok(Self::Server(Box::new(site)))
            }
            scheme if scheme.starts_with("redis") => Err(bad(match scheme.starts_with("rediss") {
                true => "rediss:// needs the features `redis` and `tls` of the crate lockspan",
                false => "redis:// needs the feature `redis` of the crate lockspan",
            })),
            _ => Err(bad("unknown scheme")),
        }
    }
}

/// Where the service of a URL listens, so that two URLs of one service can be told to be that:
/// `HOST:PORT`, or the path of a socket. Without user and password; what is not a URL of this crate
/// is given back as [`shown_url`] has it.
#[must_use]
pub fn service_address(url: &str) -> String {
    let canonical = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
    let path = |path: PathBuf| canonical(path).display().to_string();
    match Target::parse(url) {
        Ok(Target::Local) => local::socket().map_or_else(|_| url.to_owned(), path),
        Ok(Target::Server(site)) => match site.address {
            Address::Unix(socket) => path(socket),
            Address::Tcp(at) | Address::Tls(at) => match Address::host(&at) {
                "localhost" => at.replacen(Address::host(&at), "127.0.0.1", 1),
                _ => at,
            },
        },
        // Without a login: what is compared may be written down.
        Ok(Target::Memory(_)) | Err(_) => shown_url(url),
    }
}

/// A URL as it may stand in a message: without user, password and what follows `?`. Of what is no
/// URL nothing is shown that may be one of these.
#[must_use]
pub fn shown_url(url: &str) -> String {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let end = place.find([':', '/']).unwrap_or(0);
    let is_scheme = ["lockspan", "redis"].iter().any(|ours| place.starts_with(ours))
        || ["local", "memory", "unix"].contains(&&place[..end])
        || place[end..].starts_with("://");
    let after = if is_scheme { end } else { 0 };
    let host = place[after..].trim_start_matches([':', '/']);
    let scheme = &place[..place.len() - host.len()];
    // The password may have a ? in it.
    if query.contains('@') {
        return format!("{scheme}...");
    }
    let (login, host) = host.rsplit_once('@').map_or(("", host), |(_, host)| ("...@", host));
    let hosts: Vec<_> = host.split(',').map(shown_host).collect();
    let query = if query.is_empty() { "" } else { "?..." };
    format!("{scheme}{login}{}{query}", hosts.join(","))
}

/// Where the host was forgotten, a password stands in the place of its port.
fn shown_host(host: &str) -> String {
    let name = host.find(']').map_or(0, |end| end + 1);
    let Some(colon) = host[name..].find(':').map(|at| name + at) else { return host.to_owned() };
    let port = host[colon + 1..].split('/').next().unwrap_or_default();
    let is_port = port.parse::<u16>().is_ok();
    if is_port { host.to_owned() } else { format!("{}:...", &host[..colon]) }
}

fn site(rest: &str, has_tls: bool) -> Result<Site, &'static str> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, host) = match place.rsplit_once('@') {
        Some((login, host)) => (read_login(login)?, host),
        None => (Login::default(), place),
    };
    let at = tcp(host.strip_suffix('/').unwrap_or(host))?;
    let address = if has_tls { Address::Tls(at) } else { Address::Tcp(at) };
    let mut site = Site { login, ..Site::new(address) };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name == "insecure" {
            site.insecure = match value {
                "yes" => true,
                "no" => false,
                _ => return Err("insecure must be yes or no"),
            };
            continue;
        }
        let path = Some(PathBuf::from(decoded(value)?)).filter(|_| !value.is_empty());
        let place = match name {
            "password-file" => &mut site.login.password_file,
            "ca" if has_tls => &mut site.tls.ca,
            "cert" if has_tls => &mut site.tls.cert,
            "key" if has_tls => &mut site.tls.key,
            "ca" | "cert" | "key" => return Err("ca, cert and key are only for lockspans://"),
            _ => {
                return Err("unknown parameter; the parameters are password-file, ca, cert, key, \
                     insecure");
            }
        };
        *place = Some(path.ok_or("a parameter after ? needs the path of a file")?);
    }
    Ok(site)
}

fn read_login(text: &str) -> Result<Login, &'static str> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password)?)),
        None => (text, None),
    };
    let user = Some(decoded(user)?).filter(|user| !user.is_empty());
    let password = password.map(|password| Secret::new(password.into_bytes()));
    Ok(Login { user, password, password_file: None })
}

/// `%40` is `@`.
fn decoded(text: &str) -> Result<String, &'static str> {
    // It may be a password: a vector that grows would leave it behind.
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("% must be followed by two hexadecimal digits; write %25 for % itself");
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| "the bytes written with % are not valid UTF-8")
}

fn tcp(host: &str) -> Result<String, &'static str> {
    if host.is_empty() {
        return Err("the host is missing");
    }
    if host.contains(['/', '#', ',']) {
        return Err("only one host and port is allowed");
    }
    let after_brackets = host.rsplit_once(']').map_or(host, |(_, after)| after);
    match after_brackets.rsplit_once(':') {
        Some((_, port)) => match port.parse::<u16>() {
            Ok(1..) => Ok(host.to_owned()),
            _ => Err("the port must be a number from 1 to 65535"),
        },
        None => Ok(format!("{host}:{DEFAULT_PORT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str) -> Target {
        Target::Server(Box::new(Site::new(Address::Tcp(address.to_owned()))))
    }

    #[test]
    fn addresses_are_read() {
        let socket = Site::new(Address::Unix("/run/lock.sock".into()));
        for (url, target) in [
            ("memory:", Target::Memory(String::new())),
            ("memory:tests", Target::Memory("tests".to_owned())),
            ("local:", Target::Local),
            ("unix:///run/lock.sock", Target::Server(Box::new(socket))),
            ("lockspan://db1", server("db1:7420")),
            ("lockspan://127.0.0.1:7421/", server("127.0.0.1:7421")),
            ("lockspan://[::1]:7421", server("[::1]:7421")),
            ("lockspan://[::1]", server("[::1]:7420")),
        ] {
            assert_eq!(Target::parse(url).unwrap(), target, "{url}");
        }
        for (at, host) in [("db1:7420", "db1"), ("[::1]:7420", "::1"), ("10.0.0.1:1", "10.0.0.1")] {
            assert_eq!(Address::host(at), host);
        }
    }

    #[test]
    fn logins_and_certificates_are_read() {
        let url = "lockspans://ann:p%40ss%3a%25@db1/?ca=/a%20b.pem&cert=c.pem&key=k.pem";
        let Target::Server(site) = Target::parse(url).unwrap() else { panic!("a server") };
        assert_eq!(site.address, Address::Tls("db1:7420".to_owned()));
        assert_eq!(site.login.user.as_deref(), Some("ann"));
        assert_eq!(site.login.password.as_ref().unwrap().reveal(), b"p@ss:%");
        let path = |text: &str| Some(PathBuf::from(text));
        let files = ClientFiles { ca: path("/a b.pem"), cert: path("c.pem"), key: path("k.pem") };
        assert_eq!(site.tls, files);
        assert!(!format!("{site:?}").contains("p@ss"), "{site:?}");
        let url = "lockspan://ann@db1?password-file=/run/secret";
        let Target::Server(site) = Target::parse(url).unwrap() else { panic!("a server") };
        assert_eq!((site.login.password, site.login.password_file), (None, path("/run/secret")));
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        for (url, why) in [
            ("invoice", "it has no scheme"),
            ("http://h", "unknown scheme"),
            ("lockspan:h", "// is missing"),
            ("lockspan://", "the host is missing"),
            ("lockspan://h:0", "the port must be a number from 1 to 65535"),
            ("lockspan://h:port", "the port must be a number from 1 to 65535"),
            ("lockspan://a,b", "only one host and port is allowed"),
            ("lockspan://h?ca=x", "ca, cert and key are only for lockspans://"),
            (
                "lockspans://h?x=y",
                "unknown parameter; the parameters are password-file, ca, cert, key, insecure",
            ),
            ("lockspan://h?insecure", "insecure must be yes or no"),
            ("lockspans://h?ca", "a parameter after ? needs the path of a file"),
            (
                "lockspan://u:%zz@h",
                "% must be followed by two hexadecimal digits; write %25 for % itself",
            ),
            ("lockspan://u:%ff@h", "the bytes written with % are not valid UTF-8"),
            ("unix:lock.sock", "the path of the socket must begin with /"),
            ("local:x", "nothing may follow local:"),
        ] {
            match Target::parse(url) {
                Err(ConnectError::BadUrl { why: said, .. }) => assert_eq!(said, why, "{url}"),
                other => panic!("{url}: {other:?}"),
            }
        }
        let said = Target::parse("lockspan://u:hunter2@h:0").unwrap_err().to_string();
        assert!(said.contains("lockspan://...@h:0") && !said.contains("hunter2"), "{said}");
    }

    #[test]
    fn a_password_goes_beyond_this_machine_only_with_tls() {
        for (url, is_shown) in [
            ("lockspan://ann:pw@db1", true),
            ("lockspan://ann@10.0.0.1:7420?password-file=/run/secret", true),
            ("lockspan://ann:pw@127.0.0.1.example", true),
            ("lockspan://ann:pw@db1?insecure=no", true),
            ("lockspan://ann:pw@db1?insecure=yes", false),
            ("lockspan://db1", false),
            ("lockspan://ann:pw@localhost", false),
            ("lockspan://ann:pw@127.0.0.2:1", false),
            ("lockspan://ann:pw@[::1]", false),
            ("lockspans://ann:pw@db1", false),
        ] {
            let Target::Server(site) = Target::parse(url).unwrap() else { panic!("a server") };
            assert_eq!(site.shows_password(), is_shown, "{url}");
        }
    }

    #[test]
    fn two_urls_of_one_service_have_one_address() {
        let address = service_address("lockspan://ann:pw@localhost");
        assert_eq!(address, "127.0.0.1:7420");
        assert_eq!(address, service_address("lockspans://127.0.0.1:7420?ca=x"));
        assert_eq!(service_address("unix:/nowhere/a"), service_address("unix:///nowhere/a"));
        assert_ne!(address, service_address("lockspan://db1"));
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        for (url, shown) in [
            ("local:", "local:"),
            ("unix:///run/a.sock", "unix:///run/a.sock"),
            ("invoice", "invoice"),
            ("http://h:80", "http://h:80"),
            ("lockspan://[::1]:7421/", "lockspan://[::1]:7421/"),
            ("lockspan://[::1]", "lockspan://[::1]"),
            ("lockspans://ann:hunter2@h:1?ca=x", "lockspans://...@h:1?..."),
            ("lockspan://h:port", "lockspan://h:..."),
            ("ann:hunter2@h", "...@h"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }

    /// Whatever is wrong with a URL, its password is not said.
    #[test]
    fn no_complaint_has_a_password() {
        for url in [
            "lockspan:ann:hunter2@h",
            "lockspan:/ann:hunter2@h",
            "lockspan//ann:hunter2@h",
            "lockspans://h?password=hunter2",
            "lockspans://h?password=a@hunter2",
            "lockspan://ann:hunter2",
            "lockspan://ann:h?hunter2@h",
            "ann:hunter2@h",
            "hunter2@h",
            "hunter2/x@h",
        ] {
            let said = Target::parse(url).unwrap_err().to_string();
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
