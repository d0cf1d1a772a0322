//! Names of machines, and the messages between them in a few words.

use std::fmt;

use lockspan_protocol::{Claim, GroupSet, Mode, Record, Term, ToNode, ToServer};

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Machine {
    /// A node, by number.
    Node(u8),
    /// A server, by number.
    Server(u8),
    /// A client that is no node, by number.
    Stranger(u8),
    /// The store of a cluster.
    Store,
}

impl Machine {
    /// A short name for diagrams.
    pub(crate) fn id(self) -> String {
        match self {
            Self::Node(number) => format!("n{number}"),
            Self::Server(number) => format!("s{number}"),
            Self::Stranger(number) => format!("x{number}"),
            Self::Store => "store".to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(number) => write!(f, "node {number}"),
            Self::Server(number) => write!(f, "server {number}"),
            Self::Stranger(number) => write!(f, "stranger {number}"),
            Self::Store => f.write_str("store"),
        }
    }
}

/// The record with this number.
pub(crate) fn record(number: u8) -> Record {
    Record::new("r", number.to_string()).expect("a short name with a datatype is a record's")
}

/// The number of a record that [`record`] made.
pub(crate) fn number(record: &Record) -> u8 {
    let digits = record.id().iter();
    digits.fold(0, |number, digit| number * 10 + (digit - b'0'))
}

/// A message to a server.
pub(crate) fn to_server(message: &ToServer) -> String {
    match message {
        ToServer::Open { ttl, handoff } => format!("open ttl {ttl:?} {handoff:?}"),
        ToServer::KeepAlive { number } => format!("keep alive {number}"),
        ToServer::Close => "close".to_owned(),
        ToServer::Acquire { record, mode, seq, epoch, upgrade, owners } => {
            let how = if *upgrade { "upgrade" } else { "acquire" };
            let owners = if owners.is_empty() { String::new() } else { format!(" {owners:?}") };
            format!("{how} {record} {mode} {seq} ({epoch}){owners}")
        }
        ToServer::Release { record, seq, keep } => format!("release {record} {seq}{}", kept(*keep)),
        ToServer::Cancel { record, seq, keep } => format!("cancel {record} {seq}{}", kept(*keep)),
        ToServer::Report { record, seq, number, holders, waits } => {
            let waits: Vec<_> = waits.iter().map(|w| (w.waiter.0, w.holder.0)).collect();
            format!("report {record} {seq} no. {number}: {holders:?}, waits {waits:?}")
        }
        ToServer::Reassert { record, epoch, former, seq, mode, claim } => {
            let claim = match claim {
                Claim::Held { token } => format!("held, token {token}"),
                Claim::Waiting { ticket, upgrade, .. } => {
                    let place = ticket.map_or("none".to_owned(), |ticket| ticket.to_string());
                    format!("waiting, ticket {place}, upgrade {upgrade}")
                }
            };
            format!("reassert {record} {mode} {seq} as {former} ({epoch}): {claim}")
        }
        ToServer::Page { groups: of, epoch, former, first, last, count, .. } => {
            let groups = groups(*of);
            format!("page {first} to {last} has {count} of {groups} as {former} ({epoch})")
        }
        ToServer::Nothing { groups: of, epoch } => format!("nothing in {} ({epoch})", groups(*of)),
        ToServer::Reasserted { groups: of, epoch, former, count, .. } => {
            let groups = groups(*of);
            format!("reasserted {count} of {groups} as {former} ({epoch})")
        }
        other => format!("{other:?}"),
    }
}

/// A message to a node.
pub(crate) fn to_node(message: &ToNode) -> String {
    match message {
        ToNode::Opened { terms } => {
            let terms: Vec<_> = terms.iter().map(term).collect();
            format!("opened, serving {}", terms.join("; "))
        }
        ToNode::Alive { number, groups: named } if *named == GroupSet::ALL => {
            format!("alive {number}")
        }
        ToNode::Alive { number, groups: named } => format!("alive {number} in {}", groups(*named)),
        ToNode::Moved { groups: left } => format!("moved {}", groups(*left)),
        ToNode::NoSession => "no session".to_owned(),
        ToNode::Serving(served) => format!("serving {}", term(served)),
        ToNode::Heard { term: of, former, first, whole } => {
            let what = if *whole { "heard" } else { "not heard" };
            format!("{what}: page {first} of {former}, {}", term(of))
        }
        ToNode::Recovered { term: served, former } => {
            format!("recovered {} as {former}", term(served))
        }
        ToNode::Granted { record, seq, mode, token, give_back } => {
            let back =
                give_back.map_or(String::new(), |mode: Mode| format!(", give back for {mode}"));
            format!("granted {record} {mode} {seq} token {token}{back}")
        }
        ToNode::Queued { record, seq, ticket, ahead } => {
            format!("queued {record} {seq} ticket {ticket}, {ahead} before")
        }
        ToNode::Retry { record, seq } => format!("retry {record} {seq}"),
        ToNode::Revoke { record, seq, wanted, .. } => {
            format!("revoke {record} {seq} for {wanted}")
        }
        ToNode::Keep { record, seq, .. } => format!("keep {record} {seq}"),
        ToNode::Refused { record, seq, why } => format!("refused {record} {seq}: {why}"),
        ToNode::Lost { record, seq } => format!("lost {record} {seq}"),
        ToNode::Unlisted { term: of, former } => format!("{former} is not listed, {}", term(of)),
        other => format!("{other:?}"),
    }
}

fn kept(keep: Option<lockspan_protocol::Seq>) -> String {
    keep.map_or(String::new(), |seq| format!(", reads on as {seq}"))
}

fn term(term: &Term) -> String {
    format!("{} of {}", groups(term.groups), term.epoch)
}

/// Groups by their numbers, unless that is too long to read.
pub(crate) fn groups(groups: GroupSet) -> String {
    let ranges = groups.to_string();
    if ranges.len() > 24 { format!("{} groups", groups.iter().count()) } else { ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_its_number() {
        for at in [0, 7, 10, 255] {
            assert_eq!(number(&record(at)), at);
        }
    }
}
