//! What a step costs, in claims that are looked at or told something: nobody can make it grow with
//! the square of what they have, and no single step does more than a bounded number of things.

use std::collections::BTreeMap;

use super::*;
use crate::limits::LAPSES_MAX;
use crate::messages::{Claim, Term};
use crate::mode::Mode::{Read, Write};
use crate::refusal::AcquireRefusal;
use crate::server::table::{LockTable, TableInput, TableOutput};
use crate::token::{Ticket, Token};

/// A table by itself, with many sessions.
struct Table {
    table: LockTable,
    now: Tick,
    /// What each session was told last.
    told: BTreeMap<SessionId, Vec<ToNode>>,
    /// How much was sent in the largest step.
    largest: usize,
}

fn epoch(number: u32) -> Epoch {
    Epoch::new(number).unwrap()
}

impl Table {
    /// In this epoch, and these sessions have yet to re-assert.
    fn begin(limits: Limits, number: u32, listed: Vec<SessionId>) -> Self {
        let table = LockTable::new(limits, 1);
        let mut table = Self { table, now: Tick(1), told: BTreeMap::new(), largest: 0 };
        let term = Term { groups: GroupSet::ALL, epoch: epoch(number) };
        for &session in &listed {
            table.step(TableInput::Began { session, handoff: Handoff::Direct, user: None });
        }
        table.step(TableInput::Begin { term, listed, formers: false });
        table
    }

    fn new() -> Self {
        Self::begin(Limits::default(), 1, Vec::new())
    }

    fn step(&mut self, input: TableInput) {
        let mut out = Vec::new();
        self.table.handle(self.now, input, &mut out).unwrap();
        self.largest = self.largest.max(out.len());
        for said in out {
            if let TableOutput::Send { session, message } = said {
                self.told.entry(session).or_default().push(message);
            }
        }
    }

    /// Opens sessions with the numbers from 1 on.
    fn open(&mut self, count: u64, handoff: Handoff) {
        for number in 1..=count {
            self.step(TableInput::Began { session: SessionId(number), handoff, user: None });
        }
    }

    fn say(&mut self, session: u64, message: ToServer) {
        self.step(TableInput::Message { session: SessionId(session), message });
    }

    fn acquire(&mut self, session: u64, name: &str, mode: Mode, seq: u64) {
        let (record, seq, epoch) = (record(name), Seq(seq), epoch(1));
        let (upgrade, owners) = (false, Vec::new());
        self.say(session, ToServer::Acquire { record, mode, seq, epoch, upgrade, owners });
    }

    fn release(&mut self, session: u64, name: &str, seq: u64, keep: Option<u64>) {
        let (record, seq, keep) = (record(name), Seq(seq), keep.map(Seq));
        self.say(session, ToServer::Release { record, seq, keep });
    }

    fn reassert(&mut self, session: u64, name: &str, seq: u64, mode: Mode, claim: Claim) {
        let (record, epoch, former) = (record(name), epoch(2), SessionId(session));
        let seq = Seq(seq);
        self.say(session, ToServer::Reassert { record, epoch, former, seq, mode, claim });
    }

    /// Ticks until nothing is due any more within this time.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(deadline) = self.table.next_deadline().filter(|&at| at <= until) {
            assert!(deadline > self.now, "a tick does not move the deadline");
            self.now = deadline;
            self.step(TableInput::Tick);
        }
        self.now = until;
    }

    /// Ticks until nothing is left to do at once.
    fn settle(&mut self) {
        self.wait(Duration::from_millis(20));
    }

    /// How many sessions were told such a message, and all of it is forgotten.
    fn count(&mut self, is_it: impl Fn(&ToNode) -> bool) -> usize {
        let told = std::mem::take(&mut self.told);
        told.values().filter(|all| all.iter().any(&is_it)).count()
    }

    /// Whether this session was granted something since that was counted last.
    fn is_granted(&self, session: u64) -> bool {
        self.told.get(&SessionId(session)).is_some_and(|all| all.iter().any(is_granted))
    }

    /// How many such messages there were, and all of it is forgotten.
    fn counts(&mut self, is_it: impl Fn(&ToNode) -> bool) -> usize {
        let told = std::mem::take(&mut self.told);
        told.values().flatten().filter(|one| is_it(one)).count()
    }
}

