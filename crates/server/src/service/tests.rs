//! What can't be brought about from outside: notes that come late and twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockspan_protocol::server::Listed;
use lockspan_protocol::{
    Client, Epoch, GroupSet, Handoff, Limits, Mode, Owner, ReassertRefusal, Record, Refusal, Seq,
    SessionId, ToServer,
};

use super::work::Note;
use super::{LocksLook, PublicKey, Seat, Service, SessionsLook, Work};
use crate::net::glob::Pattern;
use crate::store::{Saved, Storage};

pub(super) fn service(fresh: bool) -> Service {
    with_limits(Limits::default(), fresh)
}

fn with_limits(limits: Limits, fresh: bool) -> Service {
    let service = Service::new(limits, 4, (1, PublicKey([0; 32])), Storage::Memory, 0);
    let mut work = Work::default();
    let saved = Saved::nothing(fresh, Duration::from_secs(60), SessionId(77));
    service.take_all(saved, &mut work).expect("nothing is served yet");
    service.finish(&mut work);
    assert!(service.serves_all());
    service
}

fn epoch(number: u32) -> Epoch {
    Epoch::new(number).expect("small")
}

/// A client shows these epochs.
fn behind(service: &Service, groups: GroupSet, above: &[u32]) {
    note_behind(service, groups, above, Some(SessionId(99)));
}

/// The tokens of these epochs are used up.
fn used_up(service: &Service, groups: GroupSet, above: &[u32]) {
    note_behind(service, groups, above, None);
}

fn note_behind(service: &Service, groups: GroupSet, above: &[u32], by: Option<SessionId>) {
    let mut work = Work::default();
    let note = |&above| Note::Behind { groups, above: epoch(above), by };
    work.notes.extend(above.iter().map(note));
    service.finish(&mut work);
}

#[test]
fn a_late_double_of_behind_does_not_take_an_epoch_twice() {
    let service = service(true);
    let record = Record::new("a", "1").expect("a name");
    let term = service.terms().into_iter().find(|it| it.groups.contains(record.group()));
    let groups = term.expect("it is served").groups;
    behind(&service, groups, &[5, 5, 3]);
    assert_eq!(service.epoch_of(&record), Some(epoch(6)));
    let mut work = Work::default();
    let (session, ttl) = (SessionId(1), Duration::from_secs(5));
    let seat = service
        .open(session, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work)
        .expect("it opens");
    let message = ToServer::Acquire {
        record: record.clone(),
        mode: Mode::Write,
        seq: Seq(1),
        epoch: epoch(6),
        upgrade: false,
        owners: Vec::new(),
    };
    service.tell_table(&seat, message, &mut work).expect("it is granted");
    let terms = service.terms();
    behind(&service, groups, &[5, 1]);
    assert_eq!((service.terms(), service.stats().claims), (terms, 1), "the term above it stands");
    behind(&service, groups, &[6]);
    assert_eq!(service.epoch_of(&record), Some(epoch(6)), "one client a minute is believed");
    used_up(&service, groups, &[6]);
    assert_eq!(service.epoch_of(&record), Some(epoch(7)));
    assert!(service.serves_all());
    let others = service.terms().into_iter().filter(|it| it.groups.and(groups).is_empty());
    assert!(others.into_iter().all(|term| term.epoch == epoch(6)), "others are as they were");
}

#[test]
fn a_new_term_still_waits_for_a_run_of_which_nothing_is_known() {
    let service = service(false);
    assert!(service.stats().recovering);
    behind(&service, GroupSet::ALL, &[5]);
    assert!(service.serves_all());
    let mut shards = service.shards.iter();
    let all = shards.all(|shard| crate::lock(shard).table.is_recovering());
    assert!(all, "nothing is granted before the longest lease is over");
}

#[test]
fn a_term_that_begins_lists_the_sessions_that_are_open() {
    let service = service(true);
    let mut work = Work::default();
    let (session, ttl) = (SessionId(1), Duration::from_secs(5));
    service
        .open(session, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work)
        .expect("it opens");
    service.keep(session, &mut work).expect("it is extended");
    behind(&service, GroupSet::ALL, &[5]);
    service.keep(session, &mut work).expect_err("it has to re-assert first");
    let seat = service.seat(session).expect("it lives");
    let told = lockspan_protocol::Term { groups: GroupSet::ALL, epoch: epoch(6) };
    service.reasserted(&seat, told, session, (0, 0), &mut work).expect("it had nothing");
    service.finish(&mut work);
    service.keep(session, &mut work).expect("it is extended again");
    assert!(!service.stats().recovering);
}

