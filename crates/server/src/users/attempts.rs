//! How guessing is slowed down: after some failures there is a pause, which grows with each more.
//!
//! | who has failed | free | pauses | who is looked at all the same |
//! |---|---|---|---|
//! | this user from here | 4 | 1 s, 2 s, ... 15 s | nobody |
//! | anybody from here | 20 | 1 s, 2 s, ... 60 s | who has logged in from here |
//! | this user from anywhere | 20 | 1 s, 2 s | who has logged in from here, or not failed here |
//!
//! So a node with a wrong password keeps no other user out, and nobody far away keeps a user out.
//! Ten minutes after the last failure they are forgotten.
//!
//! Who is looked at all the same must not be told from others: [`Attempts::wait`] is the same for
//! both, and a try during a pause of the place counts for both, see [`Attempts::failed_early`].
//! During a pause of this user from here nothing is compared and nothing counted.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

const MEMORY: Duration = Duration::from_secs(600);

/// So many are remembered; then those that matter least are forgotten.
const MAX: usize = 10_000;

/// Longer names are all alike here: nobody has them.
const NAME: usize = 64;

/// Where somebody comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An address; of IPv6 the half that names a network counts.
    Ip(IpAddr),
    /// A socket file, and the number of the system's user, if it tells.
    Unix(Option<u32>),
}

