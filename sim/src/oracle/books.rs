//! What nodes and servers have told each other about each acquire: nothing that is over comes back,
//! and nothing is forgotten in silence.
//!
//! - **over**: when a release or a cancel has arrived and was accepted, the server (in that life)
//!   neither grants nor keeps what it names. A doubled acquire grants nothing.
//! - **answered**: a node that was told of a grant and does not have it has said so since, even if
//!   that was lost. Looked at in the end, when servers still know of a grant that its node does
//!   not.

use std::collections::{BTreeMap, BTreeSet};

use lockspan_protocol::server::table::{ClaimView, RecordView};
use lockspan_protocol::{Seq, SessionId, ToNode, ToServer};

use super::{Failure, Kind};
use crate::words;

/// One session at one record.
type Place = (SessionId, u8);

/// The books of a world.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// By server: what is over in its present life.
    over: BTreeSet<(u8, Place, Seq)>,
    /// When a node was told last of which number, and when it has ended which number last.
    told: BTreeMap<Place, (Seq, u64)>,
    said: BTreeMap<Place, (Seq, u64)>,
}

impl Books {
    /// A server begins a new life.
    pub(crate) fn restart(&mut self, server: u8) {
        self.over.retain(|(other, ..)| *other != server);
    }

    /// A session has ended on a server, and with it everything that was remembered of it.
    pub(crate) fn ended(&mut self, server: u8, session: SessionId) {
        self.over.retain(|(other, (of, _), _)| (*other, *of) != (server, session));
    }

    /// A server has accepted a message.
    pub(crate) fn accepted(&mut self, server: u8, session: SessionId, message: &ToServer) {
        if let Some((record, seq)) = ends(message) {
            self.over.insert((server, (session, record), seq));
        }
    }

    /// A server sends a message.
    pub(crate) fn answered(
        &self,
        server: u8,
        session: SessionId,
        message: &ToNode,
    ) -> Result<(), Failure> {
        let (ToNode::Granted { record, seq, .. }
        | ToNode::Queued { record, seq, .. }
        | ToNode::Retry { record, seq }
        | ToNode::Revoke { record, seq, .. }
        | ToNode::Keep { record, seq, .. }) = message
        else {
            return Ok(());
        };
        if !self.over.contains(&(server, (session, words::number(record)), *seq)) {
            return Ok(());
        }
        let words = words::to_node(message);
        let what = format!("server {server} says to {session} '{words}', and that is over");
        Err(Failure::new(Kind::Leak, what))
    }

    /// A node hears a message.
    pub(crate) fn heard(&mut self, at: u64, session: SessionId, message: &ToNode) {
        if let ToNode::Granted { record, seq, .. } = message {
            self.told.insert((session, words::number(record)), (*seq, at));
        }
    }

    /// A node sends a message.
    pub(crate) fn sent(&mut self, at: u64, session: SessionId, message: &ToServer) {
        if let Some((record, seq)) = ends(message) {
            self.said.insert((session, record), (seq, at));
        }
    }

    /// A server knows of these claims: none of them is over.
    pub(crate) fn compare(&self, server: u8, views: &[RecordView]) -> Result<(), Failure> {
        for (record, claim) in claims(views) {
            if self.over.contains(&(server, (claim.session, record), claim.seq)) {
                let what = format!("server {server} keeps {claim:?}, and that is over");
                return Err(Failure::new(Kind::Leak, format!("record {record}: {what}")));
            }
        }
        Ok(())
    }

    /// In the end, the sessions of the dead have run out: of what a server knows, a node has said
    /// that it is over, or has it (as `has` says).
    pub(crate) fn compare_nodes(
        &self,
        views: &[RecordView],
        has: impl Fn(SessionId, u8) -> bool,
    ) -> Result<(), Failure> {
        for (record, claim) in claims(views) {
            let place = (claim.session, record);
            if !has(claim.session, record) && self.is_silent(place, claim.seq) {
                let what =
                    format!("a node was granted {claim:?}, and has not said that it is over");
                return Err(Failure::new(Kind::Leak, format!("record {record}: {what}")));
            }
        }
        Ok(())
    }

    /// Whether a node was told of a grant and has not ended it since.
    fn is_silent(&self, place: Place, seq: Seq) -> bool {
        let told = self.told.get(&place).filter(|(told, _)| *told == seq);
        let said = self.said.get(&place).filter(|(said, _)| *said >= seq);
        told.is_some_and(|(_, told)| said.is_none_or(|(_, said)| said < told))
    }
}

fn claims(views: &[RecordView]) -> impl Iterator<Item = (u8, &ClaimView)> {
    views.iter().flat_map(|view| {
        let record = words::number(&view.record);
        view.holders.iter().chain(&view.waiters).map(move |claim| (record, claim))
    })
}

/// The record and the number that a message ends.
fn ends(message: &ToServer) -> Option<(u8, Seq)> {
    match message {
        ToServer::Release { record, seq, .. } | ToServer::Cancel { record, seq, .. } => {
            Some((words::number(record), *seq))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::server::table::RecordState;
    use lockspan_protocol::{Mode, Tick, Token};

    const S: SessionId = SessionId(7);

    fn release(seq: u64) -> ToServer {
        ToServer::Release { record: words::record(0), seq: Seq(seq), keep: None }
    }

    fn granted(seq: u64) -> ToNode {
        let (record, token) = (words::record(0), Token::default());
        ToNode::Granted { record, seq: Seq(seq), mode: Mode::Read, token, give_back: None }
    }

    fn view(seq: u64) -> RecordView {
        let claim = ClaimView {
            session: S,
            mode: Mode::Read,
            seq: Seq(seq),
            token: None,
            ticket: None,
            revoked: None,
            since: Tick::ZERO,
            note: None,
        };
        RecordView {
            record: words::record(0),
            state: RecordState::Shared,
            holders: vec![claim],
            waiters: Vec::new(),
            more_holders: 0,
            more_waiters: 0,
        }
    }

    #[test]
    fn what_is_over_is_not_granted_again_in_this_life() {
        let mut books = Books::default();
        books.accepted(0, S, &release(3));
        assert!(books.answered(0, S, &granted(3)).is_err());
        assert!(books.answered(0, S, &granted(4)).is_ok());
        assert!(books.compare(0, &[view(3)]).is_err());
        books.restart(0);
        assert!(books.answered(0, S, &granted(3)).is_ok());
    }

    #[test]
    fn a_node_that_says_nothing_about_a_grant_is_found() {
        let mut books = Books::default();
        books.sent(5, S, &release(3));
        books.heard(6, S, &granted(3));
        assert!(books.compare_nodes(&[view(3)], |_, _| false).is_err());
        assert!(books.compare_nodes(&[view(3)], |_, _| true).is_ok());
        books.sent(7, S, &release(3));
        assert!(books.compare_nodes(&[view(3)], |_, _| false).is_ok(), "that was lost");
    }
}