#[test]
fn a_place_in_line_is_told_when_the_wait_lasts_and_not_when_it_is_over() {
    let service = service(true);
    let mut work = Work::default();
    let mut open = |number| {
        let (session, ttl) = (SessionId(number), Duration::from_secs(5));
        service
            .open(session, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work)
            .expect("it opens")
    };
    let (one, two, three) = (open(1), open(2), open(3));
    let record = Record::new("a", "1").expect("a name");
    let epoch = service.epoch_of(&record).expect("it is served");
    let acquire = || {
        let (record, owners) = (record.clone(), Vec::new());
        let (mode, seq, upgrade) = (Mode::Write, Seq(1), false);
        ToServer::Acquire { record, mode, seq, epoch, upgrade, owners }
    };
    for seat in [&one, &two, &three] {
        service.tell_table(seat, acquire(), &mut work).expect("it waits or is granted");
    }
    service.finish(&mut work);
    assert_eq!(service.stats().queued, 0);
    let release = ToServer::Release { record: record.clone(), seq: Seq(1), keep: None };
    service.tell_table(&one, release, &mut work).expect("it held it");
    service.tell_places(crate::clock::now() + Duration::from_secs(1), &mut work);
    let stats = service.stats();
    assert_eq!((stats.grants, stats.queued), (2, 1), "the second is served, the third waits");
}

#[test]
fn groups_that_are_taken_again_and_again_prolong_no_lease() {
    let service = service(false);
    let end = |service: &Service| crate::lock(&service.desk).registry.next_deadline();
    let phantom = end(&service);
    used_up(&service, GroupSet::ALL, &[5]);
    used_up(&service, GroupSet::ALL, &[9]);
    assert_eq!(end(&service), phantom, "the run before ends when it was to end");

    let mut work = Work::default();
    let (session, ttl) = (SessionId(1), Duration::from_secs(5));
    service
        .open(session, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work)
        .expect("it opens");
    let first = end(&service);
    assert!(first < phantom, "the session is the first to end");
    used_up(&service, GroupSet::ALL, &[15]);
    used_up(&service, GroupSet::ALL, &[25]);
    assert_eq!(end(&service), first, "it has to re-assert within the lease that it had");
}

#[test]
fn tables_share_the_groups() {
    for shards in [1, 3, 16, 255, 256] {
        let mut seen = vec![0; shards];
        for group in GroupSet::ALL.iter() {
            seen[super::shard_of(group, shards)] += 1;
        }
        let (least, most) = (seen.iter().min(), seen.iter().max());
        assert!(least > Some(&0) && most <= Some(&(256_usize.div_ceil(shards))), "{seen:?}");
    }
}

#[test]
fn an_epoch_that_can_not_have_been_does_not_end_the_service() {
    let service = service(true);
    let terms = service.terms();
    behind(&service, GroupSet::ALL, &[8_388_607, 8_388_606, 1 << 20]);
    assert_eq!(service.terms(), terms);
    assert!(service.serves_all());
}

/// A session that nobody owns, as an operator's is who takes a record back, is no orphan: it is not
/// counted as one when it ends, and nobody can make it theirs.
#[test]
fn who_speaks_for_an_orphan_is_not_kept_from_it_by_an_operator() {
    let service = Service::new(Limits::default(), 4, (1, PublicKey([0; 32])), Storage::Memory, 0);
    let mut work = Work::default();
    let (orphan, operator) = (SessionId(5), SessionId(6));
    let ttl = Duration::from_secs(30);
    let listed = Listed {
        session: orphan,
        ttl,
        handoff: Handoff::Direct,
        here: true,
        last: false,
        client: Client::Node,
        acts: Duration::ZERO,
    };
    let saved = Saved { epoch: epoch(1), sessions: vec![listed] };
    service.take_all(saved, &mut work).expect("nothing is served yet");
    service.finish(&mut work);
    assert!(service.has_orphans());
    let ann: Arc<str> = "ann".into();
    let seat =
        service.open(operator, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work);
    let seat = seat.expect("it opens");
    service.claim(operator, &ann, &mut work);
    assert_eq!(seat.owner(), None);
    service.close(operator, &mut work).expect("it was open");
    service.finish(&mut work);
    assert!(service.has_orphans(), "that was another one");
    service.claim(orphan, &ann, &mut work);
    service.finish(&mut work);
    assert!(service.seat(orphan).expect("it lives").belongs_to(&ann));
    assert!(!service.has_orphans());
}

