//! The options of `serve`, from flags, variables and a file.
//!
//! [`table::TABLE`] has each option once; its flag, its variable and its key of the file follow
//! from its name. A flag wins over a variable, a variable over the file, the file over the default.
//! A bad value is told with where it came from.

mod file;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use lockspan_client::local;
use lockspan_server::{Address, DEFAULT_HTTP_PORT, Data, Http, ServerFiles};

use crate::{state, values};
use table::{DataDir, Kind, Settings, Spec, TABLE};

/// Why the options are not usable; the text says where it was, what was wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad(pub(crate) String);

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The flags as they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    config: Option<PathBuf>,
    given: Vec<(&'static str, Vec<String>)>,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(ValueParser::path_buf())
            .value_hint(ValueHint::FilePath)
            .help(format!(
                "Read options from this TOML file; a key is the name of an option without -- [env: \
                 {}]",
                variable(CONFIG)
            ));
        command.arg(config).args(TABLE.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.config = matches.get_one(CONFIG).cloned();
        let values = |name| matches.get_many::<String>(name).map(|all| all.cloned().collect());
        self.given =
            TABLE.iter().filter_map(|spec| Some((spec.name, values(spec.name)?))).collect();
        Ok(())
    }
}

const CONFIG: &str = "config";

fn flag(spec: &Spec) -> Arg {
    let help = format!("{} [default: {}] [env: {}]", spec.help, spec.default, variable(spec.name));
    let arg = Arg::new(spec.name).long(spec.name).value_name(spec.value).help(help);
    // So that a negative value is complained about, and not taken for a flag.
    let arg = arg.allow_negative_numbers(true).allow_hyphen_values(spec.value.contains("TIME"));
    match spec.kind {
        Kind::One => arg,
        Kind::Many => arg.action(ArgAction::Append),
        Kind::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
    }
}

/// The variable of an option.
fn variable(name: &str) -> String {
    format!("LOCKSPAN_{}", name.to_uppercase().replace('-', "_"))
}

/// The variables of all options.
pub(crate) fn variables() -> impl Iterator<Item = String> {
    TABLE.iter().map(|spec| spec.name).chain([CONFIG]).map(variable)
}

/// Where a value came from; it begins the sentence that complains about it.
enum Origin {
    Flag,
    Variable,
    File { path: PathBuf, line: usize },
}

impl Origin {
    fn of(&self, name: &str) -> String {
        match self {
            Self::Flag => format!("--{name}"),
            Self::Variable => variable(name),
            Self::File { path, line } => format!("{}:{line}: {name}", path.display()),
        }
    }
}

