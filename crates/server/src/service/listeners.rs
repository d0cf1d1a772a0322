//! The connections that hear of a session's events.
//!
//! There are at most [`MOST`], because each event is written to all of them by the thread that has
//! it. One more takes the place of the connection that has listened for longest, which is closed,
//! so that its client knows that it hears nothing any more. A client that connects again and again
//! has left such connections behind; no other has so many.

use std::sync::Arc;

use lockspan_protocol::SessionId;
use lockspan_wire::Event;

use crate::net::outbox::{Dirty, Outbox};

/// How many there may be.
pub(super) const MOST: usize = 64;

/// Those of one session, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    outbox: Arc<Outbox>,
    as_message: bool,
    /// It has spoken by `LS.TELL`, so it keeps grants in a cache.
    is_node: bool,
}

impl Listeners {
    /// The connection hears of the events from now on, in this way alone. Whether it is new here.
    pub(super) fn add(&mut self, outbox: &Arc<Outbox>, as_message: bool) -> bool {
        if let Some(known) = self.find(outbox) {
            known.as_message = as_message;
            return false;
        }
        if self.0.len() >= MOST {
            let first = self.0.remove(0);
            tracing::info!(
                "connection {} is closed: {MOST} connections hear of its session, and connection \
                 {} takes the place of the first",
                first.outbox.id,
                outbox.id
            );
            first.outbox.close();
        }
        self.0.push(Listener { outbox: Arc::clone(outbox), as_message, is_node: false });
        true
    }

    /// The same for a connection that speaks by `LS.TELL`.
    pub(super) fn add_node(&mut self, outbox: &Arc<Outbox>) -> bool {
        let is_new = self.add(outbox, false);
        self.find(outbox).into_iter().for_each(|own| own.is_node = true);
        is_new
    }

    pub(super) fn remove(&mut self, outbox: &Arc<Outbox>) {
        self.0.retain(|one| !Arc::ptr_eq(&one.outbox, outbox));
    }

    fn find(&mut self, outbox: &Arc<Outbox>) -> Option<&mut Listener> {
        self.0.iter_mut().find(|one| Arc::ptr_eq(&one.outbox, outbox))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The numbers of the connections.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|one| one.outbox.id)
    }

    /// All hear this, but those that `but` names.
    pub(super) fn tell_all_but(
        &self,
        but: impl Fn(&Arc<Outbox>) -> bool,
        session: SessionId,
        event: &Event,
        dirty: &mut Dirty,
    ) {
        self.tell_by_kind(but, session, |_| event, dirty);
    }

    /// The same, if what one hears depends on whether it is a node.
    pub(super) fn tell_by_kind<'a>(
        &self,
        but: impl Fn(&Arc<Outbox>) -> bool,
        session: SessionId,
        event: impl Fn(bool) -> &'a Event,
        dirty: &mut Dirty,
    ) {
        for one in self.0.iter().filter(|one| !but(&one.outbox)) {
            one.outbox.event(session, event(one.is_node), one.as_message, dirty);
        }
    }
}
