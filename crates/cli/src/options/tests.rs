//! Where options come from, and what is said of bad ones.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use lockspan_server::SocketRights;

use super::table::{LogFormat, TABLE};
use super::*;

/// The settings from flags, variables and the text of a file.
fn settled(flags: &[&str], env: &[(&str, &str)], file: &str) -> Result<Settings, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lockspan.toml");
    std::fs::write(&path, file).unwrap();
    let command = Flags::augment_args(Command::new("serve").no_binary_name(true));
    let matches = command.try_get_matches_from(flags).map_err(|bad| bad.to_string())?;
    let mut flags = Flags::from_arg_matches(&matches).unwrap();
    if !file.is_empty() {
        flags.config = Some(path.clone());
    }
    let look_up = |name: &str| {
        env.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
    };
    let dir = format!("{}/", dir.path().display());
    settle(&flags, look_up).map_err(|bad| bad.0.replace(&dir, ""))
}

fn lease(flags: &[&str], env: &[(&str, &str)], file: &str) -> Duration {
    settled(flags, env, file).unwrap().config.protocol.ttl_max
}

fn complaint(flags: &[&str], env: &[(&str, &str)], file: &str) -> String {
    settled(flags, env, file).map(drop).unwrap_err()
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let (flag, env, file) =
        (["--max-lease", "11s"], [("LOCKSPAN_MAX_LEASE", "12s")], "max-lease = \"13s\"");
    assert_eq!(lease(&flag, &env, file), Duration::from_secs(11));
    assert_eq!(lease(&[], &env, file), Duration::from_secs(12));
    assert_eq!(lease(&[], &[("LOCKSPAN_MAX_LEASE", "")], file), Duration::from_secs(13));
    assert_eq!(lease(&[], &[], ""), Duration::from_secs(60));
}

#[test]
fn a_list_is_taken_whole_from_the_strongest_place() {
    let file = "listen = [\"127.0.0.1:1\", \"unix:/a\"]";
    let listen = |flags: &[&str], env: &[(&str, &str)]| -> Vec<String> {
        settled(flags, env, file).unwrap().listen.iter().map(ToString::to_string).collect()
    };
    assert_eq!(listen(&[], &[]), ["127.0.0.1:1", "unix:/a"]);
    assert_eq!(
        listen(&[], &[("LOCKSPAN_LISTEN", "127.0.0.1:2, unix:/b")]),
        ["127.0.0.1:2", "unix:/b"]
    );
    assert_eq!(
        listen(&["--listen", "[::1]:3", "--listen", "unix:/c"], &[("LOCKSPAN_LISTEN", "unix:/b")]),
        ["[::1]:3", "unix:/c"]
    );
}

#[test]
fn a_switch_is_a_flag_alone_or_a_word() {
    let fresh =
        |flags: &[&str], env: &[(&str, &str)], file: &str| settled(flags, env, file).unwrap().fresh;
    let none = ("LOCKSPAN_DATA_DIR", "none");
    assert!(fresh(&["--fresh"], &[none], ""));
    assert!(fresh(&[], &[none, ("LOCKSPAN_FRESH", "1")], ""));
    assert!(fresh(&[], &[none], "fresh = true"));
    assert!(!fresh(&["--fresh=false"], &[none], "fresh = true"));
}

#[test]
fn a_bad_value_is_told_with_its_place() {
    let text = "\"5x\" is not a duration; use seconds, or numbers with ms, s, m or h: 5, 250ms, \
                10s or 1h30m";
    assert_eq!(complaint(&["--max-lease", "5x"], &[], ""), format!("--max-lease: {text}"));
    assert_eq!(
        complaint(&[], &[("LOCKSPAN_MAX_LEASE", "5x")], ""),
        format!("LOCKSPAN_MAX_LEASE: {text}")
    );
    assert_eq!(
        complaint(&[], &[], "# ours\n\nmax-lease = \"5x\"\n"),
        format!("lockspan.toml:3: max-lease: {text}")
    );
}

