//! Minutes of attacks on [`LoginQueue`], in virtual time: guessers of every kind against a user who
//! knows the password. Everything follows from a seed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use super::place::Place;
use super::queue::{
    Drawn, FASTEST, Guess, HASH_EVERY, HOLD, LaneKey, LoginQueue, SAVED, TICK, UserIx, WAIT,
};
use super::quick::{Key, Tag};

/// How long a hash takes.
const HASH: Duration = Duration::from_millis(36);

/// The promise of the header of `queue`, and a tick.
const PROMISE: Duration = Duration::from_millis(8_100);

const ALICE: UserIx = Some(0);
const BOB: UserIx = Some(1);
const NOBODY: UserIx = None;

const SEEDS: u64 = 12;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn at(last: u8) -> Place {
    Place::Ip([10, 0, 0, last].into())
}

/// How a connection behaves.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Waits for the answer, then tries again at once.
    Patient,
    /// Gives up after this time at most, and connects again.
    Hasty(Duration),
    /// As patient; but all of them connect anew just before the user comes.
    Before(Instant),
}

#[derive(Clone, Debug)]
struct Agent {
    lane: LaneKey,
    is_known: bool,
    knows_password: bool,
    manner: Manner,
    /// Its place in the queue, and when it will have its answer.
    queued: Option<(u64, Instant)>,
    /// When it first came, and when it was let in.
    came: Option<Instant>,
    let_in: Option<Instant>,
}

