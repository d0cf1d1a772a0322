//! What the users of a server may have: limits that several tables share, and counts that are right
//! whatever happens.

use std::sync::Arc;

use super::*;
use crate::messages::Claim;
use crate::mode::Mode::{Read, Write};
use crate::refusal::{AcquireRefusal, ReassertRefusal, Refusal};
use crate::slot::Group;
use crate::token::{Ticket, Token};
use budget::Share;
use table::{LockTable, TableInput, TableOutput, UserQuota};

const TABLES: usize = 2;
const USERS: usize = 8;

/// Two tables that share their limits, and some users.
struct Shared {
    tables: [LockTable; TABLES],
    records: Arc<Budget>,
    claims: Arc<Budget>,
    users: [Arc<UserQuota>; USERS],
    epoch: Epoch,
    now: Tick,
    out: Vec<TableOutput>,
}

impl Shared {
    /// Of so many records in all and of each user; four claims for each.
    fn new(records: usize, of_user: usize, waiters_of_user: usize) -> Self {
        let budget = |max| Budget::new(max, TABLES);
        let (all, claims) = (budget(records), budget(4 * records));
        let limits = Limits { waiters_per_user: waiters_of_user, ..Limits::default() };
        let table = |_| LockTable::new(limits.clone(), 7).within(&all, &claims);
        let user = |number| UserQuota::new(number, budget(of_user), budget(4 * of_user));
        let mut shared = Self {
            tables: [0, 1].map(table),
            users: std::array::from_fn(|number| user(number as u32)),
            records: all,
            claims,
            epoch: Epoch::NONE,
            now: Tick(1_000),
            out: Vec::new(),
        };
        shared.next_term(&[]);
        shared
    }

    /// The groups of a table; all its records are in them.
    fn groups(table: usize) -> GroupSet {
        (0..=u8::MAX).map(Group).filter(|group| usize::from(group.0) % TABLES == table).collect()
    }

    fn table_of(record: &Record) -> usize {
        usize::from(record.group().0) % TABLES
    }

    fn step(&mut self, table: usize, input: TableInput) -> Result<(), Refusal> {
        self.now = self.now + Duration::from_millis(7);
        self.out.clear();
        let result = self.tables[table].handle(self.now, input, &mut self.out);
        self.tables.iter().for_each(LockTable::check);
        result
    }

    fn step_all(&mut self, input: &TableInput) {
        for table in 0..TABLES {
            self.step(table, input.clone()).expect("a table refuses nothing but messages");
        }
    }

    /// Everything is left and taken again; these may re-assert.
    fn next_term(&mut self, listed: &[SessionId]) {
        if self.epoch != Epoch::NONE {
            self.step_all(&TableInput::Leave { groups: GroupSet::ALL });
        }
        self.epoch = self.epoch.next().expect("there is one");
        for table in 0..TABLES {
            let term = Term { groups: Self::groups(table), epoch: self.epoch };
            let begin = TableInput::Begin { term, listed: listed.to_vec(), formers: false };
            self.step(table, begin).expect("a table refuses nothing but messages");
        }
    }

    fn begin(&mut self, session: u64, user: Option<usize>) {
        let user = user.map(|user| Arc::clone(&self.users[user]));
        let handoff = if session.is_multiple_of(2) { Handoff::Direct } else { Handoff::Retry };
        self.step_all(&TableInput::Began { session: SessionId(session), handoff, user });
    }

    fn say(&mut self, session: u64, record: &Record, message: ToServer) -> Result<(), Refusal> {
        let session = SessionId(session);
        self.step(Self::table_of(record), TableInput::Message { session, message })
    }

    fn acquire(&mut self, session: u64, name: &str, mode: Mode, seq: u64) -> Result<(), Refusal> {
        let (record, epoch) = (record(name), self.epoch);
        let (upgrade, owners, seq) = (false, Vec::new(), Seq(seq));
        let message =
            ToServer::Acquire { record: record.clone(), mode, seq, epoch, upgrade, owners };
        self.say(session, &record, message)
    }

    fn release(&mut self, session: u64, name: &str, seq: u64) {
        let record = record(name);
        let message = ToServer::Release { record: record.clone(), seq: Seq(seq), keep: None };
        self.say(session, &record, message).expect("a release is not refused");
    }

