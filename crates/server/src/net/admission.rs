//! Who may connect: how many in all, from one network before a login, and of one user after it.
//!
//! | connection | counts among | how many there may be |
//! |---|---|---|
//! | in its handshake, or before its login | those of its network | a quarter of all |
//! | of a user | those of the user | `connections_per_user` |
//! | of a user who may not `admin` everything | the ordinary ones | all but [`RESERVED`] |
//! | admitted, so after its handshake | all | `connections` |
//! | accepted | | [`BEYOND`] more, to be refused in TLS |
//!
//! So one network keeps out only its neighbours, one user only themself, and all users together
//! leave room for an operator. When only the reserved places are left, a network may have at most a
//! third of them before a login.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use crate::users::Place;

/// However few connections are allowed, so many may come from one network before a login.
const LEAST: usize = 16;

/// Connections beyond the limit that may be in their handshake, which ends with a refusal.
pub(crate) const BEYOND: usize = 64;

/// Connections that are kept for users who may `admin` everything, at most; a server with few
/// connections keeps a 16th of them.
const RESERVED: usize = 16;

/// Counts all connections; nothing here is on the way of a command.
#[derive(Debug)]
pub(crate) struct Admission {
    /// How many may be admitted.
    max: usize,
    /// How many of these are kept for operators; none where there are no users.
    reserved: usize,
    per_user: usize,
    /// How many of one network may be strangers.
    per_network: usize,
    /// Handshakes of one network at a time.
    turns: usize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    accepted: usize,
    admitted: usize,
    /// Logged in, and not as an operator.
    ordinary: usize,
    /// Strangers, by network.
    networks: HashMap<Place, Network>,
    users: HashMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct Network {
    count: usize,
    turns: Arc<Semaphore>,
}

/// Why a connection, or a login on one, is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are as many as may be.
    Full { max: usize },
    /// Only those for operators are left.
    Reserved { max: usize },
    /// From its network too many have yet to log in.
    Network { count: usize },
    /// The user has as many as one may.
    User { user: Arc<str>, max: usize },
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
            Self::Network { count } => write!(
                f,
                "{count} connections from there have yet to log in, and no more are allowed (a \
                 part of max-connections)"
            ),
            Self::User { user, max } => write!(
                f,
                "user {user} has {max} connections, and no more are allowed \
                 (max-connections-per-user)"
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
            per_network: (max / 4).max(LEAST),
            turns: (handshakes / 4).max(1),
            all: Mutex::default(),
        })
    }

    /// A connection was accepted. It is a stranger until it is [admitted](Ticket::admit), and where
    /// there are users until its [login](Ticket::log_in).
    pub(crate) fn enter(self: &Arc<Self>, from: Place) -> Result<Ticket, Refused> {
        let network = from.network();
        let mut all = crate::lock(&self.all);
        if all.accepted >= self.max.saturating_add(BEYOND) {
            return Err(Refused::Full { max: self.max });
        }
        let free = self.max.saturating_sub(all.admitted);
        let new = || Network { count: 0, turns: Arc::new(Semaphore::new(self.turns)) };
        let there = all.networks.entry(network).or_insert_with(new);
        let is_scarce = self.reserved > 0 && free <= self.reserved;
        let most = if is_scarce { self.per_network.min(free / 2) } else { self.per_network };
        // The first of a network may always try.
        if there.count >= most.max(1) {
            return Err(Refused::Network { count: there.count });
        }
        there.count += 1;
        let turns = Arc::clone(&there.turns);
        all.accepted += 1;
        let among = Arc::clone(self);
        Ok(Ticket { among, network: Some(network), is_admitted: false, user: None, turns })
    }
}

/// One connection, as long as it is kept.
#[derive(Debug)]
pub(crate) struct Ticket {
    among: Arc<Admission>,
    /// Where it comes from, as long as it is a stranger.
    network: Option<Place>,
    is_admitted: bool,
    /// Who has logged in last, and whether the connection counts as an ordinary one.
    user: Option<(Arc<str>, bool)>,
    /// One for each handshake that its network may have under way.
    pub(crate) turns: Arc<Semaphore>,
}

impl Ticket {
    /// Lets it in after its handshake; where there are no users it is a stranger no more.
    pub(crate) fn admit(&mut self, has_users: bool) -> Result<(), Refused> {
        let among = Arc::clone(&self.among);
        let all = &mut *crate::lock(&among.all);
        if all.admitted >= among.max {
            return Err(Refused::Full { max: among.max });
        }
        all.admitted += 1;
        self.is_admitted = true;
        if !has_users {
            all.forget(self.network.take());
        }
        Ok(())
    }

