//! Users with hashed passwords, and what they may lock and see.
//!
//! [`Users::check`] checks a password, [`User::may`] a right. `docs/security.md` in the repository
//! describes the file of users.
//!
//! # What is promised
//!
//! However many passwords an attacker tries:
//!
//! - Wrong guesses at a user's password delay that user for at most 10 s, also right after a
//!   restart, and only at the same network address or local account. Other users are not delayed.
//! - Guessing is slow: four guesses at once, then one in 8 s for each waiting connection.
//! - Neither the answers nor their timing tell which user names exist.
//! - The memory for failed logins is bounded.

// | module | job |
// |---|---|
// | `file` | the file of users |
// | `rules` | which datatypes a pattern means; `labels`: which of them share metric labels |
// | `place` | where a login comes from; `socket_owner`: whose process, on this machine |
// | `tries` | which logins are *free*: compared and answered at once |
// | `queue` | how all others wait, and the exact bounds on guessing |
// | `known` | from where each user has logged in, over a restart |
// | `hash` | hashes of passwords; `quick`: recognizes a password without a hash |
// | `check` | puts these together |
//
// A password is compared on a thread of its own. The right one costs a hash once; from then on
// `quick` recognizes it, so that many clients of one user log in at once after a restart.

mod check;
mod file;
mod hash;
mod known;
mod labels;
mod place;
mod queue;
mod quick;
mod rules;
mod socket_owner;
mod tries;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};

use argon2::password_hash::phc::PasswordHash;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

pub use file::BadUsers;
pub use hash::hash_password;
pub use place::Place;
pub(crate) use socket_owner::Ends;

use check::State;
use hash::Decoys;
use known::{KnownFile, KnownPlaces};
use quick::{Key, Tag};
use rules::Rules;
use socket_owner::SocketOwners;

use crate::seldom::Seldom;

/// Failed logins that the log names, each second.
const FAILURES_LOGGED: u32 = 8;

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
    /// Too many logins fail or wait. This one is wrong, or was not compared: which of them is not
    /// told.
    TryAgain,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wrong => "wrong user or password",
            Self::TryAgain => {
                "too many logins fail or wait, so this one is wrong or was not checked: check the \
                 user and the password, and try again"
            }
        })
    }
}

impl std::error::Error for Refused {}

/// Everybody who may log in.
pub struct Users {
    all: Vec<Entry>,
    by_name: HashMap<Arc<str>, usize>,
    decoys: Decoys,
    key: Key,
    state: Mutex<State>,
    /// One for each free login whose password may be hashed at a time, and how many wait for that.
    hashes: Arc<Semaphore>,
    line: AtomicUsize,
    owners: SocketOwners,
    /// Failed logins of names that nobody has, for the log.
    failures: Seldom,
    /// Failed logins of all names, for the log.
    logged: Seldom,
    file: Mutex<Option<KnownFile>>,
    /// Hashes passwords and reads files for logins. Defaults to the runtime of the first login.
    runtime: OnceLock<Handle>,
}

struct Entry {
    user: Arc<User>,
    hash: PasswordHash,
    /// Of the password, since it was shown once.
    tag: OnceLock<Tag>,
    /// Failed logins, for the log.
    failures: Seldom,
}

impl fmt::Debug for Users {
    /// Without hashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
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

    fn new(all: Vec<(User, PasswordHash)>) -> Option<Self> {
        if all.is_empty() {
            return None;
        }
        let decoys = Decoys::of(all.iter().map(|(_, hash)| hash));
        let entry = |(user, hash): (User, _)| {
            let (user, tag, failures) = (Arc::new(user), OnceLock::new(), Seldom::default());
            Entry { user, hash, tag, failures }
        };
        let all: Vec<_> = all.into_iter().map(entry).collect();
        let by_name = all.iter().enumerate().map(|(at, one)| (Arc::clone(&one.user.name), at));
        let by_name = by_name.collect();
        let known = KnownPlaces::new(drawn(), names(&all));
        let half = std::thread::available_parallelism().map_or(1, |all| all.get() / 2);
        Some(Self {
            by_name,
            decoys,
            key: Key::draw(),
            state: Mutex::new(State::new(u64::from_le_bytes(drawn()), known)),
            hashes: Arc::new(Semaphore::new(half.clamp(1, 4))),
            line: AtomicUsize::new(0),
            owners: SocketOwners::default(),
            failures: Seldom::default(),
            logged: Seldom::up_to(FAILURES_LOGGED),
            file: Mutex::default(),
            runtime: OnceLock::new(),
            all,
        })
    }

    /// Remembers in this data directory who has logged in from where, and reads it there. `key` is
    /// that of the directory.
    pub(crate) fn remember_in(&self, dir: &Path, key: [u8; 32]) {
        let mut known = KnownPlaces::new(key, names(&self.all));
        let file = KnownFile::open(dir, &mut known);
        *crate::lock(&self.file) = Some(file);
        crate::lock(&self.state).known = known;
    }

    /// Everything that takes time is done by this runtime, whichever one a login is in.
    pub(crate) fn work_in(&self, runtime: Handle) {
        // Then somebody has logged in already.
        let _ = self.runtime.set(runtime);
    }

    fn runtime(&self) -> &Handle {
        self.runtime.get_or_init(Handle::current)
    }
}

fn names(all: &[Entry]) -> impl Iterator<Item = String> {
    all.iter().map(|entry| entry.user.name.to_string())
}

fn drawn<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod attackers;
#[cfg(test)]
mod tests;
