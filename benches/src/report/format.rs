//! Numbers for people.

/// `value` with `digits` after the point, or a dash.
pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// A ratio: two digits, three below a tenth.
pub(crate) fn ratio(value: Option<f64>) -> String {
    number(value, if value.is_some_and(|value| value < 0.1) { 3 } else { 2 })
}

/// A time in nanoseconds, in the unit that suits it.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e5 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 1e7 => format!("{:.2} ms", ns / 1e6),
        ns if ns < 1e8 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.0} ms", ns / 1e6),
    }
}

/// A time that may be unknown.
pub(crate) fn time_or_dash(ns: Option<f64>) -> String {
    ns.map_or_else(|| "–".to_owned(), time)
}

/// A number per second, with commas between the thousands.
pub(crate) fn rate(per_second: f64) -> String {
    let whole = format!("{per_second:.0}");
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + "/s"
}

/// A number that may be unknown: two digits, or `n/a`.
pub(crate) fn known(value: f64) -> String {
    if value.is_nan() { "n/a".to_owned() } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_unit() {
        let times = [5.25, 1_500.0, 150_000.0, 2_890_000.0, 13_300_000.0, 12_979_520_000.0];
        let shown = ["5.2 ns", "1.5 µs", "150 µs", "2.89 ms", "13.3 ms", "12980 ms"];
        assert_eq!(times.map(time), shown);
        assert_eq!(time_or_dash(None), "–");
    }

    #[test]
    fn a_rate_has_commas() {
        assert_eq!([999.0, 1_000.0, 1_234_567.4].map(rate), ["999/s", "1,000/s", "1,234,567/s"]);
    }
}
