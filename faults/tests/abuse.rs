//! Clients that misbehave, in small: other clients continue, and the server's memory is bounded.

#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use lockspan_faults::abuse::{self, Kind, Plan, Server, Size};

/// What a misuse may cost the server at the most, in bytes of memory.
const MEMORY: u64 = 256 << 20;

/// One test a kind would start a server each at the same time; one after the other is as fast.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_misbehaves_others_go_on_and_memory_is_bounded() {
    let program = Path::new(env!("CARGO_BIN_EXE_faults")).to_owned();
    let binary = program.with_file_name("lockspan");
    assert!(binary.exists(), "the server is a program: `cargo build -p lockspan-cli` first");
    let plan = Plan { program, binary, time: Duration::from_millis(1500), size: Size(10) };
    for kind in Kind::ALL {
        let name = kind.name();
        // Every turn of the innocent client has to succeed, or this is an error.
        let row = abuse::misuse(&plan, kind, Server::Lockspan).await;
        let row = row.unwrap_or_else(|why| panic!("{name}: an innocent client noticed: {why:#}"));
        assert!(!row.during.turns.is_empty(), "{name}: the innocent client got no turn");
        assert!(row.requests > 0, "{name}: no client misbehaved");
        let (before, most) = (row.memory_before, row.memory_most);
        assert!(most < before + MEMORY, "{name}: memory grew from {before} to {most} bytes");
        assert_eq!(row.during.unhealthy, 0, "{name}: health checks failed");
    }
}
