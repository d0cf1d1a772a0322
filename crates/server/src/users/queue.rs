//! Logins that wait until their password is compared.
//!
//! A guess and a login of the user are the same message, so every answer that the user gets within
//! a time, a guess gets within that time too. What can be bounded is how many there are:
//!
//! - Logins wait in the *lane* of their place and user. A lane has up to [`SAVED`] turns, and earns
//!   another in [`WAIT`]: as long as it has one, a login there is compared at once.
//! - Otherwise it is compared at a moment that is drawn for it, within [`WAIT`] of its coming, if
//!   its client is still there. What others do makes no difference to that. A connection that
//!   waits has one comparison in [`WAIT`] on average, whether it stays or gives up and comes again:
//!   more guesses take more connections, and nobody can push in before others.
//! - A right password takes no turn away: all nodes of a user get in together.
//! - A login that does not succeed is answered [`HOLD`] after it came, whether it was compared or
//!   not, in the same words. So waiting tells nothing.
//! - Names that nobody has share a lane in each place, which is like any other. They take nothing
//!   from the lanes of users.
//!
//! Guesses that are compared, with n connections waiting in the lane:
//!
//! | of | at most |
//! |---|---|
//! | a user and a place | 4, then (1 + n) / 8 a second, and never more than 32 a second |
//! | a user and a network | 32 a second, together from places where that user never logged in |
//!
//! When a user who knows the password is let in:
//!
//! | since the start the user has | waiting | let in |
//! |---|---|---|
//! | logged in, from anywhere | up to 250 in the lane | within 8 s |
//! | | n, which is more | within 10 s with a chance of 250 in n, and so on for each try |
//! | not logged in | up to 40 in all lanes that are preferred | within 10 s |
//! | | n, which is more | within 10 s with a chance of 40 in n, and so on |
//!
//! The second half is about hashes: without one an unknown password can't be compared, and there
//! are 10 a second for all lanes. Three of four go to the lanes that are preferred, those whose
//! user has logged in from there before, in this run or an earlier one.
//!
//! Hashes cost time of a processor on purpose: so there is one at a time, and one in
//! [`HASH_EVERY`]. For a comparison that needs none (the password is known to be wrong) one is
//! computed all the same as soon as no other login needs it: the load does not tell which users
//! exist.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::place::Place;
use super::quick::Tag;

/// When a login that waits is answered at the latest.
pub(super) const HOLD: Duration = Duration::from_secs(10);

/// When it is compared at the latest, if there are not too many.
pub(super) const WAIT: Duration = Duration::from_secs(8);

/// How often [`LoginQueue::draw`] is to be called, see [`LoginQueue::is_to_be_drawn`].
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Turns that a lane may save up.
pub(super) const SAVED: u32 = 4;

/// Between two comparisons of guesses at a user from a place, on average.
pub(super) const FASTEST: Duration = Duration::from_micros(31_250);

/// Between the beginnings of two hashes.
pub(super) const HASH_EVERY: Duration = Duration::from_millis(100);

/// Hashes that may be due for nothing: as many as logins that wait for one can have.
const DECOYS: u32 = (HOLD.as_millis() / HASH_EVERY.as_millis()) as u32;

/// With so many lanes, those are forgotten that nobody waits in; but not more often than this.
const LANES: usize = 4096;
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// Which user of the file; `None` for a name that nobody has.
pub(super) type UserIx = Option<usize>;

/// Where logins wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    pub(super) place: Place,
    pub(super) user: UserIx,
}

/// What is known of a password without a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    Right,
    Wrong,
    /// It takes a hash to tell.
    Unknown,
}

/// What is to be done for a login, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drawn {
    /// The password of this login is right.
    LetIn(u64),
    /// The password of this login is to be compared by a hash. [`LoginQueue::hashed`] follows.
    Hash(u64, LaneKey),
    /// The password of this login is wrong.
    Wrong(u64, LaneKey),
    /// A hash is to be computed for nothing. [`LoginQueue::hashed`] follows.
    Decoy,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct LoginQueue {
    lanes: HashMap<LaneKey, Lane>,
    /// When the next guess at a user may be compared, for all places of a network from which that
    /// user has never logged in.
    networks: HashMap<LaneKey, Instant>,
    forgotten: Option<Instant>,
    hashes: Hashes,
    waiting: usize,
    last_id: u64,
    random: u64,
}

