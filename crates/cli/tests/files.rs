//! The files that a server and `local:` make are for their user alone.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Home, Process, lockspan, wait_until};
use rustix::process::Signal;

/// All that is in a directory, at any depth.
fn below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, found);
        }
        found.push(path);
    }
}

/// Nobody but the owner has any right to it; returns the names.
fn names_of_private(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    below(dir, &mut all);
    for path in &all {
        let found = fs::symlink_metadata(path).unwrap();
        let wanted = if found.is_dir() { 0o700 } else { 0o600 };
        assert!(found.is_file() || found.is_dir() || found.file_type().is_socket());
        assert_eq!(found.mode() & 0o7777, wanted, "{}", path.display());
    }
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut names: Vec<_> = all.iter().map(name).collect();
    names.sort();
    names
}

/// The same command under another umask.
fn with_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

#[test]
fn service_f105_every_file_of_a_server_is_private_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let dir = tempfile::tempdir().unwrap();
        let mut serve = lockspan();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--listen"]);
        serve.arg(format!("unix:{}", dir.path().join("s").display()));
        serve.arg("--data-dir").arg(dir.path().join("above/data"));
        let mut server = Process::start_with_log(&mut with_umask(umask, &serve));
        server.line_with("page and metrics on");
        let mut expected = vec!["above", "data", "lockspan.data", "lockspan.key", "lockspan.lock"];
        expected.extend(["operator.secret", "s", "s.lock"]);
        assert_eq!(names_of_private(dir.path()), expected, "umask {umask}");
        server.signal(Signal::TERM);
        assert_eq!(server.code(), 0);
    }
}

#[test]
fn service_f105_every_file_of_local_is_private_whatever_the_umask() {
    for umask in ["000", "022"] {
        let home = Home::new();
        let run = home.run(&["a:1"], "true");
        let mut run = Process::start(&mut with_umask(umask, &run));
        assert_eq!(run.code(), 0);
        // What it notes when its data are deleted.
        fs::remove_dir_all(home.folder().join("data")).unwrap();
        let files = ["lost", "data/lockspan.lock", "lock.sock"];
        wait_until("it has made its files anew", || {
            files.iter().all(|name| home.folder().join(name).exists())
        });
        let names = names_of_private(&home.dir().join("home"));
        for name in [".local", "state", "data", "lockspan.lock", "lost", "lock.sock", "service.log"]
        {
            assert!(names.iter().any(|known| known == name), "{name} of {names:?}");
        }
    }
}

#[test]
fn service_f109_settings_that_everybody_may_change_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("lockspan.toml");
    fs::write(&config, "listen = [\"127.0.0.1:0\"]\ndata-dir = \"none\"\nfresh = true\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o646)).unwrap();
    let serve = || {
        let mut serve = lockspan();
        serve.args(["serve", "--config"]).arg(&config);
        Process::start_with_log(&mut serve)
    };
    let mut refused = serve();
    assert_eq!(refused.code(), 78);
    let text = refused.rest().join("\n");
    assert!(text.contains("every user may write to") && text.contains("chmod o-w"), "{text}");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    serve().line_with("listening on");
}
