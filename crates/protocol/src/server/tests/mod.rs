//! The server in small scripts. [`Scene`] is a server with sessions; its methods are the nodes'
//! messages and give back what was sent in answer, as short lines.

mod costs;
mod deadlocks;
mod leases;
mod moves;
mod order;
mod owners;
mod pages;
#[cfg(feature = "mutants")]
mod put_back;
mod questions;
mod quotas;
mod recovery;
mod reviewed;
mod seqs;
mod views;

use std::time::Duration;

use super::*;
use crate::ids::{Owner, Seq};
use crate::limits::Limits;
use crate::mode::Mode;
use crate::record::Record;
use crate::server::lock_server::reply_to;

pub(super) const A: SessionId = SessionId(1);
pub(super) const B: SessionId = SessionId(2);
pub(super) const C: SessionId = SessionId(3);
pub(super) const D: SessionId = SessionId(4);
pub(super) const TTL: Duration = Duration::from_secs(10);

/// A record in slot and group of its own choosing.
pub(super) fn record(id: &str) -> Record {
    Record::new("r", id).unwrap()
}

pub(super) struct Scene {
    pub(super) server: LockServer,
    pub(super) now: Tick,
    pub(super) epoch: Epoch,
    /// Writes not yet durable, if they are held back.
    pub(super) stores: Vec<(StoreId, Store)>,
    pub(super) hold_stores: bool,
}

impl Scene {
    /// A server in epoch 1 with the sessions A to D.
    pub(super) fn new(handoff: Handoff) -> Self {
        Self::with(Limits::default(), handoff)
    }

    pub(super) fn with(limits: Limits, handoff: Handoff) -> Self {
        let mut scene = Self::restarted(limits, Epoch::NONE, Vec::new());
        for session in [A, B, C, D] {
            let said = scene.say(session, ToServer::Open { ttl: TTL, handoff });
            assert_eq!(said, [format!("{} opened", name(session))]);
        }
        scene
    }

    /// A server that comes up above `above` and finds `listed` in its store.
    pub(super) fn restarted(limits: Limits, above: Epoch, listed: Vec<Listed>) -> Self {
        let server = LockServer::new(limits, 3, 42);
        let mut scene = Self {
            server,
            now: Tick(1_000),
            epoch: above.next().unwrap(),
            stores: Vec::new(),
            hold_stores: false,
        };
        scene.input(Input::Take { groups: GroupSet::ALL, above, listed });
        scene
    }

    /// Does one input and everything that follows from it; what was sent, one line each.
    pub(super) fn input(&mut self, input: Input) -> Vec<String> {
        let mut out = Vec::new();
        let message = match &input {
            Input::Message { session, message } => Some((*session, message.clone())),
            _ => None,
        };
        // Time passes first; the refusal of an input has to change nothing beyond that.
        self.server.handle(self.now, Input::Tick, &mut out).unwrap();
        let mut lines = self.perform(std::mem::take(&mut out));
        let before = format!("{:?}", self.server.views());
        let result = self.server.handle(self.now, input, &mut out);
        lines.extend(self.perform(out));
        if let Err(refusal) = result {
            assert_eq!(before, format!("{:?}", self.server.views()), "refused: {refusal}");
            let reply = message.as_ref().and_then(|(_, message)| reply_to(message, &refusal));
            match (message, reply) {
                (Some((session, _)), Some(reply)) => lines.push(line(session, &reply)),
                _ => lines.push(format!("refused: {refusal}")),
            }
        }
        self.server.check();
        lines
    }

    fn perform(&mut self, out: Vec<Output>) -> Vec<String> {
        let mut lines = Vec::new();
        for output in out {
            match output {
                Output::Send { session, message } => lines.push(line(session, &message)),
                Output::Store { store, what } if self.hold_stores => {
                    self.stores.push((store, what))
                }
                Output::Store { store, .. } => lines.extend(self.stored(store)),
                Output::Ended { session } => lines.push(format!("{} ended", name(session))),
                Output::Settled { former } => lines.push(format!("{} settled", name(former))),
                Output::Behind { groups, above } => lines.push(format!("behind {groups} {above}")),
                Output::Left { groups } => lines.push(format!("left {groups}")),
            }
        }
        lines
    }

