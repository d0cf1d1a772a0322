//! Which connections are let in: how many in all, of one place before a login, of one user after.
//!
//! | connection | counts among | how many there may be |
//! |---|---|---|
//! | in its handshake, or before its login: a *stranger* | those of its place | a quarter of all |
//! | of a user | those of the user | `connections_per_user` |
//! | of a user who may not `admin` everything | the ordinary ones | all but [`RESERVED`] |
//! | admitted, so after its handshake | all | `connections` |
//! | accepted | | [`BEYOND`] more, to be refused in TLS |
//!
//! So one place keeps out only its neighbours, one user only themself, and all users together leave
//! room for an operator.
//!
//! # Strangers make room
//!
//! Where there is no room for a newcomer, the oldest stranger that has had [`GRACE`] to log in is
//! closed for it: one of the same place if there is one, otherwise any. So a connection that says
//! nothing keeps nobody out. Younger strangers are not closed, so that many clients that come at
//! once, as after a restart of the server, do not close each other; the newcomer is refused then,
//! and its client tries again.
//!
//! A stranger that was closed counts no more, except among the accepted, until its socket is
//! closed: for that time there may be twice [`BEYOND`].

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

use super::outbox::Outbox;
use crate::users::Place;

/// However few connections are allowed, so many may come from one place before a login.
const LEAST: usize = 16;

/// Connections beyond the limit that may be in their handshake, which ends with a refusal.
pub(crate) const BEYOND: usize = 64;

/// Connections that are kept for users who may `admin` everything, at most; a server with few
/// connections keeps a 16th of them.
const RESERVED: usize = 16;

/// For so long a stranger is not closed for a newcomer.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// Counts all connections; nothing here is on the way of a command.
#[derive(Debug)]
pub(crate) struct Admission {
    /// How many may be admitted.
    max: usize,
    /// How many of these are kept for operators; none where there are no users.
    reserved: usize,
    per_user: usize,
    /// How many of one place may be strangers.
    per_place: usize,
    /// Handshakes of one place at a time.
    turns: usize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    accepted: usize,
    admitted: usize,
    /// Logged in, and not as an operator.
    ordinary: usize,
    next_id: u64,
    strangers: HashMap<u64, Stranger>,
    order: Order,
    places: HashMap<Place, Neighbours>,
    users: HashMap<Arc<str>, usize>,
}

/// A connection that nobody has logged in on yet.
#[derive(Debug)]
struct Stranger {
    place: Place,
    since: Instant,
    is_admitted: bool,
    exit: Arc<Exit>,
}

/// The strangers of one place.
#[derive(Debug)]
struct Neighbours {
    order: Order,
    turns: Arc<Semaphore>,
}

/// Strangers in the order in which they came: whether each is admitted, and its id.
#[derive(Debug, Default)]
struct Order(BTreeSet<(bool, u64)>);

impl Order {
    fn oldest(&self) -> Option<u64> {
        let in_handshake = self.0.first().map(|(_, id)| *id);
        in_handshake.into_iter().chain(self.oldest_admitted()).min()
    }

    fn oldest_admitted(&self) -> Option<u64> {
        self.0.range((true, 0)..).next().map(|(_, id)| *id)
    }
}

/// How a stranger is told that it is closed: its handshake ends, or its connection.
#[derive(Debug, Default)]
struct Exit {
    told: Notify,
    state: Mutex<ExitState>,
}

#[derive(Debug, Default)]
struct ExitState {
    is_closed: bool,
    outbox: Option<Arc<Outbox>>,
}

impl Exit {
    fn close(&self) {
        let mut state = crate::lock(&self.state);
        state.is_closed = true;
        state.outbox.take().inspect(|outbox| outbox.close());
        self.told.notify_one();
    }
}

/// Why a connection, or a login on one, is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are as many as may be.
    Full { max: usize },
    /// Only those for operators are left.
    Reserved { max: usize },
    /// From its place too many have yet to log in.
    Place { count: usize },
    /// The user has as many as one may.
    User { user: Arc<str>, max: usize },
    /// Another one has its place.
    Late,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { max } => {
                write!(f, "there are {max} connections, and no more are allowed (max-connections)")
            }
            Self::Reserved { max } => write!(
                f,
                "there are {max} connections, and the last ones are kept for users who may admin \
                 everything (max-connections)"
            ),
            Self::Place { count } => write!(
                f,
                "{count} connections from there have yet to log in, and no more are allowed (a \
                 part of max-connections); try again in a second"
            ),
            Self::User { user, max } => write!(
                f,
                "user {user} has {max} connections, and no more are allowed \
                 (max-connections-per-user)"
            ),
            Self::Late => f.write_str(
                "the connection did not log in within a second, and is closed for others that \
                 want to (max-connections)",
            ),
        }
    }
}