    fn reassert(&mut self, session: u64, name: &str, seq: u64) -> Result<(), Refusal> {
        let record = record(name);
        let token = Token::new(Epoch::NONE.next().unwrap(), 1).unwrap();
        let (epoch, former) = (self.epoch, SessionId(session));
        let (claim, mode, seq) = (Claim::Held { token }, Read, Seq(seq));
        let message =
            ToServer::Reassert { record: record.clone(), epoch, former, seq, mode, claim };
        self.say(session, &record, message)
    }
}

fn full(max: usize) -> Result<(), Refusal> {
    Err(Refusal::Acquire(AcquireRefusal::TooManyRecords { max }))
}

fn too_many_records(max: usize) -> Result<(), Refusal> {
    Err(Refusal::Acquire(AcquireRefusal::TooManyUserRecords { max }))
}

/// Names that are spread over both tables.
fn names(count: u64) -> impl Iterator<Item = String> {
    (1..=count).map(|number| number.to_string())
}

#[test]
fn service_f78_a_user_with_all_their_records_keeps_nobody_else_out() {
    let mut shared = Shared::new(16, 4, 8);
    shared.begin(1, Some(0));
    shared.begin(2, Some(0));
    shared.begin(3, Some(1));
    for (name, seq) in names(4).zip(1..) {
        assert_eq!(shared.acquire(1 + seq % 2, &name, Write, seq), Ok(()));
    }
    assert_eq!(shared.acquire(1, "5", Write, 9), too_many_records(4), "whichever session asks");
    assert_eq!(shared.acquire(2, "5", Write, 9), too_many_records(4));
    assert_eq!(shared.acquire(3, "5", Write, 1), Ok(()), "another user has room");
    assert_eq!(shared.acquire(2, "5", Read, 9), too_many_records(4), "to wait is to have it too");
    shared.release(2, "1", 1);
    assert_eq!(shared.acquire(2, "5", Read, 9), Ok(()), "what is released makes room");
}

#[test]
fn a_record_that_sessions_of_one_user_share_counts_once() {
    let mut shared = Shared::new(16, 2, 8);
    for session in 1..=8 {
        shared.begin(session, Some(0));
    }
    for session in 1..=4 {
        assert_eq!(shared.acquire(session, "1", Read, 1), Ok(()));
    }
    assert_eq!(shared.users[0].records().drawn(), 1);
    assert_eq!(shared.acquire(1, "2", Read, 2), Ok(()));
    assert_eq!(shared.acquire(2, "3", Read, 2), too_many_records(2));
    for session in 1..=4 {
        shared.release(session, "1", 1);
    }
    assert_eq!(shared.acquire(2, "3", Read, 3), Ok(()));
    // Its claims are bounded as well, so that many sessions don't fill the memory with them.
    for session in 3..=8 {
        assert_eq!(shared.acquire(session, "3", Read, 3), Ok(()));
    }
    let refused = Err(Refusal::Acquire(AcquireRefusal::TooManyUserClaims { max: 8 }));
    assert_eq!(shared.acquire(3, "2", Read, 4), refused);
}

#[test]
fn service_f78_the_readers_of_a_user_do_not_fill_a_records_line() {
    let mut shared = Shared::new(16, 16, 3);
    for session in 1..=6 {
        shared.begin(session, Some(0));
    }
    shared.begin(7, Some(1));
    shared.begin(8, Some(1));
    assert_eq!(shared.acquire(7, "1", Write, 1), Ok(()));
    for session in 1..=3 {
        assert_eq!(shared.acquire(session, "1", Read, 1), Ok(()));
    }
    let full = Err(Refusal::Acquire(AcquireRefusal::TooManyUserWaiters { max: 3 }));
    assert_eq!(shared.acquire(4, "1", Read, 1), full);
    assert_eq!(shared.acquire(1, "1", Write, 2), Ok(()), "who waits may wait for another mode");
    assert_eq!(shared.acquire(8, "1", Write, 1), Ok(()), "the other user may wait");
    shared.release(1, "1", 2);
    assert_eq!(shared.acquire(4, "1", Read, 1), Ok(()));
}

#[test]
fn the_limit_of_all_records_is_that_of_all_tables_together() {
    let mut shared = Shared::new(6, 6, 8);
    shared.begin(1, None);
    // All in one group, so in one table.
    for seq in 1..=6 {
        assert_eq!(shared.acquire(1, &format!("{{t}}{seq}"), Write, seq), Ok(()));
    }
    for (name, seq) in names(4).zip(10..) {
        assert_eq!(shared.acquire(1, &name, Write, seq), full(6), "in whichever table");
    }
    shared.release(1, "{t}1", 1);
    assert_eq!(shared.acquire(1, "1", Write, 20), Ok(()));
}

