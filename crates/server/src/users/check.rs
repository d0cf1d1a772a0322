//! How a login is decided.
//!
//! 1. Where it comes from is looked up, and it is counted there, by [`Tries`].
//! 2. A free one is compared at once, if few are, and hears at once what came of it.
//! 3. All others wait in [`LoginQueue`] for their turn. A right password is let in when its turn
//!    comes; everything else is answered [`HOLD`] after it came, in the same words.
//!
//! A client that goes away drops the future of [`Users::check`], and with it what it had here.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use lockspan_wire::Secret;
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use super::known::KnownPlaces;
use super::place::Place;
use super::queue::{Drawn, Guess, HOLD, LaneKey, LoginQueue, TICK, UserIx};
use super::quick::Tag;
use super::socket_owner::Ends;
use super::tries::{Pending, Tries};
use super::{Refused, User, Users};

/// The time, which tests can hold.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Free logins that may wait for a hash.
const LINE: usize = 16;

/// How long a free login waits for a hash before it waits like all others.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known of logins.
#[derive(Debug)]
pub(super) struct State {
    tries: Tries,
    pub(super) queue: LoginQueue,
    pub(super) known: KnownPlaces,
    /// Those who wait in the queue, by their numbers.
    turns: HashMap<u64, oneshot::Sender<Turn>>,
    /// A task draws until nobody waits.
    is_drawn: bool,
}

impl State {
    pub(super) fn new(seed: u64, known: KnownPlaces) -> Self {
        Self {
            tries: Tries::default(),
            queue: LoginQueue::new(seed),
            known,
            turns: HashMap::new(),
            is_drawn: false,
        }
    }

    #[cfg(test)]
    pub(super) fn waits_for_turns(&self) -> usize {
        self.turns.len()
    }
}

/// What somebody in the queue hears when it is their turn. Those whose password is wrong hear
/// nothing.
#[derive(Debug)]
enum Turn {
    LetIn,
    Hash(HashTurn),
}

/// The hash that the queue has allowed. When this is dropped, the next one may begin.
#[derive(Debug)]
struct HashTurn(Arc<Users>);

impl Drop for HashTurn {
    fn drop(&mut self) {
        crate::lock(&self.0.state).queue.hashed();
    }
}

/// A login that is being decided.
struct Login<'a> {
    users: &'a Arc<Users>,
    lane: LaneKey,
    password: &'a Secret,
    tag: Tag,
    /// When it is answered at the latest.
    until: tokio::time::Instant,
    pending: Pending,
    has_failed: bool,
}

impl Drop for Login<'_> {
    /// It counts as failed if it was given up: otherwise whoever hangs up soon enough could try
    /// without end.
    fn drop(&mut self) {
        let mut state = crate::lock(&self.users.state);
        state.tries.end(now(), &self.pending, self.has_failed);
    }
}

/// A place in the queue, as long as it is kept.
struct InQueue<'a> {
    users: &'a Users,
    lane: LaneKey,
    id: u64,
    turn: oneshot::Receiver<Turn>,
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        let mut state = crate::lock(&self.users.state);
        state.queue.leave(self.lane, self.id);
        state.turns.remove(&self.id);
    }
}

impl Users {
    /// Where a connection comes from: over loopback the system knows whose process it is.
    pub(crate) fn place_of(&self, from: Place, ends: impl FnOnce() -> Option<Ends>) -> Place {
        if !from.is_loopback() {
            return from.network();
        }
        Place::Unix(ends().and_then(|ends| self.owners.uid(ends)))
    }

    /// Who this is. It takes its time on purpose, never that of the thread that it is called on.
    pub async fn check(
        self: &Arc<Self>,
        from: Place,
        name: &str,
        password: &Secret,
    ) -> Result<Arc<User>, Refused> {
        let now = now();
        let lane = LaneKey { place: from.network(), user: self.by_name.get(name).copied() };
        let tag = self.key.tag(name, password.reveal());
        let (pending, is_free) = crate::lock(&self.state).tries.begin(now, lane.place);
        let until = (now + HOLD).into();
        let mut login =
            Login { users: self, lane, password, tag, until, pending, has_failed: true };
        if is_free && let Some(decided) = login.check_at_once().await {
            return decided;
        }
        login.wait_for_turn().await
    }

    /// What can be said of a password without a hash.
    fn guess(&self, user: UserIx, tag: &Tag) -> Guess {
        match user.map(|user| self.all[user].tag.get()) {
            None => Guess::Wrong,
            Some(None) => Guess::Unknown,
            Some(Some(right)) if right == tag => Guess::Right,
            Some(Some(_)) => Guess::Wrong,
        }
    }

    /// Compares a password by a hash, and knows it from then on if it is right.
    fn is_right(&self, user: UserIx, password: &Secret) -> bool {
        let entry = user.map(|user| &self.all[user]);
        let is_right = self.decoys.is_right(password, entry.map(|entry| &entry.hash));
        if is_right && let Some(entry) = entry {
            entry.tag.get_or_init(|| self.key.tag(&entry.user.name, password.reveal()));
        }
        is_right
    }

    /// A login was compared, and is wrong.
    fn note_failure(&self, lane: LaneKey) {
        // Somebody may have typed their password in the place of their name.
        let (seldom, who) = match lane.user {
            Some(user) => (&self.all[user].failures, &*self.all[user].user.name),
            None => (&self.failures, "(unknown)"),
        };
        // However many names are tried, a few lines a second are enough to notice it.
        if let Some(more) = seldom.may_log(now())
            && self.logged.may_log(now()).is_some()
        {
            tracing::warn!("a login failed: user {who}, from {}{more}", lane.place);
        }
    }