struct World {
    start: Instant,
    now: Instant,
    queue: LoginQueue,
    right: Tag,
    wrong: Tag,
    /// Users who have logged in since the start.
    shown: Vec<bool>,
    agents: Vec<Agent>,
    /// What happens next: an agent does something, or (at the end) a hash is done.
    events: BinaryHeap<Reverse<(Instant, usize)>>,
    hash: Option<(Instant, Option<(u64, LaneKey)>)>,
    ids: HashMap<u64, usize>,
    /// Guesses that were compared, and hashes.
    compared: HashMap<LaneKey, u32>,
    hashes: u32,
    random: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let (start, key) = (Instant::now(), Key::draw());
        Self {
            start,
            now: start,
            queue: LoginQueue::new(seed),
            right: key.tag("", b"right"),
            wrong: key.tag("", b"wrong"),
            shown: vec![false; 2],
            agents: Vec::new(),
            events: BinaryHeap::new(),
            hash: None,
            ids: HashMap::new(),
            compared: HashMap::new(),
            hashes: 0,
            random: seed ^ 0x5851_f42d_4c95_7f2d,
        }
    }

    fn random(&mut self, below: Duration) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Duration::from_nanos(self.random % (below.as_nanos() as u64).max(1))
    }

    /// An agent that comes at this time.
    fn add(&mut self, came: Instant, agent: Agent) -> usize {
        self.agents.push(agent);
        self.events.push(Reverse((came, self.agents.len() - 1)));
        self.agents.len() - 1
    }

    fn guessers(&mut self, count: usize, place: Place, user: UserIx, manner: Manner) {
        for _ in 0..count {
            let came = self.start + self.random(seconds(5));
            let lane = LaneKey { place, user };
            self.add(came, Agent::new(lane, false, manner));
        }
    }

    fn user(&mut self, came: Instant, place: Place, user: UserIx, manner: Manner) -> usize {
        self.add(came, Agent::new(LaneKey { place, user }, true, manner))
    }

    /// The user has logged in from there in an earlier run.
    fn known(&mut self, place: Place) {
        for agent in self.agents.iter_mut().filter(|agent| agent.lane.place == place) {
            agent.is_known = agent.lane.user.is_some();
        }
    }

    /// Until these are let in, or until then.
    fn run_for(&mut self, users: &[usize], end: Instant) {
        let are_in = |world: &Self| users.iter().all(|&user| world.waited(user).is_some());
        let mut tick = self.now;
        while self.now < end && (users.is_empty() || !are_in(self)) {
            tick += TICK;
            while let Some(&Reverse((when, agent))) = self.events.peek()
                && when <= tick
            {
                self.events.pop();
                self.end_hash(when);
                self.now = when;
                self.act(agent);
            }
            self.end_hash(tick);
            self.now = tick;
            let (shown, right) = (self.shown.clone(), self.right.clone());
            let drawn = self.queue.draw(self.now, |user, tag| judge(&shown, &right, user, tag));
            self.heard(drawn);
        }
    }

    fn end_hash(&mut self, by: Instant) {
        let Some((when, of)) = self.hash.take_if(|(when, _)| *when <= by) else { return };
        self.now = when;
        let is_right = of.is_some_and(|(id, _)| self.agents[self.ids[&id]].knows_password);
        self.queue.hashed();
        match of {
            Some((id, lane)) if is_right => {
                self.shown[lane.user.expect("a user")] = true;
                self.let_in(id);
            }
            Some((_, lane)) => *self.compared.entry(lane).or_default() += 1,
            None => {}
        }
    }

    fn heard(&mut self, drawn: Vec<Drawn>) {
        for one in drawn {
            match one {
                Drawn::LetIn(id) => self.let_in(id),
                Drawn::Wrong(_, lane) => *self.compared.entry(lane).or_default() += 1,
                Drawn::Hash(id, lane) => self.begin_hash(Some((id, lane))),
                Drawn::Decoy => self.begin_hash(None),
            }
        }
    }

    fn begin_hash(&mut self, of: Option<(u64, LaneKey)>) {
        assert!(self.hash.is_none(), "one at a time");
        self.hash = Some((self.now + HASH, of));
        self.hashes += 1;
    }

    fn let_in(&mut self, id: u64) {
        let agent = &mut self.agents[self.ids[&id]];
        // It may have given up while its hash was computed.
        if let Some((queued, _)) = agent.queued
            && queued == id
        {
            agent.queued = None;
            agent.let_in = Some(self.now);
            self.queue.leave(agent.lane, id);
        }
    }

    /// An agent is told that it has failed, or gives up; and comes again.
    fn act(&mut self, number: usize) {
        let agent = self.agents[number].clone();
        if agent.let_in.is_some() {
            return;
        }
        if let Some((id, _)) = agent.queued {
            self.queue.leave(agent.lane, id);
        }
        let Agent { lane, is_known, .. } = agent;
        let tag = if agent.knows_password { self.right.clone() } else { self.wrong.clone() };
        let id = self.queue.enter(self.now, lane, tag, is_known);
        self.ids.insert(id, number);
        let until = self.now + HOLD;
        self.agents[number].came.get_or_insert(self.now);
        self.agents[number].queued = Some((id, until));
        let next = match agent.manner {
            Manner::Patient => until,
            Manner::Hasty(most) => self.now + self.random(most) + Duration::from_millis(1),
            Manner::Before(when) if self.now < when && when < until => when,
            Manner::Before(_) => until,
        };
        self.events.push(Reverse((next, number)));
        let (shown, right) = (self.shown.clone(), self.right.clone());
        let drawn =
            self.queue.draw_at_once(self.now, lane, |user, tag| judge(&shown, &right, user, tag));
        self.heard(drawn);
    }

    fn waited(&self, user: usize) -> Option<Duration> {
        let Agent { came, let_in, .. } = self.agents[user];
        Some(let_in? - came?)
    }

    /// How many guesses at this user were compared, from all places.
    fn compared(&self, user: UserIx) -> u32 {
        let of_user = self.compared.iter().filter(|(lane, _)| lane.user == user);
        of_user.map(|(_, count)| count).sum()
    }
}

impl Agent {
    fn new(lane: LaneKey, knows_password: bool, manner: Manner) -> Self {
        let (queued, came, let_in) = (None, None, None);
        Self { lane, is_known: false, knows_password, manner, queued, came, let_in }
    }
}

fn judge(shown: &[bool], right: &Tag, user: UserIx, tag: &Tag) -> Guess {
    match user {
        None => Guess::Wrong,
        Some(user) if !shown[user] => Guess::Unknown,
        Some(_) if tag == right => Guess::Right,
        Some(_) => Guess::Wrong,
    }
}

