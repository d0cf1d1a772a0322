//! Before the records of an *expired* session go to anyone, its entry in the store is deleted.
//! Otherwise a later owner of the group finds the session there, and believes it when it
//! re-asserts.
//!
//! What a session was granted in the present life of its server, and has not ended, is not granted
//! to another in an excluding mode while the server's write that forgets the session is under way.
//! A session that was closed by its node is over at once. What becomes of grants in groups that a
//! server leaves is told to their next owner.

use std::collections::{BTreeMap, BTreeSet};

use lockspan_protocol::server::Store;
use lockspan_protocol::{Group, GroupSet, Mode, Seq, SessionId, StoreId, ToNode, ToServer};

use super::{Failure, Kind};
use crate::words;

/// A grant, as the server has told it.
#[derive(Clone, Copy, Debug)]
struct Grant {
    session: SessionId,
    seq: Seq,
    mode: Mode,
    group: Group,
}

/// Grants of the present lives of all servers, and sessions that are being forgotten.
#[derive(Debug, Default)]
pub(crate) struct Forgets {
    /// By server and record.
    grants: BTreeMap<(u8, u8), Vec<Grant>>,
    /// Writes that forget a session.
    under_way: BTreeMap<(u8, StoreId), SessionId>,
}

impl Forgets {
    /// A server begins a new life.
    pub(crate) fn restart(&mut self, server: u8) {
        self.grants.retain(|(other, _), _| *other != server);
        self.under_way.retain(|(other, _), _| *other != server);
    }

    /// A server begins to write.
    pub(crate) fn stores(&mut self, server: u8, store: StoreId, what: &Store) {
        if let Store::Forget { session } = what {
            self.under_way.insert((server, store), *session);
        }
    }

    /// A write is durable.
    pub(crate) fn stored(&mut self, server: u8, store: StoreId) {
        self.under_way.remove(&(server, store));
    }

    /// A server serves these groups no more.
    pub(crate) fn left(&mut self, server: u8, groups: GroupSet) {
        let here = self.grants.iter_mut().filter(|((other, _), _)| *other == server);
        here.for_each(|(_, grants)| grants.retain(|grant| !groups.contains(grant.group)));
    }

    /// A session has ended on a server.
    pub(crate) fn ended(&mut self, server: u8, session: SessionId) {
        let here = self.grants.iter_mut().filter(|((other, _), _)| *other == server);
        here.for_each(|(_, grants)| grants.retain(|grant| grant.session != session));
    }

    /// A server has accepted a message.
    pub(crate) fn accepted(&mut self, server: u8, session: SessionId, message: &ToServer) {
        match message {
            ToServer::Release { record, seq, .. } | ToServer::Cancel { record, seq, .. } => {
                let grants = self.grants.entry((server, words::number(record))).or_default();
                grants.retain(|grant| grant.session != session || grant.seq > *seq);
            }
            ToServer::Acquire { record, seq, upgrade: false, .. } => {
                let grants = self.grants.entry((server, words::number(record))).or_default();
                grants.retain(|grant| grant.session != session || grant.seq >= *seq);
            }
            ToServer::Close => self.ended(server, session),
            _ => {}
        }
    }

    /// A server sends a message.
    pub(crate) fn answered(
        &mut self,
        server: u8,
        session: SessionId,
        message: &ToNode,
    ) -> Result<(), Failure> {
        let ToNode::Granted { record, seq, mode, .. } = message else { return Ok(()) };
        let grants = self.grants.entry((server, words::number(record))).or_default();
        grants.retain(|grant| grant.session != session);
        let mut others = grants.iter().filter(|grant| grant.mode.conflicts(*mode));
        let here = self.under_way.iter().filter(|((other, _), _)| *other == server);
        let ending: BTreeSet<_> = here.map(|(_, session)| *session).collect();
        let early = others.find(|grant| ending.contains(&grant.session));
        let checked = match early {
            None => Ok(()),
            Some(early) => {
                let what = format!(
                    "{record} goes from {early:?} to {session}, and the store has not forgotten \
                     that session yet"
                );
                Err(Failure::new(Kind::Store, what))
            }
        };
        grants.push(Grant { session, seq: *seq, mode: *mode, group: record.group() });
        checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::Token;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);
    const FORGET_A: Store = Store::Forget { session: A };

    fn granted() -> ToNode {
        let (record, token) = (words::record(0), Token::default());
        ToNode::Granted { record, seq: Seq(1), mode: Mode::Write, token, give_back: None }
    }

    #[test]
    fn a_record_that_goes_on_before_its_session_is_forgotten_is_found() {
        let mut forgets = Forgets::default();
        forgets.answered(0, A, &granted()).unwrap();
        forgets.stores(0, StoreId(5), &FORGET_A);
        assert!(forgets.answered(0, B, &granted()).is_err());
    }

    #[test]
    fn what_another_server_has_had_meanwhile_may_go_on() {
        let mut forgets = Forgets::default();
        forgets.answered(0, A, &granted()).unwrap();
        forgets.left(0, GroupSet::from_iter([words::record(0).group()]));
        forgets.stores(0, StoreId(5), &FORGET_A);
        assert!(forgets.answered(0, B, &granted()).is_ok());
    }

    #[test]
    fn it_may_go_on_when_that_is_stored_or_the_node_has_ended_it_itself() {
        let release = ToServer::Release { record: words::record(0), seq: Seq(1), keep: None };
        for ended in [None, Some(ToServer::Close), Some(release)] {
            let mut forgets = Forgets::default();
            forgets.answered(0, A, &granted()).unwrap();
            forgets.stores(0, StoreId(5), &FORGET_A);
            match ended {
                Some(message) => forgets.accepted(0, A, &message),
                None => forgets.stored(0, StoreId(5)),
            }
            assert!(forgets.answered(0, B, &granted()).is_ok());
        }
    }
}
