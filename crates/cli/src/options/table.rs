//! The table of `serve`'s options: the one place where each stands.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use lockspan_server::{Address, Config};
use tracing::level_filters::LevelFilter;

use crate::values;

/// How often an option may be given, and whether it has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Once.
    One,
    /// Any number of times: repeated flags, a list in the file, commas in a variable.
    Many,
    /// On or off; the flag alone turns it on.
    Switch,
}

/// One option of `serve`: flag `--name`, variable `LOCKSPAN_NAME`, key `name` of the file.
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What stands for its value in the help.
    pub(crate) value: &'static str,
    /// As a person writes it, for the help.
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
    pub(crate) set: fn(&mut Settings, &str) -> Result<(), String>,
}

/// Where data lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataDir {
    Default,
    None,
    At(PathBuf),
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// What the options say. `listen`, `data` and `tls` of `config` follow from the rest at the end.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Vec<Address>,
    /// `None`: not said. `Some(None)`: nowhere.
    pub(crate) http: Option<Option<SocketAddr>>,
    pub(crate) data_dir: DataDir,
    pub(crate) fresh: bool,
    pub(crate) local: bool,
    pub(crate) socket_group: Option<String>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_client_ca: Option<PathBuf>,
    pub(crate) log: LogFormat,
    pub(crate) log_level: LevelFilter,
    /// `None`: not said. `Some(None)`: never.
    pub(crate) idle_exit: Option<Option<std::time::Duration>>,
    /// The options that were given, wherever.
    pub(crate) given: BTreeSet<&'static str>,
    pub(crate) config: Config,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            http: None,
            data_dir: DataDir::Default,
            fresh: false,
            local: false,
            socket_group: None,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            log: LogFormat::Text,
            log_level: LevelFilter::INFO,
            idle_exit: None,
            given: BTreeSet::new(),
            config: Config::default(),
        }
    }
}

/// Puts a value that was read into its place.
fn put<T>(place: &mut T, read: Result<T, String>) -> Result<(), String> {
    *place = read?;
    Ok(())
}

/// A complaint without the value that it begins with.
fn without(value: &str, complaint: &str) -> String {
    let value = format!("{value:?} ");
    complaint.strip_prefix(&value).unwrap_or(complaint).to_owned()
}

fn file(place: &mut Option<PathBuf>, text: &str) -> Result<(), String> {
    *place = match text {
        "" => return Err("is empty; give the path of a file, or none".to_owned()),
        "none" => None,
        path => Some(path.into()),
    };
    Ok(())
}

fn count(place: &mut usize, text: &str, most: usize) -> Result<(), String> {
    put(place, values::count(text, most))
}

const MANY: usize = 100_000_000;

