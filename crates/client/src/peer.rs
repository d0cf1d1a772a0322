//! A way for other crates to stand in for the server: locks on a store that speaks no protocol of
//! ours.
//!
//! A [`Peer`] plays the server's half of the protocol for the sessions of one node, and answers
//! through its [`Ear`]. Everything local stays as it is: lines, guards, leases, upgrades.

use std::fmt;
use std::sync::{Arc, Weak};

use lockspan_protocol::{Record as Name, SessionId, ToNode, ToServer};
use lockspan_wire::Event;

use crate::error::{ConnectError, LockError};
use crate::locks::{Handle, Locks};
use crate::node::Node;
use crate::options::Options;
use crate::task::{self, Attended};
use crate::way::Way;

/// The server's half of the protocol, for one node.
///
/// No call may block, nor speak to the [`Ear`] before it returns.
pub trait Peer: fmt::Debug + Send + Sync + 'static {
    /// The node says something, in this order.
    fn tell(&self, session: SessionId, message: ToServer);

    /// Whether what it stands for can be reached, as far as it knows.
    fn is_connected(&self) -> bool;

    /// The node is at its end: let go of everything, then call [`Ear::closed`].
    fn close(&self);
}

/// How a peer answers. It does not keep the node alive.
#[derive(Clone, Debug)]
pub struct Ear(Weak<Node>);

impl Ear {
    /// The node, unless it is gone or this is a child of a fork, which has nobody to speak to.
    fn node(&self) -> Option<Arc<Node>> {
        self.0.upgrade().filter(|node| !node.is_forked())
    }

    /// The peer says this, in this order, in a session.
    pub fn hear(&self, session: SessionId, messages: impl IntoIterator<Item = ToNode>) {
        if let Some(node) = self.node() {
            let heard = messages.into_iter().map(|message| (session, Event::Node(message)));
            node.hear(&mut heard.collect());
            if node.habits.caching && node.is_crowded() {
                node.bell.notify_one();
            }
        }
    }

    /// Whoever waits for this record here is refused. The peer is told that the wait is over.
    pub fn refuse(&self, record: &Name, why: &LockError) {
        if let Some(node) = self.node() {
            node.refuse_record(record, why);
        }
    }

    /// The end was heard, and all is let go of.
    pub fn closed(&self) {
        if let Some(node) = self.node() {
            node.confirmed.notify_one();
        }
    }
}

impl Options {
    /// Connects to a peer of this program, which is made with the ear to speak to. It has to be
    /// called in a tokio runtime.
    #[doc(hidden)]
    pub fn connect_to(
        self,
        make: impl FnOnce(Ear) -> Box<dyn Peer>,
    ) -> Result<Locks, ConnectError> {
        let (config, habits, runtime) = (self.config()?, self.habits(), task::runtime()?);
        let meter = self.meter();
        let node = Arc::new_cyclic(|node| {
            let way = Way::Peer(make(Ear(Weak::clone(node))));
            Node::new(config, habits, meter, way, runtime.clone())
        });
        node.connected();
        task::spawn(&runtime, task::attend_peer(Attended(Arc::clone(&node))));
        Ok(Locks::new(Handle::new(node, self.try_for)))
    }
}
