//! Who may do what: users with hashed passwords, and what they may lock and see.
//!
//! [`Users::check`] tells who somebody is, [`User::may`] what they may do. A file has them all, see
//! `file`; `rules` says which datatypes a word means, `labels` which of them share labels of the
//! metrics, `attempts` how guessing is slowed down.
//!
//! A password is compared on a thread of its own, a few at a time and a few more in line: a hash
//! takes some 20 ms and 19 MiB on purpose. A wrong password and a name that nobody has cost the
//! same: one hash of each price that the file has. The right one costs that once; from then on
//! `quick` knows it again, so that many nodes of one user get in at once after a restart.

mod attempts;
mod file;
mod labels;
mod quick;
mod rules;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use argon2::password_hash::rand_core::{self, CryptoRng, RngCore};
use argon2::password_hash::{PasswordHashString, SaltString};
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use lockspan_wire::Secret;
use tokio::sync::Semaphore;

use crate::seldom::Seldom;
use attempts::Attempts;
pub use attempts::Place;
pub use file::BadUsers;
use quick::{Cost, Key, Tag};
use rules::Rules;

/// Logins that may wait for their turn.
const LINE: usize = 256;

/// Failed logins that the log names, each second; the others are counted there.
const FAILURES_LOGGED: u32 = 8;

/// How long a login waits for its turn. Nodes give up after 5 s, and one that has is compared in
/// vain.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest password.
const PASSWORD: usize = 1024;

/// What a user may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Lock for reading.
    Read,
    /// Lock for writing; who may do that may read too.
    Write,
    /// See who holds a record and who waits for it.
    Inspect,
    /// End sessions of others, take records back.
    Admin,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Inspect, Self::Admin];

    /// As it is written in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Inspect => "inspect",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Somebody who has shown their password.
#[derive(Debug)]
pub struct User {
    name: Arc<str>,
    rules: Rules,
}

impl User {
    /// Their name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether they may do this to records of this datatype.
    #[must_use]
    pub fn may(&self, verb: Verb, datatype: &[u8]) -> bool {
        self.rules.allow(verb, datatype)
    }

    /// Whether they may do this to every record.
    #[must_use]
    pub fn may_everywhere(&self, verb: Verb) -> bool {
        self.rules.allow_all(verb)
    }
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There is no such user, or the password is another.
    Wrong,
    /// There were too many wrong ones: this was not looked at.
    TooMany {
        /// For how long none is looked at.
        wait: Duration,
    },
    /// Too many others log in at this moment.
    Busy,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong => f.write_str("there is no such user with that password"),
            Self::TooMany { wait } => write!(
                f,
                "too many logins have failed; the next one is looked at in {} s",
                wait.as_secs_f64().ceil()
            ),
            Self::Busy => f.write_str("too many log in at this moment; try again"),
        }
    }
}

impl std::error::Error for Refused {}

/// Everybody who may log in.
pub struct Users {
    all: HashMap<Arc<str>, Entry>,
    /// A hash of each price: what a wrong password is compared with too.
    decoys: HashMap<Cost, PasswordHashString>,
    key: Key,
    attempts: Mutex<Attempts>,
    /// Passwords that were wrong, for the log.
    failures: Seldom,
    /// One for each password that may be compared at a time.
    turns: Arc<Semaphore>,
    line: AtomicUsize,
}

struct Entry {
    user: Arc<User>,
    hash: PasswordHashString,
    /// Of the password, since it was shown once.
    tag: OnceLock<Tag>,
}

impl fmt::Debug for Users {
    /// Without hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl Users {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, BadUsers> {
        file::load(path)
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, BadUsers> {
        file::parse(text)
    }

    fn new(all: Vec<(User, PasswordHashString)>) -> Option<Self> {
        if all.is_empty() {
            return None;
        }
        let decoys = all.iter().map(|(_, hash)| (Cost::of(hash), hash.clone())).collect();
        let entry = |(user, hash): (User, _)| {
            let (name, user) = (Arc::clone(&user.name), Arc::new(user));
            (name, Entry { user, hash, tag: OnceLock::new() })
        };
        let half = std::thread::available_parallelism().map_or(1, |all| all.get() / 2);
        Some(Self {
            all: all.into_iter().map(entry).collect(),
            decoys,
            key: Key::draw(),
            attempts: Mutex::default(),
            failures: Seldom::up_to(FAILURES_LOGGED),
            turns: Arc::new(Semaphore::new(half.clamp(1, 4))),
            line: AtomicUsize::new(0),
        })
    }

