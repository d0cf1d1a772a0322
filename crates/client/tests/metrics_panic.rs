//! A recorder that panics costs nobody a lock.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockspan_client::connect;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

static HEARD: AtomicUsize = AtomicUsize::new(0);

/// It hears one thing, and breaks.
#[derive(Debug)]
struct Broken(#[expect(dead_code, reason = "one that keeps something is told of it")] u8);

impl HistogramFn for Broken {
    fn record(&self, _: f64) {
        HEARD.fetch_add(1, Ordering::Relaxed);
        panic!("no room");
    }
}

impl CounterFn for Broken {
    fn increment(&self, _: u64) {}

    fn absolute(&self, _: u64) {
        HEARD.fetch_add(1, Ordering::Relaxed);
        panic!("no room");
    }
}

impl Recorder for Broken {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Self(0)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Self(0)))
    }
}

#[tokio::test]
async fn locks_go_on_when_the_recorder_panics() {
    metrics::set_global_recorder(Broken(0)).expect("there is none");
    let locks = connect("memory:broken").await.unwrap();
    let other = connect("memory:broken").await.unwrap();
    for _ in 0..3 {
        // Each waits, and takes it from the other.
        for node in [&locks, &other] {
            let record = node.record("doc", "1").unwrap();
            let read = record.read().await.unwrap();
            match read.upgrade().await {
                Ok(write) => drop(write),
                Err(refused) => panic!("nobody else upgrades: {refused:?}"),
            }
        }
    }
    let record = locks.record("doc", "1").unwrap();
    let write = record.write_timeout(Duration::from_secs(20)).await;
    assert!(write.expect("nothing is left behind").is_valid());
    locks.publish_metrics();
    assert_eq!(HEARD.load(Ordering::Relaxed), 1, "it is told nothing more");
}
