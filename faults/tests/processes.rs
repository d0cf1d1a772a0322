//! A short run of `faults run`: every kind of fault at least once, and nothing broken.

#![forbid(unsafe_code)]

use std::time::Duration;

use lockspan_faults::run::{Fault, Plan, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_short_run_with_every_kind_of_fault_breaks_no_promise() {
    let plan = Plan {
        time: Duration::from_secs(15),
        nodes: 3,
        seed: 7,
        program: env!("CARGO_BIN_EXE_faults").into(),
        cached: 2_000,
    };
    let has_cli = plan.cli().is_some();
    let report = run(plan).await.expect("it comes to its end");
    println!("{report}");
    assert!(report.is_good(), "{report}");
    for fault in Fault::ALL.into_iter().filter(|fault| has_cli || !fault.needs_cli()) {
        assert!(report.faults.contains_key(&fault), "{fault:?} was not tried");
    }
    assert!(report.verdict.writes > 100, "hardly anything happened: {report}");
}