/// `LS.TELL` can be said by a session that a plain command has opened, and by an older node. It
/// must not get around what `LS.REASSERTED` checks.
#[test]
fn a_stranger_is_not_believed_while_the_former_owner_may_act_whatever_command_it_uses() {
    let service = Service::new(Limits::default(), 4, (1, PublicKey([0; 32])), Storage::Memory, 0);
    let mut work = Work::default();
    let (former, ttl) = (SessionId(5), Duration::from_secs(5));
    let listed = Listed {
        session: former,
        ttl,
        handoff: Handoff::Direct,
        here: false,
        last: false,
        client: Client::Stranger,
        acts: Duration::from_secs(3600),
    };
    let saved = Saved { epoch: epoch(1), sessions: vec![listed] };
    service.take_all(saved, &mut work).expect("nothing is served yet");
    service.finish(&mut work);
    let told = |id: u64, client: Client| {
        let mut work = Work::default();
        let wish = (ttl, Handoff::Direct, client);
        let seat = service.open(SessionId(id), wish, None, |_| (), &mut work).expect("it opens");
        service.finish(&mut work);
        let terms = service.terms();
        let term = terms.first().expect("it serves");
        let (groups, epoch, count, sum) = (term.groups, term.epoch, 0, 0);
        let message = ToServer::Reasserted { groups, epoch, former, count, sum };
        service.tell_table(&seat, message, &mut work)
    };
    let early = told(6, Client::Stranger);
    assert!(matches!(early, Err(Refusal::Reassert(ReassertRefusal::TooEarly { .. }))), "{early:?}");
    told(7, Client::Node).expect("a node keeps rule Z");
}

fn open(service: &Service, session: u64) -> Arc<Seat> {
    let (id, ttl, mut work) = (SessionId(session), Duration::from_secs(5), Work::default());
    service
        .open(id, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work)
        .expect("it opens")
}

fn acquire(service: &Service, seat: &Seat, name: String, seq: u64) {
    let record = Record::new("a", name).expect("a name");
    let (mode, epoch) = (Mode::Write, epoch(1));
    let (upgrade, owners) = (false, Vec::new());
    let message = ToServer::Acquire { record, mode, seq: Seq(seq), epoch, upgrade, owners };
    service.tell_table(seat, message, &mut Work::default()).expect("it is granted");
}

/// How many names one step looks at depends on how long one takes; what is found does not.
#[test]
fn service_f65_a_long_pattern_is_compared_with_few_names_at_a_time() {
    let service = service(true);
    let seat = open(&service, 1);
    for seq in 1..=4000 {
        acquire(&service, &seat, format!("{}{seq}", "x".repeat(300)), seq);
    }
    let look = |pattern: &str| {
        let (mut steps, mut seen, mut cursor) = (0, 0, 0);
        loop {
            let pattern = Some(Pattern::new(pattern.as_bytes()));
            let mut look = LocksLook::new(cursor, 1000, pattern);
            steps += 1;
            while service.look_at_locks(&mut look, |_| true) {
                steps += 1;
            }
            let (next, views) = service.locks_seen(look);
            seen += views.len();
            cursor = next;
            if cursor == 0 {
                return (steps, seen);
            }
        }
    };
    let (short, all) = look("a:*");
    assert_eq!(all, 4000);
    let (long, some) = look(&format!("a:*{}*7", "x".repeat(300)));
    assert_eq!(some, 400);
    assert!(long >= 4000 / (1000 / 5), "{long} steps, and {short} of a short pattern");
    let (none, found) = look(&format!("{}b", "*x".repeat(250)));
    assert_eq!(found, 0);
    assert!(none >= 4000 / (1000 / 4), "{none} steps");
}

