//! What has been tried: faults, rows of the state tables, kinds of messages. A simulator that never
//! crashes a server in its grace period says nothing about grace periods, so each of these must
//! have happened.

use std::fmt;

use lockspan_protocol::server::table::RecordState;
use lockspan_protocol::{GroupSet, ToNode, ToServer};

macro_rules! hits {
    ($($(#[$doc:meta])* $name:ident $words:literal,)*) => {
        /// Something that a run should have seen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Hit { $($(#[$doc])* $name,)* }

        const WORDS: &[&str] = &[$($words,)*];
    };
}

hits! {
    // Faults.
    Loss "fault: message lost",
    Double "fault: message doubled",
    Reorder "fault: message overtaken",
    Cut "fault: node and server cut off",
    OneWay "fault: cut off one way",
    StoreCut "fault: server and store cut off",
    NodeCrash "fault: node crashed",
    NodeCrashHolding "fault: node crashed with a guard",
    NodePause "fault: node paused",
    PausePastLease "fault: node paused past its lease with a guard",
    ServerCrash "fault: server crashed",
    CrashInGrace "fault: server crashed while it recovered",
    ServerPause "fault: server paused",
    PausePastOwnLease "fault: server paused past its own lease",
    StoreLost "fault: crash lost a write under way",
    StoredUnseen "fault: crash between a write and its answer",
    FailOver "fault: groups changed their owner",
    Moved "fault: groups moved between living servers",
    MovedInGrace "fault: groups moved while their server recovered",
    Drained "fault: server asked to leave all groups",
    Departed "fault: server left all groups and departed",
    LateAnswer "fault: answer to re-assertions held up while its groups move",
    Joined "fault: server joined later",
    Suspected "fault: groups of a living server given to others",
    Unaware "fault: living server suspected, and a node reaches only that",
    SeveralHeirs "fault: groups of one server went to several",
    Retired "fault: operator ended a session",
    Rollback "fault: storage went back in time",
    DriftWithin "fault: clocks drift within the margin",
    DriftBeyond "fault: clocks drift beyond the margin",
    // What they lead to.
    LeaseLapsed "effect: lease of a session lapsed on its node",
    SessionEnded "effect: session ended on a server",
    GuardLost "effect: guard reported lost",
    FenceRefused "effect: fence refused a late write",
    NoSession "effect: node told that its session is gone",
    Capped "effect: grant lived out a lease that was extended for others",
    Settled "effect: listed session forgotten in the groups of a hand-over",
    StrangerHolds "stranger: holds a record",
    StrangerMoved "stranger: re-asserted to a new owner, and went on there",
    StrangerClosedOld "stranger: closed its session with the old owner after that",
    StrangerTooEarly "stranger: told to wait until the old owner has stopped",
    StrangerEnded "stranger: ended what it held when its group moved",
    StrangerLost "stranger: lived out its lease",
    Rested "effect: server answered nobody past its own lease",
    ListedLast "effect: term began with a session that is not to be extended",
    Withdrawn "effect: wait given up",
    GivenBack "effect: idle record given back",
    Returned "effect: idle record given back at once",
    Deadlock "effect: deadlock found by a server",
    LocalDeadlock "effect: deadlock found on a node",
    UpgradeDone "effect: read upgraded to a write",
    UpgradeRefused "effect: second upgrader refused by a server",
    StaleSeq "effect: acquire refused as stale",
    Behind "effect: server noticed that its storage went back",
    // States of a record on the server.
    Free "server: Free",
    Shared "server: Shared",
    SharedWanted "server: Shared, wanted",
    Alone "server: Alone",
    AloneWanted "server: Alone, wanted",
    Reserved "server: Reserved",
    Recovering "server: Recovering",
    // States of a record on the node.
    NodeAbsent "node: Absent",
    NodeAsking "node: Asking",
    NodeOpen "node: Open",
    NodeDraining "node: Draining",
    NodeDowngrading "node: Draining, to read",
    NodeUpgrading "node: Upgrading",
    NodeUpgradingDraining "node: Upgrading, draining",
    NodeTrade "node: trade of a cached read",
    // Messages that arrived at a server.
    Open "to server: Open",
    KeepAlive "to server: KeepAlive",
    Close "to server: Close",
    Acquire "to server: Acquire",
    AcquireUpgrade "to server: Acquire (upgrade)",
    Release "to server: Release",
    ReleaseKeep "to server: Release (keep)",
    Cancel "to server: Cancel",
    CancelKeep "to server: Cancel (keep)",
    Report "to server: Report",
    Reassert "to server: Reassert",
    Page "to server: Page",
    Nothing "to server: Nothing",
    Reasserted "to server: Reasserted",
    // Messages that arrived at a node.
    Opened "to node: Opened",
    Alive "to node: Alive",
    AliveInSome "to node: Alive (in some groups)",
    ToldMoved "to node: Moved",
    Serving "to node: Serving",
    HeardWhole "to node: Heard (whole)",
    HeardPart "to node: Heard (not whole)",
    Recovered "to node: Recovered",
    Granted "to node: Granted",
    GrantedGiveBack "to node: Granted (give back)",
    Queued "to node: Queued",
    Retry "to node: Retry",
    Revoke "to node: Revoke",
    Keep "to node: Keep",
    Refused "to node: Refused",
    ToldLost "to node: Lost",
    Unlisted "to node: Unlisted",
}

/// How often each of them was seen.
#[derive(Clone, Debug)]
pub struct Coverage {
    counts: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: vec![0; WORDS.len()] }
    }
}