#[derive(Debug)]
struct Lane {
    /// The user has logged in from there before.
    is_known: bool,
    /// Those who were not compared yet, in the order in which they came, which is that of their
    /// numbers.
    waiting: Vec<Waiting>,
    /// Turns that were saved, each worth [`WAIT`], and up to when that is counted.
    saved: Duration,
    at: Instant,
    /// When the next guess may be compared, for a lane that is known.
    next: Instant,
    /// When the last one was.
    last: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    tag: Tag,
    /// When it is compared.
    due: Instant,
}

#[derive(Debug, Default)]
struct Hashes {
    is_busy: bool,
    next: Option<Instant>,
    count: u64,
    /// Those that are to be computed for nothing.
    decoys: u32,
}

impl Hashes {
    fn begin(&mut self, now: Instant) -> bool {
        let may = !self.is_busy && self.next.is_none_or(|next| next <= now);
        if may {
            (self.is_busy, self.next) = (true, Some(now + HASH_EVERY));
            self.count += 1;
        }
        may
    }

    /// Whether the next one goes to a user who has logged in from that place before.
    fn is_for_known(&self) -> bool {
        self.count % 4 != 3
    }
}

impl Lane {
    fn new(now: Instant) -> Self {
        let (waiting, saved) = (Vec::new(), SAVED * WAIT);
        Self { is_known: false, waiting, saved, at: now, next: now, last: None }
    }

    fn earn(&mut self, now: Instant) {
        let time = now.saturating_duration_since(self.at);
        self.saved = (self.saved + time).min(SAVED * WAIT);
        self.at = now.max(self.at);
    }

    fn has_turn(&self) -> bool {
        self.saved >= WAIT
    }

    fn pay(&mut self) {
        self.saved = self.saved.saturating_sub(WAIT);
    }

    /// The next to be compared: the first, if there is a turn, or that which is due for longest.
    fn next(&self, now: Instant) -> Option<usize> {
        if self.has_turn() {
            return (!self.waiting.is_empty()).then_some(0);
        }
        let due = self.waiting.iter().enumerate().filter(|(_, one)| one.due <= now);
        due.min_by_key(|(_, one)| one.due).map(|(at, _)| at)
    }

    fn is_as_new(&mut self, now: Instant) -> bool {
        self.earn(now);
        self.waiting.is_empty() && self.saved == SAVED * WAIT
    }
}