impl Place {
    /// All addresses that one machine can easily have are one.
    pub(crate) fn network(self) -> Self {
        match self {
            Self::Ip(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
                Some(address) => Self::Ip(address.into()),
                None => {
                    let half = u128::from(address) >> 64 << 64;
                    Self::Ip(Ipv6Addr::from(half).into())
                }
            },
            other => other,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(None) => f.write_str("a socket file"),
            Self::Unix(Some(uid)) => write!(f, "a socket file, uid {uid}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Both(Place, Box<str>),
    Place(Place),
    User(Box<str>),
}

impl Key {
    /// How many failures are free, and the longest pause.
    fn bounds(&self) -> (u32, Duration) {
        match self {
            Self::Both(..) => (4, Duration::from_secs(15)),
            Self::Place(_) => (20, Duration::from_secs(60)),
            Self::User(_) => (20, Duration::from_secs(2)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Past {
    failures: u32,
    last: Instant,
}

impl Past {
    fn is_over(self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= MEMORY
    }
}

/// What has gone wrong lately.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    failed: HashMap<Key, Past>,
    /// Who has logged in, and from where.
    known: HashSet<(Place, Box<str>)>,
}

fn keys(from: Place, name: &str) -> [Key; 3] {
    let from = from.network();
    let name = if name.len() > NAME { "" } else { name };
    [Key::Both(from, name.into()), Key::Place(from), Key::User(name.into())]
}

impl Attempts {
    /// How long this one has to wait; nothing if it is looked at.
    pub(super) fn wait(&self, now: Instant, from: Place, name: &str) -> Duration {
        let [both, place, user] = keys(from, name);
        // Whoever has not failed here has done nothing to wait for.
        let has_failed = self.past(now, &both).is_some();
        let user = if has_failed { self.pause(now, &user) } else { Duration::ZERO };
        self.pause(now, &both).max(self.pause(now, &place)).max(user)
    }

    /// Whether this one is looked at although it has to wait.
    pub(super) fn excuses(&self, now: Instant, from: Place, name: &str) -> bool {
        let [both, ..] = keys(from, name);
        self.pause(now, &both).is_zero() && self.known.contains(&(from.network(), name.into()))
    }

    fn past(&self, now: Instant, key: &Key) -> Option<Past> {
        self.failed.get(key).copied().filter(|past| !past.is_over(now))
    }

    /// What is left of it.
    fn pause(&self, now: Instant, key: &Key) -> Duration {
        let (free, longest) = key.bounds();
        let Some(past) = self.past(now, key) else { return Duration::ZERO };
        let Some(more) = past.failures.checked_sub(free) else { return Duration::ZERO };
        let pause = Duration::from_secs(1 << more.min(10)).min(longest);
        (past.last + pause).saturating_duration_since(now)
    }

    pub(super) fn failed(&mut self, now: Instant, from: Place, name: &str) {
        for key in keys(from, name) {
            self.count(now, key);
        }
    }

    /// Somebody who had to wait did not. It counts where it might have been looked at.
    pub(super) fn failed_early(&mut self, now: Instant, from: Place, name: &str) {
        let [both, ..] = keys(from, name);
        if self.pause(now, &both).is_zero() {
            self.count(now, both);
        }
    }

    fn count(&mut self, now: Instant, key: Key) {
        if self.failed.len() >= MAX && !self.failed.contains_key(&key) {
            self.make_room(now);
        }
        let past = self.failed.entry(key).or_insert(Past { failures: 0, last: now });
        if past.is_over(now) {
            past.failures = 0;
        }
        *past = Past { failures: past.failures.saturating_add(1), last: now };
    }

    /// Others may go on guessing from there, so what has failed stays.
    pub(super) fn succeeded(&mut self, from: Place, name: &str) {
        let from = from.network();
        self.failed.remove(&Key::Both(from, name.into()));
        if self.known.len() >= MAX {
            self.known.clear();
        }
        self.known.insert((from, name.into()));
    }

    fn make_room(&mut self, now: Instant) {
        self.failed.retain(|_, past| !past.is_over(now));
        // Those with the fewest failures go first; half of them, so that it is not done each time.
        let mut most = 1;
        while self.failed.len() > MAX / 2 {
            self.failed.retain(|_, past| past.failures > most);
            most *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = Place::Ip(IpAddr::V6(Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, 8)));
    const NEXT: Place = Place::Ip(IpAddr::V6(Ipv6Addr::new(1, 2, 3, 4, 9, 9, 9, 9)));
    const AWAY: Place = Place::Ip(IpAddr::V6(Ipv6Addr::new(1, 2, 3, 5, 5, 6, 7, 8)));

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn pauses_grow_and_end() {
        let mut attempts = Attempts::default();
        let mut now = Instant::now();
        for free in 0..4 {
            assert_eq!(attempts.wait(now, HERE, "a"), Duration::ZERO, "{free}");
            attempts.failed(now, HERE, "a");
        }
        for pause in [1, 2, 4, 8, 15, 15] {
            assert_eq!(attempts.wait(now, HERE, "a"), seconds(pause));
            assert_eq!(attempts.wait(now, NEXT, "a"), seconds(pause), "the same network");
            assert_eq!(attempts.wait(now, AWAY, "a"), Duration::ZERO);
            assert_eq!(attempts.wait(now, HERE, "b"), Duration::ZERO);
            now += seconds(pause);
            assert_eq!(attempts.wait(now, HERE, "a"), Duration::ZERO);
            attempts.failed(now, HERE, "a");
        }
        assert_eq!(attempts.wait(now + MEMORY, HERE, "a"), Duration::ZERO);
        attempts.failed(now + MEMORY, HERE, "a");
        assert_eq!(attempts.wait(now + MEMORY, HERE, "a"), Duration::ZERO, "it counts anew");
    }

    #[test]
    fn many_names_from_one_place_and_one_name_from_many_are_slowed_too() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        attempts.succeeded(HERE, "friend");
        for name in 0..20 {
            attempts.failed(now, HERE, &name.to_string());
        }
        assert_eq!(attempts.wait(now, HERE, "new"), seconds(1));
        assert!(attempts.excuses(now, HERE, "friend") && !attempts.excuses(now, HERE, "new"));
        let mut attempts = Attempts::default();
        attempts.succeeded(HERE, "victim");
        let guesser = |at| Place::Ip(IpAddr::V4([10, 0, 0, at].into()));
        for at in 0..20 {
            attempts.failed(now, guesser(at), "victim");
        }
        assert_eq!(attempts.wait(now, guesser(0), "victim"), seconds(1));
        attempts.failed(now, HERE, "victim");
        assert_eq!(attempts.wait(now, HERE, "victim"), seconds(2));
        assert!(attempts.excuses(now, HERE, "victim"));
    }

    /// However many guess, and however often: who comes from elsewhere gets in.
    #[test]
    fn guessers_far_away_keep_nobody_out() {
        let mut now = Instant::now();
        let mut attempts = Attempts::default();
        let guesser = |at| Place::Ip(IpAddr::V4([10, 0, 0, at].into()));
        for _ in 0..120 {
            for at in 0..20 {
                if attempts.wait(now, guesser(at), "victim").is_zero() {
                    attempts.failed(now, guesser(at), "victim");
                }
            }
            assert!(attempts.wait(now, guesser(0), "victim") <= seconds(15));
            assert_eq!(attempts.wait(now, AWAY, "victim"), Duration::ZERO);
            now += seconds(1);
        }
        let (one, other) = (Place::Unix(Some(1)), Place::Unix(Some(2)));
        for name in 0..30 {
            attempts.failed(now, one, &name.to_string());
        }
        assert_eq!(attempts.wait(now, one, "victim"), seconds(60));
        assert_eq!(attempts.wait(now, other, "victim"), Duration::ZERO);
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        for at in 0..30_000_u32 {
            attempts.failed(now, Place::Ip(IpAddr::V4(at.into())), &at.to_string());
        }
        for _ in 0..6 {
            attempts.failed(now, HERE, "a");
        }
        for at in 0..30_000_u32 {
            attempts.failed(now, Place::Ip(IpAddr::V4(at.into())), &at.to_string());
            attempts.succeeded(Place::Ip(IpAddr::V4(at.into())), "a");
        }
        assert!(attempts.failed.len() <= MAX + 3 && attempts.known.len() <= MAX);
        assert!(!attempts.wait(now, HERE, "a").is_zero(), "the worst are remembered longest");
    }

    /// Who has logged in from here before looks like anybody else.
    #[test]
    fn a_pause_does_not_tell_who_exists() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        attempts.succeeded(HERE, "friend");
        for name in 0..20 {
            attempts.failed(now, HERE, &name.to_string());
        }
        for try_again in 0..6 {
            let [friend, other] = ["friend", "other"].map(|name| attempts.wait(now, HERE, name));
            assert_eq!(friend, other, "{try_again}");
            attempts.failed_early(now, HERE, "friend");
            attempts.failed_early(now, HERE, "other");
        }
        assert!(!attempts.excuses(now, HERE, "friend"), "guesses count during a pause too");
    }
}
