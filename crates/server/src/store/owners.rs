//! Whose the sessions are, where there are users: kept beside them, so that a restart does not make
//! them somebody else's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lockspan_protocol::SessionId;
use lockspan_protocol::server::Store;

/// The users of the sessions that are stored, or about to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners(Arc<Mutex<HashMap<SessionId, Arc<str>>>>);

impl Owners {
    pub(crate) fn set(&self, session: SessionId, user: Arc<str>) {
        crate::lock(&self.0).insert(session, user);
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<Arc<str>> {
        crate::lock(&self.0).get(&session).cloned()
    }

    pub(super) fn remove(&self, session: SessionId) {
        crate::lock(&self.0).remove(&session);
    }

    /// This is written: who is forgotten there is forgotten here.
    pub(super) fn written<'a>(&self, batch: impl IntoIterator<Item = &'a Store>) {
        let mut all = crate::lock(&self.0);
        if all.is_empty() {
            return;
        }
        for what in batch {
            if let Store::Forget { session } = what {
                all.remove(session);
            }
        }
    }
}