fn is_granted(message: &ToNode) -> bool {
    matches!(message, ToNode::Granted { .. })
}

fn is_revoke(message: &ToNode) -> bool {
    matches!(message, ToNode::Revoke { .. })
}

fn is_retry(message: &ToNode) -> bool {
    matches!(message, ToNode::Retry { .. })
}

fn is_stale(message: &ToNode) -> bool {
    matches!(message, ToNode::Refused { why: AcquireRefusal::StaleSeq, .. })
}

/// Of so many, each thing costs no more than a few visits, and none more because there are others.
fn is_linear(visits: impl Fn(u64) -> u64, per_claim: u64) {
    let (few, many) = (visits(400), visits(1_600));
    assert!(many <= 1_600 * per_claim, "{many} visits for 1,600");
    assert!(many <= 5 * few, "{few} visits for 400, {many} for 1,600");
}

#[test]
fn service_f71_reservations_that_nobody_takes_up_cost_as_much_as_they_are() {
    is_linear(
        |number| {
            let mut t = Table::new();
            t.open(number, Handoff::Retry);
            t.step(TableInput::Began {
                session: SessionId(9_999_999),
                handoff: Handoff::Direct,
                user: None,
            });
            t.acquire(9_999_999, "x", Write, 1);
            for session in 1..=number {
                t.acquire(session, "x", Read, 1);
            }
            t.release(9_999_999, "x", 1, None);
            t.settle();
            assert_eq!(t.count(is_retry), number as usize);
            let before = t.table.visited();
            t.wait(Duration::from_secs(30));
            t.table.check();
            assert_eq!(t.table.claims(), 0, "who never answers leaves the line");
            assert_eq!(t.count(is_stale), number as usize, "and is told so");
            t.table.visited() - before
        },
        u64::from(LAPSES_MAX) * 4,
    );
}

#[test]
fn service_f71_who_does_not_answer_three_times_in_a_row_leaves_the_line_and_may_come_again() {
    let mut s = Scene::new(Handoff::Retry);
    let reserve = Limits::default().reserve;
    s.acquire(A, "x", Write, 1);
    s.acquire(B, "x", Write, 1);
    assert_eq!(s.release(A, "x", 1), ["B retry r:x #1"]);
    for _ in 1..LAPSES_MAX {
        assert_eq!(s.wait(reserve), ["B retry r:x #1"]);
    }
    assert_eq!(s.wait(reserve), ["B refused r:x #1: StaleSeq"]);
    assert_eq!(s.server.claims(), 0);
    assert_eq!(s.acquire(B, "x", Write, 1), ["B refused r:x #1: StaleSeq"], "if that was lost");
    assert_eq!(s.acquire(B, "x", Write, 2), ["B granted r:x #2 write 1.2"]);

    // Who answers in between stays: the lapses are counted in a row.
    s.acquire(C, "x", Write, 1);
    s.acquire(D, "x", Write, 1);
    assert_eq!(s.release(B, "x", 2), ["C retry r:x #1"]);
    assert_eq!(s.wait(reserve), ["D retry r:x #1"]);
    assert_eq!(s.wait(reserve), ["C retry r:x #1"]);
    assert_eq!(s.wait(reserve), ["D retry r:x #1"]);
    assert_eq!(s.acquire(C, "x", Write, 1), ["C queued r:x #1"]);
    assert_eq!(s.wait(reserve), ["C retry r:x #1"]);
    assert_eq!(s.wait(reserve), ["D retry r:x #1"], "that was the first in a row of C");
    assert_eq!(s.wait(reserve), ["D refused r:x #1: StaleSeq", "C retry r:x #1"]);
}