    /// A user logs in. The connection counts for them until another user does, or it ends: a
    /// `RESET` makes no room for more. A stranger who is refused leaves their place to others at
    /// once, and is to be closed; otherwise what is refused has changed nothing.
    pub(crate) fn log_in(&mut self, user: &Arc<str>, is_operator: bool) -> Result<(), Refused> {
        let among = Arc::clone(&self.among);
        let all = &mut *crate::lock(&among.all);
        let result = self.try_log_in(all, user, is_operator);
        if result.is_err() && self.user.is_none() {
            all.forget(self.network.take());
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
        all.forget(self.network.take());
        Ok(())
    }
}

impl All {
    /// A stranger of this network is one no more.
    fn forget(&mut self, network: Option<Place>) {
        let Some(network) = network else { return };
        if let Some(there) = self.networks.get_mut(&network) {
            there.count -= 1;
            if there.count == 0 {
                self.networks.remove(&network);
            }
        }
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

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut all = crate::lock(&self.among.all);
        all.accepted -= 1;
        all.admitted -= usize::from(self.is_admitted);
        all.forget(self.network.take());
        all.log_out(self.user.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> Place {
        Place::Ip([10, 0, 0, last].into())
    }

    fn user(name: &str) -> Arc<str> {
        name.into()
    }

    impl Admission {
        /// A connection that gets as far as its login.
        fn stranger(self: &Arc<Self>, network: u8) -> Result<Ticket, Refused> {
            let mut ticket = self.enter(from(network))?;
            ticket.admit(true)?;
            Ok(ticket)
        }

        fn is_empty(&self) -> bool {
            let All { accepted, admitted, ordinary, networks, users } = &*crate::lock(&self.all);
            (*accepted, *admitted, *ordinary) == (0, 0, 0)
                && networks.is_empty()
                && users.is_empty()
        }
    }

    #[test]
    fn one_network_keeps_no_other_out() {
        let all = Admission::new(80, Some(20), 8);
        let mut inside: Vec<_> = (0..20).map(|_| all.stranger(1).expect("room")).collect();
        assert_eq!(all.stranger(1).expect_err("too many"), Refused::Network { count: 20 });
        let other = all.stranger(2).expect("another network");
        assert_eq!((inside[0].turns.available_permits(), other.turns.available_permits()), (2, 2));
        inside.pop();
        all.stranger(1).expect("one has gone");
        drop((inside, other));
        assert!(all.is_empty(), "nothing is kept of them");
        let many: Vec<_> = (0..80).map(|at| all.stranger(at).expect("room")).collect();
        assert_eq!(all.stranger(90).expect_err("too many"), Refused::Full { max: 80 });
        drop(many);
        assert!(all.is_empty());
    }

    #[test]
    fn handshakes_beyond_the_limit_are_bounded_too() {
        let all = Admission::new(1000, None, 8);
        let admitted = |network| {
            let mut ticket = all.enter(from(network)).expect("room");
            ticket.admit(false).expect("room");
            ticket
        };
        let inside: Vec<_> = (0..1000).map(|_| admitted(1)).collect();
        let mut beyond: Vec<_> =
            (0..BEYOND).map(|_| all.enter(from(1)).expect("it hears why")).collect();
        assert_eq!(beyond[0].admit(false), Err(Refused::Full { max: 1000 }));
        assert_eq!(all.enter(from(2)).expect_err("too many"), Refused::Full { max: 1000 });
        drop((inside, beyond));
        assert!(all.is_empty());
    }

    #[test]
    fn service_f80_one_user_has_a_part_and_operators_always_have_room() {
        let all = Admission::new(400, Some(100), 8);
        let log_in = |name: &str, is_operator| {
            let mut ticket = all.stranger(1)?;
            ticket.log_in(&user(name), is_operator).map(|()| ticket)
        };
        let mut inside = Vec::new();
        for name in ["carol", "dora", "erik", "finn"] {
            let before = inside.len();
            while let Ok(ticket) = log_in(name, false) {
                inside.push(ticket);
            }
            let expected = if name == "finn" { 100 - RESERVED } else { 100 };
            assert_eq!(inside.len() - before, expected, "{name}");
        }
        let full = Refused::User { user: user("carol"), max: 100 };
        assert_eq!(log_in("carol", false).expect_err("too many"), Refused::Reserved { max: 384 });
        inside.pop();
        assert_eq!(log_in("carol", false).expect_err("too many"), full);
        inside.push(log_in("gina", false).expect("one has gone"));
        // Who has yet to log in takes no more than a third of what is left, from one network.
        let mut strangers = Vec::new();
        while let Ok(ticket) = all.stranger(2) {
            strangers.push(ticket);
        }
        assert_eq!(strangers.len(), 5);
        let operators: Vec<_> =
            (0..4).map(|_| log_in("operator", true).expect("kept for them")).collect();
        drop((inside, strangers, operators));
        assert!(all.is_empty());
    }

    #[test]
    fn another_login_moves_the_connection_and_a_refused_stranger_takes_no_place() {
        let all = Admission::new(64, Some(1), 8);
        let mut one = all.stranger(1).expect("room");
        let mut two = all.stranger(1).expect("room");
        one.log_in(&user("ann"), false).expect("room");
        one.log_in(&user("ann"), false).expect("again");
        two.log_in(&user("bob"), true).expect("room");
        let full = Refused::User { user: user("ann"), max: 1 };
        assert_eq!(two.log_in(&user("ann"), false), Err(full), "bob stays");
        one.log_in(&user("cleo"), true).expect("room");
        two.log_in(&user("ann"), false).expect("ann has none now");
        let mut three = all.stranger(9).expect("room");
        three.log_in(&user("ann"), false).expect_err("too many");
        assert_eq!(crate::lock(&all.all).admitted, 2, "its place is free before it is gone");
        let users: Vec<_> = crate::lock(&all.all).users.values().copied().collect();
        assert_eq!((users, crate::lock(&all.all).ordinary), (vec![1, 1], 1));
        drop((one, two, three));
        assert!(all.is_empty());
    }

    #[test]
    fn a_server_with_few_connections_reserves_none() {
        let all = Admission::new(3, Some(3), 8);
        let inside: Vec<_> = (0..3).map(|_| all.stranger(1).expect("room")).collect();
        assert_eq!(all.stranger(1).expect_err("full"), Refused::Full { max: 3 });
        drop(inside);
    }
}
