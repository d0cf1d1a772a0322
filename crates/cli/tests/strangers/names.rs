//! Names in angle brackets, which stand for what changes from run to run.

use std::collections::BTreeMap;

/// What each name stands for, since it was first seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// The line with what is known in place of the names.
    pub(crate) fn fill(&self, line: &str) -> String {
        let mut filled = line.to_owned();
        for (name, text) in &self.0 {
            filled = filled.replace(&format!("<{name}>"), text);
        }
        filled
    }

    /// Whether these lines are those; if so, new names stand for what is in their places.
    pub(crate) fn are(&mut self, shown: &[String], seen: &[String]) -> bool {
        let mut names = self.clone();
        let same = shown.len() == seen.len()
            && shown.iter().zip(seen).all(|(shown, seen)| names.is(shown.trim_end(), seen));
        if same {
            *self = names;
        }
        same
    }

    fn is(&mut self, shown: &str, seen: &str) -> bool {
        let (shown, seen) = (self.fill(shown), seen.trim_end());
        if shown == seen {
            return true;
        }
        let Some((before, name, after)) = first_name(&shown) else { return false };
        let Some(rest) = seen.strip_prefix(before) else { return false };
        let literal = first_name(after).map_or(after, |(literal, _, _)| literal);
        // At the end of a line a name takes all that is left.
        let length = if after.is_empty() { Some(rest.len()) } else { rest.find(literal) };
        let Some(text) = length.map(|length| &rest[..length]).filter(|text| !text.is_empty())
        else {
            return false;
        };
        self.0.insert(name.to_owned(), text.to_owned());
        self.is(after, &rest[text.len()..])
    }
}

/// The first name of a line, with what is before and after it.
pub(crate) fn first_name(line: &str) -> Option<(&str, &str, &str)> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    line.match_indices('<').find_map(|(start, _)| {
        let (name, after) = line[start + 1..].split_once('>')?;
        is_name(name).then_some((&line[..start], name, after))
    })
}

#[test]
fn a_name_is_the_same_text_everywhere() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let mut names = Names::default();
    assert!(names.are(&lines("id <a>\n\"<b>:<c>\""), &lines("id 7  \n\"x:y\"")));
    assert_eq!(names.fill("KEEP <a> <b> <c> <d>"), "KEEP 7 x y <d>");
    assert!(names.are(&lines("<a> <a>"), &lines("7 7")));
    assert!(!names.are(&lines("<a>"), &lines("8")), "another text");
    assert!(!names.are(&lines("<d>!\n<a>"), &lines("9!\n8")), "another text");
    assert!(names.are(&lines("<d>"), &lines("10")), "what did not fit bound nothing");
    assert!(!names.are(&lines("<e> <e>"), &lines("1 2")), "twice in a line");
    assert!(!names.are(&lines("[<f>]"), &lines("[]")), "nothing is no text");
    assert!(!names.are(&lines("one"), &lines("one\ntwo")), "a line more");
    assert!(names.are(&lines("is <datatype>:<id>, x"), &lines("is <datatype>:<id>, x")));
    assert_eq!(names.fill("<datatype>"), "<datatype>", "brackets that are meant so bind nothing");
}
