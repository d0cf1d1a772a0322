//! Options from a TOML file: keys with their lines, nothing but options of the table.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Bad;
use super::table::{Kind, Spec, TABLE};

/// What the file says of one option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) line: usize,
    pub(crate) values: Vec<String>,
}

/// Reads the text of the file at `path`.
pub(crate) fn read(path: &Path, text: &str) -> Result<Vec<Entry>, Bad> {
    let table = DeTable::parse(text).map_err(|bad| {
        let span = bad.span().unwrap_or_default();
        let why = match (bad.message(), text.get(span.clone())) {
            ("duplicate key", Some(key)) => format!("{key} is set twice; remove one of them"),
            (why, _) => why.to_owned(),
        };
        Bad(format!("{}:{}: {why}", path.display(), line_of(text, span.start)))
    })?;
    let entries = table.get_ref().iter().map(|(key, value)| {
        let line = line_of(text, key.span().start);
        let at = format!("{}:{line}: ", path.display());
        let name: &str = key.get_ref();
        let Some(spec) = TABLE.iter().find(|spec| spec.name == name) else {
            return Err(Bad(format!("{at}there is no option {name:?}{}", nearest(name))));
        };
        let values = values_of(spec, value).map_err(|bad| Bad(format!("{at}{name}: {bad}")))?;
        Ok(Entry { name: spec.name, line, values })
    });
    let mut entries = entries.collect::<Result<Vec<_>, Bad>>()?;
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn values_of(spec: &Spec, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    match (spec.kind, value.get_ref()) {
        (Kind::Many, DeValue::Array(list)) => {
            list.iter().map(|value| text_of(spec, value.get_ref())).collect()
        }
        (_, value) => Ok(vec![text_of(spec, value)?]),
    }
}

fn text_of(spec: &Spec, value: &DeValue<'_>) -> Result<String, String> {
    match (spec.kind, value) {
        (Kind::Switch, DeValue::Boolean(on)) => Ok(on.to_string()),
        (Kind::Switch, _) => Err("must be true or false, without quotes".to_owned()),
        (_, DeValue::String(text)) => Ok(text.clone().into_owned()),
        (_, DeValue::Integer(number)) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        (Kind::One, DeValue::Float(number)) => Ok(number.as_str().to_owned()),
        (Kind::Many, _) => Err("must be a string or a list of strings".to_owned()),
        (_, _) => Err(format!("must be a string or a number ({})", spec.value)),
    }
}

/// The known key that was perhaps meant.
fn nearest(name: &str) -> String {
    let name = name.replace('_', "-").to_lowercase();
    let by_likeness = TABLE.iter().map(|spec| (strsim::jaro_winkler(spec.name, &name), spec.name));
    match by_likeness.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((likeness, near)) if likeness > 0.75 => format!("; did you mean {near:?}?"),
        _ => {
            let known: Vec<&str> = TABLE.iter().map(|spec| spec.name).collect();
            format!("; the options are {}", known.join(", "))
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
