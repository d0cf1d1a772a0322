//! Who waits for whom, as lines of text: a session, and below it the waiters for what it holds. A
//! waiter whose turn is not the first also says which waiters it is behind.

use std::collections::{BTreeMap, BTreeSet};

use crate::replies::{Claim, Locked, Who};
use crate::table::width;
use crate::turns::{behind, is_in_the_way};
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
    /// Its place in line, 1 if it comes next, and the places that it waits for.
    place: String,
    mode: &'a str,
    age_ms: u64,
}

/// The lines. A session is told of once; where it is met again, that is said. If a line is wider
/// than `room`, labels stand without the ids of their sessions.
pub(crate) fn lines(records: &[Locked], room: Option<usize>) -> Vec<String> {
    let whole = lines_with(records, &Who::to_string);
    match room {
        Some(room) if whole.iter().any(|line| width(line) > room) => {
            lines_with(records, &|who| who.name().to_owned())
        }
        _ => whole,
    }
}

/// How a session is named.
type Name<'a> = &'a dyn Fn(&Who) -> String;

fn lines_with(records: &[Locked], name: Name<'_>) -> Vec<String> {
    let mut below: BTreeMap<&str, Vec<Wait<'_>>> = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut waiters = BTreeSet::new();
    for record in records {
        names.extend(record.holders.iter().map(|holder| (&*holder.who.id, &holder.who)));
        for (at, waiter) in record.waiters.iter().enumerate() {
            waiters.insert(&*waiter.who.id);
            let turn = behind(&record.waiters, at);
            let place = match &turn {
                None => (at + 1).to_string(),
                Some(turn) if turn.len() == 1 => format!("{} behind {}", at + 1, turn.end),
                Some(turn) => format!("{} behind {}-{}", at + 1, turn.start + 1, turn.end),
            };
            let is_below = |holder: &&Claim| match turn {
                None => is_in_the_way(holder, waiter),
                Some(_) => holder.who.id != waiter.who.id,
            };
            for holder in record.holders.iter().filter(is_below) {
                below.entry(&holder.who.id).or_default().push(Wait {
                    record: &record.name,
                    note: holder.note.as_deref(),
                    waiter: &waiter.who,
                    place: place.clone(),
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
            out.push(names.get(session).map_or_else(|| session.to_owned(), |who| name(who)));
            branch(session, "", &below, name, &mut told, &mut out);
        }
    }
    out
}

fn branch<'a>(
    session: &'a str,
    indent: &str,
    below: &BTreeMap<&'a str, Vec<Wait<'a>>>,
    name: Name<'_>,
    told: &mut BTreeSet<&'a str>,
    out: &mut Vec<String>,
) {
    let waits = below.get(session).map_or(&[][..], |waits| waits);
    for (at, wait) in waits.iter().enumerate() {
        let (fork, further) =
            if at + 1 < waits.len() { ("├─", "│  ") } else { ("└─", "   ") };
        let &Wait { record, note, waiter: who, ref place, mode, age_ms } = wait;
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
        let who = name(who);
        out.push(format!("{indent}{fork} {record}{note}: {who} waits {place}, {mode}, {age}{end}"));
        if is_new && !is_deep {
            told.insert(waiter);
            branch(waiter, &format!("{indent}{further}"), below, name, told, out);
        }
    }
}