/// The registry is locked for some sessions at a time, also if none of them may be shown.
#[test]
fn service_f61_sessions_are_looked_at_some_at_a_time() {
    let service = service(true);
    for session in 1..=2600 {
        open(&service, session);
    }
    let steps = |own: Option<&Arc<str>>, count| {
        let (mut look, mut steps) = (SessionsLook::new(None, count), 0);
        while service.look_at_sessions(&mut look, own) {
            steps += 1;
        }
        (steps, look.seen())
    };
    let nobody: Arc<str> = Arc::from("nobody");
    let (looked, seen) = steps(Some(&nobody), 1000);
    assert!(looked >= 2600 / 500 && seen.is_empty(), "{looked} steps, {} seen", seen.len());
    let (looked, seen) = steps(None, 1000);
    assert!(looked >= 1000 / 500 + 1000 / 16 - 1 && seen.len() == 1000, "{looked} steps");
    let (_, seen) = steps(None, 10_000);
    assert_eq!(seen.len(), 2600);
    assert!(seen.is_sorted_by_key(|view| view.session.id), "in the order of their ids");
}

/// Waits that end at the same moment are ended some at a time.
#[test]
fn service_f66_what_is_due_is_done_in_parts() {
    let service = service(true);
    let (holder, waiter) = (open(&service, 1), open(&service, 2));
    for seq in 1..=100 {
        acquire(&service, &holder, seq.to_string(), seq);
    }
    let mut work = Work::default();
    for seq in 1..=100_u64 {
        let record = Record::new("a", seq.to_string()).expect("a name");
        let (mode, epoch) = (Mode::Write, epoch(1));
        let (upgrade, owners) = (false, Vec::new());
        let message = ToServer::Acquire { record, mode, seq: Seq(seq), epoch, upgrade, owners };
        service.tell_table(&waiter, message, &mut work).expect("it waits");
        service.finish(&mut work);
    }
    let later = crate::clock::now() + Duration::from_secs(1);
    let told = || service.stats().queued;
    assert_eq!(told(), 0);
    for expected in [64, 100, 100] {
        service.tell_places(later, &mut work);
        assert_eq!(told(), expected);
    }
}

/// A deadlock that is not found within the steps of one fact is found by the timer.
#[test]
fn service_f70_the_timer_goes_on_with_a_search_that_is_too_long() {
    let owners = 40;
    let service = with_limits(Limits { search_steps: 20, ..Limits::default() }, true);
    let mut work = Work::default();
    let name = |number: u64| Record::new("a", number.to_string()).expect("a name");
    let seats: Vec<_> = (0..owners)
        .map(|number| {
            let (session, ttl) = (SessionId(1 + number), Duration::from_secs(5));
            service
                .open(session, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work)
                .expect("it opens")
        })
        .collect();
    let tell = |number: u64, message: ToServer, work: &mut Work| {
        service.tell_table(&seats[number as usize], message, work).expect("it is heard");
        service.finish(work);
    };
    let acquire = |record: Record, owner: u64, seq: u64| ToServer::Acquire {
        epoch: service.epoch_of(&record).expect("it is served"),
        record,
        mode: Mode::Write,
        seq: Seq(seq),
        upgrade: false,
        owners: vec![Owner(owner)],
    };
    for number in 0..owners {
        tell(number, acquire(name(number), number, 1), &mut work);
    }
    // Each waits for what the next one has, and the last for what the first one has.
    for number in 0..owners {
        let next = (number + 1) % owners;
        tell(number, acquire(name(next), number, 2), &mut work);
        let (holders, waits) = (vec![Owner(next)], Vec::new());
        let report =
            ToServer::Report { record: name(next), seq: Seq(1), number: 1, holders, waits };
        tell(next, report, &mut work);
    }
    assert_eq!(service.stats().deadlocks, 0, "the cycle is longer than the steps of one fact");
    let mut rings = 0;
    while crate::lock(&service.graph).is_searching() {
        assert!(service.rings_at.load(Ordering::Relaxed) < u64::MAX, "the timer is set");
        service.ring(&mut work);
        rings += 1;
        assert!(rings < 1000, "it comes to an end");
    }
    assert_eq!(service.stats().deadlocks, 1, "after {rings} rings");
}

