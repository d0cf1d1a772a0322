//! The public ids of sessions.
//!
//! **Invariant:** the number of a session leaves the server to its owner only, by the replies and
//! events of connections that named the number themselves. Whatever anybody else sees (lists, the
//! page, the log) has [`Service::public`] of it instead.
//!
//! The public id is a MAC of the number. The key is drawn at random, once for a data directory, so
//! that ids stay the same over a restart; see `store::key`. The seals of the handles of `LS.LOCK`
//! are MACs with another key, which is derived from it.

use std::collections::BTreeSet;
use std::fmt;

use blake2::Blake2sMac256;
use blake2::digest::{KeyInit as _, Mac as _};
use lockspan_protocol::{Mode, Record, SessionId, Token};
use lockspan_wire::{CommandError, ErrorCode, LockGrant, LockId, PublicId};

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

    /// The MAC that seals the handle of a lock. All but the record have a fixed length.
    fn handle_mac(&self, id: LockId, record: &Record, mode: Mode, token: Token) -> Blake2sMac256 {
        let mut derive = Blake2sMac256::new(&self.0.into());
        derive.update(b"lockspan: the key of the handles of locks");
        let mut mac = Blake2sMac256::new(&derive.finalize().into_bytes());
        mac.update(&id.reveal().to_be_bytes());
        mac.update(&[u8::from(mode == Mode::Write)]);
        mac.update(&token.number().to_be_bytes());
        mac.update(record.as_bytes());
        mac
    }

    /// What the handle of a lock says of its grant.
    pub(super) fn seal(&self, id: LockId, record: &Record, mode: Mode, token: Token) -> LockGrant {
        let mac = self.handle_mac(id, record, mode, token);
        let tag: [u8; 32] = mac.finalize().into_bytes().into();
        let first = tag.first_chunk().copied().unwrap_or_default();
        LockGrant { mode, token, seal: u128::from_be_bytes(first) }
    }

    /// Whether the grant is one that was sealed with this key.
    pub(super) fn is_sealed(&self, id: LockId, record: &Record, grant: &LockGrant) -> bool {
        let mac = self.handle_mac(id, record, grant.mode, grant.token);
        mac.verify_truncated_left(&grant.seal.to_be_bytes()).is_ok()
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

    /// The sessions above this one.
    pub(super) fn after(
        &self,
        last: Option<(PublicId, SessionId)>,
    ) -> impl Iterator<Item = (PublicId, SessionId)> {
        use std::ops::Bound;
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((from, Bound::Unbounded)).copied()
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
                let text = format!("there is no session {id}: it was closed, or its lease expired");
                Err(CommandError::new(ErrorCode::NoSession, text))
            }
            (Some(_), Some(_)) => {
                let text = format!("two sessions have the public id {id}; nothing was done");
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
    fn a_seal_is_of_one_lock_record_mode_and_token() {
        let (key, id) = (PublicKey([1; 32]), LockId::new(7));
        let name = |text: &str| Record::parse(text.as_bytes()).expect("a record");
        let token = |number| Token::from_number(number).expect("a token");
        let (record, first) = (name("a:1"), token(1_099_511_627_777));
        let grant = key.seal(id, &record, Mode::Write, first);
        assert!(key.is_sealed(id, &record, &grant));
        assert!(!PublicKey([2; 32]).is_sealed(id, &record, &grant));
        assert!(!key.is_sealed(LockId::new(8), &record, &grant));
        assert!(!key.is_sealed(id, &name("a:2"), &grant));
        assert!(!key.is_sealed(id, &record, &LockGrant { mode: Mode::Read, ..grant }));
        let higher = token(1_099_511_627_778);
        assert!(!key.is_sealed(id, &record, &LockGrant { token: higher, ..grant }));
        assert!(!key.is_sealed(id, &record, &LockGrant { seal: grant.seal ^ 1, ..grant }));
    }

    #[test]
    fn sessions_with_one_id_are_both_known() {
        let mut all = ByPublicId::default();
        let [low, high] = [1 << 16, 2 << 16].map(PublicId::of_hash);
        all.insert(low, SessionId(9));
        all.insert(low, SessionId(u64::MAX));
        all.insert(high, SessionId(1));
        assert_eq!(all.of(low).count(), 2);
        let above = |id, session| all.after(Some((id, SessionId(session)))).collect::<Vec<_>>();
        assert_eq!(above(low, 9), [(low, SessionId(u64::MAX)), (high, SessionId(1))]);
        assert_eq!(above(low, u64::MAX), [(high, SessionId(1))]);
        all.remove(low, SessionId(9));
        let left: Vec<_> = all.after(None).map(|(_, session)| session).collect();
        assert_eq!(left, [SessionId(u64::MAX), SessionId(1)]);
    }
}
