//! The file of users, TOML:
//!
//! ```toml
//! [users.billing]
//! password = "$argon2id$v=19$m=19456,t=2,p=1$..."   # made by `lockspan passwd`
//! read = ["*"]                  # all datatypes
//! write = ["invoice", "order*"] # this one, and all that begin so; includes read
//! inspect = ["*"]
//! admin = []
//! ```
//!
//! Who may change the file decides who gets in. So it has to belong to the server's user or to
//! root, and neither its group nor others may write to it. It may be reached by a symbolic link, as
//! those that orchestrators mount are.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argon2::password_hash::phc::PasswordHash;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::quick::Cost;
use super::rules::{Pattern, Rules};
use super::{User, Users, Verb};
use crate::private::{self, FileMode};

/// The longest name.
const NAME: usize = 64;

/// What is wrong with a file of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUsers {
    path: Option<PathBuf>,
    line: Option<usize>,
    why: String,
}

impl fmt::Display for BadUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}:", path.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        let gap = if self.path.is_some() || self.line.is_some() { " " } else { "" };
        write!(f, "{gap}{}", self.why)
    }
}

impl std::error::Error for BadUsers {}

pub(super) fn load(path: &Path) -> Result<Users, BadUsers> {
    let at = |bad| BadUsers { path: Some(path.to_owned()), ..bad };
    let text = read(path).map_err(|why| at(BadUsers { path: None, line: None, why }))?;
    parse(&text).map_err(at)
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |why| format!("can't read: {why}");
    let mut file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    let (owner, mode) = (found.uid(), FileMode::of(&found));
    if !private::is_trusted(owner) {
        let why = private::foreign(owner);
        return Err(format!(
            "{why}: the owner of this file decides who may log in. Change its owner with chown"
        ));
    }
    if mode.lets_others_write() {
        return Err(format!(
            "other users may change it ({mode}), and so decide who may log in; run: chmod go-w {}",
            path.display()
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

pub(super) fn parse(text: &str) -> Result<Users, BadUsers> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let bad = |at: usize, why: String| BadUsers { path: None, line: Some(line(at)), why };
    let table = DeTable::parse(text).map_err(|why| {
        let span = why.span().unwrap_or_default();
        // Of what is in the file, only a key is shown: a value may be a secret.
        let said = match (why.message(), text.get(span.clone())) {
            ("duplicate key", Some(key)) if is_key(key) => {
                format!("{key} is set twice in one section; remove one of them")
            }
            (said, _) => said.to_owned(),
        };
        bad(span.start, said)
    })?;
    let mut all = Vec::new();
    for (key, value) in table.get_ref() {
        let at = key.span().start;
        if key.get_ref() != "users" {
            let why = format!("unknown key {:?}; a user is a section [users.NAME]", key.get_ref());
            return Err(bad(at, why));
        }
        let DeValue::Table(users) = value.get_ref() else {
            return Err(bad(at, "a user is a section [users.NAME] with keys".to_owned()));
        };
        for (name, value) in users {
            let at = name.span().start;
            let name: &str = name.get_ref();
            check_name(name).map_err(|why| bad(at, why))?;
            let DeValue::Table(keys) = value.get_ref() else {
                return Err(bad(
                    at,
                    format!("user {name:?} must be a section [users.{name}] with keys"),
                ));
            };
            let user = read_user(name, keys).map_err(|(inner, why)| {
                bad(inner.unwrap_or(at), format!("user {name:?}: {why}"))
            })?;
            all.push(user);
        }
    }
    Users::new(all).ok_or_else(|| BadUsers {
        path: None,
        line: None,
        why: "there is no user in it; a user is a section [users.NAME] with a password".to_owned(),
    })
}

/// Whether this is a key as it stands in the file: letters, digits and dashes, perhaps in quotes.
fn is_key(text: &str) -> bool {
    let bare = text.trim_matches('"');
    !bare.is_empty()
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if name.is_empty() || name.len() > NAME || !name.bytes().all(is_plain) {
        return Err(format!(
            "{name:?} is not a valid user name: use 1 to {NAME} letters, digits and any of - _ . @"
        ));
    }
    Ok(())
}

type Bad = (Option<usize>, String);

fn read_user(name: &str, keys: &DeTable<'_>) -> Result<(User, PasswordHash), Bad> {
    let mut rules = Rules::default();
    let mut hash = None;
    for (key, value) in keys {
        let at = Some(key.span().start);
        let key: &str = key.get_ref();
        let verb = Verb::ALL.into_iter().find(|verb| verb.as_str() == key);
        match (key, verb) {
            ("password", _) => hash = Some(read_hash(value).map_err(|why| (at, why))?),
            (_, Some(verb)) => {
                for pattern in patterns(value).map_err(|why| (at, format!("{key} {why}")))? {
                    rules.add(verb, pattern);
                }
            }
            _ => {
                let why = format!("{key:?} is not one of password, read, write, inspect, admin");
                return Err((at, why));
            }
        }
    }
    let hash = hash.ok_or_else(|| (None, "the password is missing".to_owned()))?;
    Ok((User { name: name.into(), rules }, hash))
}

fn read_hash(value: &Spanned<DeValue<'_>>) -> Result<PasswordHash, String> {
    let wrong = || {
        "password must be a hash from `lockspan passwd`, $argon2id$..., not the password itself"
            .to_owned()
    };
    let DeValue::String(text) = value.get_ref() else { return Err(wrong()) };
    let hash = PasswordHash::new(text).map_err(|_| wrong())?;
    let is_ours = hash.algorithm == argon2::ARGON2ID_IDENT
        && hash.hash.is_some()
        && hash.salt.is_some()
        && argon2::Params::try_from(&hash).is_ok();
    if !is_ours {
        return Err(wrong());
    }
    if !Cost::of(&hash).is_bearable() {
        return Err(format!(
            "the hash is more expensive than allowed; the maximum is {}",
            Cost::MOST
        ));
    }
    Ok(hash)
}

fn patterns(value: &Spanned<DeValue<'_>>) -> Result<Vec<Pattern>, String> {
    let list = "must be a list of datatypes, such as [\"invoice\", \"order*\"]";
    let DeValue::Array(all) = value.get_ref() else { return Err(list.to_owned()) };
    let pattern = |one: &Spanned<DeValue<'_>>| match one.get_ref() {
        DeValue::String(text) => {
            Pattern::parse(text).map_err(|why| format!("has {text:?}, which {why}"))
        }
        _ => Err(list.to_owned()),
    };
    all.iter().map(pattern).collect()
}