/// Whatever clients show, and for however long, a run uses up few epochs. (That one a minute is
/// believed is tried in `epochs.rs`; here each minute is over at once.)
#[test]
fn service_f75_clients_do_not_use_up_the_epochs() {
    let service = service(true);
    let highest = || service.highest_epoch();
    for round in 1..2_000 {
        let present = highest();
        // A later one, and a token of the present one.
        let shown = [present + 65_536, present + 64, present + 3, present][round % 4];
        behind(&service, GroupSet::ALL, &[shown]);
        crate::lock(&service.desk).epochs.believed_at = None;
    }
    assert_eq!(highest(), 66, "64 above the epoch of the start, and the next one");
    assert!(service.serves_all());
    // An operator goes further, by a bounded step.
    let mut service = with_limits(Limits::default(), true);
    service.has_users = true;
    behind(&service, GroupSet::ALL, &[1 + 65_537]);
    assert_eq!(service.highest_epoch(), 1);
    behind(&service, GroupSet::ALL, &[1 + 65_536]);
    assert_eq!(service.highest_epoch(), 65_538);
    behind(&service, GroupSet::ALL, &[65_540]);
    assert_eq!(service.highest_epoch(), 65_538, "once a minute");
}

/// A data directory that has come to its last epochs is served to the end, one epoch a start.
#[test]
fn service_f75_the_last_epochs_are_left_to_starts() {
    let last = Epoch::MAX.number() - 5;
    let mut service =
        Service::new(Limits::default(), 4, (1, PublicKey([0; 32])), Storage::Memory, 0);
    service.has_users = true;
    let saved = Saved { epoch: epoch(last), sessions: Vec::new() };
    let mut work = Work::default();
    service.take_all(saved, &mut work).expect("there are some left");
    service.finish(&mut work);
    behind(&service, GroupSet::ALL, &[last + 2, last + 4]);
    assert_eq!(service.highest_epoch(), last + 1);
    behind(&service, GroupSet::ALL, &[last + 1]);
    assert_eq!(service.highest_epoch(), last + 2, "by one");
}

/// Rings until nothing is due any more, and tells how often.
fn ring_all(service: &Service, work: &mut Work) -> usize {
    let mut rings = 0;
    loop {
        service.ring(work);
        rings += 1;
        let next = service.rings_at.load(Ordering::Relaxed);
        if next > crate::clock::now().0 + 5_000 {
            return rings;
        }
        assert!(rings < 10_000, "it comes to an end");
    }
}

/// A session with very many records is closed: that takes several short steps, and others have the
/// tables in between.
#[test]
fn service_f72_a_large_session_is_closed_by_several_rings() {
    let service = service(true);
    let mut work = Work::default();
    let mut open = |number| {
        let (session, ttl) = (SessionId(number), Duration::from_secs(60));
        service
            .open(session, (ttl, Handoff::Direct, Client::Node), None, |_| (), &mut work)
            .expect("it opens")
    };
    let (large, small) = (open(1), open(2));
    let number = 10_000;
    let acquire = |number: u64, seq: u64| {
        let record = Record::new("a", number.to_string()).expect("a name");
        let epoch = service.epoch_of(&record).expect("it is served");
        let (mode, seq, upgrade, owners) = (Mode::Write, Seq(seq), false, Vec::new());
        ToServer::Acquire { record, mode, seq, epoch, upgrade, owners }
    };
    for record in 1..=number {
        service.tell_table(&large, acquire(record, record), &mut work).expect("it is granted");
    }
    service.tell_table(&small, acquire(number, 1), &mut work).expect("it waits");
    service.finish(&mut work);
    let at_once = Limits::default().portion as u64 * 4;
    service.close(large.id, &mut work).expect("it was open");
    service.finish(&mut work);
    let left = service.stats().claims;
    assert!(left >= number - at_once, "{left} claims are left after the first step");
    assert!(service.rings_at.load(Ordering::Relaxed) < u64::MAX, "the timer goes on");
    service.tell_table(&small, acquire(number + 1, 2), &mut work).expect("others go on");
    let rings = ring_all(&service, &mut work);
    assert!(rings > 3, "{rings} rings");
    assert_eq!(service.stats().claims, 2);
    let held = service.shards.iter().map(|shard| crate::lock(shard).table.held_by(small.id));
    assert_eq!(held.sum::<u64>(), 2, "it was granted what it waited for");
}