/// Puts flags, variables and the file together. `env` looks a variable up; one that is empty counts
/// as not set.
pub(crate) fn settle(
    flags: &Flags,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Settings, Bad> {
    let env = |name: &str| env(&variable(name)).filter(|value| !value.is_empty());
    let path = flags.config.clone().or_else(|| env(CONFIG).map(PathBuf::from));
    let entries = match &path {
        None => Vec::new(),
        Some(path) => {
            let text = read_config(path).map_err(|why| {
                let from = if flags.config.is_some() { Origin::Flag } else { Origin::Variable };
                Bad(format!("{}: {why}", from.of(CONFIG)))
            })?;
            file::read(path, &text)?
        }
    };
    let mut settings = Settings::default();
    for spec in TABLE {
        let given = flags.given.iter().find(|(name, _)| *name == spec.name);
        let entry = entries.iter().find(|entry| entry.name == spec.name);
        let (origin, values) = if let Some((_, values)) = given {
            (Origin::Flag, values.clone())
        } else if let Some(value) = env(spec.name) {
            let value = value
                .into_string()
                .map_err(|_| Bad(format!("{}: is not valid UTF-8", variable(spec.name))))?;
            (Origin::Variable, split(spec, &value))
        } else if let (Some(entry), Some(path)) = (entry, &path) {
            let origin = Origin::File { path: path.clone(), line: entry.line };
            (origin, entry.values.clone())
        } else {
            continue;
        };
        settings.given.insert(spec.name);
        for value in values {
            (spec.set)(&mut settings, &value)
                .map_err(|why| Bad(format!("{}: {value:?} {why}", origin.of(spec.name))))?;
        }
    }
    check(&settings)?;
    Ok(settings)
}

/// The text of the file with options. Whoever may change it decides about the service.
fn read_config(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unreadable = |why| format!("can't read {shown}: {why}");
    let file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    let mode = found.mode() & 0o7777;
    // A device, such as /dev/null, is nobody's to change.
    if found.is_file() && mode & 0o002 != 0 {
        return Err(format!(
            "every user may write to {shown} (mode {mode:04o}); run: chmod o-w {shown}"
        ));
    }
    std::io::read_to_string(file).map_err(unreadable)
}

/// A variable has one text; a list in it is divided by commas.
fn split(spec: &Spec, value: &str) -> Vec<String> {
    match spec.kind {
        Kind::Many => value.split(',').map(|part| part.trim().to_owned()).collect(),
        Kind::One | Kind::Switch => vec![value.to_owned()],
    }
}

/// What each value alone can't show.
fn check(settings: &Settings) -> Result<(), Bad> {
    let limits = &settings.config.protocol;
    if limits.ttl_min > limits.ttl_max {
        let (min, max) = (values::Span(limits.ttl_min), values::Span(limits.ttl_max));
        return Err(Bad(format!("min-lease ({min}) is longer than max-lease ({max})")));
    }
    if settings.fresh && settings.data_dir != DataDir::None {
        let text = "fresh is only allowed with data-dir none: with a data directory the server \
                    knows the leases of the earlier run. Remove fresh, or set data-dir to none";
        return Err(Bad(text.to_owned()));
    }
    if settings.local && settings.data_dir != DataDir::Default {
        let text = "local can't be combined with data-dir: the service for local: always uses its \
                    own data directory. Remove one of the two";
        return Err(Bad(text.to_owned()));
    }
    let tls = (&settings.tls_cert, &settings.tls_key, &settings.tls_client_ca);
    let missing = match tls {
        (Some(_), None, _) => "tls-cert needs tls-key, the private key of the certificate",
        (None, Some(_), _) => "tls-key needs tls-cert, the certificate of the key",
        (None, None, Some(_)) => "tls-client-ca needs tls-cert and tls-key",
        _ => return Ok(()),
    };
    Err(Bad(missing.to_owned()))
}

impl Settings {
    /// Whether this is to be the service behind `local:`: if it is said, or if nothing says that it
    /// is to be elsewhere.
    pub(crate) fn takes_place(&self) -> bool {
        self.local || (self.listen.is_empty() && self.data_dir == DataDir::Default)
    }

    /// The server's configuration, with the directories that are not named found.
    pub(crate) fn into_config(self) -> Result<lockspan_server::Config, Bad> {
        let place = match self.takes_place() {
            true => Some(local::folder().and_then(|folder| Ok((folder, local::socket()?)))),
            false => None,
        };
        let place = match place {
            Some(Err(bad)) if self.local => return Err(Bad(bad.to_string())),
            Some(Err(bad)) => {
                tracing::warn!("commands without a URL will not find this service: {bad}");
                None
            }
            Some(Ok(place)) => Some(place),
            None => None,
        };
        let mut config = self.config;
        config.listen = match (self.listen, self.local) {
            (listen, _) if !listen.is_empty() => listen,
            (_, true) => Vec::new(),
            (_, false) => config.listen,
        };
        if let Some((_, socket)) = &place {
            config.listen.push(Address::Unix(socket.clone()));
        }
        if let Some(group) = &self.socket_group {
            let number = values::group(group)
                .map_err(|why| Bad(format!("socket-group: {group:?} {why}")))?;
            config.socket.group = Some(number);
        }
        if let (Some(cert), Some(key)) = (self.tls_cert, self.tls_key) {
            config.tls = Some(ServerFiles { cert, key, client_ca: self.tls_client_ca });
        }
        config.http = match self.http {
            Some(at) => at.map(|at| Http { at, required: true }),
            None if self.local => None,
            None => Some(Http {
                at: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_HTTP_PORT)),
                required: false,
            }),
        };
        config.data = match self.data_dir {
            DataDir::None => Data::None { fresh: self.fresh },
            DataDir::At(dir) => Data::Dir(dir),
            DataDir::Default => match place {
                // Whoever is behind local: goes on with the same data, or tokens would fall.
                Some((folder, _)) => Data::Dir(folder.join("data")),
                None => {
                    let state = state::dir(|name| std::env::var_os(name)).ok_or_else(|| {
                    let text = "no default data directory: neither XDG_STATE_HOME nor HOME is set. \
                                Choose a directory with --data-dir";
                    Bad(text.to_owned())
                })?;
                    Data::Dir(state)
                }
            },
        };
        config.idle_exit = self.idle_exit.unwrap_or_else(|| self.local.then_some(LOCAL_IDLE));
        Ok(config)
    }
}

/// How long the user's own service stays when nobody uses it.
const LOCAL_IDLE: std::time::Duration = std::time::Duration::from_secs(60);