/// What the header allows `count` connections within `time`.
fn allowed(count: usize, time: Duration) -> u32 {
    let by_waiting = (1 + count) as f64 * time.as_secs_f64() / WAIT.as_secs_f64();
    let fastest = (time + TICK).as_secs_f64() / FASTEST.as_secs_f64();
    // Moments are drawn, so there may be some more or fewer at a time.
    (SAVED + 1) + (by_waiting + 4.0 * by_waiting.sqrt()).min(fastest).ceil() as u32
}

#[test]
fn service_f88_guessers_at_a_user_keep_that_user_out_for_ten_seconds_at_most() {
    for seed in 0..SEEDS {
        for count in [1, 2, 4, 17, 60, 240] {
            let mut world = World::new(seed);
            let comes = world.start + seconds(90) + world.random(seconds(30));
            let manners = [
                Manner::Patient,
                Manner::Hasty(seconds(3)),
                Manner::Hasty(Duration::from_millis(500)),
                Manner::Before(comes - Duration::from_millis(1)),
            ];
            let manner = manners[seed as usize % 4];
            world.shown = vec![true; 2];
            world.guessers(count, at(1), ALICE, manner);
            let alice = world.user(comes, at(1), ALICE, Manner::Patient);
            let neighbour = world.user(comes, at(1), BOB, Manner::Patient);
            world.run_for(&[alice, neighbour], comes + seconds(40));
            let waited = world.waited(alice).expect("she is let in");
            assert!(waited <= PROMISE, "{count} {manner:?}, seed {seed}: {waited:?}");
            assert_eq!(world.waited(neighbour), Some(Duration::ZERO), "another user");
            let (compared, time) = (world.compared(ALICE), world.now - world.start);
            let most = allowed(count + 1, time);
            assert!(compared <= most, "{count} {manner:?}: {compared} of {most} in {time:?}");
        }
    }
}

/// Whatever a client does that gives up after 3 s, as some libraries do, it has its chance.
#[test]
fn service_f88_a_client_that_gives_up_early_gets_in_too() {
    let mut all = Duration::ZERO;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.shown = vec![true; 2];
        world.guessers(40, at(1), ALICE, Manner::Patient);
        let comes = world.start + seconds(30);
        let alice = world.user(comes, at(1), ALICE, Manner::Hasty(seconds(3)));
        world.run_for(&[alice], comes + seconds(300));
        all += world.waited(alice).expect("she is let in");
    }
    assert!(all / SEEDS as u32 <= seconds(30), "{:?} on average", all / SEEDS as u32);
}

#[test]
fn service_f88_with_more_guessers_it_takes_longer_in_proportion_and_they_are_no_faster() {
    let mut all = Duration::ZERO;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.shown = vec![true; 2];
        world.guessers(1000, at(1), ALICE, Manner::Patient);
        let comes = world.start + seconds(20);
        let alice = world.user(comes, at(1), ALICE, Manner::Patient);
        world.run_for(&[alice], comes + seconds(600));
        all += world.waited(alice).expect("she is let in");
        let time = world.now - world.start;
        assert!(world.compared(ALICE) <= allowed(1001, time), "{}", world.compared(ALICE));
    }
    assert!(all / SEEDS as u32 <= seconds(1000 / 25 + 10), "{:?}", all / SEEDS as u32);
}

/// Nobody has logged in since the start, so that each comparison needs a hash.
#[test]
fn service_f89_after_a_restart_names_of_nobody_keep_no_user_out() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.guessers(500, at(1), NOBODY, Manner::Patient);
        world.guessers(100, at(1), NOBODY, Manner::Hasty(Duration::from_millis(200)));
        let comes = world.start + world.random(seconds(20));
        let alice = world.user(comes, at(1), ALICE, Manner::Patient);
        world.run_for(&[alice], comes + seconds(20));
        let waited = world.waited(alice).expect("she is let in");
        assert!(waited <= 2 * HASH_EVERY + TICK + HASH, "seed {seed}: {waited:?}");
    }
}

