//! A server with one thread looks for messages for a moment before it sleeps.

use lockspan_protocol::Tick;
use lockspan_wire::Attention;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::clock;

/// Keeps the server's only thread awake.
#[derive(Debug)]
pub(crate) struct Vigil {
    attention: Attention,
    begins: Notify,
}

impl Vigil {
    /// One for the present runtime, if it has one thread.
    pub(crate) fn for_this_runtime() -> Option<Self> {
        let attention = Attention::of_threads(Handle::current().metrics().num_workers())?;
        Some(Self { attention, begins: Notify::new() })
    }

    /// A client has said something.
    pub(crate) fn heard(&self, now: Tick) {
        if self.attention.heard(now) {
            self.begins.notify_one();
        }
    }

    /// Keeps it, forever.
    pub(crate) async fn keep(&self) {
        loop {
            self.begins.notified().await;
            while self.attention.goes_on(clock::now()) {
                // All other tasks have a turn, then the sockets are looked at.
                tokio::task::yield_now().await;
            }
        }
    }
}
