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
//! room for an operator. When only the reserved ones are left, a place has at most half of what is
//! left for its strangers.
//!
//! # Strangers make room
//!
//! Where there is no room for a newcomer, the oldest stranger that has had [`GRACE`] to log in is
//! closed for it: one of the same place if there is one, otherwise any. So a connection that says
//! nothing keeps nobody out. Younger strangers are not closed, so that many clients that come at
//! once, as after a restart of the server, do not close each other; the newcomer is refused then,
//! and its client tries again. The time begins anew after the handshake, and a stranger that waits
//! for the server's part of it is [busy](Ticket::when_busy), and is not closed.
//!
//! A stranger that was closed counts no more, except among the accepted, until its socket is
//! closed: for that time there may be twice [`BEYOND`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

use super::outbox::{Closed, Outbox};
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
    /// The last number that was given to a connection, or to a stranger's time.
    last: u64,
    strangers: HashMap<u64, Stranger>,
    order: Order,
    places: HashMap<Place, Neighbours>,
    users: HashMap<Arc<str>, usize>,
}

/// A connection that nobody has logged in on yet.
#[derive(Debug)]
struct Stranger {
    place: Place,
    is_admitted: bool,
    /// When its time to log in began, and a number that grows with each such moment.
    since: (Instant, u64),
    exit: Arc<Exit>,
}

impl Stranger {
    fn rank(&self) -> Rank {
        (self.is_admitted, self.since.1)
    }
}

/// The strangers of one place.
#[derive(Debug)]
struct Neighbours {
    count: usize,
    order: Order,
    turns: Arc<Semaphore>,
}

/// Whether a stranger is admitted, and since when it may log in.
type Rank = (bool, u64);

/// The strangers that are not busy, the oldest first.
#[derive(Debug, Default)]
struct Order(BTreeMap<Rank, u64>);

impl Order {
    fn oldest(&self) -> Option<u64> {
        let in_handshake = self.0.first_key_value();
        let admitted = self.0.range((true, 0)..).next();
        let oldest = in_handshake.into_iter().chain(admitted).min_by_key(|((_, since), _)| *since);
        oldest.map(|(_, id)| *id)
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
        state.outbox.take().inspect(|outbox| outbox.close_as(Closed::Late));
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
                write!(f, "too many connections: the maximum is {max} (max-connections)")
            }
            Self::Reserved { max } => write!(
                f,
                "too many connections: the maximum is {max}, and the last ones are reserved for \
                 users with the admin right on everything (max-connections)"
            ),
            Self::Place { count } => write!(
                f,
                "too many connections from this address have not logged in yet: the maximum is \
                 {count} (a part of max-connections); try again in a second"
            ),
            Self::User { user, max } => write!(
                f,
                "too many connections of user {user}: the maximum is {max} \
                 (max-connections-per-user)"
            ),
            Self::Late => f.write_str(
                "the connection did not log in within a second, and is closed to make room for \
                 others (max-connections)",
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
    pub(crate) fn enter(self: &Arc<Self>, place: Place, now: Instant) -> Result<Ticket, Refused> {
        let all = &mut *crate::lock(&self.all);
        let most = self.max.saturating_add(BEYOND);
        if all.accepted >= most.saturating_add(BEYOND) {
            return Err(Refused::Full { max: self.max });
        }
        self.make_place(all, place, now)?;
        if all.accepted >= most && !all.make_room(place, now, Order::oldest) {
            return Err(Refused::Full { max: self.max });
        }
        all.accepted += 1;
        let (id, exit) = (all.next(), Arc::<Exit>::default());
        let since = (now, all.next());
        let stranger = Stranger { place, is_admitted: false, since, exit: Arc::clone(&exit) };
        let turns = all.settle(id, stranger, self.turns);
        let among = Arc::clone(self);
        Ok(Ticket { among, id, is_admitted: false, user: None, turns, exit })
    }

    /// Makes room for a stranger among those of its place.
    fn make_place(&self, all: &mut All, place: Place, now: Instant) -> Result<(), Refused> {
        let free = self.max.saturating_sub(all.admitted);
        let is_scarce = self.reserved > 0 && free <= self.reserved;
        let most = if is_scarce { self.per_place.min(free / 2) } else { self.per_place };
        let Some(there) = all.places.get(&place) else { return Ok(()) };
        let count = there.count;
        // The first of a place may always try.
        if count < most.max(1) {
            return Ok(());
        }
        let oldest = there.order.oldest();
        if oldest.is_some_and(|oldest| all.close(oldest, now)) {
            return Ok(());
        }
        Err(Refused::Place { count })
    }
}

impl All {
    /// The next number.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Counts a stranger in its place, and gives it the place's turns for handshakes.
    fn settle(&mut self, id: u64, stranger: Stranger, turns: usize) -> Arc<Semaphore> {
        let new = || Neighbours {
            count: 0,
            order: Order::default(),
            turns: Arc::new(Semaphore::new(turns)),
        };
        let there = self.places.entry(stranger.place).or_insert_with(new);
        there.count += 1;
        there.order.0.insert(stranger.rank(), id);
        self.order.0.insert(stranger.rank(), id);
        self.strangers.insert(id, stranger);
        Arc::clone(&there.turns)
    }

