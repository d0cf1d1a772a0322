//! The connections that hear of a session's events.
//!
//! **Invariant:** at most [`LISTENERS_MAX`] connections listen for a session: what a table says to
//! it is written to each of them by the thread that has the table.

use std::sync::Arc;

use lockspan_protocol::{Record, Seq, SessionId, ToNode};
use lockspan_wire::{CommandError, ErrorCode, Event};

use super::super::work::Work;
use super::Seat;
use crate::net::outbox::{Dirty, Outbox};

/// So many connections may hear of one session.
pub(crate) const LISTENERS_MAX: usize = 128;

/// They, in the order in which they came.
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
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&mut self, outbox: &Arc<Outbox>) -> Option<&mut Listener> {
        self.0.iter_mut().find(|one| Arc::ptr_eq(&one.outbox, outbox))
    }

    /// Every connection hears this, unless `but` says that it need not.
    pub(super) fn tell(
        &self,
        session: SessionId,
        event: &Event,
        but: impl Fn(u64) -> bool,
        dirty: &mut Dirty,
    ) {
        self.tell_each(session, |_| event, but, dirty);
    }

    /// The same; what it hears depends on whether it is a node.
    pub(super) fn tell_each<'a>(
        &self,
        session: SessionId,
        event: impl Fn(bool) -> &'a Event,
        but: impl Fn(u64) -> bool,
        dirty: &mut Dirty,
    ) {
        for one in self.0.iter().filter(|one| !but(one.outbox.id)) {
            one.outbox.event(session, event(one.is_node), one.as_message, dirty);
        }
    }
}

impl Seat {
    /// The connection hears of the session's events from now on, in this way alone. An error if as
    /// many do as may.
    pub(crate) fn listen(
        &self,
        outbox: &Arc<Outbox>,
        as_message: bool,
    ) -> Result<(), CommandError> {
        let inner = &mut *self.lock();
        if let Some(known) = inner.listeners.find(outbox) {
            known.as_message = as_message;
            return Ok(());
        }
        if inner.listeners.len() >= LISTENERS_MAX {
            let text = format!(
                "too many connections receive the events of this session: the maximum is \
                 {LISTENERS_MAX}; open another session, or stop one of them: LS.EVENTS session none"
            );
            return Err(CommandError::new(ErrorCode::Limit, text));
        }
        let outbox = Arc::clone(outbox);
        inner.listeners.0.push(Listener { outbox, as_message, is_node: false });
        // An operator may have ended the session, and this one was not told.
        inner.told_over = false;
        Ok(())
    }

    /// The same for a connection that speaks by `LS.TELL`. It has to hear its answers: if as many
    /// listen as may, the one that came first does not hear any more.
    pub(crate) fn listen_as_node(&self, outbox: &Arc<Outbox>) {
        let inner = &mut *self.lock();
        if let Some(known) = inner.listeners.find(outbox) {
            (known.as_message, known.is_node) = (false, true);
            return;
        }
        let all = &mut inner.listeners.0;
        if all.len() >= LISTENERS_MAX {
            all.remove(0);
        }
        all.push(Listener { outbox: Arc::clone(outbox), as_message: false, is_node: true });
        inner.told_over = false;
    }

    /// The connection does not hear of them any more.
    pub(crate) fn stop_listening(&self, outbox: &Arc<Outbox>) {
        self.lock().listeners.0.retain(|one| !Arc::ptr_eq(&one.outbox, outbox));
    }

    /// How many connections listen.
    pub(crate) fn listeners(&self) -> usize {
        self.lock().listeners.len()
    }

    /// The connections that listen.
    pub(in crate::service) fn listening(&self) -> Vec<u64> {
        self.lock().listeners.0.iter().map(|one| one.outbox.id).collect()
    }

    /// Whether another connection than `from` listens. `from` is known to listen itself if
    /// `listens`, which spares a look in the most common case.
    pub(in crate::service) fn others_listen(&self, from: Option<u64>, listens: bool) -> bool {
        use std::sync::atomic::Ordering;
        self.heard_by.load(Ordering::Relaxed) > usize::from(listens)
            && self.lock().listeners.0.iter().any(|one| Some(one.outbox.id) != from)
    }

    /// A command of the connection `from` has ended this grant: all others that listen hear so,
    /// before anybody hears of what became of the record. For a node the grant is lost.
    pub(in crate::service) fn tell_over(
        &self,
        record: Record,
        seq: Seq,
        from: Option<u64>,
        work: &mut Work,
    ) {
        let inner = self.lock();
        let lost = Event::Node(ToNode::Lost { record: record.clone(), seq });
        let released = Event::Released { record, seq };
        let event = |is_node: bool| if is_node { &lost } else { &released };
        let is_from = |id| Some(id) == from;
        work.dirty.first(|dirty| inner.listeners.tell_each(self.id, event, is_from, dirty));
    }

    /// The server says something to every session.
    pub(in crate::service) fn announce_event(&self, event: &Event, work: &mut Work) {
        self.lock().listeners.tell(self.id, event, |_| false, &mut work.dirty);
    }

    /// An operator ends the session: [`Self::say_over`] says so.
    pub(in crate::service) fn end_by_operator(&self) {
        self.lock().by_operator = true;
    }

    /// Whoever listens hears that the session is over, once. To be called before the tables hear of
    /// its end: nobody is granted what it had before its listeners are told.
    pub(in crate::service) fn say_over(&self, work: &mut Work) {
        let mut inner = self.lock();
        if !std::mem::replace(&mut inner.told_over, true) {
            let event = match inner.by_operator {
                true => Event::EndedByOperator,
                false => Event::Node(ToNode::NoSession),
            };
            let closed_by = inner.closed_by;
            let is_closer = |id| Some(id) == closed_by;
            work.dirty.first(|dirty| inner.listeners.tell(self.id, &event, is_closer, dirty));
        }
    }
}