#[test]
fn service_f72_a_session_with_many_records_ends_bit_by_bit() {
    let mut t = Table::new();
    t.open(3, Handoff::Direct);
    let portion = Limits::default().portion;
    let number = 4 * portion as u64;
    for id in 1..=number {
        t.acquire(1, &id.to_string(), Write, id);
    }
    // Another one waits for the first and the last of them, and the one that ends for a third.
    t.acquire(3, "other", Write, 1);
    t.acquire(2, "1", Write, 1);
    t.acquire(2, &number.to_string(), Write, 2);
    t.acquire(1, "other", Write, number + 1);
    assert_eq!(t.table.held_by(SessionId(1)), number);
    let before = t.table.claims();
    (t.told, t.largest) = (BTreeMap::new(), 0);
    t.step(TableInput::Ended { session: SessionId(1) });
    let ended = before - t.table.claims();
    assert!(ended <= portion, "{ended} claims have ended in one step");
    t.table.check();
    // It is over for all that: it says nothing, and what it waited for goes to nobody in its place.
    let record = record("new");
    let (seq, epoch, mode) = (Seq(number + 2), epoch(1), Write);
    let (upgrade, owners) = (false, Vec::new());
    let message = ToServer::Acquire { record, mode, seq, epoch, upgrade, owners };
    let input = TableInput::Message { session: SessionId(1), message };
    t.table.handle(t.now, input, &mut Vec::new()).expect_err("there is no such session");
    t.release(3, "other", 1, None);
    assert_eq!(t.table.state(&super::record("other")), table::RecordState::Free);
    // Others go on in between.
    t.acquire(3, "free", Write, 2);
    assert_eq!(t.count(is_granted), 2, "the first of its records, and the free one");
    t.settle();
    t.table.check();
    assert_eq!(t.count(is_granted), 1, "the last of its records");
    assert_eq!((t.table.claims(), t.table.sessions()), (3, 2));
    assert!(t.largest <= 2 * portion, "{} messages in one step", t.largest);
}

/// A writer in line is over, and its claim is not ended yet: the readers behind it are next.
#[test]
fn service_f72_readers_behind_a_writer_whose_session_is_over_are_not_forgotten() {
    let mut t = Table::new();
    t.open(3, Handoff::Direct);
    let number = 2 * Limits::default().portion as u64;
    for id in 1..=number {
        t.acquire(1, &id.to_string(), Write, id);
    }
    t.acquire(2, "x", Read, 1);
    t.acquire(1, "x", Write, number + 1);
    t.acquire(3, "x", Read, 1);
    assert!(!t.is_granted(3), "it waits behind the writer");
    t.step(TableInput::Ended { session: SessionId(1) });
    t.release(2, "x", 1, None);
    assert!(t.is_granted(3), "the writer is over");
    t.table.check();
}

/// A record becomes crowded by an acquire that takes the place of an earlier one.
#[test]
fn service_f73_an_acquire_that_replaces_another_is_found_in_a_crowd() {
    for others in 60..70 {
        let mut t = Table::new();
        t.open(200, Handoff::Direct);
        for id in 1..=100 {
            t.acquire(2, &format!("own{id}"), Write, id);
        }
        t.acquire(1, "x", Write, 1);
        for session in 3..3 + others {
            t.acquire(session, "x", Read, 1);
        }
        t.acquire(2, "x", Write, 101);
        t.acquire(2, "x", Read, 102);
        t.table.check();
        t.say(2, ToServer::Cancel { record: record("x"), seq: Seq(102), keep: None });
        t.release(1, "x", 1, None);
        t.settle();
        t.table.check();
        assert_eq!(t.table.held_by(SessionId(2)), 100, "{others} others: it was cancelled");
    }
}

#[test]
fn service_f72_very_many_sessions_that_end_at_once_do_so_bit_by_bit() {
    let mut t = Table::new();
    let number = 2_000;
    t.open(number, Handoff::Direct);
    for session in 1..=number {
        t.acquire(session, "x", Write, 1);
    }
    t.told.clear();
    // The holder first, and then all that wait in one line but the last one.
    for session in 1..number {
        t.step(TableInput::Ended { session: SessionId(session) });
    }
    t.settle();
    t.table.check();
    assert!(t.is_granted(number), "it is the one that is left");
    assert_eq!((t.table.claims(), t.table.sessions()), (1, 1));
}

