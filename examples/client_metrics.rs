//! The metrics of a client, in the format that Prometheus reads.
//!
//! Run: `cargo run -p lockspan-examples --bin client_metrics`
//!
//! The client reports to the `metrics` façade, so any recorder works. This program installs the
//! recorder of `metrics-exporter-prometheus` and prints a part of the text that Prometheus would
//! scrape.
#![forbid(unsafe_code)]

use std::error::Error;

use lockspan::Options;
use lockspan_server::{Config, Data, Server};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config {
        listen: vec!["127.0.0.1:0".parse()?],
        data: Data::None { fresh: true },
        ..Config::default()
    };
    let server = Server::start(config).await?;
    let url = format!("lockspan://{}", server.addresses()[0]);

    // Install the recorder before the first connection: without a recorder nothing is counted.
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let page = PrometheusBuilder::new()
        .set_buckets_for_metric(seconds, &[0.0001, 0.001, 0.01, 0.1, 1.0, 10.0])?
        .install_recorder()?;

    let locks = Options::new().connect(&url).await?;
    let invoice = locks.record("invoice", "42")?;
    for _ in 0..1000 {
        drop(invoice.write().await?);
    }
    let other = Options::new().connect(&url).await?;
    drop(other.record("invoice", "42")?.read().await?);

    // Clients publish once a second; this example does not wait for that.
    locks.publish_metrics();
    other.publish_metrics();
    let shown = [
        "cached_acquires",
        "cached_records",
        "lost_grants",
        "waiting_acquires",
        "wait_seconds_count",
    ];
    let is_shown = |line: &&str| {
        let name = line.trim_start_matches("# HELP ").trim_start_matches("lockspan_client_");
        shown.iter().any(|shown| name.starts_with(shown))
    };
    let text = page.render();
    let mut lines: Vec<_> = text.lines().filter(is_shown).collect();
    // The recorder does not promise an order.
    lines.sort_unstable_by_key(|line| {
        let name = line.trim_start_matches("# HELP ");
        (name.split(['{', ' ']).next(), !line.starts_with('#'), *line)
    });
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}