    pub(super) fn stored(&mut self, store: StoreId) -> Vec<String> {
        self.input(Input::Stored { store })
    }

    /// The writes that were held back are durable now.
    pub(super) fn flush(&mut self) -> Vec<String> {
        let stores = std::mem::take(&mut self.stores);
        stores.into_iter().flat_map(|(store, _)| self.stored(store)).collect()
    }

    pub(super) fn say(&mut self, session: SessionId, message: ToServer) -> Vec<String> {
        self.input(Input::Message { session, message })
    }

    pub(super) fn acquire(&mut self, by: SessionId, id: &str, mode: Mode, seq: u64) -> Vec<String> {
        self.ask(by, id, mode, seq, false, &[])
    }

    pub(super) fn upgrade(&mut self, by: SessionId, id: &str, seq: u64) -> Vec<String> {
        self.ask(by, id, Mode::Write, seq, true, &[])
    }

    pub(super) fn ask(
        &mut self,
        by: SessionId,
        id: &str,
        mode: Mode,
        seq: u64,
        upgrade: bool,
        owners: &[u64],
    ) -> Vec<String> {
        let owners = owners.iter().map(|&owner| Owner(owner)).collect();
        let (record, seq, epoch) = (record(id), Seq(seq), self.epoch);
        self.say(by, ToServer::Acquire { record, mode, seq, epoch, upgrade, owners })
    }

    pub(super) fn release(&mut self, by: SessionId, id: &str, seq: u64) -> Vec<String> {
        self.say(by, ToServer::Release { record: record(id), seq: Seq(seq), keep: None })
    }

    pub(super) fn downgrade(
        &mut self,
        by: SessionId,
        id: &str,
        seq: u64,
        keep: u64,
    ) -> Vec<String> {
        let keep = Some(Seq(keep));
        self.say(by, ToServer::Release { record: record(id), seq: Seq(seq), keep })
    }

    pub(super) fn cancel(&mut self, by: SessionId, id: &str, seq: u64) -> Vec<String> {
        self.say(by, ToServer::Cancel { record: record(id), seq: Seq(seq), keep: None })
    }

    pub(super) fn keep_alive(&mut self, by: SessionId, number: u64) -> Vec<String> {
        self.say(by, ToServer::KeepAlive { number })
    }

    /// Time passes, in one go.
    pub(super) fn wait(&mut self, span: Duration) -> Vec<String> {
        self.now = self.now + span;
        self.input(Input::Tick)
    }

    pub(super) fn state(&self, id: &str) -> table::RecordState {
        self.server.state(&record(id))
    }
}

pub(super) fn name(session: SessionId) -> String {
    match session.0 {
        number @ 1..=26 => char::from(b'A' + number as u8 - 1).to_string(),
        number => number.to_string(),
    }
}

