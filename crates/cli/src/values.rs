//! Values as people write them: durations, sizes, counts, switches, records.
//!
//! Each reader's error is the end of a sentence that begins with the value: it says what the value
//! is not, and what is allowed.

use std::fmt;
use std::time::Duration;

use lockspan_protocol::Record;

/// Units of time, the longest first, and how many seconds each has.
const UNITS: [(&str, f64); 4] = [("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001)];

/// Reads `5` (seconds), `250ms`, `10s`, `1.5m`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || {
        "is not a duration; use seconds, or numbers with ms, s, m or h: 5, 250ms, 10s or 1h30m"
            .to_owned()
    };
    if text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err("is negative; the minimum is 0".to_owned());
    }
    let (mut rest, mut units, mut seconds) = (text, &UNITS[..], 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        // A number alone is seconds. In 1h30m each unit is shorter than the one before.
        let unit = if unit.is_empty() && rest.len() == text.len() { "s" } else { unit };
        let at = units.iter().position(|(name, _)| *name == unit).ok_or_else(bad)?;
        seconds += number * units[at].1;
        (rest, units) = (after, &units[at + 1..]);
    }
    if text.is_empty() {
        return Err(bad());
    }
    let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= LONGEST);
    span.ok_or_else(|| "is too long; the maximum is 8760h (a year)".to_owned())
}

const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A duration in the shortest way that [`duration`] reads back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => f.write_str("0"),
            _ if millis.is_multiple_of(3_600_000) => write!(f, "{}h", millis / 3_600_000),
            _ if millis.is_multiple_of(60_000) => write!(f, "{}m", millis / 60_000),
            _ if millis.is_multiple_of(1000) => write!(f, "{}s", millis / 1000),
            _ => write!(f, "{millis}ms"),
        }
    }
}

/// Milliseconds as people say them, to two units: `3m12s`.
pub(crate) fn age(millis: u64) -> String {
    lockspan_client::Span(Duration::from_millis(millis)).to_string()
}

/// Reads the mode of a file in octal, `0660`.
pub(crate) fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && text.len() >= 3);
    mode.ok_or_else(|| "is not a mode such as 0600, 0660 or 0666".to_owned())
}

/// The number of a group, from its number or its name.
pub(crate) fn group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    // name:password:GID:members
    let number_in = |entries: &str| {
        let mut entries = entries.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = entries.find(|fields| fields.first() == Some(&text))?;
        found.get(2)?.parse().ok()
    };
    let in_file = std::fs::read_to_string("/etc/group").ok().and_then(|text| number_in(&text));
    let elsewhere = || {
        let found = std::process::Command::new("getent").args(["group", text]).output().ok()?;
        number_in(&String::from_utf8_lossy(&found.stdout))
    };
    in_file.or_else(elsewhere).ok_or_else(|| "is not a group of this machine".to_owned())
}

/// Reads `65536`, `64KiB`, `8MiB`, `1GiB`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let bad = || "is not a size; examples are 65536 (bytes), 64KiB, 8MiB and 1GiB".to_owned();
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(bad()),
    };
    let number: usize = number.parse().map_err(|_| bad())?;
    let size = number.checked_mul(1 << shift).filter(|size| *size > 0);
    size.ok_or_else(|| "is out of range; the minimum is 1 byte".to_owned())
}

/// Reads a count from 1 up to `most`.
pub(crate) fn count(text: &str, most: usize) -> Result<usize, String> {
    let number = text.replace('_', "").parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("is not a whole number from 1 to {most}"))
}

/// Reads a switch.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("is not true or false".to_owned()),
    }
}

/// Reads how long a bench takes.
pub(crate) fn bench_time(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let time = duration(text)?;
    let fits = (least..=most).contains(&time);
    if fits { Ok(time) } else { Err("is not between 1s and 24h".to_owned()) }
}

/// Reads `<datatype>:<id>`.
pub(crate) fn record(text: &str) -> Result<Record, String> {
    Record::parse(text.as_bytes()).map_err(|bad| format!("{bad}; an example is invoice:42"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_and_without_units() {
        for (text, millis) in [
            ("0", 0),
            ("5", 5000),
            ("0.5", 500),
            ("250ms", 250),
            ("10s", 10_000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1m0.5s", 60_500),
            ("1h1m1s1ms", 3_661_001),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_an_example() {
        for bad in [
            "", "s", "1e3s", "1..5s", "10 s", "5x", "NaNs", "infs", "-", "--lease", "-s", "1h30",
            "30m1h", "1s1s", "1hms", ".", "5d",
        ] {
            let why = duration(bad).expect_err(bad);
            assert!(why.ends_with("5, 250ms, 10s or 1h30m"), "{bad}: {why}");
        }
        for negative in ["-5", "-5s", "-0.5s", "-.5", "-1h30m"] {
            assert!(duration(negative).unwrap_err().starts_with("is negative"), "{negative}");
        }
        assert!(duration("99999999h").unwrap_err().contains("a year"));
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["0", "1ms", "1500ms", "10s", "1m", "90s", "2h"] {
            assert_eq!(Span(duration(text).unwrap()).to_string(), text);
        }
    }

    #[test]
    fn sizes_are_read_with_binary_units() {
        assert_eq!(bytes("65536"), Ok(65536));
        assert_eq!(bytes("64KiB"), Ok(65536));
        assert_eq!(bytes("8MiB"), Ok(8 << 20));
        for bad in ["", "x", "8MB", "-1", "0", "99999999999GiB"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counts_have_both_ends() {
        assert_eq!(count("10_000", 20_000), Ok(10_000));
        for bad in ["0", "20001", "-1", "x", ""] {
            let why = count(bad, 20_000).expect_err(bad);
            assert_eq!(why, "is not a whole number from 1 to 20000");
        }
    }
}