#[test]
fn service_f72_a_phase_of_very_many_readers_is_granted_bit_by_bit_and_before_the_next_writer() {
    let portion = Limits::default().portion;
    let mut t = Table::new();
    let number = 3 * portion as u64;
    t.open(number + 3, Handoff::Direct);
    let (writer, next, late) = (number + 1, number + 2, number + 3);
    t.acquire(writer, "x", Write, 1);
    for session in 1..=number {
        t.acquire(session, "x", Read, 1);
    }
    t.acquire(next, "x", Write, 1);
    (t.told, t.largest) = (BTreeMap::new(), 0);
    t.release(writer, "x", 1, None);
    assert!(t.largest <= 2 * portion, "{} messages in one step", t.largest);
    t.table.check();
    // One who comes now waits behind the writer; those who have the record may leave.
    t.acquire(late, "x", Read, 1);
    for session in 1..=10 {
        t.release(session, "x", 1, None);
    }
    t.settle();
    t.table.check();
    assert!(!t.is_granted(next), "the phase goes first");
    assert!(!t.is_granted(late), "it came later");
    assert_eq!(t.count(is_granted), number as usize);
    for session in 11..=number {
        t.release(session, "x", 1, None);
    }
    t.settle();
    assert_eq!(t.count(is_granted), 1, "the writer");
    t.release(next, "x", 1, None);
    t.settle();
    assert_eq!(t.count(is_granted), 1, "and who came late");
}

/// An upgrader that comes while a phase is granted bit by bit comes after it, as if it had been
/// granted at once.
#[test]
fn service_f72_a_phase_that_has_begun_goes_before_an_upgrader() {
    let portion = Limits::default().portion;
    let mut t = Table::new();
    let number = 2 * portion as u64;
    t.open(number + 2, Handoff::Direct);
    t.acquire(number + 1, "x", Write, 1);
    for session in 1..=number {
        t.acquire(session, "x", Read, 1);
    }
    t.acquire(number + 2, "x", Write, 1);
    t.told.clear();
    t.release(number + 1, "x", 1, None);
    let (record, seq, epoch) = (record("x"), Seq(2), epoch(1));
    let (mode, upgrade, owners) = (Write, true, Vec::new());
    t.say(1, ToServer::Acquire { record, mode, seq, epoch, upgrade, owners });
    t.settle();
    t.table.check();
    assert_eq!(t.count(is_granted), number as usize, "all that waited when the writer left");
    for session in 2..=number {
        t.release(session, "x", 1, None);
    }
    t.settle();
    assert!(t.is_granted(1), "then the upgrader");
    t.release(1, "x", 2, None);
    t.settle();
    assert!(t.is_granted(number + 2), "and then the writer");
    assert_eq!(t.table.claims(), 1);
}

#[test]
fn service_f72_very_many_holders_are_told_bit_by_bit_what_is_wanted() {
    let portion = Limits::default().portion;
    let mut t = Table::new();
    let number = 3 * portion as u64;
    t.open(number + 1, Handoff::Direct);
    for session in 1..=number {
        t.acquire(session, "x", Read, 1);
    }
    (t.told, t.largest) = (BTreeMap::new(), 0);
    t.acquire(number + 1, "x", Write, 1);
    assert!(t.largest <= 2 * portion, "{} messages in one step", t.largest);
    t.table.check();
    // Some leave while the others are being told, also the next one in the walk.
    for session in [1, 2, 600, portion as u64, portion as u64 + 1, number] {
        t.release(session, "x", 1, None);
    }
    t.settle();
    t.table.check();
    let revoked = t.counts(is_revoke);
    assert!((number as usize - 6..=number as usize).contains(&revoked), "{revoked}, each once");
    // The writer gives up, comes back, and gives up, before the walk is over: all know that.
    t.release(number + 1, "x", 1, None);
    t.acquire(number + 1, "x", Write, 2);
    t.release(number + 1, "x", 2, None);
    t.settle();
    t.table.check();
    let keeps = t.count(|message| matches!(message, ToNode::Keep { .. }));
    assert_eq!(keeps, number as usize - 6);
}

