//! However many datatypes a process uses, the recorder hears of a bounded number.

#![forbid(unsafe_code)]

#[path = "metrics/read.rs"]
mod read;

use lockspan_client::{Options, connect};

/// The number of samples of a name.
fn samples(name: &str) -> usize {
    let text = read::recorder().render();
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines.filter(|rest| rest.starts_with(['{', ' '])).count()
}

#[tokio::test]
async fn datatypes_without_end_are_counted_together() {
    // Nobody hears it yet, and nothing is kept of it.
    let locks = connect("memory:labels").await.unwrap();
    let early = locks.record("early", "1").unwrap();
    drop(early.write().await.unwrap());
    drop(early.write().await.unwrap());
    locks.publish_metrics();
    read::recorder();
    assert!(read::promtool().is_none_or(|said| said.is_empty()));
    locks.publish_metrics();
    drop(early.write().await.unwrap());
    for number in 0..100 {
        // Two that look the same to people are one.
        let datatype =
            [format!("t{number}").as_bytes(), &[0xFE + u8::from(number % 2 == 0)]].concat();
        for same in [datatype.clone(), [&datatype[..datatype.len() - 1], &[0xFD]].concat()] {
            let record = locks.record(same, "1").unwrap();
            drop(record.write().await.unwrap());
            drop(record.write().await.unwrap());
        }
    }
    locks.publish_metrics();
    let cached = |datatype: &str| {
        let labels = format!("{{datatype=\"{datatype}\",mode=\"write\"}}");
        read::value(&format!("lockspan_client_cached_acquires_total{labels}")).unwrap()
    };
    // 32 and the rest, and two modes.
    assert_eq!(samples("lockspan_client_cached_acquires_total"), 66);
    assert_eq!(samples("lockspan_client_revokes_total"), 33);
    assert_eq!(samples("lockspan_client_wait_seconds_count"), 32);
    assert_eq!(cached("early"), 1.0);
    assert_eq!(cached("t0\u{FFFD}"), 2.0);
    assert_eq!(cached("other"), 2.0 * 69.0);
    // What is cached is counted for all nodes together, and goes with them.
    let other = Options::new().connect("memory:more").await.unwrap();
    drop(other.record("t0", "1").unwrap().write().await.unwrap());
    other.publish_metrics();
    assert_eq!(read::value("lockspan_client_cached_records"), Some(202.0));
    other.close().await.unwrap();
    locks.give_back_idle();
    locks.publish_metrics();
    let late = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while read::value("lockspan_client_cached_records") != Some(0.0) {
        assert!(std::time::Instant::now() < late, "{}", read::recorder().render());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