/// Of one user, or where there are none: sessions that share few records are not without a bound.
#[test]
fn service_f86_many_sessions_of_few_records_do_not_fill_the_memory() {
    let mut shared = Shared::new(2, 2, 100);
    (1..=20).for_each(|session| shared.begin(session, None));
    let all = (1..=20).map(|session| shared.acquire(session, "1", Read, 1));
    let refused = Err(Refusal::Acquire(AcquireRefusal::TooManyAllClaims { max: 8 }));
    let (granted, others): (Vec<_>, Vec<_>) = all.partition(Result::is_ok);
    assert_eq!((granted.len(), &others[..]), (8, &vec![refused; 12][..]));
    shared.release(1, "1", 1);
    assert_eq!(shared.acquire(20, "1", Read, 2), Ok(()));
}

#[test]
fn service_f79_what_was_held_before_a_restart_is_let_in_beyond_the_limits() {
    let mut shared = Shared::new(4, 2, 8);
    for (session, user) in [(1, 0), (2, 1), (3, 1)] {
        shared.begin(session, Some(user));
    }
    shared.next_term(&[SessionId(1), SessionId(2), SessionId(3)]);
    // The first user had more than the limit is now, or says so.
    for (name, seq) in names(4).zip(1..) {
        assert_eq!(shared.reassert(1, &name, seq), Ok(()), "beyond the user's limit");
    }
    let full = Err(Refusal::Reassert(ReassertRefusal::TooManyRecords { max: 4 }));
    assert_eq!(shared.reassert(1, "5", 5), full, "but not beyond the server's as well");
    assert_eq!(shared.reassert(2, "6", 1), Ok(()), "another user has what is theirs");
    assert_eq!(shared.reassert(3, "7", 1), Ok(()));
    assert_eq!(shared.reassert(3, "8", 2), full);
    // What is over makes room as always, and the limits hold again.
    shared.step_all(&TableInput::Ended { session: SessionId(1) });
    assert_eq!(shared.records.drawn(), 2);
}

#[test]
fn service_f79_what_a_user_has_beyond_their_part_takes_no_room_from_others() {
    let mut shared = Shared::new(4, 2, 8);
    for (session, user) in [(1, Some(0)), (2, Some(1)), (3, None)] {
        shared.begin(session, user);
    }
    shared.next_term(&[SessionId(1)]);
    for (name, seq) in names(4).zip(1..) {
        assert_eq!(shared.reassert(1, &name, seq), Ok(()), "made up, for all that is known");
    }
    for (name, seq) in names(4).zip(10..) {
        assert_eq!(shared.acquire(1, &format!("{{t}}{name}"), Write, seq), full(4), "nor a fifth");
    }
    // Another user has their own two, as if the first had two.
    assert_eq!(shared.acquire(2, "5", Write, 1), Ok(()));
    assert_eq!(shared.acquire(2, "6", Write, 2), Ok(()));
    assert_eq!(shared.acquire(2, "7", Write, 3), full(4), "and no more");
    // Whoever has no part of their own waits until there is room.
    assert_eq!(shared.acquire(3, "8", Write, 1), full(4));
    shared.step_all(&TableInput::Ended { session: SessionId(1) });
    assert_eq!(shared.acquire(3, "8", Write, 2), Ok(()));
}

/// Records that users share count once for the server, and for each of them.
#[test]
fn service_f79_users_who_claim_the_same_records_make_no_more_room_by_that() {
    let mut shared = Shared::new(8, 2, 8);
    (1..=8).for_each(|session| shared.begin(session, Some(session as usize - 1)));
    shared.next_term(&[SessionId(1), SessionId(2)]);
    for (name, seq) in names(8).zip(1..) {
        shared.reassert(1, &name, seq).expect("beyond the user's part");
        shared.reassert(2, &name, seq).expect("the same records");
    }
    for session in 3..=8 {
        for seq in 1..=2 {
            // Some are refused.
            let _ = shared.acquire(session, &format!("{session}-{seq}"), Write, seq);
        }
    }
    assert_eq!(shared.records.drawn(), 16);
}