impl Admission {
    /// Of a server with or without users that allows so many connections, so many of one user, and
    /// so many handshakes at a time.
    pub(crate) fn new(max: usize, per_user: Option<usize>, handshakes: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            reserved: per_user.map_or(0, |_| (max / 16).min(RESERVED)),
            per_user: per_user.unwrap_or(usize::MAX),
            per_place: (max / 4).max(LEAST),
            turns: (handshakes / 4).max(1),
            all: Mutex::default(),
        })
    }

    /// A connection was accepted. It is a stranger until it is [admitted](Ticket::admit), and where
    /// there are users until its [login](Ticket::log_in).
    pub(crate) fn enter(self: &Arc<Self>, from: Place, now: Instant) -> Result<Ticket, Refused> {
        let all = &mut *crate::lock(&self.all);
        let place = from.network();
        let most = self.max.saturating_add(BEYOND);
        if all.accepted >= most
            && !(all.accepted < most + BEYOND && all.make_room(place, now, Order::oldest))
        {
            return Err(Refused::Full { max: self.max });
        }
        let exit = Arc::<Exit>::default();
        let id = all.next_id;
        let stranger = Stranger { place, since: now, is_admitted: false, exit: Arc::clone(&exit) };
        let turns = self.settle(all, id, stranger, now)?;
        all.next_id += 1;
        all.accepted += 1;
        let among = Arc::clone(self);
        Ok(Ticket { among, id, is_admitted: false, user: None, turns, exit })
    }

    /// Counts a stranger in its place, and gives it the place's turns for handshakes.
    fn settle(
        &self,
        all: &mut All,
        id: u64,
        stranger: Stranger,
        now: Instant,
    ) -> Result<Arc<Semaphore>, Refused> {
        let place = stranger.place;
        let count = all.places.get(&place).map_or(0, |there| there.order.0.len());
        if count >= self.per_place {
            let oldest = all.places[&place].order.oldest();
            if !oldest.is_some_and(|oldest| all.close(oldest, now)) {
                return Err(Refused::Place { count });
            }
        }
        let new =
            || Neighbours { order: Order::default(), turns: Arc::new(Semaphore::new(self.turns)) };
        let there = all.places.entry(place).or_insert_with(new);
        let key = (stranger.is_admitted, id);
        there.order.0.insert(key);
        let turns = Arc::clone(&there.turns);
        all.order.0.insert(key);
        all.strangers.insert(id, stranger);
        Ok(turns)
    }
}

impl All {
    /// Closes a stranger for a newcomer of this place: one of the same place if it can.
    fn make_room(&mut self, place: Place, now: Instant, oldest: fn(&Order) -> Option<u64>) -> bool {
        let neighbour = self.places.get(&place).and_then(|there| oldest(&there.order));
        let any = oldest(&self.order);
        neighbour.into_iter().chain(any).any(|id| self.close(id, now))
    }

    /// Closes a stranger, if it has had its time.
    fn close(&mut self, id: u64, now: Instant) -> bool {
        let since = self.strangers.get(&id).map(|stranger| stranger.since);
        if since.is_none_or(|since| now.saturating_duration_since(since) < GRACE) {
            return false;
        }
        if let Some(stranger) = self.forget(id) {
            self.admitted -= usize::from(stranger.is_admitted);
            stranger.exit.close();
        }
        true
    }

    /// The connection is a stranger no more. Whether it is admitted still counts.
    fn forget(&mut self, id: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&id)?;
        let key = (stranger.is_admitted, id);
        self.order.0.remove(&key);
        if let Some(there) = self.places.get_mut(&stranger.place) {
            there.order.0.remove(&key);
            if there.order.0.is_empty() {
                self.places.remove(&stranger.place);
            }
        }
        Some(stranger)
    }

    fn log_out(&mut self, user: Option<(Arc<str>, bool)>) {
        let Some((user, is_ordinary)) = user else { return };
        self.ordinary -= usize::from(is_ordinary);
        if let Some(count) = self.users.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&user);
            }
        }
    }
}