#[test]
fn a_time_is_written_in_the_same_way_everywhere() {
    let max = |seconds| Duration::from_secs(seconds);
    assert_eq!(lease(&["--max-lease", "30"], &[], ""), max(30));
    assert_eq!(lease(&[], &[("LOCKSPAN_MAX_LEASE", "1h30m")], ""), max(5400));
    assert_eq!(lease(&[], &[], "max-lease = 30"), max(30));
    assert_eq!(lease(&[], &[], "max-lease = 30.5"), Duration::from_millis(30_500));
    let text = "\"-5s\" is negative; the minimum is 0";
    assert_eq!(complaint(&["--max-lease", "-5s"], &[], ""), format!("--max-lease: {text}"));
    let said = complaint(&[], &[], "max-lease = -5");
    assert!(said.starts_with("lockspan.toml:1: max-lease: \"-5\" is negative"), "{said}");
    let said = complaint(&[], &[], "shards = 1.5");
    assert!(said.contains("\"1.5\" is not a whole number"), "{said}");
}

#[test]
fn a_bad_address_is_told_with_what_is_allowed() {
    assert_eq!(
        complaint(&["--listen", "here"], &[], ""),
        "--listen: \"here\" is not an address: use <ip>:<port>, as in 127.0.0.1:7420, or \
         unix:<path>"
    );
}

#[test]
fn bad_words_and_numbers_say_what_is_allowed() {
    for (flags, text) in [
        (["--log", "xml"], "--log: \"xml\" is not one of text, json"),
        (
            ["--log-level", "loud"],
            "--log-level: \"loud\" is not one of off, error, warn, info, debug, trace",
        ),
        (["--shards", "0"], "--shards: \"0\" is not a whole number from 1 to 256"),
        (
            ["--max-frame", "1MB"],
            "--max-frame: \"1MB\" is not a size; examples are 65536 (bytes), 64KiB, 8MiB and 1GiB",
        ),
        (["--data-dir", ""], "--data-dir: \"\" is empty; give a directory, or none"),
        (
            ["--min-lease", "1ms"],
            "--min-lease: \"1ms\" is too short for a lease; the minimum is 100ms",
        ),
    ] {
        assert_eq!(complaint(&flags, &[], ""), text);
    }
}

