//! Prometheus' text format, version 0.0.4.

use std::fmt::Write as _;

use lockspan_protocol::server::watch::Times;

/// What `Content-Type` says of it.
pub(super) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Kinds of families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text, family by family.
#[derive(Debug, Default)]
pub(super) struct Text {
    text: String,
    name: &'static str,
}

impl Text {
    /// The next family: its samples follow.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> &mut Self {
        self.name = name;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self
    }

    /// One sample of the present family.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: u64) -> &mut Self {
        self.line("", labels, &value.to_string());
        self
    }

    /// A family of one sample.
    pub(super) fn one(&mut self, name: &'static str, kind: Kind, help: &str, value: u64) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// Times, in seconds.
    pub(super) fn times(&mut self, labels: Labels<'_>, times: &Times) -> &mut Self {
        let mut sum = 0;
        for (class, count) in times.counts.iter().enumerate() {
            sum += count;
            let bound = Times::bound(class).map(|it| seconds(it.as_micros()));
            let bound = bound.unwrap_or_else(|| "+Inf".to_owned());
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.line("_bucket", &labels, &sum.to_string());
        }
        self.line("_sum", labels, &seconds(times.sum.into()));
        self.line("_count", labels, &sum.to_string());
        self
    }

    fn line(&mut self, ending: &str, labels: Labels<'_>, value: &str) {
        let _ = write!(self.text, "{}{ending}", self.name);
        for (at, (name, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Microseconds as seconds, exactly.
fn seconds(micros: u128) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_prometheus_reads_it() {
        let mut text = Text::default();
        text.one("a_total", Kind::Counter, "All a.", 3);
        text.family("b", Kind::Gauge, "A b.").sample(&[("x", "q\"\\\n"), ("y", "")], 1);
        let expected = "# HELP a_total All a.\n# TYPE a_total counter\na_total 3\n\
                        # HELP b A b.\n# TYPE b gauge\nb{x=\"q\\\"\\\\\\n\",y=\"\"} 1\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn seconds_are_exact() {
        for (micros, text) in [(0, "0"), (4, "0.000004"), (1_500_000, "1.5"), (10_000_000, "10")] {
            assert_eq!(seconds(micros), text);
        }
    }
}
