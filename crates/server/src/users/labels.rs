//! Which datatypes share labels of the metrics: those that one rule of the file of users allows.
//!
//! A user with the rule `x*` can make up names without end, and the first ones have labels for as
//! long as the server runs. By their rules datatypes are divided into groups, and each group takes
//! at most half of the labels that are left: see [`Datatypes`].

use lockspan_protocol::server::watch::Datatypes;

use super::Users;
use super::rules::Pattern;

impl Users {
    /// Divides the datatypes of a server by the rules of its users.
    pub(crate) fn divide(&self, datatypes: &Datatypes) {
        let rules = in_order(self);
        datatypes.divide(move |datatype| group(&rules, datatype));
    }
}

/// The rules of all users, each once, a narrower one before a wider one.
fn in_order(users: &Users) -> Vec<Pattern> {
    let rules = users.all.iter().flat_map(|entry| entry.user.rules.locked());
    let mut rules: Vec<_> = rules.cloned().collect();
    // Whole names, then beginnings, long ones first.
    rules.sort_by(|a, b| match (a, b) {
        (Pattern::Begins(a), Pattern::Begins(b)) => b.len().cmp(&a.len()).then_with(|| a.cmp(b)),
        _ => a.cmp(b),
    });
    rules.dedup();
    rules
}

/// The narrowest rule that allows the datatype.
fn group(rules: &[Pattern], datatype: &[u8]) -> usize {
    rules.iter().position(|rule| rule.fits(datatype)).unwrap_or(rules.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_f102_a_datatype_belongs_to_the_narrowest_rule_that_allows_it() {
        let hash = crate::users::hash_password(b"x").expect("a hash");
        let user =
            |name: &str, rights: &str| format!("[users.{name}]\npassword = \"{hash}\"\n{rights}\n");
        let text = user("all", "write = [\"*\"]")
            + &user("mallory", "write = [\"x*\"]")
            + &user("ann", "read = [\"xylo*\", \"doc\"]\nwrite = [\"doc\"]")
            + &user("root", "inspect = [\"y*\"]");
        let rules = in_order(&Users::parse(&text).expect("a good file"));
        assert_eq!(rules.len(), 4, "{rules:?}");
        for (datatype, expected) in
            [("doc", 0), ("xylo1", 1), ("x1", 2), ("xy", 2), ("docs", 3), ("y", 3)]
        {
            assert_eq!(group(&rules, datatype.as_bytes()), expected, "{datatype}: {rules:?}");
        }
        assert_eq!(group(&rules[..3], b"docs"), 3, "nobody may lock it");
    }
}