/// A message as one line.
fn line(to: SessionId, message: &ToNode) -> String {
    let said = match message {
        ToNode::Opened { .. } => "opened".into(),
        ToNode::Alive { number, groups } if *groups == GroupSet::ALL => format!("alive {number}"),
        ToNode::Alive { number, groups } => format!("alive {number} in {groups}"),
        ToNode::Moved { groups } => format!("moved {groups}"),
        ToNode::NoSession => "no session".into(),
        ToNode::Serving(term) => format!("serving {}", term.epoch),
        ToNode::Heard { first, whole, .. } => {
            format!("{}heard {first}", if *whole { "" } else { "not " })
        }
        ToNode::Recovered { term, former } if *former == to => format!("recovered {}", term.epoch),
        ToNode::Recovered { term, former } => {
            format!("recovered {} for {}", term.epoch, name(*former))
        }
        ToNode::Unlisted { former, .. } => format!("unlisted {}", name(*former)),
        ToNode::Granted { record, seq, mode, token, give_back } => {
            let give_back =
                give_back.map_or(String::new(), |mode| format!(", give back to {mode}"));
            format!("granted {record} {seq} {mode} {}{give_back}", token.parts())
        }
        ToNode::Queued { record, seq, .. } => format!("queued {record} {seq}"),
        ToNode::HeldBy { record, seq, ahead, .. } => format!("held {record} {seq}: {ahead}"),
        ToNode::Retry { record, seq } => format!("retry {record} {seq}"),
        ToNode::Revoke { record, seq, wanted, .. } => format!("revoke {record} {seq} to {wanted}"),
        ToNode::Keep { record, seq, .. } => format!("keep {record} {seq}"),
        ToNode::Refused { record, seq, why } => format!("refused {record} {seq}: {why:?}"),
        ToNode::Lost { record, seq } => format!("lost {record} {seq}"),
    };
    format!("{} {said}", name(to))
}

/// A refusal is for people too: it must say something.
#[test]
fn every_refusal_has_words() {
    use crate::refusal::*;
    let group = NotServed { group: crate::slot::Group(7) };
    let all = [
        Refusal::Session(SessionRefusal::Unknown),
        Refusal::Session(SessionRefusal::Lease { min: TTL, max: TTL }),
        Refusal::Session(SessionRefusal::TooMany { max: 3 }),
        Refusal::Session(SessionRefusal::TooManyOfUser { max: 3 }),
        Refusal::Session(SessionRefusal::Differs),
        Refusal::Session(SessionRefusal::Resting),
        Refusal::Acquire(AcquireRefusal::NotServed(group)),
        Refusal::Acquire(AcquireRefusal::StaleSeq),
        Refusal::Acquire(AcquireRefusal::UpgradeConflict),
        Refusal::Acquire(AcquireRefusal::NotHeld),
        Refusal::Acquire(AcquireRefusal::Deadlock { cycle: vec![Owner(1), Owner(2)] }),
        Refusal::Acquire(AcquireRefusal::TooManyWaiters { max: 3 }),
        Refusal::Acquire(AcquireRefusal::TooManyClaims { max: 3 }),
        Refusal::Acquire(AcquireRefusal::TooManyRecords { max: 3 }),
        Refusal::Acquire(AcquireRefusal::TooManyAllClaims { max: 3 }),
        Refusal::Acquire(AcquireRefusal::TooManyUserWaiters { max: 3 }),
        Refusal::Acquire(AcquireRefusal::TooManyUserRecords { max: 3 }),
        Refusal::Acquire(AcquireRefusal::TooManyUserClaims { max: 3 }),
        Refusal::Acquire(AcquireRefusal::TooManyOwners { max: 3 }),
        Refusal::Acquire(AcquireRefusal::WrongMode { asked: Mode::Write, granted: Mode::Read }),
        Refusal::Group(group),
        Refusal::Report(ReportRefusal::TooManyOwners { max: 3 }),
        Refusal::Reassert(ReassertRefusal::NotListed),
        Refusal::Reassert(ReassertRefusal::TooManyAllClaims { max: 3 }),
        Refusal::Reassert(ReassertRefusal::WrongEpoch { current: Epoch::NONE }),
        Refusal::Term(TermRefusal::AlreadyServed),
    ];
    for refusal in all {
        let words = refusal.to_string();
        assert!(words.split(' ').count() > 3 && !words.ends_with('.'), "{words}");
    }
    let cycle = AcquireRefusal::Deadlock { cycle: vec![Owner(1), Owner(2)] }.to_string();
    assert_eq!(cycle, "deadlock: owner 1 -> owner 2 -> owner 1");
}