impl LoginQueue {
    /// Draws follow from `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            lanes: HashMap::new(),
            networks: HashMap::new(),
            forgotten: None,
            hashes: Hashes::default(),
            waiting: 0,
            last_id: 0,
            random: seed,
        }
    }

    /// Whether [`LoginQueue::draw`] has something to do, now or later.
    pub(super) fn is_to_be_drawn(&self) -> bool {
        self.waiting > 0 || self.hashes.decoys > 0
    }

    /// A login begins to wait, and has a number from then on.
    pub(super) fn enter(&mut self, now: Instant, key: LaneKey, tag: Tag, is_known: bool) -> u64 {
        self.last_id += 1;
        let (id, due) = (self.last_id, now + drawn_below(WAIT, &mut self.random));
        let lane = self.lane(now, key);
        lane.is_known = is_known;
        lane.waiting.push(Waiting { id, tag, due });
        self.waiting += 1;
        id
    }

    fn lane(&mut self, now: Instant, key: LaneKey) -> &mut Lane {
        if self.lanes.len() >= LANES {
            self.forget_idle(now);
        }
        let lane = self.lanes.entry(key).or_insert_with(|| Lane::new(now));
        lane.earn(now);
        lane
    }

    /// A login was answered, or its client has gone.
    pub(super) fn leave(&mut self, key: LaneKey, id: u64) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        if let Ok(at) = lane.waiting.binary_search_by_key(&id, |one| one.id) {
            lane.waiting.remove(at);
            self.waiting -= 1;
        }
    }

    /// A free login has failed: it takes a turn as well.
    pub(super) fn failed_free(&mut self, now: Instant, key: LaneKey) {
        self.lane(now, key).pay();
    }

    /// A hash is done.
    pub(super) fn hashed(&mut self) {
        self.hashes.is_busy = false;
    }

    /// All comparisons that are due. `guess` says what is known of a password.
    pub(super) fn draw(
        &mut self,
        now: Instant,
        guess: impl Fn(UserIx, &Tag) -> Guess,
    ) -> Vec<Drawn> {
        let first = self.hashes.is_for_known();
        let waited_in = self.lanes.iter().filter(|(_, lane)| !lane.waiting.is_empty());
        let mut order: Vec<_> =
            waited_in.map(|(key, lane)| (lane.is_known != first, lane.last, *key)).collect();
        // No lane keeps others from a hash: that which had one longest ago comes first.
        order.sort_unstable_by_key(|&(is_later, last, _)| (is_later, last));
        let mut drawn = Vec::new();
        for (_, _, key) in order {
            self.draw_lane(now, key, true, &guess, &mut drawn);
        }
        if self.hashes.decoys > 0 && self.hashes.begin(now) {
            self.hashes.decoys -= 1;
            drawn.push(Drawn::Decoy);
        }
        drawn
    }

    /// Those that are due in one lane, for a login that has just entered it.
    pub(super) fn draw_at_once(
        &mut self,
        now: Instant,
        key: LaneKey,
        guess: impl Fn(UserIx, &Tag) -> Guess,
    ) -> Vec<Drawn> {
        let mut drawn = Vec::new();
        // Others may have waited for a hash for longer: `draw` knows their order.
        let may_hash = self.waiting == 1;
        self.draw_lane(now, key, may_hash, &guess, &mut drawn);
        drawn
    }

    fn draw_lane(
        &mut self,
        now: Instant,
        key: LaneKey,
        may_hash: bool,
        guess: impl Fn(UserIx, &Tag) -> Guess,
        drawn: &mut Vec<Drawn>,
    ) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.earn(now);
        while let Some(at) = lane.next(now) {
            let network = LaneKey { place: key.place.wider(), ..key };
            let next = match lane.is_known {
                true => &mut lane.next,
                false => self.networks.entry(network).or_insert(now),
            };
            if *next > now {
                return;
            }
            let Waiting { id, tag, .. } = &lane.waiting[at];
            let one = match guess(key.user, tag) {
                Guess::Right => Drawn::LetIn(*id),
                Guess::Wrong => Drawn::Wrong(*id, key),
                Guess::Unknown if may_hash && self.hashes.begin(now) => Drawn::Hash(*id, key),
                Guess::Unknown => return,
            };
            if one != Drawn::LetIn(*id) {
                // Those that were due since the last call come now.
                *next = (*next).max(now.checked_sub(TICK).unwrap_or(now)) + FASTEST;
                lane.last = Some(now);
                if lane.has_turn() {
                    lane.pay();
                }
            }
            if matches!(one, Drawn::Wrong(..)) {
                self.hashes.decoys = (self.hashes.decoys + 1).min(DECOYS);
            }
            lane.waiting.remove(at);
            self.waiting -= 1;
            drawn.push(one);
        }
    }

    /// Forgets what makes no difference; a lane that nobody is in may be worth a few turns.
    fn forget_idle(&mut self, now: Instant) {
        if self.forgotten.is_some_and(|at| now.saturating_duration_since(at) < FORGET_EVERY) {
            return;
        }
        self.forgotten = Some(now);
        self.lanes.retain(|_, lane| !lane.is_as_new(now));
        if self.lanes.len() >= LANES {
            self.lanes.retain(|_, lane| !lane.waiting.is_empty());
        }
        self.networks.retain(|_, next| *next + TICK > now);
    }
}

/// A drawn time below `most`. SplitMix64, by Sebastiano Vigna.
fn drawn_below(most: Duration, state: &mut u64) -> Duration {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^= word >> 31;
    most.mul_f64((word >> 11) as f64 / (1_u64 << 53) as f64)
}
