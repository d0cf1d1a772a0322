//! The connections that there are.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lockspan_protocol::Annotation;
use lockspan_wire::Protocol;

use super::outbox::Outbox;
use crate::users::Place;

/// A connection, as `CLIENT LIST` shows it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) outbox: Arc<Outbox>,
    /// Where it comes from, for people.
    from: String,
    /// The same, as connections and logins are counted.
    pub(crate) place: Place,
    since: Instant,
    about: Mutex<About>,
}

/// What the client says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) version: String,
    /// Whom it speaks for.
    pub(crate) user: String,
}

impl Peer {
    /// A line about it.
    pub(crate) fn line(&self) -> String {
        let About { name, library, version, user } = crate::lock(&self.about).clone();
        let user = if user.is_empty() { user } else { format!(" user={user}") };
        let resp = if self.outbox.protocol() == Protocol::Resp3 { 3 } else { 2 };
        format!(
            "id={} addr={} name={name} age={} db=0 resp={resp} lib-name={library} \
             lib-ver={version}{user}\n",
            self.outbox.id,
            self.from,
            self.since.elapsed().as_secs()
        )
    }

    /// What it is called in the log.
    pub(super) fn title(&self) -> String {
        let (id, from) = (self.outbox.id, &self.from);
        let user = self.about(|about| about.user.clone());
        let user = if user.is_empty() { user } else { format!(", user {user}") };
        format!("connection {id} from {from}{user}")
    }

    /// What a session is called that its client has not named: `NAME@ADDRESS`, with the name that
    /// the client gave the connection, or that of its library.
    pub(super) fn label(&self) -> Option<Annotation> {
        let About { name, library, .. } = crate::lock(&self.about).clone();
        let name = [name, library].into_iter().find(|it| !it.is_empty());
        Annotation::fitted(&format!("{}@{}", name.as_deref().unwrap_or("client"), self.from))
    }

    pub(crate) fn about<R>(&self, look: impl FnOnce(&mut About) -> R) -> R {
        look(&mut crate::lock(&self.about))
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// By their numbers.
    all: Mutex<BTreeMap<u64, Arc<Peer>>>,
    last: AtomicU64,
    /// Bytes that were sent on connections that are gone.
    sent_before: AtomicU64,
}

impl Peers {
    /// A number for the next connection.
    pub(crate) fn next_id(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes in a connection.
    pub(crate) fn add(&self, outbox: Arc<Outbox>, (from, place): (String, Place)) -> Arc<Peer> {
        let mut all = crate::lock(&self.all);
        let id = outbox.id;
        let peer =
            Arc::new(Peer { outbox, from, place, since: Instant::now(), about: Mutex::default() });
        all.insert(id, Arc::clone(&peer));
        peer
    }

    pub(crate) fn remove(&self, id: u64) {
        let mut all = crate::lock(&self.all);
        if let Some(peer) = all.remove(&id) {
            // With the list locked: nobody counts them twice, or not at all.
            self.sent_before.fetch_add(peer.outbox.sent_bytes(), Ordering::Relaxed);
        }
    }

    pub(crate) fn len(&self) -> usize {
        crate::lock(&self.all).len()
    }

    /// How many bytes were sent to all that there ever were.
    pub(crate) fn sent_bytes(&self) -> u64 {
        let all = crate::lock(&self.all);
        let now: u64 = all.values().map(|peer| peer.outbox.sent_bytes()).sum();
        now + self.sent_before.load(Ordering::Relaxed)
    }

    /// How many there ever were.
    pub(crate) fn total(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Where a connection comes from, and what the client calls itself.
    pub(crate) fn title(&self, id: u64) -> Option<String> {
        let peer = self.get(id)?;
        let name = peer.about(|about| about.name.clone());
        Some(if name.is_empty() { peer.from.clone() } else { format!("{name} ({})", peer.from) })
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Peer>> {
        crate::lock(&self.all).get(&id).cloned()
    }

    /// Up to `count` of those with a higher number than this, by their numbers.
    pub(super) fn after(&self, id: u64, count: usize) -> Vec<Arc<Peer>> {
        let above = (Bound::Excluded(id), Bound::Unbounded);
        crate::lock(&self.all).range(above).take(count).map(|(_, peer)| Arc::clone(peer)).collect()
    }

    /// All of them, by their numbers.
    pub(crate) fn list(&self) -> Vec<Arc<Peer>> {
        crate::lock(&self.all).values().cloned().collect()
    }
}
