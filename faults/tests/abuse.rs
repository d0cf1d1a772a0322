//! Clients that misbehave, in small: others go on, and the server's memory is bounded.

#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use lockspan_faults::abuse::{self, Kind, Plan, Size};

/// What a misuse may cost the server at the most, in bytes of memory.
const MEMORY: u64 = 256 << 20;

/// One test a kind would start a server each at the same time; one after the other is as fast.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_misbehaves_others_go_on_and_memory_is_bounded() {
    let program = Path::new(env!("CARGO_BIN_EXE_faults")).to_owned();
    let binary = program.with_file_name("lockspan");
    assert!(binary.exists(), "the server is a program: `cargo build -p lockspan-cli` first");
    let (time, kinds) = (Duration::from_millis(1500), Kind::ALL.to_vec());
    let plan = Plan { program, binary, time, kinds, with_redis: false, size: Size(10) };
    // Every turn of the innocent client has to succeed, or this is an error.
    let report = abuse::run(plan).await.expect("nobody else notices");
    assert_eq!(report.rows.len(), Kind::ALL.len());
    for row in report.rows {
        assert!(!row.during.turns.is_empty(), "it stood still: {row}");
        assert!(row.requests > 0, "nobody misbehaved: {row}");
        assert!(row.memory_most < row.memory_before + MEMORY, "it grew: {row}");
        assert_eq!(row.during.unhealthy, 0, "it did not say that it is well: {row}");
    }
}
