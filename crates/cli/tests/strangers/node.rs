//! node-redis: every command in RESP3, events on the same connection, and the page's own example.

use std::process::Command;

use crate::page;
use crate::server::Server;
use crate::tool;

/// Runs a module of JavaScript that may import `redis`.
fn passes(script: &str, port: u16) {
    let folder = tool::named_by("LOCKSPAN_NODE", "a folder with node-redis");
    let node = |words: &[&str]| {
        let mut node = Command::new("node");
        node.args(words).current_dir(&folder);
        node
    };
    let probe = ["--input-type=module", "-e", "import 'redis'"];
    tool::require(&mut node(&probe), "Node.js with node-redis");
    tool::passes(&mut node(&["--input-type=module", "-", &port.to_string()]), script);
}

#[test]
fn node_redis_takes_locks() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    passes(include_str!("node_redis.mjs"), server.port());
}

#[test]
fn the_example_of_the_page_gives_a_record_back() {
    let page = page::text();
    let mut examples = page::blocks(&page);
    examples.retain(|block| block.kind == "js");
    let [example] = &examples[..] else { panic!("the page has {} examples", examples.len()) };
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::start(dir.path());
    let port = format!(":{}", server.port());
    let example = example.lines.join("\n").replace(":7420", &port);
    let script = include_str!("node_example.mjs").replace("/* the example */", &example);
    passes(&script, server.port());
}