    /// Closes a stranger for a newcomer of this place: one of the same place if it can.
    fn make_room(&mut self, place: Place, now: Instant, oldest: fn(&Order) -> Option<u64>) -> bool {
        let neighbour = self.places.get(&place).and_then(|there| oldest(&there.order));
        let any = oldest(&self.order);
        neighbour.into_iter().chain(any).any(|id| self.close(id, now))
    }

    /// Closes a stranger, if it has had its time.
    fn close(&mut self, id: u64, now: Instant) -> bool {
        let since = self.strangers.get(&id).map(|stranger| stranger.since.0);
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
        self.set_busy(id, true);
        let stranger = self.strangers.remove(&id)?;
        if let Some(there) = self.places.get_mut(&stranger.place) {
            there.count -= 1;
            if there.count == 0 {
                self.places.remove(&stranger.place);
            }
        }
        Some(stranger)
    }

    /// A stranger that is busy waits for the server, and so is not closed for a newcomer.
    fn set_busy(&mut self, id: u64, is_busy: bool) {
        let Some(stranger) = self.strangers.get(&id) else { return };
        let rank = stranger.rank();
        let Some(there) = self.places.get_mut(&stranger.place) else { return };
        for order in [&mut there.order, &mut self.order] {
            if is_busy {
                order.0.remove(&rank);
            } else {
                order.0.insert(rank, id);
            }
        }
    }

    /// The server has done its part: the stranger has its time to log in from now on.
    fn begin_time(&mut self, id: u64, now: Instant) {
        self.set_busy(id, true);
        let since = (now, self.next());
        if let Some(stranger) = self.strangers.get_mut(&id) {
            stranger.since = since;
        }
        self.set_busy(id, false);
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

    /// Gives what makes the connection busy, for as long as the result of that is kept: it waits
    /// for the server's part of its handshake.
    pub(crate) fn when_busy(&self) -> impl FnOnce() -> Busy + Send + use<> {
        let (among, id) = (Arc::clone(&self.among), self.id);
        move || {
            crate::lock(&among.all).set_busy(id, true);
            Busy { among, id }
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
            let since = (now, all.next());
            let stranger = Stranger { is_admitted: true, since, ..stranger };
            self.turns = all.settle(self.id, stranger, self.among.turns);
        } else {
            self.is_admitted = true;
        }
        all.admitted += 1;
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

/// A stranger waits for the server's part of its handshake.
#[derive(Debug)]
pub(crate) struct Busy {
    among: Arc<Admission>,
    id: u64,
}

impl Drop for Busy {
    fn drop(&mut self) {
        crate::lock(&self.among.all).begin_time(self.id, Instant::now());
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