/// A table that is alone draws its whole limit at once, and keeps nothing beyond it.
#[test]
fn an_excess_ends_with_what_was_claimed() {
    let budget = Budget::new(4, 1);
    let mut share = Share::new(Arc::clone(&budget));
    (0..10).for_each(|_| share.take());
    assert_eq!((share.excess(), budget.drawn()), (6, 10));
    (0..7).for_each(|_| share.give_back());
    assert_eq!((share.excess(), share.used(), budget.drawn()), (0, 3, 4));
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn user(&mut self) -> Option<usize> {
        match self.below(3) {
            2 => None,
            user => Some(user as usize),
        }
    }
}

/// One of all the things that may happen; [`Shared::step`] checks the counts after each.
fn anything(shared: &mut Shared, rng: &mut Rng, seqs: &mut u64) {
    *seqs += 1;
    let session = 1 + rng.below(6);
    let name = record(&rng.below(5).to_string());
    let seq = Seq(seqs.saturating_sub(rng.below(12)));
    let mode = if rng.below(2) == 0 { Read } else { Write };
    let (epoch, former) = (shared.epoch, SessionId(1 + rng.below(6)));
    // What is refused is refused; the counts have to be right all the same.
    let _ = match rng.below(24) {
        0..=9 => {
            let upgrade = rng.below(6) == 0;
            let (record, seq, owners) = (name.clone(), Seq(*seqs), Vec::new());
            let message = ToServer::Acquire { record, mode, seq, epoch, upgrade, owners };
            shared.say(session, &name, message)
        }
        10..=13 => {
            let keep = (rng.below(3) == 0).then_some(Seq(*seqs));
            let message = ToServer::Release { record: name.clone(), seq, keep };
            shared.say(session, &name, message)
        }
        14 | 15 => {
            let keep = (rng.below(2) == 0).then_some(Seq(*seqs));
            let message = ToServer::Cancel { record: name.clone(), seq, keep };
            shared.say(session, &name, message)
        }
        16 => {
            let over = SessionId(session);
            shared.step_all(&TableInput::Ended { session: over });
            Ok(())
        }
        17 => {
            let user = rng.user();
            shared.begin(session, user);
            Ok(())
        }
        18 => {
            let all: Vec<_> = (1..=6).map(SessionId).filter(|_| rng.below(3) > 0).collect();
            shared.next_term(&all);
            Ok(())
        }
        19 | 20 => {
            let past = Epoch::new(epoch.number() - 1).expect("small");
            let claim = if rng.below(2) == 0 {
                Claim::Held { token: Token::new(past, 1 + rng.below(4)).expect("small") }
            } else {
                let ticket = Ticket::new(past, 1 + rng.below(4));
                Claim::Waiting { ticket, upgrade: rng.below(4) == 0, owners: Vec::new() }
            };
            let (record, seq) = (name.clone(), Seq(*seqs));
            let message = ToServer::Reassert { record, epoch, former, seq, mode, claim };
            shared.say(session, &name, message)
        }
        21 => {
            let groups = Shared::groups(Shared::table_of(&name));
            let message = ToServer::Reasserted { groups, epoch, former, count: 0, sum: 0 };
            shared.say(session, &name, message)
        }
        _ => {
            shared.now = shared.now + Duration::from_millis(100 * rng.below(20));
            shared.step_all(&TableInput::Tick);
            Ok(())
        }
    };
}

#[test]
fn service_f78_whatever_happens_all_counts_return_to_zero() {
    let mut full = 0;
    for seed in 0..60 {
        let mut rng = Rng(seed * 0x9E37_79B9 + 1);
        let mut shared = Shared::new(4, 3, 2);
        let mut seqs = 10;
        for session in 1..=6 {
            let user = rng.user();
            shared.begin(session, user);
        }
        for _ in 0..250 {
            anything(&mut shared, &mut rng, &mut seqs);
            full += u64::from(shared.records.drawn() >= shared.records.max());
        }
        for session in 1..=6 {
            shared.step_all(&TableInput::Ended { session: SessionId(session) });
        }
        let Shared { tables, records, claims, users, .. } = shared;
        for table in &tables {
            assert_eq!((table.records(), table.claims(), table.sessions()), (0, 0, 0));
        }
        for user in &users {
            assert_eq!((user.records().drawn(), user.claims().drawn()), (0, 0), "seed {seed}");
        }
        assert_eq!((records.drawn(), claims.drawn()), (0, 0), "seed {seed}");
    }
    assert!(full > 500, "the limit is reached now and then: {full}");
}
