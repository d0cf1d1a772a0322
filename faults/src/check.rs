//! Judges what nodes and store wrote down.
//!
//! - A **fenced violation** is an update that was lost or done twice: a write that was accepted
//!   although its base was not the present value, or although a higher token had been shown.
//! - A **lease violation** is a writer's guard that was valid while anybody else's guard of the
//!   same record was.
//!
//! If a stranger, who knows a session's secret, closes it or releases a grant, the next one may
//! have the record before its holder hears of it. Until then, and no longer than for a lease, the
//! holder's guard may overlap with guards of later grants, and with no others.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::journal::{self, Closed, Entry, Held};
use crate::store::{self, Line};

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Guards that were valid for a time.
    pub acquisitions: u64,
    /// Writes that the store accepted.
    pub writes: u64,
    /// Writes, or the readings before them, that it refused.
    pub refused: u64,
    /// Guards whose lease ended while they were held.
    pub lost: u64,
    /// In words, each with what it is about.
    pub fenced_violations: Vec<String>,
    /// In words, each with what it is about.
    pub lease_violations: Vec<String>,
}

impl Verdict {
    /// Whether everything was as promised.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.fenced_violations.is_empty() && self.lease_violations.is_empty()
    }
}

/// Judges the logs of a store and the journals of its nodes.
pub fn check(store: &Path, journals: &Path) -> io::Result<Verdict> {
    let mut verdict = Verdict::default();
    for path in files(store)? {
        let lines = store::lines(&path)?;
        verdict.writes += lines.iter().filter(|line| line.is_put).count() as u64;
        let name = path.display().to_string();
        verdict.fenced_violations.extend(broken_updates(&name, &lines));
    }
    let mut guards = BTreeMap::<String, Vec<(String, Held)>>::new();
    let mut closed = Vec::new();
    for path in files(journals)? {
        let node = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for entry in journal::read(&path)? {
            match entry {
                Entry::Held(held) => {
                    verdict.acquisitions += 1;
                    let all = guards.entry(held.record.clone()).or_default();
                    all.push((node.clone(), held));
                }
                Entry::Fenced { .. } => verdict.refused += 1,
                Entry::Lost { .. } => verdict.lost += 1,
                Entry::Closed(one) => closed.push(one),
            }
        }
    }
    for mut guards in guards.into_values() {
        excuse(&mut guards, &closed);
        verdict.lease_violations.extend(overlaps(guards));
    }
    Ok(verdict)
}

/// The files in a folder, by name.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// What is wrong with the log of a record.
fn broken_updates(name: &str, lines: &[Line]) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut mark, mut value) = (i64::MIN, 0);
    for line in lines {
        if line.token < mark {
            wrong.push(format!("{name}: `{line}` after token {mark}"));
        }
        if line.base != value {
            wrong.push(format!("{name}: `{line}` when the value was {value}"));
        }
        if line.is_put && line.value != line.base + 1 {
            wrong.push(format!("{name}: `{line}` is no step by one"));
        }
        mark = mark.max(line.token);
        value = line.value;
    }
    wrong
}

/// Ends guards of one record whose grant a stranger had ended when the next grant was used.
fn excuse(guards: &mut Vec<(String, Held)>, closed: &[Closed]) {
    for one in closed {
        let is_hit = |node: &str, held: &Held| {
            node == one.node
                && one.record.as_ref().is_none_or(|record| *record == held.record)
                && (held.begin < one.until && one.sent < held.end && held.end <= one.until)
        };
        let next: Vec<_> = guards
            .iter()
            .filter(|(_, held)| (one.sent..one.until).contains(&held.begin))
            .map(|(node, held)| (node.clone(), held.begin, held.token))
            .collect();
        guards.retain_mut(|(node, held)| {
            if !is_hit(node, held) {
                return true;
            }
            let later =
                next.iter().filter(|(other, _, token)| *other != one.node && *token >= held.token);
            let Some(begin) = later.map(|(_, begin, _)| *begin).min() else { return true };
            held.end = held.end.min(begin);
            held.begin < held.end
        });
    }
}