#[test]
fn service_f89_after_a_restart_those_who_were_there_before_come_first() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        // From where both have logged in before, and from everywhere else.
        let manner = if seed % 2 == 0 { Manner::Patient } else { Manner::Hasty(seconds(4)) };
        world.guessers(19, at(1), ALICE, manner);
        world.guessers(19, at(1), BOB, manner);
        for last in 2..=200 {
            world.guessers(4, Place::Ip([10, last, 0, 1].into()), ALICE, Manner::Patient);
        }
        let comes = world.start + world.random(seconds(60));
        let alice = world.user(comes, at(1), ALICE, Manner::Patient);
        let bob = world.user(comes, at(1), BOB, Manner::Patient);
        world.known(at(1));
        world.run_for(&[alice, bob], comes + seconds(30));
        for user in [alice, bob] {
            let waited = world.waited(user).expect("let in");
            assert!(waited <= HOLD, "seed {seed}: {waited:?}");
        }
        let time = (world.now - world.start).as_millis() / HASH_EVERY.as_millis() + 1;
        assert!(u128::from(world.hashes) <= time, "{} hashes in {time} ticks", world.hashes);
    }
}

/// Those who have logged in before from where they are guessed at do not use up all hashes.
#[test]
fn service_f89_a_user_at_a_new_place_is_not_forgotten_for_those_who_were_there_before() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.guessers(200, at(1), BOB, Manner::Patient);
        world.known(at(1));
        let comes = world.start + seconds(30);
        let alice = world.user(comes, at(2), ALICE, Manner::Patient);
        world.run_for(&[alice], comes + seconds(30));
        let waited = world.waited(alice).expect("she is let in");
        assert!(waited <= 5 * HASH_EVERY, "seed {seed}: {waited:?}");
    }
}

#[test]
fn service_f90_a_whole_network_guesses_no_faster_than_one_place() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.shown = vec![true; 2];
        for last in 1..=200 {
            world.guessers(4, at(last), ALICE, Manner::Patient);
        }
        let comes = world.start + seconds(40);
        let new = world.user(comes, at(250), ALICE, Manner::Patient);
        let known = world.user(comes, at(251), ALICE, Manner::Patient);
        world.known(at(251));
        world.run_for(&[new, known], comes + seconds(40));
        assert_eq!(world.waited(known), Some(Duration::ZERO), "she was there before");
        let waited = world.waited(new).expect("she is let in");
        assert!(waited <= PROMISE, "seed {seed}: {waited:?}");
        let (compared, time) = (world.compared(ALICE), world.now - world.start);
        assert!(compared <= allowed(1000, time), "{compared} in {time:?}");
        assert!(compared >= 25 * time.as_secs() as u32, "this is about many: {compared}");
    }
}

/// All nodes of a user come back together, with somebody who guesses among them.
#[test]
fn service_f88_right_passwords_take_no_turns() {
    for shown in [false, true] {
        let mut world = World::new(1);
        world.shown = vec![shown; 2];
        world.guessers(10, at(1), ALICE, Manner::Patient);
        let comes = world.start + seconds(30);
        let nodes: Vec<_> =
            (0..1000).map(|_| world.user(comes, at(1), ALICE, Manner::Patient)).collect();
        world.run_for(&nodes, comes + seconds(20));
        for node in nodes {
            let waited = world.waited(node).expect("let in");
            assert!(waited <= PROMISE, "{waited:?}");
        }
    }
}

/// The load is the same whether a name exists or not, and whether its user has logged in or not.
#[test]
fn service_f92_hashes_do_not_tell_which_users_exist() {
    for count in [1, 7, 40, 190] {
        let hashes = [(NOBODY, false), (ALICE, false), (ALICE, true)].map(|(user, shown)| {
            let mut world = World::new(7);
            world.shown = vec![shown; 2];
            world.guessers(count, at(1), user, Manner::Patient);
            world.run_for(&[], world.start + seconds(120));
            world.hashes
        });
        let (least, most) = (hashes.iter().min().expect("3"), hashes.iter().max().expect("3"));
        assert!(most - least <= 1 + most / 50, "{count} connections: {hashes:?}");
    }
}