/// One connection, as long as it is kept.
#[derive(Debug)]
pub(crate) struct Ticket {
    among: Arc<Admission>,
    id: u64,
    /// Admitted, and a stranger no more.
    is_admitted: bool,
    /// Who has logged in last, and whether the connection counts as an ordinary one.
    user: Option<(Arc<str>, bool)>,
    /// One for each handshake that its place may have under way.
    pub(crate) turns: Arc<Semaphore>,
    exit: Arc<Exit>,
}

impl Ticket {
    /// Until a newcomer has the place of this connection, which is in its handshake.
    pub(crate) async fn closed(&self) {
        self.exit.told.notified().await;
    }

    /// From now on this is closed if a newcomer has the place of the connection.
    pub(crate) fn connect(&self, outbox: &Arc<Outbox>) {
        let mut state = crate::lock(&self.exit.state);
        if state.is_closed {
            outbox.close();
        } else {
            state.outbox = Some(Arc::clone(outbox));
        }
    }

    /// Lets it in after its handshake; where there are no users it is a stranger no more.
    pub(crate) fn admit(&mut self, has_users: bool, now: Instant) -> Result<(), Refused> {
        let all = &mut *crate::lock(&self.among.all);
        let stranger = all.forget(self.id).ok_or(Refused::Late)?;
        let max = self.among.max;
        if all.admitted >= max && !all.make_room(stranger.place, now, Order::oldest_admitted) {
            return Err(Refused::Full { max });
        }
        if has_users {
            let stranger = Stranger { is_admitted: true, ..stranger };
            self.turns = self.among.settle(all, self.id, stranger, now)?;
        } else {
            self.is_admitted = true;
        }
        all.admitted += 1;
        Ok(())
    }

    /// It is known better now where a stranger comes from, and it counts there.
    pub(crate) fn move_to(&mut self, place: Place, now: Instant) -> Result<(), Refused> {
        let all = &mut *crate::lock(&self.among.all);
        let Some(stranger) = all.forget(self.id) else { return Ok(()) };
        let is_admitted = stranger.is_admitted;
        let settled = self.among.settle(all, self.id, Stranger { place, ..stranger }, now);
        if settled.is_err() {
            all.admitted -= usize::from(is_admitted);
        }
        self.turns = settled?;
        Ok(())
    }

    /// A user logs in. The connection counts for them until another user does, or it ends: a
    /// `RESET` makes no room for more. A stranger who is refused leaves their place to others at
    /// once, and is to be closed; otherwise what is refused has changed nothing.
    pub(crate) fn log_in(&mut self, user: &Arc<str>, is_operator: bool) -> Result<(), Refused> {
        let among = Arc::clone(&self.among);
        let all = &mut *crate::lock(&among.all);
        if self.user.is_none() {
            // Its place among the admitted is kept, or free if it is refused.
            let stranger = all.forget(self.id).ok_or(Refused::Late)?;
            self.is_admitted = stranger.is_admitted;
        }
        let result = self.try_log_in(all, user, is_operator);
        if result.is_err() && self.user.is_none() {
            all.admitted -= usize::from(std::mem::take(&mut self.is_admitted));
        }
        result
    }

    fn try_log_in(
        &mut self,
        all: &mut All,
        user: &Arc<str>,
        is_operator: bool,
    ) -> Result<(), Refused> {
        let among = &self.among;
        let (before, was_ordinary) = match &self.user {
            Some((before, ordinary)) => (Some(before), *ordinary),
            None => (None, false),
        };
        let is_ordinary = !is_operator;
        let max = among.max - among.reserved;
        if is_ordinary && !was_ordinary && all.ordinary >= max {
            return Err(Refused::Reserved { max });
        }
        let count = all.users.get(user).copied().unwrap_or(0);
        if before != Some(user) && count >= among.per_user {
            return Err(Refused::User { user: Arc::clone(user), max: among.per_user });
        }
        all.log_out(self.user.take());
        all.ordinary += usize::from(is_ordinary);
        *all.users.entry(Arc::clone(user)).or_default() += 1;
        self.user = Some((Arc::clone(user), is_ordinary));
        Ok(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut all = crate::lock(&self.among.all);
        all.accepted -= 1;
        let was_admitted = all.forget(self.id).map_or(self.is_admitted, |it| it.is_admitted);
        all.admitted -= usize::from(was_admitted);
        all.log_out(self.user.take());
    }
}

#[cfg(test)]
mod tests;
