//! Prometheus' text format, read strictly: what is not exactly as it has to be is an error.

use std::collections::{BTreeMap, BTreeSet};

/// Samples of one name, with what was said about them.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

impl Family {
    /// The sample with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: BTreeSet<_> = labels.iter().copied().collect();
        let has = |sample: &&Sample| {
            let labels = sample.labels.iter().map(|(name, value)| (&**name, &**value));
            sample.name == name && labels.collect::<BTreeSet<_>>() == wanted
        };
        self.samples.iter().find(has).map(|sample| sample.value)
    }
}

/// Reads a whole text.
pub(crate) fn families(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let mut all = BTreeMap::<String, Family>::new();
    let (mut help, mut present) = (None, None::<String>);
    let text = text.strip_suffix('\n').ok_or("the last line does not end")?;
    for line in text.split('\n') {
        let bad = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').ok_or_else(|| bad("no help"))?;
            if words.is_empty() || all.contains_key(name) {
                return Err(bad("no help, or a family twice"));
            }
            help = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| bad("no type"))?;
            if help.take().as_deref() != Some(name) {
                return Err(bad("a type without help"));
            }
            check_name(name, kind).map_err(|why| bad(&why))?;
            all.insert(name.to_owned(), Family { kind: kind.to_owned(), samples: Vec::new() });
            present = Some(name.to_owned());
        } else {
            let sample = sample(line).map_err(|why| bad(&why))?;
            let family = present.as_ref().ok_or_else(|| bad("a sample before its family"))?;
            let ending = sample.name.strip_prefix(&**family).ok_or_else(|| bad("a stranger"))?;
            let family = all.get_mut(family).ok_or_else(|| bad("no family"))?;
            let is_histogram = family.kind == "histogram";
            let allowed: &[_] = if is_histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
            if !allowed.contains(&ending) {
                return Err(bad("a name that does not fit its family"));
            }
            let same =
                |other: &Sample| (&other.name, &other.labels) == (&sample.name, &sample.labels);
            if family.samples.iter().any(same) {
                return Err(bad("a sample twice"));
            }
            if family.kind != "gauge" && (sample.value.is_nan() || sample.value < 0.0) {
                return Err(bad("a count below 0"));
            }
            family.samples.push(sample);
        }
    }
    for (name, family) in all.iter().filter(|(_, family)| family.kind == "histogram") {
        check_histogram(name, family)?;
    }
    Ok(all)
}

/// The conventions: a prefix, base units, `_total` for counters and for nothing else.
fn check_name(name: &str, kind: &str) -> Result<(), String> {
    let letters = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    if !name.starts_with("lockspan_") || !name.chars().all(letters) {
        return Err("an odd name".to_owned());
    }
    if (kind == "counter") != name.ends_with("_total") {
        return Err("_total is for counters".to_owned());
    }
    if ["milli", "micro", "minutes", "kilo", "mega"].iter().any(|unit| name.contains(unit)) {
        return Err("seconds and bytes are the units".to_owned());
    }
    match kind {
        "histogram" if !name.ends_with("_seconds") => Err("a histogram without a unit".to_owned()),
        "counter" | "gauge" | "histogram" => Ok(()),
        _ => Err("an unknown type".to_owned()),
    }
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, value) = rest.split_once("=\"").ok_or("no label")?;
            if label.is_empty() || !label.chars().all(|it| it.is_ascii_lowercase() || it == '_') {
                return Err(format!("an odd label {label:?}"));
            }
            let (value, after) = quoted(value)?;
            labels.push((label.to_owned(), value));
            if let Some(more) = after.strip_prefix(',') {
                rest = more;
            } else {
                rest = after.strip_prefix('}').ok_or("labels do not end")?;
                break;
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    if value.contains(' ') {
        return Err("a timestamp, or a space too many".to_owned());
    }
    let value = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// A value up to its quote, and what follows.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match letters.next() {
                Some((_, 'n')) => '\n',
                Some((_, escaped @ ('\\' | '"'))) => escaped,
                _ => return Err("an unknown escape".to_owned()),
            }),
            letter => value.push(letter),
        }
    }
    Err("a value does not end".to_owned())
}

/// Buckets grow, the last is that of all, and it is the count.
fn check_histogram(name: &str, family: &Family) -> Result<(), String> {
    let mut rows = BTreeMap::<Vec<(String, String)>, Vec<&Sample>>::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        labels.retain(|(label, _)| label != "le");
        rows.entry(labels).or_default().push(sample);
    }
    for (labels, samples) in rows {
        let bad = |why: &str| Err(format!("{name} {labels:?}: {why}"));
        let of = |ending: &str| {
            let name = format!("{name}{ending}");
            samples.iter().filter(move |it| it.name == name).copied().collect::<Vec<_>>()
        };
        let bound = |sample: &Sample| {
            let le = sample.labels.iter().find(|(label, _)| label == "le");
            le.and_then(|(_, le)| le.parse::<f64>().ok())
        };
        let buckets = of("_bucket");
        let bounds: Option<Vec<f64>> = buckets.iter().map(|it| bound(it)).collect();
        let Some(bounds) = bounds else { return bad("a bucket without a bound") };
        if !bounds.is_sorted_by(|low, high| low < high) || bounds.last() != Some(&f64::INFINITY) {
            return bad("the bounds are not in order, or +Inf is not the last");
        }
        if !buckets.is_sorted_by(|low, high| low.value <= high.value) {
            return bad("the buckets do not grow");
        }
        let (count, sum) = (of("_count"), of("_sum"));
        if count.len() != 1 || sum.len() != 1 {
            return bad("there is not one sum and one count");
        }
        if buckets.last().map(|it| it.value) != Some(count[0].value) {
            return bad("the last bucket is not the count");
        }
    }
    Ok(())
}

#[test]
fn what_is_wrong_is_seen() {
    let head = |name: &str, kind: &str| format!("# HELP {name} A help.\n# TYPE {name} {kind}\n");
    let gauge = head("lockspan_a", "gauge");
    assert!(families(&format!("{gauge}lockspan_a{{x=\"1\"}} 2\n")).is_ok());
    let bad = [
        format!("{gauge}lockspan_a 1"),
        format!("{gauge}lockspan_a 1\nlockspan_a 2\n"),
        format!("{gauge}lockspan_b 1\n"),
        format!("{gauge}lockspan_a{{x=\"1}} 2\n"),
        format!("{gauge}lockspan_a one\n"),
        format!("{gauge}lockspan_a  1\n"),
        format!("{gauge}{gauge}lockspan_a 1\n"),
        head("lockspan_a", "counter") + "lockspan_a 1\n",
        head("lockspan_a_total", "gauge") + "lockspan_a_total 1\n",
        head("lockspan_a_total", "counter") + "lockspan_a_total -1\n",
        head("lockspan_a_millis", "gauge") + "lockspan_a_millis 1\n",
        head("lockspan_a_seconds", "histogram") + "lockspan_a_seconds_bucket{le=\"+Inf\"} 1\n",
    ];
    for text in bad {
        assert!(families(&text).is_err(), "{text}");
    }
}
