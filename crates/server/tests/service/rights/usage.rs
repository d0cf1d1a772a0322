//! Every line that the usage of a command allows, with its placeholders still in it.
//!
//! A usage has keywords in capitals, placeholders in small letters, `[...]` for what may be left
//! out, `a|b` for a choice and `...` for more of the same. A `|` before a keyword divides phrases,
//! a keyword with what follows it (`HELD token|WAITING`); one before a placeholder divides words
//! (`WAIT ms|forever`).
//!
//! Some usages allow more than the command does, such as `HELD token UPGRADE`. So whoever uses
//! these lines has the parser sort them out, and looks that no word of a usage is in none of them.

use std::iter::Peekable;

/// A part of a usage.
#[derive(Debug)]
enum Part {
    /// One of these phrases. At each place of a phrase is one of several words.
    One(Vec<Vec<Vec<String>>>),
    /// It may be left out.
    Maybe(Vec<Self>),
}

/// All lines of a usage, as words.
pub(super) fn lines(usage: &str) -> Vec<Vec<String>> {
    let spaced = usage.replace('[', " [ ").replace(']', " ] ").replace('|', " |");
    let mut words = spaced.split_whitespace().filter(|word| *word != "...").peekable();
    let parts = parts(&mut words);
    assert!(words.next().is_none(), "{usage}: a bracket is closed that was not opened");
    expand(&parts)
}

/// The words of a usage.
pub(super) fn words(usage: &str) -> Vec<String> {
    let words = usage.split(|it: char| "[]| ".contains(it));
    words.filter(|word| !word.is_empty() && *word != "...").map(str::to_owned).collect()
}

/// Whether a word is written as it stands.
pub(super) fn is_keyword(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
}

fn parts<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    while let Some(word) = words.next_if(|word| *word != "]") {
        if word == "[" {
            parts.push(Part::Maybe(self::parts(words)));
            assert_eq!(words.next(), Some("]"), "a bracket is closed");
            continue;
        }
        let choice = word.strip_prefix('|');
        let word = choice.unwrap_or(word).to_owned();
        // A choice belongs to the last phrase, and a placeholder too if nothing is in between.
        let is_next = matches!(parts.last(), Some(Part::One(_))) && !is_keyword(&word);
        let last = parts.iter_mut().rev().find_map(|part| match part {
            Part::One(phrases) if choice.is_some() || is_next => Some(phrases),
            _ => None,
        });
        match (last, choice) {
            (None, _) => parts.push(Part::One(vec![vec![vec![word]]])),
            (Some(phrases), Some(_)) if is_keyword(&word) => phrases.push(vec![vec![word]]),
            (Some(phrases), choice) => {
                let phrase = phrases.last_mut().expect("there is one");
                match choice {
                    Some(_) => phrase.last_mut().expect("it has words").push(word),
                    None => phrase.push(vec![word]),
                }
            }
        }
    }
    parts
}

fn expand(parts: &[Part]) -> Vec<Vec<String>> {
    let mut lines = vec![Vec::new()];
    for part in parts {
        let ways = match part {
            Part::Maybe(inner) => [vec![Vec::new()], expand(inner)].concat(),
            Part::One(phrases) => phrases.iter().flat_map(|phrase| fill(phrase)).collect(),
        };
        let longer = |line: &Vec<String>| -> Vec<_> {
            ways.iter().map(|way| [&line[..], way].concat()).collect()
        };
        lines = lines.iter().flat_map(longer).collect();
    }
    lines
}

/// The lines with one of the words at each place.
pub(super) fn fill(places: &[Vec<String>]) -> Vec<Vec<String>> {
    places.iter().fold(vec![Vec::new()], |lines, words| {
        let longer = |line: &Vec<String>| -> Vec<Vec<String>> {
            words.iter().map(|word| [&line[..], &[word.clone()]].concat()).collect()
        };
        lines.iter().flat_map(longer).collect()
    })
}

#[test]
fn a_usage_is_expanded_to_all_its_lines() {
    let joined =
        |usage: &str| -> Vec<String> { lines(usage).iter().map(|line| line.join(" ")).collect() };
    assert_eq!(joined(""), [""]);
    assert_eq!(
        joined("session R|W [WAIT ms|forever]"),
        [
            "session R",
            "session R WAIT ms",
            "session R WAIT forever",
            "session W",
            "session W WAIT ms",
            "session W WAIT forever"
        ]
    );
    assert_eq!(joined("R HELD token|WAITING"), ["R HELD token", "R WAITING"]);
    assert_eq!(
        joined("ID|NO-EVICT on|off|REPLY on"),
        ["ID", "NO-EVICT on", "NO-EVICT off", "REPLY on"]
    );
    assert_eq!(joined("[2|3 [AUTH user]]"), ["", "2", "2 AUTH user", "3", "3 AUTH user"]);
    assert_eq!(joined("[COUNT|INFO [name ...]]"), ["", "COUNT", "COUNT name", "INFO", "INFO name"]);
}
