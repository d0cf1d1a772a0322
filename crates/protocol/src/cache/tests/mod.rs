//! Scripts: at a time, an input, and all that it puts out, in words.

mod bugs;
mod chaos;
mod convert;
mod lease;
mod lines;
mod notes;
mod owners;
mod recovery;
mod stray;
mod wishes;

use std::time::Duration;

use super::{Config, Input, LeaseId, LockCache, Output, PageLimits, WantRefusal};
use crate::bugs::Bugs;
use crate::ids::{Owner, Seq, ServerId, SessionId};
use crate::messages::{Claim, Handoff, LocalWait, Term, ToNode, ToServer};
use crate::mode::Mode::{self, Read, Write};
use crate::record::Record;
use crate::refusal::AcquireRefusal;
use crate::slot::GroupSet;
use crate::stay::{Stay, StayLimits};
use crate::time::Tick;
use crate::token::{Epoch, Ticket, Token};

/// Session 100 is the first; a lease is 9 s, so 8.1 s on the node, with a keep-alive every 3 s.
fn config() -> Config {
    Config {
        first_session: SessionId(100),
        ttl: Duration::from_secs(9),
        handoff: Handoff::Direct,
        label: None,
        resend: Duration::from_millis(500),
        stay: StayLimits::default(),
        records: 4,
        owners: 2,
        pages: PageLimits { claims: 2, bytes: 1 << 14, window: 2 },
        bugs: Bugs::NONE,
    }
}

/// One step: at this millisecond, this input, and what comes out, or the refusal in brackets.
type Step<'a> = (u64, Input, &'a str);

