//! A recorder for Prometheus, and what it has heard.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// The recorder of this process, which is installed when it is first asked for.
pub(crate) fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let seconds = Matcher::Suffix("_seconds".to_owned());
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets_for_metric(seconds, &[0.001, 0.1, 10.0]).unwrap();
        builder.install_recorder().expect("there was none")
    })
}

/// The value of a sample, by its name with its labels.
pub(crate) fn value(sample: &str) -> Option<f64> {
    let text = recorder().render();
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

/// Has promtool read everything; what it complains about. Nothing if it is not there.
pub(crate) fn promtool() -> Option<String> {
    let named = std::env::var_os("LOCKSPAN_PROMTOOL");
    let mut command = Command::new(named.clone().unwrap_or_else(|| "promtool".into()));
    command.args(["check", "metrics"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(why) if named.is_some() => panic!("{command:?}: {why}"),
        Err(_) => {
            eprintln!("promtool is not installed: this was not checked by it");
            return None;
        }
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(recorder().render().as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    Some(String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
}
