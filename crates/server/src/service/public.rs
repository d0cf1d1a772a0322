//! The public ids of sessions.
//!
//! **Invariant:** the number of a session leaves the server to its owner only, by the replies and
//! events of connections that named the number themselves. Whatever anybody else sees (lists, the
//! page, the log) has [`Service::public`] of it instead.
//!
//! The public id is a MAC of the number. The key is drawn at random, once for a data directory, so
//! that ids stay the same over a restart; see `store::key`.

use std::collections::BTreeSet;
use std::fmt;

use blake2::Blake2sMac256;
use blake2::digest::Mac as _;
use lockspan_protocol::SessionId;
use lockspan_wire::{CommandError, ErrorCode, PublicId};

use super::Service;

/// The key from which public ids are computed.
#[derive(Clone)]
pub(crate) struct PublicKey(pub(crate) [u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey(secret)")
    }
}

impl PublicKey {
    /// A new one.
    pub(crate) fn draw() -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self(key))
    }

    pub(super) fn id(&self, session: SessionId) -> PublicId {
        let mut mac = Blake2sMac256::new(&self.0.into());
        mac.update(&session.0.to_be_bytes());
        let tag: [u8; 32] = mac.finalize().into_bytes().into();
        let first = tag.first_chunk().copied().unwrap_or_default();
        PublicId::of_hash(u64::from_be_bytes(first))
    }
}

/// Sessions in the order of their public ids. Two may have the same one.
#[derive(Debug, Default)]
pub(super) struct ByPublicId(BTreeSet<(PublicId, SessionId)>);

impl ByPublicId {
    pub(super) fn insert(&mut self, id: PublicId, session: SessionId) {
        self.0.insert((id, session));
    }

    pub(super) fn remove(&mut self, id: PublicId, session: SessionId) {
        self.0.remove(&(id, session));
    }

    /// The sessions with an id above this one.
    pub(super) fn after(&self, id: Option<PublicId>) -> impl Iterator<Item = SessionId> {
        use std::ops::Bound;
        let last = id.map(|id| (id, SessionId(u64::MAX)));
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((from, Bound::Unbounded)).map(|&(_, session)| session)
    }

    fn of(&self, id: PublicId) -> impl Iterator<Item = SessionId> {
        let all = (id, SessionId(0))..=(id, SessionId(u64::MAX));
        self.0.range(all).map(|&(_, session)| session)
    }
}

impl Service {
    /// What others see of a session's number.
    pub(crate) fn public(&self, session: SessionId) -> PublicId {
        self.public_key.id(session)
    }

    /// The session with this public id, for what an operator does.
    pub(crate) fn session_of(&self, id: PublicId) -> Result<SessionId, CommandError> {
        let desk = crate::lock(&self.desk);
        let mut found = desk.by_public.of(id);
        match (found.next(), found.next()) {
            (Some(session), None) => Ok(session),
            (None, _) => {
                let text = format!("there is no session {id}: it was closed or its lease ended");
                Err(CommandError::new(ErrorCode::NoSession, text))
            }
            (Some(_), Some(_)) => {
                let text = format!("two sessions have the public id {id}: nothing was done");
                Err(CommandError::new(ErrorCode::Refused, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_nothing_without_the_key() {
        let (one, other) = (PublicKey([1; 32]), PublicKey([2; 32]));
        assert_eq!(one.id(SessionId(7)), one.id(SessionId(7)));
        assert_ne!(one.id(SessionId(7)), other.id(SessionId(7)));
        assert_ne!(one.id(SessionId(7)), one.id(SessionId(8)));
        assert_eq!(format!("{one:?}"), "PublicKey(secret)");
    }

    #[test]
    fn sessions_with_one_id_are_both_known() {
        let mut all = ByPublicId::default();
        let [low, high] = [1 << 16, 2 << 16].map(PublicId::of_hash);
        all.insert(low, SessionId(9));
        all.insert(low, SessionId(u64::MAX));
        all.insert(high, SessionId(1));
        assert_eq!(all.of(low).count(), 2);
        assert_eq!(all.after(Some(low)).collect::<Vec<_>>(), [SessionId(1)]);
        all.remove(low, SessionId(9));
        assert_eq!(all.after(None).collect::<Vec<_>>(), [SessionId(u64::MAX), SessionId(1)]);
    }
}