    /// Who this is. It takes its time on purpose, never that of the thread that it is called on.
    /// Whoever `is_gone` when their turn comes is not compared; after that the attempt counts even
    /// if nobody waits for the answer any more.
    pub async fn check(
        self: &Arc<Self>,
        from: Place,
        name: &str,
        password: &Secret,
        is_gone: impl Fn() -> bool,
    ) -> Result<Arc<User>, Refused> {
        if let Some(user) = self.look(from, name, password)? {
            return Ok(user);
        }
        let was_shown = self.all.get(name).is_some_and(|entry| entry.tag.get().is_some());
        let mut given_up = GivenUp { users: self, from, name, counts: was_shown };
        let _place = InLine::stand(&self.line).ok_or(Refused::Busy)?;
        given_up.counts = true;
        let turn = match Arc::clone(&self.turns).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = Arc::clone(&self.turns).acquire_owned();
                let turn = tokio::time::timeout(PATIENCE, turn).await;
                let turn = turn.map_err(|_| Refused::Busy)?.map_err(|_| Refused::Busy)?;
                if is_gone() {
                    return Err(Refused::Busy);
                }
                given_up.counts = false;
                // Others of the same kind may have failed meanwhile, or got in.
                if let Some(user) = self.look(from, name, password)? {
                    return Ok(user);
                }
                turn
            }
        };
        given_up.counts = false;
        let (users, name, password) = (Arc::clone(self), name.to_owned(), password.clone());
        let compared = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            users.compare(from, &name, &password)
        });
        compared.await.unwrap_or(Err(Refused::Busy))
    }

    /// What can be said at once: who it is, if that password was shown before, or that there is a
    /// pause. In one, whoever is looked at all the same is looked at by this alone.
    fn look(
        &self,
        from: Place,
        name: &str,
        password: &Secret,
    ) -> Result<Option<Arc<User>>, Refused> {
        let tag = self.key.tag(name, short(password).unwrap_or_default());
        let known = self.all.get(name).filter(|entry| entry.tag.get() == Some(&tag));
        let now = Instant::now();
        let mut attempts = crate::lock(&self.attempts);
        let wait = attempts.wait(now, from, name);
        if let Some(entry) = known
            && (wait.is_zero() || attempts.excuses(now, from, name))
        {
            attempts.succeeded(from, name);
            return Ok(Some(Arc::clone(&entry.user)));
        }
        if wait.is_zero() {
            return Ok(None);
        }
        attempts.failed_early(now, from, name);
        Err(Refused::TooMany { wait })
    }

    fn compare(&self, from: Place, name: &str, password: &Secret) -> Result<Arc<User>, Refused> {
        let entry = self.all.get(name);
        let given = short(password);
        let is_right = |hash: &PasswordHashString| {
            // Its comparison takes the same time wherever the first difference is.
            let hash = hash.password_hash();
            let same = Argon2::default().verify_password(given.unwrap_or_default(), &hash).is_ok();
            same && given.is_some()
        };
        match entry.filter(|entry| is_right(&entry.hash)) {
            Some(entry) => {
                entry.tag.get_or_init(|| self.key.tag(name, given.unwrap_or_default()));
                crate::lock(&self.attempts).succeeded(from, name);
                Ok(Arc::clone(&entry.user))
            }
            None => {
                let own = entry.map(|entry| Cost::of(&entry.hash));
                for (_, decoy) in self.decoys.iter().filter(|(cost, _)| Some(**cost) != own) {
                    std::hint::black_box(is_right(decoy));
                }
                crate::lock(&self.attempts).failed(Instant::now(), from, name);
                // Somebody may have typed their password in the place of their name.
                let who = if entry.is_some() { name } else { "(unknown)" };
                if let Some(more) = self.failures.may_log(Instant::now()) {
                    tracing::warn!("a login failed: user {who}, from {from}{more}");
                }
                Err(Refused::Wrong)
            }
        }
    }
}

/// A login that is not compared after all. It counts, for it was looked at: otherwise whoever hangs
/// up soon enough could try without end.
struct GivenUp<'a> {
    users: &'a Users,
    from: Place,
    name: &'a str,
    counts: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.counts {
            crate::lock(&self.users.attempts).failed_early(Instant::now(), self.from, self.name);
        }
    }
}

/// The password, if it is not longer than one can be.
fn short(password: &Secret) -> Option<&[u8]> {
    Some(&password.reveal()[..]).filter(|password| password.len() <= PASSWORD)
}

/// A place in line, as long as it is kept.
struct InLine<'a>(&'a AtomicUsize);

impl<'a> InLine<'a> {
    fn stand(line: &'a AtomicUsize) -> Option<Self> {
        let place = Self(line);
        (line.fetch_add(1, Ordering::Relaxed) < LINE).then_some(place)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The hash of a password, as a file of users has it: argon2id with a salt of its own.
pub fn hash_password(password: &[u8]) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD {
        let said = password.len();
        return Err(format!("a password has from 1 to {PASSWORD} bytes, and this has {said}"));
    }
    let salt = SaltString::generate(&mut System);
    let hash = Argon2::default().hash_password(password, &salt);
    hash.map(|hash| hash.to_string()).map_err(|why| why.to_string())
}

/// The random numbers of the system.
struct System;

impl RngCore for System {
    fn next_u32(&mut self) -> u32 {
        rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, dest: &mut [u8]) {
        getrandom::fill(dest).expect("the system has random numbers");
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(dest);
        Ok(())
    }
}

impl CryptoRng for System {}

#[cfg(test)]
mod tests;
