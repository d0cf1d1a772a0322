//! Who holds a record, and what an operator does from a shell: `lockspan locks`, `sessions`,
//! `history`, `waits`, `end`, `take-back`, and what `lockspan run` says of itself and of others.

#![forbid(unsafe_code)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use common::resp::Resp;
use common::{Process, Service, lockspan, wait_until};
use lockspan_wire::Value;
use serde_json::Value as Json;

/// What a command of the binary said: its exit code, stdout and stderr.
fn done(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    (status.code().expect("it ended by itself"), text(stdout), text(stderr))
}

fn ask(service: &Service, words: &[&str]) -> (i32, String, String) {
    done(lockspan().args(words).env("LOCKSPAN_URL", service.url()))
}

/// The objects that a command prints with `--json`.
fn objects(service: &Service, words: &[&str]) -> Vec<Json> {
    let text = service.tell(words);
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

/// A run that holds a record until the test is over.
fn holder(service: &Service, words: &[&str]) -> Process {
    let mut holder = Process::start(&mut service.run(words, "echo held; exec sleep 1000"));
    holder.line_with("held");
    holder
}

/// A run that waits for a record, and is number `place` in line.
fn waiter(service: &Service, record: &str, place: usize) -> Process {
    let waiter = Process::start(&mut service.run(&["--note", "report", record], "true"));
    wait_until("it waits", || {
        let listed = objects(service, &["locks", "--json", record]);
        listed[0]["waiters"].as_array().is_some_and(|waiters| waiters.len() == place)
    });
    waiter
}

fn label(program: &str, run: &Process) -> String {
    let host = rustix::system::uname();
    format!("{program}@{}[{}]", host.nodename().to_string_lossy(), run.pid().as_raw_pid())
}

#[test]
fn locks_show_labels_notes_ages_and_the_order_of_turns() {
    let service = Service::start();
    let held = holder(&service, &["--note", "nightly import", "invoice:42"]);
    let (first, second) = (waiter(&service, "invoice:42", 1), waiter(&service, "invoice:42", 2));
    let record = &objects(&service, &["locks", "--json"])[0];
    assert_eq!(record["holders"][0]["label"], label("sh", &held));
    assert_eq!(record["holders"][0]["note"], "nightly import");
    assert!(record["holders"][0]["age_ms"].is_u64(), "{record}");
    for (at, run) in [&first, &second].into_iter().enumerate() {
        let waiter = &record["waiters"][at];
        assert_eq!((&waiter["place"], &waiter["note"]), (&(at + 1).into(), &"report".into()));
        assert_eq!(waiter["label"], label("sh", run));
        assert_eq!(waiter["session"].as_str().map(str::len), Some(13), "{waiter}");
    }
    let table = service.tell(&["locks", "invoice:*"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split("  ").collect()).collect();
    let cells = |row: &[&str]| -> Vec<String> {
        let cells = row.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    let head = ["RECORD", "STATE", "MODE", "AGE", "LABEL", "SESSION", "TOKEN", "NOTE"];
    assert_eq!(cells(&rows[0]), head, "{table}");
    let row = cells(&rows[1]);
    assert_eq!((&*row[0], &*row[1], &*row[7]), ("invoice:42", "alone-wanted", "nightly import"));
    assert_eq!(row[4], label("sh", &held), "in a pipe nothing is cut");
    assert_eq!((&*cells(&rows[2])[1], &*cells(&rows[3])[1]), ("waits 1", "waits 2"), "{table}");
}

#[test]
fn sessions_are_listed_and_found_by_label_id_or_user() {
    let service = Service::start();
    let (code, out, said) = ask(&service, &["sessions"]);
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
    assert!(said.contains("there is no session"), "{said}");
    let one = holder(&service, &["a:1"]);
    let mut other = Resp::on_socket(&service.socket()).unwrap();
    other.ask(&["LS.OPEN", "LABEL", "Zürich <b>&", "LEASE", "30000"]);
    let all = objects(&service, &["sessions", "--json"]);
    let labels: Vec<_> = all.iter().map(|it| it["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["Zürich <b>&", &label("sh", &one)]);
    assert_eq!((&all[1]["records"], &all[1]["state"]), (&1.into(), &"open".into()));
    assert_eq!(all[0]["lease_ms"], 30_000);
    let id = all[1]["session"].as_str().unwrap();
    for pattern in ["sh@", &label("sh", &one), &label("sh", &one)[..6], "sh@*]", &id[..7], id] {
        let found = objects(&service, &["sessions", "--json", pattern]);
        assert_eq!(found.len(), 1, "{pattern}: {found:?}");
        assert_eq!(found[0]["session"], id, "{pattern}");
    }
    let (code, out, said) = ask(&service, &["sessions", "nobody"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    assert!(said.contains("no session matches \"nobody\", of 2"), "{said}");
    let table = service.tell(&["sessions"]);
    assert!(table.starts_with("SESSION        LABEL"), "{table}");
    assert!(table.lines().nth(2).unwrap().starts_with(id), "{table}");
}

#[test]
fn the_history_of_a_record_names_sessions_that_have_ended() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("unix://{}/lock.sock", dir.path().display());
    let mut serve = lockspan();
    serve.args(["serve", "--data-dir", "none", "--fresh", "--http", "127.0.0.1:0", "--listen"]);
    let mut server = Process::start_with_log(serve.arg(url.replace("unix://", "unix:")));
    server.line_with("listening on");
    let tell = |words: &[&str]| done(lockspan().args(words).env("LOCKSPAN_URL", &url));
    assert_eq!(tell(&["run", "doc:1", "--", "true"]).0, 0);
    let (code, out, said) = tell(&["history", "--json", "doc:1"]);
    assert_eq!(code, 0, "{said}");
    let all: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let granted = all.iter().find(|it| it["what"] == "granted").expect("it was granted");
    assert!(granted["label"].as_str().unwrap().starts_with("true@"), "{granted}");
    assert!(granted["age_ms"].is_u64() && granted["token"].is_string(), "{granted}");
    let (_, out, _) = tell(&["history", "--count", "1", "doc:1"]);
    assert!(out.starts_with("AGO ") && out.lines().count() == 2, "{out}");
    let (code, out, said) = tell(&["history", "other:1"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    assert!(said.contains("has no history of other:1"), "{said}");
    assert_eq!(tell(&["history", "no-colon"]).0, 64);
    assert_eq!(tell(&["history", "--count", "0", "doc:1"]).0, 64);
}

#[test]
fn who_waits_for_whom_is_a_tree_or_json() {
    let service = Service::start();
    let (code, out, said) = ask(&service, &["waits"]);
    assert_eq!((code, &*out), (0, ""));
    assert!(said.contains("no session waits for another"), "{said}");
    let held = holder(&service, &["--note", "why", "a:1"]);
    let waiting = waiter(&service, "a:1", 1);
    let text = service.tell(&["waits"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("{} (s", label("sh", &held))), "{text}");
    let begin = format!("└─ a:1 (why): {} (s", label("sh", &waiting));
    assert!(lines[1].starts_with(&begin) && lines[1].contains(" waits 1, W, "), "{text}");
    let json = &objects(&service, &["waits", "--json"])[0];
    assert_eq!(json["records"][0]["waiters"][0]["place"], 1);
    assert_eq!(json["deadlocks"], Json::Array(Vec::new()));
}

#[test]
fn a_session_is_ended_by_its_id_the_begin_of_it_or_its_label() {
    let service = Service::start();
    for way in 0..3 {
        let mut run = holder(&service, &["--lease", "2s", "stuck:1"]);
        let listed = &objects(&service, &["locks", "--json"])[0]["holders"][0];
        let id = listed["session"].as_str().unwrap().to_owned();
        let name = [id.clone(), id[..8].to_owned(), label("sh", &run)][way].clone();
        let (code, out, said) = ask(&service, &["end", "--json", &name]);
        assert_eq!(code, 0, "{said}");
        let json: Json = serde_json::from_str(&out).unwrap();
        assert_eq!((&json["session"], &json["label"]), (&id.into(), &label("sh", &run).into()));
        assert!(json["left_ms"].as_u64().is_some_and(|left| left <= 2000), "{json}");
        assert_eq!(run.code(), 76, "the command was told and killed");
    }
    let run = holder(&service, &["--lease", "2s", "stuck:1"]);
    let (code, out, _) = ask(&service, &["end", &label("sh", &run)]);
    assert_eq!(code, 0);
    assert!(out.contains("is ended: its lease is no longer renewed"), "{out}");
}

#[test]
fn an_unknown_or_ambiguous_session_is_not_ended() {
    let service = Service::start();
    let mut client = Resp::on_socket(&service.socket()).unwrap();
    for _ in 0..2 {
        client.ask(&["LS.OPEN", "LABEL", "worker", "LEASE", "30000"]);
    }
    let _run = holder(&service, &["a:1"]);
    for (name, why) in [
        ("worker", "\"worker\" matches several sessions: worker (s"),
        ("nobody", "\"nobody\" is neither the id nor the label of a session"),
        ("s", "at least 4 characters of an id"),
        ("s000000000000", "there is no session s000000000000"),
        ("", "\"\" is neither"),
        ("a\u{1b}[2J", "\"a\\u{1b}[2J\" is neither"),
    ] {
        let (code, out, said) = ask(&service, &["end", name]);
        assert_eq!((code, &*out), (64, ""), "{name}: {said}");
        assert!(said.contains(why) && said.contains("Nothing was changed"), "{name}: {said}");
    }
    let all = objects(&service, &["sessions", "--json"]);
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|it| it["state"] == "open"), "{all:?}");
    assert_eq!(ask(&service, &["end"]).0, 64);
}

#[test]
fn a_cached_record_is_taken_back_and_one_in_use_is_not() {
    let service = Service::start();
    let locks = lockspan_client::Options::new().label("cacher").caching(true);
    let locks = locks.blocking_connect(&service.url()).unwrap();
    drop(locks.record("cached", "1").unwrap().blocking_write().unwrap());
    let holders = |name: &str| {
        let listed = objects(&service, &["locks", "--json", name]);
        listed.first().map(|it| it["holders"][0]["label"].as_str().unwrap_or("").to_owned())
    };
    assert_eq!(holders("cached:1").as_deref(), Some("cacher"));
    let (code, out, said) = ask(&service, &["take-back", "cached:1"]);
    assert_eq!(code, 0, "{said}");
    assert!(out.starts_with("cached:1 was given back by cacher (s"), "{out}");
    wait_until("nobody holds it", || holders("cached:1").is_none());
    // Nobody holds it now.
    let (code, out, said) = ask(&service, &["take-back", "cached:1"]);
    assert_eq!((code, &*out), (69, ""));
    assert!(said.contains("cached:1 was not taken back: no session holds this record"), "{said}");
    assert_eq!(ask(&service, &["take-back", "no-colon"]).0, 64);

    let run = holder(&service, &["used:1"]);
    let words = ["take-back", "--wait", "300ms", "--json", "used:1"];
    let (code, out, said) = ask(&service, &words);
    assert_eq!(code, 75, "{said}");
    let json: Json = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["given_back"], &json["asked_ms"]), (&false.into(), &300.into()));
    assert_eq!(json["holders"][0]["label"], label("sh", &run));
    let why = format!("used:1 was not given back within 300ms: {} (s", label("sh", &run));
    assert!(said.contains(&why) && said.contains("lockspan end s"), "{said}");
    assert_eq!(holders("used:1"), Some(label("sh", &run)), "it goes on");
    // Others wait already, so its holder has been told.
    let _waiter = waiter(&service, "used:1", 1);
    let (code, _, said) = ask(&service, &["take-back", "used:1"]);
    assert_eq!(code, 69);
    assert!(said.contains("other sessions already wait for this record"), "{said}");
}

/// A server with users: `ann` may lock and look, `boss` may end sessions and nothing else, `all`
/// may do everything.
fn with_users(dir: &std::path::Path) -> Process {
    let mut passwd = lockspan();
    let password = dir.join("password");
    fs::write(&password, "pw\n").unwrap();
    let (_, hash, _) = done(passwd.arg("passwd").stdin(fs::File::open(&password).unwrap()));
    let rights = |name: &str, rights: &str| {
        format!("[users.{name}]\npassword = \"{}\"\n{rights}\n", hash.trim())
    };
    let text = [
        rights("ann", "write = [\"*\"]\ninspect = [\"doc\"]"),
        rights("boss", "admin = [\"*\"]"),
        rights("all", "write = [\"*\"]\ninspect = [\"*\"]\nadmin = [\"*\"]"),
    ];
    let users = dir.join("users.toml");
    fs::write(&users, text.concat()).unwrap();
    let mut serve = lockspan();
    serve.args(["serve", "--data-dir", "none", "--fresh", "--users"]).arg(users);
    serve.args(["--listen", &format!("unix:{}/lock.sock", dir.display())]);
    let mut server = Process::start_with_log(&mut serve);
    server.line_with("listening on");
    server
}

#[test]
fn without_the_right_an_operator_is_told_which_one_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = with_users(dir.path());
    let url = format!("unix://{}/lock.sock", dir.path().display());
    let by = |user: &str, words: &[&str]| {
        let mut command = lockspan();
        command.args(words).env("LOCKSPAN_URL", &url).env("LOCKSPAN_USER", user);
        command.env("LOCKSPAN_PASSWORD", "pw");
        command
    };
    let as_user = |user: &str, words: &[&str]| done(&mut by(user, words));
    let script = ["run", "--lease", "2s", "doc:1", "--", "sh", "-c", "echo held; exec sleep 1000"];
    let mut run = Process::start(&mut by("ann", &script));
    run.line_with("held");
    let (_, out, _) = as_user("ann", &["sessions", "--json"]);
    let own: Json = serde_json::from_str(&out).unwrap();
    let id = own["session"].as_str().unwrap();
    let missing = "It needs a user with admin = [\"*\"] in the server's file of users. Nothing was";
    for words in [&["end", id][..], &["end", &id[..6]], &["take-back", "doc:1"]] {
        let (code, out, said) = as_user("ann", words);
        assert_eq!((code, &*out), (77, ""), "{words:?}: {said}");
        assert!(said.contains(missing), "{words:?}: {said}");
    }
    let (_, out, _) = as_user("ann", &["sessions", "--json"]);
    assert_eq!(serde_json::from_str::<Json>(&out).unwrap()["state"], "open");
    let (code, _, said) = as_user("ann", &["history", "other:1"]);
    assert_eq!(code, 77);
    assert!(said.contains("user ann lacks the right to inspect datatype other"), "{said}");
    // One who may act and not look can name a session by its whole id only.
    let (code, out, said) = as_user("boss", &["take-back", "--wait", "100ms", "doc:1"]);
    assert_eq!(code, 0, "{said}");
    assert!(out.contains("this user may not inspect the record"), "{out}");
    server.line_with("was not released in time");
    assert_eq!(as_user("boss", &["end", &id[..6]]).0, 64);
    let (code, out, said) = as_user("boss", &["end", id]);
    assert_eq!(code, 0, "{said}");
    assert!(out.starts_with(&format!("{id} is ended")), "{out}");
    server.line_with("session ended by operator");
    assert_eq!(run.code(), 76);
    wait_until("the session is over", || as_user("all", &["end", id]).0 == 64);
}

#[test]
fn commands_about_a_service_say_what_is_wrong_as_the_others_do() {
    for words in [
        &["sessions"][..],
        &["history", "a:1"],
        &["waits"],
        &["end", "s0123456789ab"],
        &["take-back", "a:1"],
    ] {
        let at = |url: &str| done(lockspan().args(words).env("LOCKSPAN_URL", url));
        let (code, _, said) = at("unix:///nowhere/lock.sock");
        assert_eq!(code, 69, "{words:?}: {said}");
        assert!(said.contains("no Lockspan server answers at /nowhere/lock.sock"), "{said}");
        let (code, _, said) = at("redis://127.0.0.1:1");
        assert_eq!(code, 64, "{words:?}: {said}");
        let command = format!("lockspan {} needs a Lockspan server", words[0]);
        assert!(said.contains(&command), "{said}");
    }
}

#[test]
fn a_run_that_is_refused_says_who_holds_the_record_and_how_many_are_before_it() {
    let service = Service::start();
    let held = holder(&service, &["--note", "nightly import", "invoice:42"]);
    let mut others = vec![waiter(&service, "invoice:42", 1), waiter(&service, "invoice:42", 2)];
    let refused = |words: &[&str]| done(&mut service.run(words, "true"));
    let begin = format!("lockspan: invoice:42 is held by {} for ", label("sh", &held));
    for (words, end) in [
        (&["--wait", "0", "invoice:42"][..], format!(", at {}", service.url())),
        (
            &["--wait", "400ms", "invoice:42"],
            format!("; not granted within 400ms at {}", service.url()),
        ),
    ] {
        let (code, _, said) = refused(words);
        assert_eq!(code, 75, "{said}");
        let rest = said.strip_prefix(&begin).unwrap_or_else(|| panic!("{said}"));
        let expected = format!(" (nightly import); 2 before you{end}\n");
        assert!(rest.ends_with(&expected), "{said}");
    }
    others.clear();
    wait_until("the line is empty", || {
        objects(&service, &["locks", "--json"])[0]["waiters"].as_array().is_some_and(Vec::is_empty)
    });
    let (_, _, said) = refused(&["--wait", "0", "invoice:42"]);
    assert!(said.contains("(nightly import), at ") && !said.contains("before you"), "{said}");
    drop(held);
}

#[test]
fn a_run_tells_whom_it_waits_for_only_if_it_was_asked_to_or_at_a_terminal() {
    let service = Service::start();
    let held = holder(&service, &["a:1"]);
    let (code, _, said) = done(&mut service.run(&["--wait", "1500ms", "a:1"], "true"));
    assert_eq!(code, 75);
    assert_eq!(said.lines().count(), 1, "nothing but the refusal: {said}");
    let words = ["-v", "--wait", "1500ms", "a:1"];
    let (_, _, said) = done(&mut service.run(&words, "true"));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], format!("lockspan: the service is {}", service.url()), "{said}");
    let holder = label("sh", &held);
    let waiting = format!("lockspan: waiting for a:1 at {}, held by {holder} for ", service.url());
    assert!(lines[1].starts_with(&waiting), "{said}");
    assert!(lines[2].contains("; not granted within 1500ms at "), "{said}");
    drop(held);
    let (code, _, said) = done(&mut service.run(&["-v", "b:1"], "true"));
    assert_eq!(code, 0);
    assert!(said.contains("lockspan: b:1 was granted after "), "{said}");
}

#[test]
fn a_note_or_label_that_is_too_long_or_hides_something_is_refused() {
    let service = Service::start();
    for (note, why) in [
        ("x".repeat(257), "--note: the text has 257 bytes; 256 is the most"),
        ("two\nlines".to_owned(), "--note: the text has a control or hidden character"),
        ("\u{202e}".to_owned(), "--note: the text has a control or hidden character"),
        (String::new(), "--note: the text is empty"),
    ] {
        let (code, _, said) = done(&mut service.run(&["--note", &note, "a:1"], "echo never"));
        assert_eq!(code, 64, "{said}");
        assert!(said.contains(why) && !said.contains('\u{202e}'), "{said:?}");
        let mut client = Resp::on_socket(&service.socket()).unwrap();
        let refused = |value: Value| matches!(value, Value::Error { .. });
        assert!(refused(client.ask(&["LS.OPEN", "LABEL", &note])));
        assert!(refused(client.ask(&["LS.LOCK", "a:1", "W", "NOTE", &note])));
    }
    assert_eq!(objects(&service, &["sessions", "--json"]), [Json::Null; 0], "nothing was opened");
    assert_eq!(objects(&service, &["locks", "--json"]), [Json::Null; 0]);
    let longest = "é".repeat(128);
    let _held = holder(&service, &["--note", &longest, "a:1"]);
    assert_eq!(objects(&service, &["locks", "--json"])[0]["holders"][0]["note"], longest);
}

#[test]
fn a_command_with_an_odd_name_has_a_label_that_shows_itself() {
    let service = Service::start();
    let odd = service.dir().join(format!("a\n\u{1b}[2J{}", "é".repeat(110)));
    symlink("/bin/sleep", &odd).unwrap();
    let mut run = lockspan();
    run.args(["run", "--url", &service.url(), "a:1", "--"]).arg(&odd).arg("1000");
    let run = Process::start(&mut run);
    let held = || objects(&service, &["locks", "--json"]);
    wait_until("it holds the record", || !held().is_empty());
    let label = held()[0]["holders"][0]["label"].as_str().unwrap().to_owned();
    assert!(label.starts_with("a??[2Jéé") && label.len() <= 256, "{label}");
    assert!(label.ends_with(&format!("[{}]", run.pid().as_raw_pid())), "{label}");
    let table = service.tell(&["locks"]);
    assert!(table.contains(&label) && table.lines().count() == 2, "{table}");
    // Arguments are not told: they may be secrets.
    let mut run = lockspan();
    run.args(["run", "--url", &service.url(), "b:1", "--", "sleep", "1000.25"]);
    let _run = Process::start(&mut run);
    wait_until("it holds the record", || held().len() == 2);
    assert!(!service.tell(&["locks"]).contains("1000.25"));
}