#[test]
fn an_unknown_key_is_told_with_the_nearest() {
    assert_eq!(
        complaint(&[], &[], "shards = 4\nmax_leese = \"5s\""),
        "lockspan.toml:2: there is no option \"max_leese\"; did you mean \"max-lease\"?"
    );
    let far = complaint(&[], &[], "[qqq]\nx = 1");
    assert!(
        far.starts_with("lockspan.toml:1: there is no option \"qqq\"; the options are listen, ")
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_told_with_its_line() {
    assert_eq!(
        complaint(&[], &[], "\nfresh = \"yes\""),
        "lockspan.toml:2: fresh: must be true or false, without quotes"
    );
    assert_eq!(
        complaint(&[], &[], "listen = 1.5"),
        "lockspan.toml:1: listen: must be a string or a list of strings"
    );
    assert_eq!(
        complaint(&[], &[], "shards = [1]"),
        "lockspan.toml:1: shards: must be a string or a number (N)"
    );
}

#[test]
fn a_file_that_is_no_toml_is_told_with_its_line() {
    let text = complaint(&[], &[], "shards = 4\nlog = = 1\n");
    assert!(text.starts_with("lockspan.toml:2: "), "{text}");
    let text = complaint(&[], &[], "shards = 4\nlog = \"json\"\nshards = 5\n");
    assert_eq!(text, "lockspan.toml:3: shards is set twice; remove one of them");
}

#[test]
fn a_file_that_is_not_there_is_told_with_who_named_it() {
    let text = complaint(&["--config", "/nowhere.toml"], &[], "");
    assert!(text.starts_with("--config: can't read /nowhere.toml: "), "{text}");
    let text = complaint(&[], &[("LOCKSPAN_CONFIG", "/nowhere.toml")], "");
    assert!(text.starts_with("LOCKSPAN_CONFIG: can't read /nowhere.toml: "), "{text}");
}

#[test]
fn what_contradicts_is_told() {
    assert_eq!(
        complaint(&["--min-lease", "10s", "--max-lease", "5s"], &[], ""),
        "min-lease (10s) is longer than max-lease (5s)"
    );
    assert!(
        complaint(&["--fresh"], &[], "").starts_with("fresh is only allowed with data-dir none")
    );
}

#[test]
fn the_defaults_in_the_help_are_those_of_the_server() {
    let plain = Settings::default();
    for spec in TABLE {
        if matches!(spec.name, "listen" | "http" | "data-dir" | "idle-exit" | "socket-group") {
            continue;
        }
        // What one user may have follows from the whole, see `Config::fit`.
        if spec.default.starts_with("a quarter of max-") {
            continue;
        }
        let mut set = Settings::default();
        let default = spec.default.split(", less with ").next().expect("the default");
        (spec.set)(&mut set, default).expect(spec.name);
        assert_eq!(format!("{set:?}"), format!("{plain:?}"), "{}", spec.name);
    }
    let listen = TABLE.iter().find(|spec| spec.name == "listen").map(|spec| spec.default);
    let port = plain.config.listen.first().map(ToString::to_string).unwrap();
    assert_eq!(listen, Some(format!("{port}, and local:").as_str()));
}

#[test]
fn every_option_is_reached_by_all_three_ways() {
    for spec in TABLE {
        let value = match spec.name {
            "listen" => "unix:/x",
            "http" => "127.0.0.1:9",
            "data-dir" => "/x",
            "idle-exit" => "9s",
            "socket-mode" => "0660",
            "log" => "json",
            "log-level" => "warn",
            "min-lease" => "2s",
            "max-lease" | "stop-grace" | "tcp-keepalive" => "50s",
            "max-outbox" | "max-outboxes" | "max-frame" => "2MiB",
            "fresh" | "local" | "insecure" => "true",
            _ => "99",
        };
        let none = ("LOCKSPAN_DATA_DIR", "none");
        let (cert, key) = (("LOCKSPAN_TLS_CERT", "/x"), ("LOCKSPAN_TLS_KEY", "/x"));
        // What it does not go without.
        let none: &[_] = match spec.name {
            "fresh" => &[none],
            "tls-client-ca" => &[cert, key],
            _ => &[],
        };
        if matches!(spec.name, "tls-cert" | "tls-key") {
            // They need each other, and have a test of their own.
            continue;
        }
        let name = variable(spec.name);
        let quoted = if spec.kind == Kind::Switch { value.into() } else { format!("{value:?}") };
        let [by_flag, by_variable, by_file] = [
            settled(&[&format!("--{}={value}", spec.name)], none, ""),
            settled(&[], &[none, &[(&name, value)]].concat(), ""),
            settled(&[], none, &format!("{} = {quoted}", spec.name)),
        ]
        .map(|settings| {
            let mut settings = settings.unwrap();
            assert!(settings.given.contains(spec.name), "{}", spec.name);
            settings.given.clear();
            format!("{settings:?}")
        });
        let mut plain = settled(&[], none, "").unwrap();
        plain.given.clear();
        assert_ne!(by_flag, format!("{plain:?}"), "{}", spec.name);
        assert_eq!(by_flag, by_variable, "{}", spec.name);
        assert_eq!(by_flag, by_file, "{}", spec.name);
    }
}

#[test]
fn local_moves_the_socket_and_the_data_and_ends_when_idle() {
    let config = settled(&["--local", "--listen", "unix:/x"], &[], "").unwrap();
    assert_eq!(config.log, LogFormat::Text);
    let config = config.into_config().unwrap();
    assert_eq!(config.idle_exit, Some(Duration::from_secs(60)));
    let Data::Dir(dir) = config.data else { panic!("{:?}", config.data) };
    assert!(dir.ends_with(PathBuf::from("data")), "{dir:?}");
    let config = settled(&["--local", "--idle-exit", "never", "--listen", "unix:/x"], &[], "");
    assert_eq!(config.unwrap().into_config().unwrap().idle_exit, None);
}

/// Commands without a URL go to `local:`, so that is where a service is that was not told where to
/// be; one that was is not.
#[test]
fn local_l7_without_a_word_it_is_the_service_behind_local() {
    let listens = |flags: &[&str]| {
        let settings = settled(flags, &[], "").unwrap();
        let takes_place = settings.takes_place();
        (takes_place, settings.into_config().unwrap())
    };
    let (takes_place, config) = listens(&[]);
    assert!(takes_place);
    let socket = Address::Unix(lockspan_client::local::socket().expect("we have a home"));
    assert_eq!(config.listen.len(), 2);
    assert!(config.listen.contains(&socket) && config.http.is_some(), "{config:?}");
    let (folder, data) = (lockspan_client::local::folder().unwrap(), config.data);
    assert!(matches!(&data, Data::Dir(dir) if *dir == folder.join("data")), "{data:?}");
    assert_eq!(config.idle_exit, None);
    for flags in [&["--listen", "127.0.0.1:1"][..], &["--data-dir", "/x"]] {
        let (takes_place, config) = listens(flags);
        assert!(!takes_place && !config.listen.contains(&socket), "{flags:?}: {config:?}");
    }
    let (takes_place, config) = listens(&["--listen", "127.0.0.1:1", "--local"]);
    assert!(takes_place && config.listen.len() == 2 && config.listen.contains(&socket));
    let text = complaint(&["--local", "--data-dir", "/x"], &[], "");
    assert!(text.starts_with("local can't be combined with data-dir"), "{text}");
}

#[test]
fn who_may_connect_to_a_socket_file_is_said() {
    let rights = |flags: &[&str]| {
        let flags = [flags, &["--listen", "unix:/x", "--data-dir", "/y"]].concat();
        settled(&flags, &[], "").unwrap().into_config().map(|config| config.socket)
    };
    assert_eq!(rights(&[]).unwrap(), SocketRights { mode: 0o600, group: None });
    let shared = rights(&["--socket-mode", "0660", "--socket-group", "root"]).unwrap();
    assert_eq!(shared, SocketRights { mode: 0o660, group: Some(0) });
    let bad = rights(&["--socket-group", "no such group"]).unwrap_err();
    assert_eq!(bad.0, "socket-group: \"no such group\" is not a group of this machine");
    for mode in ["9", "0999", "01777", "rw", ""] {
        let text = complaint(&["--socket-mode", mode], &[], "");
        assert!(text.contains("is not a mode such as 0600"), "{mode}: {text}");
    }
}

#[test]
fn tls_and_users_come_from_the_same_places() {
    let file = "tls-cert = \"/c.pem\"\ntls-key = \"/k.pem\"\ninsecure = true";
    let config = settled(&["--tls-client-ca", "/a.pem"], &[("LOCKSPAN_USERS", "/u.toml")], file);
    let config = config.unwrap().into_config().unwrap();
    let (cert, key, client_ca) = ("/c.pem".into(), "/k.pem".into(), Some("/a.pem".into()));
    assert_eq!(config.tls, Some(ServerFiles { cert, key, client_ca }));
    assert_eq!((config.users, config.insecure), (Some(PathBuf::from("/u.toml")), true));
    let why = complaint(&[], &[("LOCKSPAN_TLS_KEY", "/k.pem")], "");
    assert_eq!(why, "tls-key needs tls-cert, the certificate of the key");
}

#[test]
fn the_page_is_on_unless_it_is_not_wanted() {
    let http = |flags: &[&str]| settled(flags, &[], "").unwrap().into_config().unwrap().http;
    let usual = http(&["--data-dir", "/x"]).expect("by default");
    assert_eq!((usual.at.to_string(), usual.required), ("127.0.0.1:7421".to_owned(), false));
    assert_eq!(http(&["--data-dir", "/x", "--http", "none"]), None);
    assert_eq!(http(&["--local", "--listen", "unix:/x"]), None);
    let named = http(&["--local", "--listen", "unix:/x", "--http", "[::1]:0"]).expect("named");
    assert!(named.required && named.at.ip().is_ipv6(), "{named:?}");
    let text = complaint(&["--http", "7421"], &[], "");
    assert!(text.starts_with("--http: \"7421\" is neither none nor an address"), "{text}");
}