/// Runs a script on a node that has opened session 100 with server 1, which serves all in epoch 1.
fn check(script: &[Step<'_>]) {
    run(&mut node(config()), script);
}

/// Runs a script on a node with nothing.
fn check_new(script: &[Step<'_>]) {
    run(&mut LockCache::new(config()), script);
}

/// Runs a script.
fn run(cache: &mut LockCache, script: &[Step<'_>]) {
    for (at, input, expected) in script {
        let said = step(cache, *at, input.clone());
        let words: Vec<_> =
            expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(said, words, "at {at} ms, {input:?}");
    }
}

/// One input, and what comes out in words.
fn step(cache: &mut LockCache, at: u64, input: Input) -> Vec<String> {
    let now = Tick(at * 1000);
    let mut out = Vec::new();
    let is_tick = input == Input::Tick;
    let mut idle = cache.clone();
    let refused = cache.handle(now, input, &mut out);
    cache.check();
    assert!(!is_tick || cache.next_deadline().is_none_or(|at| at > now), "the tick did not help");
    let mut said: Vec<_> = out.iter().map(words).collect();
    if let Err(why) = refused {
        // Time has passed, and that is all.
        let _ = idle.handle(now, give_back("nobody"), &mut Vec::new());
        assert_eq!(format!("{cache:?}"), format!("{idle:?}"), "refused, and yet changed");
        said.push(format!("[{why:?}]"));
    }
    said
}

/// A node with a session.
fn node(config: Config) -> LockCache {
    let mut cache = LockCache::new(config);
    run(
        &mut cache,
        &[
            (0, route(1), ""),
            (0, want("x", Write), "1/100 open"),
            (0, withdraw("x"), ""),
            (0, opened(1, 100, 1), "lease 1 8100"),
        ],
    );
    cache
}

fn record(name: &str) -> Record {
    Record::new("r", name).unwrap()
}

fn words(output: &Output) -> String {
    match output {
        Output::Send { server, session, message } => {
            format!("{}/{} {}", server.0, session.0, sent(message))
        }
        Output::Open { record, mode, token, lease: on } => {
            format!("open {} {mode} {} on {}", name(record), token.parts(), lease(*on))
        }
        Output::Rests { record, lease: on } => format!("rests {} on {}", name(record), lease(*on)),
        Output::Drain { record, to, stay } => {
            let to = to.map_or(String::new(), |mode| format!(" to {mode}"));
            let until = stay.until().0 / 1000;
            let stay = if *stay == Stay::over() { "now".into() } else { format!("by {until}") };
            format!("drain {}{to} {stay}", name(record))
        }
        Output::Lost { record } => format!("lost {}", name(record)),
        Output::Refused { record, why } => format!("refused {} {why:?}", name(record)),
        Output::Lease { lease: of, until } => format!("lease {} {}", lease(*of), until.0 / 1000),
        Output::Locate { groups } => format!("locate {groups}"),
        Output::HeldBy { record, ahead, holders } => {
            let holders: Vec<_> = holders.iter().map(|it| it.label.as_str()).collect();
            let ahead = ahead.map_or("?".to_owned(), |ahead| ahead.to_string());
            format!("held {} by {holders:?}, {ahead} before", name(record))
        }
    }
}

/// The number of a server, or `end` and a number.
fn lease(lease: LeaseId) -> String {
    match lease {
        LeaseId::Server(server) => server.0.to_string(),
        LeaseId::Ending(number) => format!("end {number}"),
    }
}

fn sent(message: &ToServer) -> String {
    match message {
        ToServer::Open { .. } => "open".into(),
        ToServer::KeepAlive { number } => format!("alive {number}"),
        ToServer::Close => "close".into(),
        ToServer::Label { label } => format!("label {label}"),
        ToServer::Note { record, seq, note } => format!("note {} {seq} {note}", name(record)),
        ToServer::WhoHolds { record, seq } => format!("who holds {} {seq}", name(record)),
        ToServer::Acquire { record, mode, seq, epoch, upgrade, owners } => {
            let upgrade = if *upgrade { " upgrade" } else { "" };
            let epoch = epoch.number();
            format!("acquire {} {mode} {seq} in {epoch}{upgrade}{}", name(record), list(owners))
        }
        ToServer::Release { record, seq, keep } => {
            format!("release {} {seq}{}", name(record), kept(*keep))
        }
        ToServer::Cancel { record, seq, keep } => {
            format!("cancel {} {seq}{}", name(record), kept(*keep))
        }
        ToServer::Report { record, seq, number, holders, waits } => {
            let waits: Vec<_> =
                waits.iter().map(|wait| format!(" {}>{}", wait.waiter.0, wait.holder.0)).collect();
            let (record, waits) = (name(record), waits.concat());
            format!("report {record} {seq} no {number}{}{waits}", list(holders))
        }
        ToServer::Reassert { record, epoch, former, seq, mode, claim } => {
            let claim = match claim {
                Claim::Held { token } => format!("held {}", token.parts()),
                Claim::Waiting { ticket, upgrade, owners } => {
                    let upgrade = if *upgrade { " upgrade" } else { "" };
                    let ticket = ticket.map_or("-".into(), |ticket| ticket.parts());
                    format!("waits {ticket}{upgrade}{}", list(owners))
                }
            };
            let (record, epoch, former) = (name(record), epoch.number(), former.0);
            format!("reassert {record} {mode} {seq} in {epoch} for {former} {claim}")
        }
        ToServer::Page { epoch, former, first, last, count, .. } => {
            let (epoch, former) = (epoch.number(), former.0);
            format!("page {first}-{last} in {epoch} for {former}: {count}")
        }
        ToServer::Nothing { groups, epoch } => format!("nothing {groups} in {}", epoch.number()),
        ToServer::Reasserted { groups, epoch, former, count, .. } => {
            let (epoch, former) = (epoch.number(), former.0);
            format!("reasserted {groups} in {epoch} for {former}: {count}")
        }
    }
}

fn name(record: &Record) -> &str {
    std::str::from_utf8(record.id()).unwrap()
}

fn list(owners: &[Owner]) -> String {
    owners.iter().map(|owner| format!(" o{}", owner.0)).collect()
}

fn kept(keep: Option<Seq>) -> String {
    keep.map_or(String::new(), |keep| format!(" keep {keep}"))
}

fn route(server: u32) -> Input {
    Input::Route { groups: GroupSet::ALL, server: ServerId(server) }
}

fn want(name: &str, mode: Mode) -> Input {
    Input::Want { record: record(name), mode, upgrade: false, owners: Vec::new() }
}

fn want_for(name: &str, mode: Mode, owners: &[u64]) -> Input {
    let owners = owners.iter().copied().map(Owner).collect();
    Input::Want { record: record(name), mode, upgrade: false, owners }
}

fn upgrade(name: &str) -> Input {
    Input::Want { record: record(name), mode: Write, upgrade: true, owners: Vec::new() }
}

fn withdraw(name: &str) -> Input {
    Input::Withdraw { record: record(name) }
}

fn drained(name: &str) -> Input {
    Input::Drained { record: record(name) }
}

fn downgraded(name: &str) -> Input {
    Input::Downgraded { record: record(name) }
}

fn give_back(name: &str) -> Input {
    Input::GiveBack { record: record(name) }
}

fn busy(name: &str, holders: &[u64], waits: &[(u64, u64)]) -> Input {
    let wait = |&(waiter, holder)| LocalWait { waiter: Owner(waiter), holder: Owner(holder) };
    let holders = holders.iter().copied().map(Owner).collect();
    Input::Busy { record: record(name), holders, waits: waits.iter().map(wait).collect() }
}

/// From a server, to a session of the node.
fn from(server: u32, session: u64, message: ToNode) -> Input {
    Input::Message { server: ServerId(server), session: SessionId(session), message }
}

/// From server 1, to the first session.
fn says(message: ToNode) -> Input {
    from(1, 100, message)
}

fn term(epoch: u32) -> Term {
    Term { groups: GroupSet::ALL, epoch: Epoch::new(epoch).unwrap() }
}

fn opened(server: u32, session: u64, epoch: u32) -> Input {
    from(server, session, ToNode::Opened { terms: vec![term(epoch)] })
}

fn serving(epoch: u32) -> Input {
    says(ToNode::Serving(term(epoch)))
}

fn recovered(epoch: u32) -> Input {
    says(ToNode::Recovered { term: term(epoch), former: SessionId(100) })
}

/// An answer to a keep-alive, for all groups.
fn alive(number: u64) -> Input {
    alive_in(number, GroupSet::ALL)
}

fn alive_in(number: u64, groups: GroupSet) -> Input {
    says(ToNode::Alive { number, groups })
}

fn token(epoch: u32, count: u64) -> Token {
    Token::new(Epoch::new(epoch).unwrap(), count).unwrap()
}

fn grant(name: &str, seq: u64, mode: Mode, token: Token, give_back: Option<Mode>) -> ToNode {
    ToNode::Granted { record: record(name), seq: Seq(seq), mode, token, give_back }
}

/// With the token 1.7.
fn granted(name: &str, seq: u64, mode: Mode) -> Input {
    says(grant(name, seq, mode, token(1, 7), None))
}

fn lent(name: &str, seq: u64, mode: Mode, give_back: Mode) -> Input {
    says(grant(name, seq, mode, token(1, 7), Some(give_back)))
}

/// With the ticket 1.3.
fn queued(name: &str, seq: u64) -> Input {
    let ticket = Ticket::new(Epoch::new(1).unwrap(), 3).unwrap();
    says(ToNode::Queued { record: record(name), seq: Seq(seq), ticket, ahead: 0 })
}

fn retry(name: &str, seq: u64) -> Input {
    says(ToNode::Retry { record: record(name), seq: Seq(seq) })
}

fn revoke(name: &str, seq: u64, wanted: Mode) -> Input {
    revoke_at(1, name, seq, wanted)
}

/// Sent with the ticket 1.`at`.
fn revoke_at(at: u64, name: &str, seq: u64, wanted: Mode) -> Input {
    revoke_in(1, at, name, seq, wanted)
}

/// Sent with the ticket `epoch`.`at`.
fn revoke_in(epoch: u32, at: u64, name: &str, seq: u64, wanted: Mode) -> Input {
    let at = Ticket::new(Epoch::new(epoch).unwrap(), at).unwrap();
    says(ToNode::Revoke { record: record(name), seq: Seq(seq), wanted, at })
}

/// Sent with the ticket 1.`at`.
fn keep_at(at: u64, name: &str, seq: u64) -> Input {
    let at = Ticket::new(Epoch::new(1).unwrap(), at).unwrap();
    says(ToNode::Keep { record: record(name), seq: Seq(seq), at })
}

fn refused(name: &str, seq: u64, why: AcquireRefusal) -> Input {
    says(ToNode::Refused { record: record(name), seq: Seq(seq), why })
}

fn lost(name: &str, seq: u64) -> Input {
    says(ToNode::Lost { record: record(name), seq: Seq(seq) })
}