/// The guards of one record that were valid together and should not have been.
fn overlaps(mut guards: Vec<(String, Held)>) -> Vec<String> {
    guards.sort_by_key(|(_, held)| held.begin);
    let mut wrong = Vec::new();
    // Whoever of each kind ends last, among those that began before.
    let (mut writer, mut anybody) = (None::<usize>, None::<usize>);
    for at in 0..guards.len() {
        let (_, held) = &guards[at];
        let in_the_way = if held.is_write { anybody } else { writer };
        if let Some(other) = in_the_way.filter(|&other| held.begin < guards[other].1.end) {
            let ((a, x), (b, y)) = (&guards[other], &guards[at]);
            wrong.push(format!("{a} has {x:?} while {b} has {y:?}"));
        }
        let ends_later = |last: Option<usize>| match last {
            Some(last) if guards[last].1.end >= held.end => Some(last),
            _ => Some(at),
        };
        anybody = ends_later(anybody);
        if held.is_write {
            writer = ends_later(writer);
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(is_write: bool, begin: u64, end: u64) -> (String, Held) {
        let record = "a".to_owned();
        ("n".to_owned(), Held { record, is_write, token: 1, asked: 0, begin, end })
    }

    #[test]
    fn readers_may_overlap_and_a_writer_with_nobody() {
        assert!(
            overlaps(vec![held(false, 0, 9), held(false, 3, 12), held(true, 12, 15)]).is_empty()
        );
        assert_eq!(overlaps(vec![held(true, 0, 9), held(false, 8, 12)]).len(), 1);
        assert_eq!(overlaps(vec![held(false, 8, 12), held(true, 0, 9)]).len(), 1);
        assert_eq!(overlaps(vec![held(true, 0, 9), held(true, 1, 2), held(true, 3, 4)]).len(), 2);
        // A long reader that began before a short one.
        assert_eq!(overlaps(vec![held(false, 0, 9), held(false, 1, 2), held(true, 3, 4)]).len(), 1);
    }

    #[test]
    fn a_closed_session_excuses_its_own_guard_towards_later_grants_until_its_lease_is_over() {
        let with = |node: &str, token, begin, end| {
            let (_, mut held) = held(true, begin, end);
            held.token = token;
            (node.to_owned(), held)
        };
        let closed = |until| [Closed { node: "n1".to_owned(), record: None, sent: 10, until }];
        let judged = |mut guards: Vec<_>, closed: &[Closed]| {
            excuse(&mut guards, closed);
            overlaps(guards).len()
        };
        let pair = || vec![with("n1", 1, 5, 20), with("n2", 2, 12, 30)];
        assert_eq!(judged(pair(), &[]), 1);
        assert_eq!(judged(pair(), &closed(25)), 0);
        assert_eq!(judged(pair(), &closed(19)), 1, "it was valid for longer than its lease");
        let cached = vec![with("n1", 1, 13, 20), with("n2", 2, 12, 30)];
        assert_eq!(judged(cached, &closed(25)), 0, "from its cache, before it heard of it");
        let other = vec![with("n2", 1, 5, 20), with("n1", 2, 12, 20)];
        assert_eq!(judged(other, &closed(25)), 1, "a later grant of its own is no excuse");
    }

    #[test]
    fn lost_and_double_updates_are_found() {
        let put =
            |token, base| Line { is_put: true, node: "n".to_owned(), token, base, value: base + 1 };
        assert!(broken_updates("a", &[put(1, 0), put(1, 1), put(4, 2)]).is_empty());
        assert_eq!(broken_updates("a", &[put(1, 0), put(2, 0)]).len(), 1, "one is lost");
        assert_eq!(broken_updates("a", &[put(2, 0), put(1, 1)]).len(), 1, "an old token");
    }
}