#[test]
fn service_f73_a_message_about_a_crowded_record_looks_at_few_claims() {
    let number = 2_000;
    let mut t = Table::new();
    t.open(number, Handoff::Direct);
    for session in 1..=number {
        t.acquire(session, "x", Read, 1);
        t.acquire(1, &format!("own{session}"), Write, 1 + session);
    }
    t.table.check();
    // Session 1 has as many claims as the record has.
    let before = t.table.visited();
    for round in 0..100 {
        t.release(1, "x", number + 2 * round + 1, None);
        t.acquire(1, "x", Read, number + 2 * round + 2);
    }
    let visits = t.table.visited() - before;
    assert!(visits < 200 * 8, "{visits} visits for 200 messages");
    // So does who reads on under a new number while a writer waits.
    t.acquire(2, "x", Write, 5);
    t.settle();
    let before = t.table.visited();
    for round in 0..100 {
        t.release(3, "x", 10 * round + 9, Some(10 * round + 19));
    }
    let visits = t.table.visited() - before;
    assert!(visits < 100 * 8, "{visits} visits for 100 messages");
    t.table.check();
    for session in 1..=number {
        t.release(session, "x", 1_000_000, None);
    }
    t.settle();
    t.table.check();
}

#[test]
fn service_f73_a_line_that_is_re_asserted_in_any_order_costs_as_much_as_it_is_long() {
    // Back to front, and the second half of each pair first.
    for order in [|at: u64, all: u64| all - at, |at: u64, all: u64| (at * 7_919) % (all + 1)] {
        is_linear(
            |number| {
                let listed: Vec<_> = (1..=number).map(SessionId).collect();
                let mut t = Table::begin(Limits::default(), 2, listed);
                let before = t.table.visited();
                for at in 1..=number {
                    let ticket = Ticket::new(epoch(1), 1 + order(at, number));
                    let (upgrade, owners) = (false, Vec::new());
                    t.reassert(at, "x", 1, Write, Claim::Waiting { ticket, upgrade, owners });
                }
                t.table.check();
                t.table.visited() - before
            },
            8,
        );
    }
}

#[test]
fn service_f73_reads_of_one_record_that_are_re_asserted_look_at_each_other_not() {
    is_linear(
        |number| {
            let listed: Vec<_> = (1..=number).map(SessionId).collect();
            let mut t = Table::begin(Limits::default(), 2, listed);
            let before = t.table.visited();
            for at in 1..=number {
                let token = Token::new(epoch(1), 1 + at).unwrap();
                t.reassert(at, "x", 1, Read, Claim::Held { token });
            }
            // A write that is older than they are is lost, whatever their number.
            for seq in 2..=100 {
                let token = Token::new(epoch(1), 1).unwrap();
                t.reassert(1, "x", seq, Write, Claim::Held { token });
            }
            t.table.check();
            t.table.visited() - before
        },
        8,
    );
}

