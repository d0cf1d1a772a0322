//! The metrics: their text is what Prometheus reads, and their numbers are true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lockspan_server::{Config, Data, Server};

use crate::client::{Client, fresh, start, until};
use crate::exposition::{Family, families};
use crate::http::{get, with_page};
use crate::users::{as_user, users};

async fn read(server: &Server) -> BTreeMap<String, Family> {
    let answer = get(server, "/metrics").await;
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").expect("a type");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    families(&answer.body).unwrap_or_else(|why| panic!("{why}\n{}", answer.body))
}

fn value(families: &BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let family = name.trim_end_matches("_count").trim_end_matches("_sum");
    let family = families.get(family).or_else(|| families.get(name)).expect(name);
    family.value(name, labels).unwrap_or_else(|| panic!("no {name} {labels:?}: {family:?}"))
}

async fn traffic(server: &Server) {
    let (mut one, mut two) = (Client::new(server).await, Client::new(server).await);
    let (first, second) = (one.open(&[]).await, two.open(&[]).await);
    one.ask(&["LS.ACQUIRE", &first, "doc:1", "W"]).await;
    one.ask(&["LS.ACQUIRE", &first, "odd \"\\name:1", "R"]).await;
    one.ask(&["LS.ACQUIRE", &first, "other:1", "R"]).await;
    two.send(&["LS.ACQUIRE", &second, "doc:1", "W", "WAIT", "forever"]).await;
    until("it waits", || server.stats().claims == 4).await;
    one.ask(&["LS.RELEASE", &first, "doc:1", "1"]).await;
    two.reply().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_number_is_true() {
    let server = start(with_page(fresh())).await;
    traffic(&server).await;
    let metrics = read(&server).await;
    let of = |name: &str, labels: &[(&str, &str)]| value(&metrics, name, labels);
    let doc = ("datatype", "doc");
    assert_eq!(of("lockspan_grants_total", &[doc, ("mode", "write")]), 2.0);
    assert_eq!(of("lockspan_grants_total", &[doc, ("mode", "read")]), 0.0);
    assert_eq!(of("lockspan_handovers_total", &[doc]), 1.0);
    assert_eq!(of("lockspan_revokes_total", &[doc]), 1.0);
    assert_eq!(of("lockspan_held_grants", &[doc]), 1.0);
    assert_eq!(of("lockspan_queue_length", &[doc]), 0.0);
    assert_eq!(of("lockspan_wait_seconds_count", &[doc]), 1.0);
    assert_eq!(of("lockspan_hold_seconds_count", &[doc]), 1.0);
    assert!(of("lockspan_wait_seconds_sum", &[doc]) > 0.0);
    // A datatype that is called as the rest is, and one that needs care.
    assert_eq!(of("lockspan_grants_total", &[("datatype", "other"), ("mode", "read")]), 1.0);
    let odd = ("datatype", "odd \"\\name");
    assert_eq!(of("lockspan_held_grants", &[odd]), 1.0);
    assert_eq!(of("lockspan_sessions", &[]), 2.0);
    assert_eq!(of("lockspan_records", &[]), 3.0);
    assert_eq!(of("lockspan_ready", &[]), 1.0);
    for name in ["lockspan_received_bytes_total", "lockspan_sent_bytes_total"] {
        assert!(of(name, &[]) > 100.0, "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn datatypes_without_end_are_counted_together() {
    let server = start(with_page(fresh())).await;
    let mut client = Client::new(&server).await;
    let session = client.open(&[]).await;
    for number in 0..100 {
        client.ask(&["LS.ACQUIRE", &session, &format!("t{number}:1"), "R"]).await;
    }
    let metrics = read(&server).await;
    let held = &metrics["lockspan_held_grants"];
    assert_eq!(held.samples.len(), 33, "32 and the rest");
    let rest = value(&metrics, "lockspan_held_grants", &[("datatype", "other")]);
    assert_eq!(rest, 68.0);
    server.stop().await;
}

/// A user who may choose names takes labels from no other.
#[tokio::test(flavor = "multi_thread")]
async fn service_f102_one_user_does_not_take_the_labels_of_all_datatypes() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = users(dir.path());
    let mut text = std::fs::read_to_string(&path).expect("written");
    // The last user's password.
    let mut lines = text.lines().rev();
    let hash = lines.find(|line| line.starts_with("password")).expect("a hash").to_owned();
    text.push_str(&format!("\n[users.mallory]\n{hash}\nwrite = [\"x*\"]\n"));
    std::fs::write(&path, &text).expect("written");
    let server = start(with_page(Config { users: Some(path), ..fresh() })).await;
    let mut mallory = as_user(&server, "mallory").await;
    let session = mallory.open(&[]).await;
    for number in 0..100 {
        mallory.ask(&["LS.ACQUIRE", &session, &format!("x{number}:1"), "R"]).await;
    }
    let mut ann = as_user(&server, "ann").await;
    let session = ann.open(&[]).await;
    ann.ask(&["LS.ACQUIRE", &session, "doc:1", "W"]).await;
    let metrics = read(&server).await;
    let held = |name| value(&metrics, "lockspan_held_grants", &[("datatype", name)]);
    assert_eq!((held("x0"), held("x31"), held("doc"), held("other")), (1.0, 1.0, 1.0, 68.0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lease_takes_along_is_counted() {
    let mut config = with_page(fresh());
    config.protocol.ttl_min = Duration::from_secs(1);
    let server = start(config).await;
    let mut client = Client::new(&server).await;
    // Long enough for two commands on a busy machine.
    let short = client.open(&["LEASE", "2000"]).await;
    client.ask(&["LS.ACQUIRE", &short, "doc:1", "W"]).await;
    client.ask(&["LS.ACQUIRE", &short, "doc:2", "R"]).await;
    until("its lease ends", || server.stats().sessions == 0).await;
    let closed = client.open(&[]).await;
    client.ask(&["LS.ACQUIRE", &closed, "doc:1", "W"]).await;
    client.ask(&["LS.CLOSE", &closed]).await;
    let metrics = read(&server).await;
    assert_eq!(value(&metrics, "lockspan_session_expirations_total", &[]), 1.0);
    assert_eq!(value(&metrics, "lockspan_lost_grants_total", &[]), 2.0);
    assert_eq!(value(&metrics, "lockspan_held_grants", &[("datatype", "doc")]), 0.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_grants_nothing_yet_is_not_ready() {
    let server = start(with_page(Config { data: Data::None { fresh: false }, ..fresh() })).await;
    let ready = get(&server, "/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("re-assert"), "{}", ready.body);
    assert_eq!(get(&server, "/healthz").await.status, 200);
    let metrics = read(&server).await;
    assert_eq!(value(&metrics, "lockspan_ready", &[]), 0.0);
    assert_eq!(value(&metrics, "lockspan_recovering", &[]), 1.0);
    server.stop().await;

    let server = start(with_page(fresh())).await;
    let ready = get(&server, "/readyz").await;
    assert_eq!((ready.status, &*ready.body), (200, "ready\n"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_has_nothing_to_complain_about() {
    let server = start(with_page(fresh())).await;
    traffic(&server).await;
    let text = get(&server, "/metrics").await.body;
    server.stop().await;
    let Some(said) = promtool(&["check", "metrics"], Some(&text)) else { return };
    assert_eq!(said, "", "of the metrics");
    for (job, file) in [("check", "lockspan.rules.yml"), ("test", "lockspan.rules.test.yml")] {
        let file = packaging().join("prometheus").join(file);
        let said = promtool(&[job, "rules", &file.display().to_string()], None);
        let said = said.unwrap_or_default();
        assert!(said.contains("SUCCESS") && !said.contains("FAILED"), "{said}");
    }
}

/// What it says; nothing if it is not installed. One that is named has to be there.
fn promtool(args: &[&str], input: Option<&str>) -> Option<String> {
    use std::io::Write as _;
    let piped = Stdio::piped;
    let named = std::env::var_os("LOCKSPAN_PROMTOOL");
    let mut command = Command::new(named.clone().unwrap_or_else(|| "promtool".into()));
    command.args(args).stdin(piped()).stdout(piped()).stderr(piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(why) if named.is_some() => panic!("{command:?}: {why}"),
        Err(_) => {
            eprintln!("promtool is not installed: this was not checked by it");
            return None;
        }
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.unwrap_or_default().as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    Some(String::from_utf8(said).expect("text"))
}

fn packaging() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The names in an expression that look like ours.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    words.filter(|word| word.starts_with("lockspan_")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_and_the_alerts_ask_for_what_there_is() {
    let server = start(with_page(fresh())).await;
    traffic(&server).await;
    let metrics = read(&server).await;
    server.stop().await;
    let known: BTreeSet<_> = metrics
        .values()
        .flat_map(|family| family.samples.iter().map(|it| it.name.clone()))
        .collect();
    let dashboard = packaging().join("grafana/lockspan.json");
    let dashboard = std::fs::read_to_string(dashboard).expect("it is there");
    let json: serde_json::Value = serde_json::from_str(&dashboard).expect("it is JSON");
    let expressions: Vec<_> = json["panels"]
        .as_array()
        .expect("panels")
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().expect("an expression").to_owned())
        .collect();
    assert!(expressions.len() >= 10, "{expressions:?}");
    let rules = packaging().join("prometheus/lockspan.rules.yml");
    let rules = std::fs::read_to_string(rules).expect("it is there");
    let rules = rules.lines().filter(|line| line.contains("expr:"));
    let asked: BTreeSet<_> =
        expressions.iter().map(String::as_str).chain(rules).flat_map(names).collect();
    assert!(asked.len() >= 10, "{asked:?}");
    let missing: Vec<_> = asked.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?} are not among {known:?}");
}