    /// Tells those whose turn it is.
    fn call(self: &Arc<Self>, mut state: MutexGuard<'_, State>, drawn: Vec<Drawn>) {
        let (mut turns, mut failed, mut decoy) = (Vec::new(), Vec::new(), None);
        let hash = || HashTurn(Arc::clone(self));
        for one in drawn {
            let (id, turn) = match one {
                Drawn::LetIn(id) => (id, Turn::LetIn),
                Drawn::Hash(id, _) => (id, Turn::Hash(hash())),
                Drawn::Wrong(id, lane) => {
                    state.turns.remove(&id);
                    failed.push(lane);
                    continue;
                }
                Drawn::Decoy => {
                    decoy = Some(hash());
                    continue;
                }
            };
            turns.push((state.turns.remove(&id), turn));
        }
        // What follows takes the lock again when a turn is dropped.
        drop(state);
        for (to, turn) in turns {
            // Who has gone meanwhile leaves the turn to others.
            drop(to.map(|to| to.send(turn)));
        }
        failed.into_iter().for_each(|lane| self.note_failure(lane));
        if let Some(turn) = decoy {
            self.runtime().spawn_blocking(move || {
                turn.0.is_right(None, &Secret::copy(b"nobody's"));
            });
        }
    }

    /// Has a task draw as long as somebody waits.
    fn keep_drawing(self: &Arc<Self>, state: &mut State) {
        if !state.queue.is_to_be_drawn() || mem::replace(&mut state.is_drawn, true) {
            return;
        }
        let users = Arc::downgrade(self);
        self.runtime().spawn(async move {
            loop {
                sleep(TICK).await;
                let Some(users) = users.upgrade() else { return };
                let mut state = crate::lock(&users.state);
                let drawn = state.queue.draw(now(), |user, tag| users.guess(user, tag));
                state.is_drawn = state.queue.is_to_be_drawn();
                let is_over = !state.is_drawn;
                users.call(state, drawn);
                if is_over {
                    return;
                }
            }
        });
    }
}

impl<'a> Login<'a> {
    /// What became of a free login; nothing if there are too many of them.
    async fn check_at_once(&mut self) -> Option<Result<Arc<User>, Refused>> {
        let (users, lane) = (self.users, self.lane);
        let is_known = |login: &Self| users.guess(lane.user, &login.tag) == Guess::Right;
        if is_known(self) {
            return Some(self.succeeded());
        }
        let _place = InLine::stand(&users.line)?;
        let hash = timeout(PATIENCE, Arc::clone(&users.hashes).acquire_owned()).await.ok()?.ok()?;
        // Others of the same user may have got in meanwhile.
        if is_known(self) {
            return Some(self.succeeded());
        }
        let (users, password) = (Arc::clone(users), self.password.clone());
        let compared = self.users.runtime().spawn_blocking(move || {
            let _hash = hash;
            let is_right = users.is_right(lane.user, &password);
            if !is_right {
                crate::lock(&users.state).queue.failed_free(now(), lane);
                users.note_failure(lane);
            }
            is_right
        });
        Some(match compared.await {
            Ok(true) => self.succeeded(),
            Ok(false) => Err(Refused::Wrong),
            Err(_) => Err(Refused::TryAgain),
        })
    }

    async fn wait_for_turn(&mut self) -> Result<Arc<User>, Refused> {
        let mut queued = self.enter();
        if let Ok(Ok(turn)) = timeout_at(self.until, &mut queued.turn).await {
            match turn {
                Turn::LetIn => return self.succeeded(),
                Turn::Hash(turn) => {
                    let (lane, password) = (self.lane, self.password.clone());
                    let compared = self.users.runtime().spawn_blocking(move || {
                        let is_right = turn.0.is_right(lane.user, &password);
                        if !is_right {
                            turn.0.note_failure(lane);
                        }
                        is_right
                    });
                    // If it takes longer the next try knows what came of it.
                    if let Ok(Ok(true)) = timeout_at(self.until, compared).await {
                        return self.succeeded();
                    }
                }
            }
        }
        sleep_until(self.until).await;
        Err(Refused::TryAgain)
    }

    fn enter(&self) -> InQueue<'a> {
        let (users, lane) = (self.users, self.lane);
        let (call, turn) = oneshot::channel();
        let now = now();
        let mut state = crate::lock(&users.state);
        let is_known = lane.user.is_some_and(|user| state.known.has(user, lane.place));
        let id = state.queue.enter(now, lane, self.tag.clone(), is_known);
        state.turns.insert(id, call);
        let drawn = state.queue.draw_at_once(now, lane, |user, tag| users.guess(user, tag));
        users.keep_drawing(&mut state);
        users.call(state, drawn);
        InQueue { users, lane, id, turn }
    }

    fn succeeded(&mut self) -> Result<Arc<User>, Refused> {
        let user = self.lane.user.ok_or(Refused::Wrong)?;
        self.has_failed = false;
        let (users, place) = (self.users, self.lane.place);
        let new = crate::lock(&users.state).known.add(user, place);
        if let Some(new) = new {
            let noting = Arc::clone(users);
            users.runtime().spawn_blocking(move || {
                let all = || crate::lock(&noting.state).known.bytes();
                if let Some(file) = &mut *crate::lock(&noting.file) {
                    file.add(&new, all);
                }
            });
        }
        Ok(Arc::clone(&users.all[user].user))
    }
}

/// A place in the line of free logins, as long as it is kept.
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
