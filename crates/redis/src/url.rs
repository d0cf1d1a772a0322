//! Where Redis is: what an address may look like.

use lockspan_client::ConnectError;

/// Why a URL with TLS is refused in a build without it.
const NEEDS_TLS: &str = "rediss:// needs the feature `tls` of the crate lockspan";

/// What a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) hash_tag: Option<bool>,
    pub(crate) plain: Option<bool>,
    pub(crate) caching: Option<bool>,
}

/// Where to find the server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this address, written as the client library has it.
    One(String),
    /// Where one of these sentinels says that this master is.
    Sentinel {
        /// Host and port.
        sentinels: Vec<(String, u16)>,
        master: String,
        /// User, password and database for the master: a URL without a host of meaning.
        login: String,
    },
    /// At one of these, which know all others.
    Cluster(Vec<String>),
}

impl std::fmt::Debug for Place {
    /// Without passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// Whether a URL is one for this crate.
pub(crate) fn is_ours(url: &str) -> bool {
    let scheme = url.split(':').next().unwrap_or_default();
    matches!(
        scheme,
        "redis"
            | "rediss"
            | "redis+sentinel"
            | "redis-sentinel"
            | "rediss-sentinel"
            | "redis-cluster"
            | "rediss-cluster"
    )
}

impl Place {
    pub(crate) fn has_tls(&self) -> bool {
        let url = match self {
            Self::One(url) | Self::Sentinel { login: url, .. } => Some(url),
            Self::Cluster(urls) => urls.first(),
        };
        url.is_some_and(|url| url.starts_with("rediss:"))
    }

    /// Whether a password is sent.
    pub(crate) fn has_login(&self) -> bool {
        let urls = match self {
            Self::One(url) | Self::Sentinel { login: url, .. } => std::slice::from_ref(url),
            Self::Cluster(urls) => urls,
        };
        urls.iter().any(|url| url.contains('@'))
    }

    /// For messages: the hosts, without user and password.
    pub(crate) fn shown(&self) -> String {
        let bare = |url: &str| {
            let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            host.trim_end_matches('/').to_owned()
        };
        match self {
            Self::One(url) => bare(url),
            Self::Cluster(urls) => urls.iter().map(|url| bare(url)).collect::<Vec<_>>().join(","),
            Self::Sentinel { sentinels, master, .. } => {
                let all = sentinels.iter().map(|(host, port)| format!("{host}:{port}"));
                format!("{master} (sentinels {})", all.collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl Target {
    /// Reads a URL; `login` is for one that has none.
    pub(crate) fn parse(
        url: &str,
        login: impl FnOnce() -> Result<String, ConnectError>,
    ) -> Result<Self, ConnectError> {
        let place = url.split('?').next().unwrap_or_default();
        let login = if place.contains('@') { String::new() } else { login()? };
        let target = Self::read(url, login).and_then(|it| it.if_possible(cfg!(feature = "tls")));
        target.map_err(|why| ConnectError::bad_url(url, why))
    }

    /// Refuses TLS in a build without it.
    fn if_possible(self, has_tls: bool) -> Result<Self, &'static str> {
        if self.place.has_tls() && !has_tls { Err(NEEDS_TLS) } else { Ok(self) }
    }

    fn read(url: &str, other: String) -> Result<Self, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or("// is missing")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let tls = if scheme.starts_with("rediss") { "rediss" } else { "redis" };
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (other, rest),
        };
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        if database.parse::<u32>().is_err() && !database.is_empty() {
            return Err("only / and the number of a database may follow the host");
        }
        let is_sentinel = scheme.ends_with("sentinel");
        let is_cluster = scheme.ends_with("cluster");
        let hosts = hosts.split(',').map(|host| host_port(host, is_sentinel));
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let (mut hash_tag, mut plain, mut caching) = (is_cluster.then_some(true), None, None);
        let mut master = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "hash_tag" => hash_tag = Some(flag(value)?),
                "plain" => plain = Some(flag(value)?),
                "caching" => caching = Some(flag(value)?),
                "master" if is_sentinel && !value.is_empty() => master = Some(value.to_owned()),
                _ => {
                    return Err(
                        "unknown parameter; the parameters are hash_tag, plain, caching and, for \
                         sentinels, master",
                    );
                }
            }
        }
        let place = if is_cluster {
            if !database.is_empty() {
                return Err("a cluster has no databases");
            }
            let url = |(host, port): &(String, u16)| format!("{tls}://{login}{host}:{port}");
            Place::Cluster(hosts.iter().map(url).collect())
        } else if is_sentinel {
            let master = master.ok_or("a sentinel needs the name of a master: ?master=NAME")?;
            let login = format!("{tls}://{login}master/{database}");
            Place::Sentinel { sentinels: hosts, master, login }
        } else {
            let [(host, port)] = &hosts[..] else {
                return Err("only one host and port is allowed");
            };
            Place::One(format!("{tls}://{login}{host}:{port}/{database}"))
        };
        Ok(Self { place, hash_tag, plain, caching })
    }
}

/// Where the Redis of a URL is, so that two URLs of one Redis can be told to be that: its hosts and
/// database, without user and password. `None` if it is not a URL of a Redis.
#[must_use]
pub fn service_address(url: &str) -> Option<String> {
    let target = is_ours(url).then(|| Target::parse(url, || Ok(String::new())).ok());
    target.map(|target| match target {
        Some(target) => format!("redis {}", target.place.shown()),
        None => lockspan_client::shown_url(url),
    })
}

/// Bytes as a URL takes them for a user or a password: `@` is `%40`.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                text.push(char::from(*byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn flag(value: &str) -> Result<bool, &'static str> {
    match value {
        "" | "1" | "yes" | "true" => Ok(true),
        "0" | "no" | "false" => Ok(false),
        _ => Err("a parameter after ? must be yes or no"),
    }
}