impl Coverage {
    pub(crate) fn hit(&mut self, hit: Hit) {
        self.counts[hit as usize] += 1;
    }

    pub(crate) fn said_to_server(&mut self, message: &ToServer) {
        self.hit(match message {
            ToServer::Open { .. } => Hit::Open,
            ToServer::KeepAlive { .. } => Hit::KeepAlive,
            ToServer::Close => Hit::Close,
            ToServer::Acquire { upgrade: true, .. } => Hit::AcquireUpgrade,
            ToServer::Acquire { .. } => Hit::Acquire,
            ToServer::Release { keep: Some(_), .. } => Hit::ReleaseKeep,
            ToServer::Release { .. } => Hit::Release,
            ToServer::Cancel { keep: Some(_), .. } => Hit::CancelKeep,
            ToServer::Cancel { .. } => Hit::Cancel,
            ToServer::Report { .. } => Hit::Report,
            ToServer::Reassert { .. } => Hit::Reassert,
            ToServer::Page { .. } => Hit::Page,
            ToServer::Nothing { .. } => Hit::Nothing,
            ToServer::Reasserted { .. } => Hit::Reasserted,
            _ => return,
        });
    }

    pub(crate) fn said_to_node(&mut self, message: &ToNode) {
        self.hit(match message {
            ToNode::Opened { .. } => Hit::Opened,
            ToNode::Alive { groups, .. } if *groups == GroupSet::ALL => Hit::Alive,
            ToNode::Alive { .. } => Hit::AliveInSome,
            ToNode::NoSession => Hit::NoSession,
            ToNode::Serving(_) => Hit::Serving,
            ToNode::Heard { whole: true, .. } => Hit::HeardWhole,
            ToNode::Heard { .. } => Hit::HeardPart,
            ToNode::Recovered { .. } => Hit::Recovered,
            ToNode::Moved { .. } => Hit::ToldMoved,
            ToNode::Granted { give_back: Some(_), .. } => Hit::GrantedGiveBack,
            ToNode::Granted { .. } => Hit::Granted,
            ToNode::Queued { .. } => Hit::Queued,
            ToNode::Retry { .. } => Hit::Retry,
            ToNode::Revoke { .. } => Hit::Revoke,
            ToNode::Keep { .. } => Hit::Keep,
            ToNode::Refused { .. } => Hit::Refused,
            ToNode::Lost { .. } => Hit::ToldLost,
            ToNode::Unlisted { .. } => Hit::Unlisted,
            _ => return,
        });
    }

    pub(crate) fn record(&mut self, state: RecordState) {
        self.hit(match state {
            RecordState::Free => Hit::Free,
            RecordState::Shared => Hit::Shared,
            RecordState::SharedWanted => Hit::SharedWanted,
            RecordState::Alone => Hit::Alone,
            RecordState::AloneWanted => Hit::AloneWanted,
            RecordState::Reserved => Hit::Reserved,
            RecordState::Recovering => Hit::Recovering,
        });
    }

    /// Adds what another run has seen.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// What has never happened.
    pub fn missing(&self) -> Vec<&'static str> {
        let seen = self.counts.iter().zip(WORDS);
        seen.filter(|(count, _)| **count == 0).map(|(_, words)| *words).collect()
    }
}

impl fmt::Display for Coverage {
    /// A line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, words) in self.counts.iter().zip(WORDS) {
            writeln!(f, "  {count:>12}  {words}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_hit_is_not_missing() {
        let (mut all, mut one) = (Coverage::default(), Coverage::default());
        assert_eq!(all.missing().len(), WORDS.len());
        one.hit(Hit::Loss);
        all.add(&one);
        assert!(!all.missing().contains(&"fault: message lost"));
        assert_eq!(WORDS[Hit::Unlisted as usize], "to node: Unlisted");
    }
}