/// Every option of `serve` but `--config`, in the order of the help.
pub(crate) const TABLE: &[Spec] = &[
    Spec {
        name: "listen",
        kind: Kind::Many,
        value: "ADDR",
        default: "127.0.0.1:7420, and local:",
        help: "Address to listen on: IP:PORT or unix:/path/to.sock. Can be repeated. Port 0 picks \
               a free port. An address that other machines can reach needs TLS and users. Without \
               --listen and --data-dir the server also serves local:, so that commands without \
               --url find it",
        set: |settings, text| {
            let bad = |bad: lockspan_server::BadAddress| without(text, &bad.to_string());
            settings.listen.push(text.parse().map_err(bad)?);
            Ok(())
        },
    },
    Spec {
        name: "http",
        kind: Kind::One,
        value: "ADDR|none",
        default: "127.0.0.1:7421; none with --local",
        help: "Loopback address, IP:PORT, of the web page and of the Prometheus metrics at \
               /metrics. If the default address is in use, the server starts without them. none \
               turns them off",
        set: |settings, text| {
            settings.http = Some(match text {
                "none" => None,
                text => Some(text.parse().map_err(|_| {
                    "is neither none nor an address such as 127.0.0.1:7421".to_owned()
                })?),
            });
            Ok(())
        },
    },
    Spec {
        name: "data-dir",
        kind: Kind::One,
        value: "DIR|none",
        default: "that of local:; with --listen, lockspan in the user's state directory",
        help: "Directory for epochs and sessions, so that a restart loses no lock. With none, \
               nothing is stored: after a start nothing is granted until the longest lease has \
               passed, since leases of an earlier server may still be valid (see --fresh)",
        set: |settings, text| {
            settings.data_dir = match text {
                "" => return Err("is empty; give a directory, or none".to_owned()),
                "none" => DataDir::None,
                dir => DataDir::At(dir.into()),
            };
            Ok(())
        },
    },
    Spec {
        name: "fresh",
        kind: Kind::Switch,
        value: "BOOL",
        default: "false",
        help: "With --data-dir none: grant at once, because no lease of an earlier server can \
               still be valid. Fencing tokens start again from the beginning",
        set: |settings, text| put(&mut settings.fresh, values::switch(text)),
    },
    Spec {
        name: "local",
        kind: Kind::Switch,
        value: "BOOL",
        default: "false",
        help: "Be this user's own service for local:, with its socket and its data, and exit when \
               idle. Clients start the service this way. With --listen it listens there too",
        set: |settings, text| put(&mut settings.local, values::switch(text)),
    },
    Spec {
        name: "idle-exit",
        kind: Kind::One,
        value: "TIME|never",
        default: "never, and 60s with --local",
        help: "Exit after this time without a session and without a connection",
        set: |settings, text| {
            let never = text == "never";
            settings.idle_exit = Some(if never { None } else { Some(values::duration(text)?) });
            Ok(())
        },
    },
    Spec {
        name: "socket-mode",
        kind: Kind::One,
        value: "MODE",
        default: "0600",
        help: "Mode of the socket files; write permission allows connecting. 0660 allows the \
               group, 0666 every user of the machine",
        set: |settings, text| put(&mut settings.config.socket.mode, values::mode(text)),
    },
    Spec {
        name: "socket-group",
        kind: Kind::One,
        value: "GROUP",
        default: "that of the process",
        help: "Group of the socket files, by name or number; use it with a mode such as 0660",
        set: |settings, text| {
            if text.is_empty() {
                return Err("is empty; give the name of a group".to_owned());
            }
            settings.socket_group = Some(text.to_owned());
            Ok(())
        },
    },
    Spec {
        name: "log",
        kind: Kind::One,
        value: "text|json",
        default: "text",
        help: "Format of the log lines on stderr",
        set: |settings, text| {
            settings.log = match text {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err("is not one of text, json".to_owned()),
            };
            Ok(())
        },
    },
    Spec {
        name: "log-level",
        kind: Kind::One,
        value: "LEVEL",
        default: "info",
        help: "Log lines of this level and above: off, error, warn, info, debug or trace",
        set: |settings, text| {
            let level = text.parse().ok().filter(|_| text.parse::<u8>().is_err());
            let read = level
                .ok_or_else(|| "is not one of off, error, warn, info, debug, trace".to_owned());
            put(&mut settings.log_level, read)
        },
    },
    Spec {
        name: "tls-cert",
        kind: Kind::One,
        value: "FILE|none",
        default: "none",
        help: "Use TLS on every TCP port, with this certificate (PEM, followed by the intermediate \
               certificates)",
        set: |settings, text| file(&mut settings.tls_cert, text),
    },
    Spec {
        name: "tls-key",
        kind: Kind::One,
        value: "FILE|none",
        default: "none",
        help: "Private key of the certificate (PEM)",
        set: |settings, text| file(&mut settings.tls_key, text),
    },
    Spec {
        name: "tls-client-ca",
        kind: Kind::One,
        value: "FILE|none",
        default: "none",
        help: "Accept only clients with a certificate of one of these authorities (PEM)",
        set: |settings, text| file(&mut settings.tls_client_ca, text),
    },
    Spec {
        name: "users",
        kind: Kind::One,
        value: "FILE|none",
        default: "none",
        help: "TOML file with the users and their rights, see lockspan passwd and \
               docs/security.md. Without it, everyone who can connect may do everything",
        set: |settings, text| file(&mut settings.config.users, text),
    },
    Spec {
        name: "insecure",
        kind: Kind::Switch,
        value: "BOOL",
        default: "false",
        help: "Allow addresses that other machines can reach even without TLS and users. Anyone \
               who reaches them can take and break every lock, or read the traffic",
        set: |settings, text| put(&mut settings.config.insecure, values::switch(text)),
    },
    Spec {
        name: "min-lease",
        kind: Kind::One,
        value: "TIME",
        default: "1s",
        help: "Shortest lease that a session may request",
        set: |settings, text| put(&mut settings.config.protocol.ttl_min, lease(text)),
    },
    Spec {
        name: "max-lease",
        kind: Kind::One,
        value: "TIME",
        default: "1m",
        help: "Longest lease that a session may request. After a client has died, others wait for \
               its locks at most this long",
        set: |settings, text| put(&mut settings.config.protocol.ttl_max, lease(text)),
    },
    Spec {
        name: "max-sessions",
        kind: Kind::One,
        value: "N",
        default: "100000, less with little memory",
        help: "Maximum number of sessions; further ones are refused",
        set: |settings, text| count(&mut settings.config.protocol.sessions, text, MANY),
    },
    Spec {
        name: "max-sessions-per-user",
        kind: Kind::One,
        value: "N",
        default: "a quarter of max-sessions",
        help: "Maximum number of sessions per user, if there are users",
        set: |settings, text| count(&mut settings.config.sessions_per_user, text, MANY),
    },
    Spec {
        name: "max-records",
        kind: Kind::One,
        value: "N",
        default: "16000000, less with little memory",
        help: "Maximum number of locked records; acquires of further ones are refused. The maximum \
               number of grants and waits is four times as high",
        set: |settings, text| count(&mut settings.config.protocol.records, text, MANY),
    },
    Spec {
        name: "max-records-per-user",
        kind: Kind::One,
        value: "N",
        default: "a quarter of max-records",
        help: "Maximum number of records that the sessions of one user hold or wait for, if there \
               are users",
        set: |settings, text| count(&mut settings.config.records_per_user, text, MANY),
    },
    Spec {
        name: "max-claims",
        kind: Kind::One,
        value: "N",
        default: "1000000",
        help: "Maximum number of grants and waits of one session, per shard",
        set: |settings, text| count(&mut settings.config.protocol.claims_per_session, text, MANY),
    },
    Spec {
        name: "max-waiters",
        kind: Kind::One,
        value: "N",
        default: "100000, less with little memory",
        help: "Maximum number of waiters per record",
        set: |settings, text| count(&mut settings.config.protocol.waiters_per_record, text, MANY),
    },
    Spec {
        name: "max-waiters-per-user",
        kind: Kind::One,
        value: "N",
        default: "a quarter of max-waiters",
        help: "Maximum number of waiters of one user per record, if there are users",
        set: |settings, text| count(&mut settings.config.protocol.waiters_per_user, text, MANY),
    },
    Spec {
        name: "max-connections",
        kind: Kind::One,
        value: "N",
        default: "10000, less with few file descriptors or little memory",
        help: "Maximum number of connections; further ones are closed with an error. If there are \
               users, the last 16 are reserved for users with the admin right on everything",
        set: |settings, text| count(&mut settings.config.connections, text, 1_000_000),
    },
    Spec {
        name: "max-connections-per-user",
        kind: Kind::One,
        value: "N",
        default: "a quarter of max-connections",
        help: "Maximum number of connections per user, if there are users",
        set: |settings, text| count(&mut settings.config.connections_per_user, text, 1_000_000),
    },
    Spec {
        name: "max-outbox",
        kind: Kind::One,
        value: "SIZE",
        default: "8MiB",
        help: "Bytes of events that may be queued for one slow client before its connection is \
               closed. With 64KiB of replies queued, the server stops reading its commands",
        set: |settings, text| put(&mut settings.config.outbox, values::bytes(text)),
    },
    Spec {
        name: "max-outboxes",
        kind: Kind::One,
        value: "SIZE",
        default: "256MiB",
        help: "Bytes that may be queued for all clients together before the connection with the \
               most is closed",
        set: |settings, text| put(&mut settings.config.outboxes, values::bytes(text)),
    },
    Spec {
        name: "max-frame",
        kind: Kind::One,
        value: "SIZE",
        default: "1MiB",
        help: "Maximum size of one command",
        set: |settings, text| put(&mut settings.config.wire.frame, values::bytes(text)),
    },
    Spec {
        name: "shards",
        kind: Kind::One,
        value: "N",
        default: "16",
        help: "Number of tables that records are spread over; more tables let more processors work \
               in parallel",
        set: |settings, text| count(&mut settings.config.shards, text, 256),
    },
    Spec {
        name: "tcp-keepalive",
        kind: Kind::One,
        value: "TIME",
        default: "1m",
        help: "Idle time after which a TCP client is probed; it is disconnected if it does not \
               answer for 30s",
        set: |settings, text| put(&mut settings.config.keepalive, values::duration(text)),
    },
    Spec {
        name: "stop-grace",
        kind: Kind::One,
        value: "TIME",
        default: "2s",
        help: "How long a stop waits for clients to read their last replies",
        set: |settings, text| put(&mut settings.config.stop_grace, values::duration(text)),
    },
];

fn lease(text: &str) -> Result<std::time::Duration, String> {
    let lease = values::duration(text)?;
    let short = lease < std::time::Duration::from_millis(100);
    if short { Err("is too short for a lease; the minimum is 100ms".to_owned()) } else { Ok(lease) }
}