#[test]
fn service_f74_releases_in_a_grace_are_remembered_of_who_has_yet_to_re_assert_and_not_for_ever() {
    let limits = Limits { claims_per_session: 100, ..Limits::default() };
    let mut t = Table::begin(limits, 2, vec![SessionId(1), SessionId(2)]);
    t.step(TableInput::Began { session: SessionId(3), handoff: Handoff::Direct, user: None });
    for session in [1, 3] {
        for id in 0..1_000 {
            t.release(session, &format!("none{id}"), 5, None);
        }
    }
    assert_eq!(t.table.released(), 100, "as many as it can have had; the other has nothing to say");
    // What was released does not come back.
    let token = Token::new(epoch(1), 1).unwrap();
    t.reassert(1, "none7", 5, Write, Claim::Held { token });
    assert_eq!(t.table.claims(), 0);
    t.reassert(1, "none7", 6, Write, Claim::Held { token });
    assert_eq!(t.table.claims(), 1, "that is a later one");
    let (groups, former) = (GroupSet::ALL, SessionId(1));
    let (epoch, count, sum) = (epoch(2), 2, 11);
    t.say(1, ToServer::Reasserted { groups, epoch, former, count, sum });
    assert_eq!(t.table.released(), 0, "it has re-asserted");
    t.release(1, "more", 9, None);
    t.release(2, "more", 9, None);
    assert_eq!(t.table.released(), 1);
    t.step(TableInput::Ended { session: SessionId(2) });
    assert_eq!(t.table.released(), 0);
}

#[test]
fn service_f74_what_nobody_answers_is_remembered_in_bounds_and_said_ever_less_often() {
    let mut t = Table::new();
    t.open(100, Handoff::Direct);
    for session in 1..=100 {
        for id in 0..300 {
            // A node that goes on reading what it does not have.
            t.release(session, &format!("none{session}-{id}"), 5, Some(6));
        }
    }
    let is_lost = |message: &ToNode| matches!(message, ToNode::Lost { .. });
    assert_eq!(t.counts(is_lost), 30_000, "each is told");
    let kept = t.table.voids();
    assert_eq!(kept, 4_096);
    t.largest = 0;
    let before = t.table.visited();
    t.wait(Duration::from_secs(60));
    let (said, visits) = (t.counts(is_lost), t.table.visited() - before);
    assert!(said <= kept * 12, "{said} messages in a minute");
    assert!(visits <= kept as u64 * 121, "{visits} visits in a minute");
    assert!(t.largest <= 2 * Limits::default().portion, "{} in one step", t.largest);
    // Who answers is told no more.
    for id in 0..300 {
        t.release(100, &format!("none100-{id}"), 6, None);
    }
    assert_eq!(t.table.voids(), kept - 256);
    for session in 1..=100 {
        t.step(TableInput::Ended { session: SessionId(session) });
    }
    assert_eq!((t.table.voids(), t.table.next_deadline()), (0, None));
}

#[test]
fn service_f77_holders_that_never_answer_are_asked_ever_less_often() {
    let mut t = Table::new();
    let number = 1_000;
    t.open(number + 1, Handoff::Direct);
    for session in 1..=number {
        t.acquire(session, "x", Read, 1);
    }
    t.acquire(number + 1, "x", Write, 1);
    t.settle();
    assert_eq!(t.counts(is_revoke), number as usize);
    let before = t.table.visited();
    t.wait(Duration::from_secs(60));
    let (revokes, visits) = (t.counts(is_revoke), t.table.visited() - before);
    assert!(revokes >= 6 * number as usize, "{revokes}: at 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s");
    assert!(revokes <= 8 * number as usize, "{revokes} revokes in a minute");
    assert!(visits <= 8 * number, "{visits} visits in a minute");
    // Somebody comes who has not been asked: it is asked again soon, and the others are not.
    t.release(1, "x", 1, None);
    t.release(number + 1, "x", 1, None);
    t.settle();
    t.acquire(1, "x", Read, 2);
    t.acquire(number + 1, "x", Write, 2);
    t.settle();
    t.told.clear();
    t.wait(Duration::from_millis(600));
    assert_eq!(t.counts(is_revoke), number as usize, "asked anew, so half a second later again");
}

/// Sessions of an earlier run that stay away end one by one, and none looks at the others.
#[test]
fn service_f77_listed_sessions_that_end_do_not_look_at_each_other() {
    is_linear(
        |number| {
            let listed: Vec<_> = (1..=number).map(SessionId).collect();
            let mut t = Table::begin(Limits::default(), 2, listed);
            for session in 1..=number {
                let token = Token::new(epoch(1), session).unwrap();
                t.reassert(session, &session.to_string(), 1, Write, Claim::Held { token });
            }
            let before = t.table.visited();
            for session in 1..=number {
                t.step(TableInput::Ended { session: SessionId(session) });
            }
            assert_eq!((t.table.claims(), t.table.is_recovering()), (0, false));
            t.table.visited() - before
        },
        4,
    );
}