fn host_port(host: &str, is_sentinel: bool) -> Result<(String, u16), &'static str> {
    let after_brackets = host.rsplit_once(']').map_or(host, |(_, after)| after);
    let (name, port) = match after_brackets.rsplit_once(':') {
        Some((_, port)) => {
            let name = &host[..host.len() - port.len() - 1];
            let port = port.parse().ok().filter(|&port: &u16| port > 0);
            (name, port.ok_or("the port must be a number from 1 to 65535")?)
        }
        None => (host, if is_sentinel { 26379 } else { 6379 }),
    };
    if name.is_empty() { Err("the host is missing") } else { Ok((name.to_owned(), port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, ConnectError> {
        Target::parse(url, || Ok(String::new()))
    }

    #[test]
    fn without_tls_its_schemes_are_refused_with_the_name_of_the_feature() {
        let read = |url| Target::read(url, String::new()).unwrap();
        for url in ["rediss://h", "rediss-cluster://a,b", "rediss-sentinel://s?master=m"] {
            assert_eq!(read(url).if_possible(false), Err(NEEDS_TLS), "{url}");
            assert!(read(url).if_possible(true).is_ok(), "{url}");
        }
        assert!(read("redis://h").if_possible(false).is_ok());
    }

    #[test]
    fn a_login_from_elsewhere_is_for_urls_without_one() {
        let login = || Ok(format!("{}:{}@", encoded(b"ann"), encoded("p@:ß".as_bytes())));
        let place = |url| Target::parse(url, login).unwrap().place;
        let own = Place::One("redis://u:p@h:6379/".to_owned());
        assert_eq!(place("redis://u:p@h"), own);
        assert_eq!(place("redis://h"), Place::One("redis://ann:p%40%3A%C3%9F@h:6379/".to_owned()));
        assert!(place("redis://h").has_login() && place("redis-cluster://a,b").has_login());
        assert!(!parse("redis://h?caching=yes").unwrap().place.has_login());
    }

    #[test]
    fn two_urls_of_one_redis_have_one_address_without_a_password() {
        let address = service_address("redis://ann:hunter2@h");
        assert_eq!(address.as_deref(), Some("redis h:6379"));
        assert_eq!(address, service_address("rediss://h:6379"));
        assert_ne!(address, service_address("redis://h/1"));
        assert!(!service_address("redis://ann:hunter2").unwrap().contains("hunter2"));
        assert_eq!(service_address("lockspan://h"), None);
    }

    #[test]
    fn addresses_are_read() {
        let one = |url: &str| Place::One(url.to_owned());
        for (url, place) in [
            ("redis://h", one("redis://h:6379/")),
            ("redis://u:p@h:1/2", one("redis://u:p@h:1/2")),
            ("rediss://[::1]:7/", one("rediss://[::1]:7/")),
            (
                "redis-cluster://:p@a,b:2",
                Place::Cluster(vec!["redis://:p@a:6379".into(), "redis://:p@b:2".into()]),
            ),
            (
                "redis-sentinel://u:p@a,b:2/3?master=m",
                Place::Sentinel {
                    sentinels: vec![("a".into(), 26379), ("b".into(), 2)],
                    master: "m".into(),
                    login: "redis://u:p@master/3".into(),
                },
            ),
        ] {
            assert!(is_ours(url));
            assert_eq!(parse(url).unwrap().place, place, "{url}");
        }
        let flags = |url| parse(url).map(|t| (t.hash_tag, t.plain)).unwrap();
        assert_eq!(flags("redis://h?hash_tag&plain=no"), (Some(true), Some(false)));
        assert_eq!(flags("redis-cluster://h"), (Some(true), None));
    }

    #[test]
    fn what_is_no_address_is_told_why_and_passwords_are_kept() {
        for (url, why) in [
            ("redis:h", "// is missing"),
            ("redis://", "the host is missing"),
            ("redis://:p@:1", "the host is missing"),
            ("redis://h:0", "the port must be a number from 1 to 65535"),
            ("redis://a,b", "only one host and port is allowed"),
            ("redis://h/x", "only / and the number of a database may follow the host"),
            ("redis-cluster://h/1", "a cluster has no databases"),
            ("redis-sentinel://h", "a sentinel needs the name of a master: ?master=NAME"),
            ("redis://h?plain=2", "a parameter after ? must be yes or no"),
            (
                "redis://h?x",
                "unknown parameter; the parameters are hash_tag, plain, caching and, for \
                 sentinels, master",
            ),
        ] {
            match parse(url) {
                Err(ConnectError::BadUrl { why: said, .. }) => assert_eq!(said, why, "{url}"),
                other => panic!("{url}: {other:?}"),
            }
        }
        for url in [
            "redis://u:secret@h:0",
            "redis://u:secret",
            "redis:u:secret@h",
            "redis-cluster://u:secret,h:1",
            "redis://h?password=secret",
        ] {
            let said = parse(url).unwrap_err().to_string();
            assert!(!said.contains("secret"), "{said}");
        }
        let place = parse("redis://u:secret@h:1").unwrap().place;
        assert_eq!(format!("{place:?}"), "h:1");
    }
}
