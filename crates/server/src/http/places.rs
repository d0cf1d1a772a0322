//! The page's connections, and which of them is closed when there are too many.
//!
//! There are [`PLACES`] of them. A newcomer is always let in, at once: what it wants is known only
//! when it has said so. If all places are taken, one connection is closed for it:
//!
//! 1. the one that has waited longest for its client to send a request, as long as there is one. A
//!    request counts from when all of it has come, so it does not help to send a part of one;
//! 2. otherwise the one whose request takes longest, among those without a login;
//! 3. otherwise the one whose request takes longest, with a login.
//!
//! So a health check needs no place of its own: however many connections are silent, slow or busy,
//! it is let in, and it loses its place only if [`PLACES`] newer connections come before its
//! request has, or before the page's thread has answered it. An operator's live page is closed only
//! when operators have all places.
//!
//! When more than half of the places are taken, every answer says `Connection: close`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;

/// Connections at a time. A browser has up to six.
pub(crate) const PLACES: usize = 256;

/// All connections that have a place.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    by: HashMap<u64, Holder>,
    /// Counts what happens: a lower number was earlier.
    last: u64,
}

#[derive(Debug)]
struct Holder {
    doing: Doing,
    /// Since when, as a number of [`Taken::last`].
    since: u64,
    /// What serves the connection.
    task: Option<AbortHandle>,
}

/// What a connection does. Those that come first are closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    /// It waits for a request, or for the rest of one.
    Waits,
    /// A request without a login is answered.
    Asks,
    /// A request of somebody who has logged in is answered.
    AsksLoggedIn,
}

impl Places {
    /// A place for a newcomer; if there was none, another connection has lost its own.
    pub(super) fn enter(self: &Arc<Self>) -> Arc<Place> {
        let (id, closed) = crate::lock(&self.0).enter();
        if let Some(task) = closed {
            task.abort();
        }
        Arc::new(Place { among: Arc::clone(self), id })
    }

    /// Whether more than half of the places are taken.
    pub(super) fn are_scarce(&self) -> bool {
        crate::lock(&self.0).by.len() > PLACES / 2
    }
}

impl Taken {
    /// The number of a newcomer, and what serves the connection that goes for it.
    fn enter(&mut self) -> (u64, Option<AbortHandle>) {
        let mut closed = None;
        if self.by.len() >= PLACES {
            let first = self.by.iter().min_by_key(|(_, it)| (it.doing, it.since));
            let first = first.map(|(&id, _)| id);
            closed = first.and_then(|id| self.by.remove(&id)).and_then(|it| it.task);
        }
        self.last += 1;
        self.by.insert(self.last, Holder { doing: Doing::Waits, since: self.last, task: None });
        (self.last, closed)
    }
}

/// The place of one connection, as long as it is kept.
#[derive(Debug)]
pub(super) struct Place {
    among: Arc<Places>,
    id: u64,
}

impl Place {
    /// This task serves the connection, and is aborted when the place is taken away.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        if let Some(holder) = crate::lock(&self.among.0).by.get_mut(&self.id) {
            holder.task = Some(task);
        }
    }

    /// All of a request has come.
    pub(super) fn asks(&self) {
        self.does(Doing::Asks);
    }

    /// The request under way is of somebody who has logged in.
    pub(super) fn is_logged_in(&self) {
        self.does(Doing::AsksLoggedIn);
    }

    /// The next request is waited for.
    fn waits(&self) {
        self.does(Doing::Waits);
    }

    fn does(&self, doing: Doing) {
        let mut taken = crate::lock(&self.among.0);
        taken.last += 1;
        let now = taken.last;
        if let Some(holder) = taken.by.get_mut(&self.id) {
            (holder.doing, holder.since) = (doing, now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        crate::lock(&self.among.0).by.remove(&self.id);
    }
}

/// Kept with an answer until the connection has taken all of it: then it waits again.
#[derive(Debug)]
pub(super) struct Answering(pub(super) Arc<Place>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.waits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(place: &Place) -> bool {
        crate::lock(&place.among.0).by.contains_key(&place.id)
    }

    #[test]
    fn service_f100_who_waits_longest_goes_first_and_operators_last() {
        let places = Arc::new(Places::default());
        let all: Vec<_> = (0..PLACES).map(|_| places.enter()).collect();
        // The first is an operator's, the next ones ask, the others wait; 9 was answered last.
        all[0].is_logged_in();
        all[1..9].iter().for_each(|place| place.asks());
        drop(Answering(Arc::clone(&all[9])));
        let mut newcomers = Vec::new();
        let mut next = |lost: usize| {
            assert!(has(&all[lost]), "{lost} was closed too early");
            let place = places.enter();
            place.is_logged_in();
            newcomers.push(place);
            assert!(!has(&all[lost]), "{lost} is still there");
        };
        (10..PLACES).for_each(&mut next);
        // Among those that wait, the one that was answered last is closed last.
        next(9);
        (1..9).for_each(&mut next);
        next(0);
        assert!(newcomers.iter().all(|place| has(place)));
        places.enter();
        assert!(!has(&newcomers[0]), "even operators can't take all places forever");
        drop((all, newcomers));
        assert!(crate::lock(&places.0).by.is_empty(), "nothing is kept of them");
    }

    #[test]
    fn places_are_scarce_from_half_on() {
        let places = Arc::new(Places::default());
        let mut all: Vec<_> = (0..PLACES / 2).map(|_| places.enter()).collect();
        assert!(!places.are_scarce());
        all.push(places.enter());
        assert!(places.are_scarce());
    }

    #[tokio::test]
    async fn service_f100_a_connection_that_loses_its_place_is_ended() {
        let places = Arc::new(Places::default());
        let first = places.enter();
        let task = tokio::spawn(std::future::pending::<()>());
        first.is_served_by(task.abort_handle());
        let _others: Vec<_> = (0..PLACES).map(|_| places.enter()).collect();
        assert!(task.await.expect_err("it was ended").is_cancelled());
    }
}