/// The end of a grace schedules all records with a line, bit by bit.
#[test]
fn service_f72_the_end_of_a_grace_is_no_long_step() {
    let portion = Limits::default().portion;
    let mut t = Table::begin(Limits::default(), 2, vec![SessionId(1), SessionId(2)]);
    let number = 3 * portion as u64;
    for id in 1..=number {
        let (ticket, upgrade, owners) = (None, false, Vec::new());
        t.reassert(1, &id.to_string(), id, Write, Claim::Waiting { ticket, upgrade, owners });
    }
    let (groups, former, epoch) = (GroupSet::ALL, SessionId(1), epoch(2));
    let sum = number * (number + 1) / 2;
    let count = number as u32;
    t.say(1, ToServer::Reasserted { groups, epoch, former, count, sum });
    (t.told, t.largest) = (BTreeMap::new(), 0);
    t.step(TableInput::Ended { session: SessionId(2) });
    assert!(!t.table.is_recovering());
    t.table.check();
    t.settle();
    t.table.check();
    assert!(t.largest <= 2 * portion, "{} messages in one step", t.largest);
    assert_eq!(t.counts(is_granted), number as usize);
}

/// What a session had re-asserted for a former one is still held while it ends, claim by claim.
/// The session that speaks for the former one after it gets the same grants all the same.
#[test]
fn service_f73_a_session_that_is_still_ending_excludes_nobody_from_the_same_grant() {
    let limits = Limits { portion: 1, ..Limits::default() };
    let mut t = Table::begin(limits, 2, Vec::new());
    t.open(2, Handoff::Direct);
    let former = SessionId(9);
    let term = Term { groups: GroupSet::ALL, epoch: epoch(3) };
    t.step(TableInput::Leave { groups: GroupSet::ALL });
    t.step(TableInput::Begin { term, listed: vec![former], formers: true });
    let reassert = |t: &mut Table, session: u64, number: u64| {
        let token = Token::new(epoch(2), 1).unwrap();
        let (record, seq) = (record(&number.to_string()), Seq(number));
        let (mode, claim) = (Write, Claim::Held { token });
        let message = ToServer::Reassert { record, epoch: epoch(3), former, seq, mode, claim };
        t.say(session, message);
    };
    (1..=4).for_each(|number| reassert(&mut t, 1, number));
    t.step(TableInput::Ended { session: SessionId(1) });
    assert!(t.table.claims() >= 2, "some of its claims are left");
    (1..=4).for_each(|number| reassert(&mut t, 2, number));
    assert_eq!(t.count(|said| matches!(said, ToNode::Lost { .. })), 0);
}

/// Readers that were made up, and a writer with a later token: the one message that would end all
/// of them is refused, and its lock is lost instead.
#[test]
fn service_f73_one_re_asserted_write_does_not_end_thousands_of_readers() {
    let portion = Limits::default().portion as u64;
    for (readers, ended) in [(portion, portion), (portion + 1, 0)] {
        let listed = (1..=readers + 1).map(SessionId).collect();
        let mut t = Table::begin(Limits::default(), 2, listed);
        let held = |number| Claim::Held { token: Token::new(epoch(1), number).unwrap() };
        (1..=readers).for_each(|session| t.reassert(session, "x", 1, Read, held(1)));
        t.told.clear();
        t.largest = 0;
        t.reassert(readers + 1, "x", 1, Write, held(2));
        let losers = if ended == 0 { 1 } else { ended };
        assert_eq!(t.count(|said| matches!(said, ToNode::Lost { .. })) as u64, losers);
        assert!(t.largest as u64 <= 2 * portion, "{} in one step", t.largest);
        assert_eq!(t.table.claims() as u64, readers - ended + u64::from(ended > 0));
    }
}
