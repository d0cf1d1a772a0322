//! Who waits for whom, as lines of text: a session, and below it those who wait for what it holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::replies::{Locked, Who};
use crate::values::age;

/// How deep the tree is shown.
const DEEPEST: usize = 12;

/// A wait for something that a session holds.
#[derive(Debug)]
struct Wait<'a> {
    record: &'a str,
    /// What the session holds it for.
    note: Option<&'a str>,
    waiter: &'a Who,
    /// 1 if its turn comes next.
    place: usize,
    mode: &'a str,
    age_ms: u64,
}

/// The lines. A session is told of once; where it is met again, that is said.
pub(crate) fn lines(records: &[Locked]) -> Vec<String> {
    let mut below: BTreeMap<&str, Vec<Wait<'_>>> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut waiters = BTreeSet::new();
    for record in records {
        names.extend(record.holders.iter().map(|holder| (&*holder.who.id, &holder.who)));
        for (waiter, place) in record.waiters.iter().zip(1..) {
            waiters.insert(&*waiter.who.id);
            for holder in &record.holders {
                below.entry(&holder.who.id).or_default().push(Wait {
                    record: &record.name,
                    note: holder.note.as_deref(),
                    waiter: &waiter.who,
                    place,
                    mode: &waiter.mode,
                    age_ms: waiter.age_ms,
                });
            }
        }
    }
    let mut told = BTreeSet::new();
    let mut out = Vec::new();
    // First those who wait for nobody; what is left then waits in cycles.
    let roots = below.keys().copied().filter(|session| !waiters.contains(session));
    let roots: Vec<_> = roots.chain(below.keys().copied()).collect();
    for session in roots {
        if told.insert(session) {
            out.push(names.get(session).map_or_else(|| session.to_owned(), ToString::to_string));
            branch(session, "", &below, &mut told, &mut out);
        }
    }
    out
}

fn branch<'a>(
    session: &'a str,
    indent: &str,
    below: &BTreeMap<&'a str, Vec<Wait<'a>>>,
    told: &mut BTreeSet<&'a str>,
    out: &mut Vec<String>,
) {
    let waits = below.get(session).map_or(&[][..], |waits| waits);
    for (at, wait) in waits.iter().enumerate() {
        let (fork, further) =
            if at + 1 < waits.len() { ("├─", "│  ") } else { ("└─", "   ") };
        let &Wait { record, note, waiter: who, place, mode, age_ms } = wait;
        let waiter = &*who.id;
        let has_more = below.contains_key(waiter);
        let is_deep = indent.chars().count() / 3 >= DEEPEST;
        // One that is too deep is told of by itself, later.
        let is_new = !told.contains(waiter);
        let end = match (is_new, has_more, is_deep) {
            (false, true, _) => "  (see above)",
            (true, true, true) => "  ...",
            _ => "",
        };
        let (age, note) = (age(age_ms), note.map(|note| format!(" ({note})")).unwrap_or_default());
        out.push(format!("{indent}{fork} {record}{note}: {who} waits {place}, {mode}, {age}{end}"));
        if is_new && !is_deep {
            told.insert(waiter);
            branch(waiter, &format!("{indent}{further}"), below, told, out);
        }
    }
}
