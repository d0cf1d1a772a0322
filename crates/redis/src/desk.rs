//! The desk plays the lock server for one node: it turns what the node says into scripts, and what
//! Redis answers into what a server would say.
//!
//! A task owns it, so that everything has one order. Calls for one record go over one connection in
//! the order in which they are made. No identifier is used twice, and every script may be called
//! again with the same: what became of a call whose answer was lost is seen by
//! calling again, and until then nothing is believed. A lock that is over is `leaving` until Redis
//! has heard it, or its lease is over.
//!
//! The lease: the node counts it from when it sent a keep-alive. That is answered when every
//! identifier that was there at that moment has been renewed; those that come later have a later
//! end anyway.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lockspan_client::{Ear, LockError, Trouble};
use lockspan_protocol::{
    AHEAD_UNKNOWN, AcquireRefusal, Annotation, Epoch, GroupSet, Mode, Record, Seq, SessionId,
    StayLimits, Term, Ticket, ToNode, ToServer,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use crate::alarms::{Alarms, Due, jittered};
use crate::claim::{Claim, Leaving, Retry};
use crate::identity::Identity;
use crate::keys::Keys;
use crate::link::{Dial, Link, Word, spawn};
use crate::peer::{Done, Mouth, Work};
use crate::script::{Call, Op};
use crate::trouble::trouble;

/// Longer than any process.
const FOR_EVER: Duration = Duration::from_secs(86_400 * 36_500);
/// How long the end of a node may take beyond its leases.
const FAREWELL: Duration = Duration::from_secs(5);
/// How many renewals may be under way at the same time.
const WINDOW: usize = 256;

/// The choices that the desk has to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) caching: bool,
    pub(crate) hash_tag: bool,
    pub(crate) plain: bool,
    /// How many writes may follow one that was granted, and for how long, without asking Redis.
    pub(crate) stay: StayLimits,
    pub(crate) recheck: Duration,
    pub(crate) patience: Duration,
}

/// One round of renewing all identifiers, for a keep-alive that is not answered yet.
#[derive(Debug)]
pub(crate) struct Renewal {
    /// The keep-alive's number.
    number: u64,
    since: Instant,
    /// How many identifiers are not renewed yet.
    left: usize,
}

type Calls = FuturesUnordered<Pin<Box<dyn Future<Output = Done> + Send>>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) ear: Ear,
    pub(crate) me: Identity,
    pub(crate) settings: Settings,
    dial: Arc<Dial>,
    pub(crate) mouth: Mouth,
    /// The connection; none while there is none.
    pub(crate) link: Option<Link>,
    /// The number of the connection, or of the one that comes next.
    pub(crate) number: u64,
    calls: Calls,
    pub(crate) session: Option<SessionId>,
    /// What the node calls itself.
    pub(crate) label: Option<Annotation>,
    pub(crate) lease: Duration,
    /// When the last keep-alive came that was answered.
    pub(crate) alive: Instant,
    pub(crate) claims: HashMap<Record, Claim>,
    pub(crate) leaving: BTreeMap<u64, Leaving>,
    /// By the numbers of rounds: one that was begun again is another.
    pub(crate) renewals: BTreeMap<u64, Renewal>,
    rounds: u64,
    /// What is yet to be renewed, for which round. So many calls are under way at most.
    to_renew: VecDeque<(Record, Option<u64>)>,
    /// How many renewals are under way on this connection.
    renewing: usize,
    /// The number of the last identifier.
    counts: u64,
    pub(crate) alarms: Alarms,
    /// Why there is no connection.
    pub(crate) last_trouble: Option<Trouble>,
    /// How long to wait before connecting again; nothing once Redis has done something for us.
    pub(crate) pause: Duration,
    /// The connection that is being made has ended already.
    pub(crate) is_stillborn: bool,
    /// The node is at its end; by then so is the desk.
    closing: Option<Instant>,
}

impl Desk {
    pub(crate) fn new(
        ear: Ear,
        me: Identity,
        settings: Settings,
        dial: Dial,
        link: Link,
        mouth: Mouth,
    ) -> Self {
        Self {
            ear,
            me,
            settings,
            dial: Arc::new(dial),
            mouth,
            link: Some(link),
            number: 0,
            calls: Calls::new(),
            session: None,
            label: None,
            lease: Duration::ZERO,
            alive: Instant::now(),
            claims: HashMap::new(),
            leaving: BTreeMap::new(),
            renewals: BTreeMap::new(),
            rounds: 0,
            to_renew: VecDeque::new(),
            renewing: 0,
            counts: 0,
            alarms: Alarms::default(),
            last_trouble: None,
            pause: Duration::ZERO,
            is_stillborn: false,
            closing: None,
        }
    }

    /// Works until the node is at its end and Redis has heard it.
    pub(crate) async fn run(
        mut self,
        mut told: UnboundedReceiver<Work>,
        mut heard: UnboundedReceiver<(u64, Word)>,
    ) {
        loop {
            if let Some(late) = self.closing {
                if self.leaving.is_empty() {
                    return self.ear.closed();
                }
                if late <= Instant::now() {
                    return;
                }
            }
            let next = [self.alarms.next(), self.closing].into_iter().flatten().min();
            tokio::select! {
                biased;
                () = rung(next) => self.ring(),
                // A word may be about what the next answer will change, never the other way round.
                Some((number, word)) = heard.recv() => self.word(number, word),
                Some(done) = self.calls.next(), if !self.calls.is_empty() => self.done(done),
                Some(work) = told.recv() => {
                    if !self.may_stay(&work) {
                        self.work(work);
                        continue;
                    }
                    // Whoever has let go of it may say at once that it wants it again.
                    yield_now().await;
                    let next = told.try_recv().ok();
                    if next.as_ref().is_none_or(|next| !self.stays(&work, next)) {
                        self.work(work);
                        next.into_iter().for_each(|next| self.work(next));
                    }
                }
            }
        }
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Told(session, message) => self.told(session, message),
            Work::Close => {
                self.end_session();
                self.closing.get_or_insert_with(|| Instant::now() + FAREWELL);
            }
            Work::Linked(number, link) => self.linked(number, link),
            Work::Unlinked(why) => self.last_trouble = Some(trouble(&why)),
        }
    }

    fn told(&mut self, session: SessionId, message: ToServer) {
        if let ToServer::Open { ttl, .. } = message {
            if self.session != Some(session) {
                self.end_session();
                self.session = Some(session);
                self.alive = Instant::now();
            }
            self.lease = ttl;
            // It never ends: what Redis forgets is told for each record. No token is below it.
            let term = Term { groups: GroupSet::ALL, epoch: Epoch::NONE };
            return self.say(ToNode::Opened { terms: vec![term] });
        }
        if self.session != Some(session) {
            return;
        }
        match message {
            ToServer::KeepAlive { number } => self.keep_alive(number),
            ToServer::Close => self.end_session(),
            ToServer::Acquire { record, mode, seq, upgrade, .. } => {
                self.acquire(record, mode, seq, upgrade);
            }
            ToServer::Release { record, seq, keep } | ToServer::Cancel { record, seq, keep } => {
                self.release(record, seq, keep);
            }
            ToServer::Label { label } => self.label = Some(label),
            ToServer::Note { record, seq, note } => {
                if let Some(claim) = self.claims.get_mut(&record).filter(|it| it.is_of(seq)) {
                    claim.note = Some(note);
                }
            }
            ToServer::WhoHolds { record, seq } => self.ask_who_holds(&record, seq),
            // Redis has no graph of who waits for whom, and nothing is asserted again.
            _ => {}
        }
    }

    /// Whether this ends a write that Redis granted a moment ago, so that somebody else here may
    /// have its turn first.
    fn may_stay(&self, work: &Work) -> bool {
        let Work::Told(session, ToServer::Release { record, seq, keep: None }) = work else {
            return false;
        };
        let claim = self.claims.get(record).filter(|claim| claim.seq == *seq);
        let is_fresh = |claim: &Claim| {
            let is_sure = claim.pending.is_none() && claim.doubt.is_none();
            let stay = self.settings.stay;
            let is_short = claim.turns < stay.turns && claim.changed.elapsed() < stay.time;
            is_sure && claim.mode == Mode::Write && is_short
        };
        self.session == Some(*session) && self.link.is_some() && claim.is_some_and(is_fresh)
    }

    /// Gives what was just let go of to who asks for it next, if that is the same write.
    fn stays(&mut self, released: &Work, next: &Work) -> bool {
        let Work::Told(_, ToServer::Release { record: before, .. }) = released else {
            return false;
        };
        let Work::Told(session, ToServer::Acquire { record, mode, seq, upgrade, .. }) = next else {
            return false;
        };
        let is_same = record == before && *mode == Mode::Write && !upgrade;
        let Some(claim) = self.claims.get_mut(record) else { return false };
        if !is_same || self.session != Some(*session) {
            return false;
        }
        (claim.seq, claim.turns, claim.note) = (*seq, claim.turns + 1, None);
        let (token, give_back) = (claim.token, claim.wanted);
        let (record, seq, mode) = (record.clone(), *seq, *mode);
        self.say(ToNode::Granted { record, seq, mode, token, give_back });
        true
    }

    /// Tells the node.
    pub(crate) fn say(&self, message: ToNode) {
        if let Some(session) = self.session {
            self.ear.hear(session, [message]);
        }
    }

    fn acquire(&mut self, record: Record, mode: Mode, seq: Seq, upgrade: bool) {
        let claim = self.claims.get_mut(&record);
        match claim {
            Some(claim) if claim.seq == seq || claim.upgrade == Some(seq) => {
                // It was asked before.
                if claim.pending.is_none() {
                    let (mode, token) = (claim.mode, claim.token);
                    self.say(ToNode::Granted { record, seq, mode, token, give_back: None });
                } else if claim.is_queued {
                    let ahead = claim.ahead;
                    self.say(queued(record, seq, ahead));
                }
            }
            Some(claim) if upgrade && claim.is_held() && claim.mode == Mode::Read => {
                claim.upgrade = Some(seq);
                self.convert(&record, Op::Upgrade);
            }
            _ if upgrade => {
                self.say(ToNode::Refused { record, seq, why: AcquireRefusal::NotHeld });
            }
            _ => {
                self.leave(&record);
                let keys = Arc::new(Keys::of(&record, self.settings.hash_tag));
                self.counts += 1;
                let claim = Claim::new(self.counts, seq, mode, keys);
                self.claims.insert(record.clone(), claim);
                self.ask(&record);
            }
        }
    }

    fn release(&mut self, record: Record, seq: Seq, keep: Option<Seq>) {
        let Some(claim) = self.claims.get_mut(&record) else { return };
        if claim.seq > seq {
            return;
        }
        match keep {
            Some(keep) if claim.is_held() => {
                claim.seq = keep;
                claim.upgrade = None;
                claim.mode = Mode::Read;
                self.convert(&record, Op::Downgrade);
            }
            _ => self.leave(&record),
        }
    }

    /// What we have at a record becomes something else.
    fn convert(&mut self, record: &Record, op: Op) {
        let Some(claim) = self.claims.get_mut(record) else { return };
        self.counts += 1;
        claim.convert(op, self.counts);
        self.alarms.unset(claim.alarm.take());
        self.ask(record);
    }

    /// Calls the script for what a claim has yet to reach.
    pub(crate) fn ask(&mut self, record: &Record) {
        let Some(claim) = self.claims.get_mut(record) else { return };
        if let Some(op) = claim.pending {
            claim.was_sent |= self.link.is_some();
            claim.is_number_sent |= self.link.is_some();
            let (count, before) = (claim.count, claim.before.clone());
            let keys = Arc::clone(&claim.keys);
            self.call(record, (count, &before), &keys, op, None);
        }
    }

    /// Ends what we have at a record.
    pub(crate) fn leave(&mut self, record: &Record) {
        let Some(claim) = self.claims.remove(record) else { return };
        self.alarms.unset(claim.alarm);
        if !claim.was_sent {
            return;
        }
        let op = claim.end();
        self.end(record, (claim.count, claim.before), claim.keys, op);
    }

    /// Tells Redis that a lock is over, until it has heard it.
    pub(crate) fn end(
        &mut self,
        record: &Record,
        (count, before): (u64, Vec<u64>),
        keys: Arc<Keys>,
        op: Op,
    ) {
        self.call(record, (count, &before), &keys, op, None);
        // Without leases it has to be heard, however long it takes.
        let lease = if self.settings.plain { FOR_EVER } else { self.lease };
        let leaving = Leaving {
            before,
            keys,
            record: record.clone(),
            trouble: Retry::default(),
            alarm: None,
            until: Instant::now() + lease,
        };
        self.leaving.insert(count, leaving);
    }

    /// Ends everything.
    fn end_session(&mut self) {
        let records: Vec<Record> = self.claims.keys().cloned().collect();
        records.iter().for_each(|record| self.leave(record));
        self.renewals.clear();
        self.session = None;
    }

    fn keep_alive(&mut self, number: u64) {
        let is_under_way = self.renewals.values().any(|renewal| renewal.number == number);
        if self.link.is_none() || is_under_way {
            return;
        }
        self.rounds += 1;
        let left = self.claims.len();
        self.renewals.insert(self.rounds, Renewal { number, since: Instant::now(), left });
        if left == 0 {
            return self.renewed(self.rounds, 0);
        }
        self.renew_all(Some(self.rounds));
    }

    fn renew_all(&mut self, round: Option<u64>) {
        self.to_renew.extend(self.claims.keys().map(|record| (record.clone(), round)));
        self.renew_more();
    }

    /// Renews what is to be renewed, a window at a time: whatever else is called stands behind a
    /// window only, and a call's time does not run while it waits for others.
    fn renew_more(&mut self) {
        while self.renewing < WINDOW {
            let Some((record, round)) = self.to_renew.pop_front() else { return };
            match self.claims.get(&record) {
                Some(claim) => {
                    let (count, before) = (claim.count, claim.before.clone());
                    let keys = Arc::clone(&claim.keys);
                    self.renewing += 1;
                    self.call(&record, (count, &before), &keys, Op::Renew, round);
                }
                // It is over.
                None => round.into_iter().for_each(|round| self.renewed(round, 1)),
            }
        }
    }

    /// A renewal on this connection is answered, or will not be.
    pub(crate) fn renewal_done(&mut self, link: u64) {
        if link == self.number {
            self.renewing = self.renewing.saturating_sub(1);
            self.renew_more();
        }
    }

    /// So many more of a round's identifiers are renewed; with the last its keep-alive is answered.
    pub(crate) fn renewed(&mut self, round: u64, identifiers: usize) {
        let Some(renewal) = self.renewals.get_mut(&round) else { return };
        renewal.left -= identifiers;
        if renewal.left == 0 {
            let number = renewal.number;
            self.alive = self.alive.max(renewal.since);
            self.renewals.retain(|_, renewal| renewal.number > number);
            self.say(ToNode::Alive { number, groups: GroupSet::ALL });
        }
    }

    /// Calls a script.
    pub(crate) fn call(
        &mut self,
        record: &Record,
        (count, before): (u64, &[u64]),
        keys: &Keys,
        op: Op,
        round: Option<u64>,
    ) {
        let identifier = self.me.identifier(count);
        let before: Vec<_> = before.iter().map(|&count| self.me.identifier(count)).collect();
        let call = Call {
            op,
            keys,
            identifier: &identifier,
            before: &before,
            record: record.as_bytes(),
            lease_micros: u64::try_from(self.lease.as_micros()).unwrap_or(u64::MAX),
            plain: self.settings.plain,
        };
        let (link, record) = (self.number, record.clone());
        let sent = Instant::now();
        let done = move |result| Done { link, record, count, op, round, sent, result };
        match &self.link {
            Some(link) => {
                let answer = link.call(&call);
                self.calls.push(Box::pin(async move { done(Some(answer.await)) }));
            }
            None => self.calls.push(Box::pin(std::future::ready(done(None)))),
        }
    }

    /// The connection with this number is of no use; the next is on its way.
    pub(crate) fn unlink(&mut self, number: u64) {
        if self.number != number || self.link.take().is_none() {
            return;
        }
        self.number += 1;
        self.mouth.connected(false);
        self.is_stillborn = false;
        // The node says again that it is alive, and all is looked at on the next connection.
        (self.renewing, self.to_renew) = (0, VecDeque::new());
        self.renewals.clear();
        let (dial, mouth, number) = (Arc::clone(&self.dial), self.mouth.clone(), self.number);
        // A server that lets us connect and does nothing for us is not called in a hurry either.
        let first = self.pause;
        self.pause = next_pause(first);
        spawn(async move {
            let mut pause = first;
            while !mouth.is_closed() {
                sleep(jittered(pause)).await;
                pause = next_pause(pause);
                match dial.connect(number).await {
                    Ok(link) => return mouth.say(Work::Linked(number, link)),
                    Err(why) => mouth.say(Work::Unlinked(why)),
                }
            }
        });
    }

    /// There is a connection again: whatever may have been lost is looked at.
    fn linked(&mut self, number: u64, link: Link) {
        tracing::debug!(number, "connected to Redis again");
        (self.link, self.number, self.last_trouble) = (Some(link), number, None);
        self.mouth.connected(true);
        if std::mem::take(&mut self.is_stillborn) {
            return self.unlink(number);
        }
        if self.session.is_some() && self.alive + self.lease <= Instant::now() {
            self.say(ToNode::NoSession);
            self.end_session();
        }
        self.look_again();
        let ended: Vec<u64> = self.leaving.keys().copied().collect();
        ended.into_iter().for_each(|count| self.leave_again(count));
    }

    /// Words may have been lost: asks for what we wait for, and whether we still hold what we hold.
    pub(crate) fn look_again(&mut self) {
        self.renew_all(None);
        let asked = self.claims.iter_mut().filter(|(_, claim)| claim.pending.is_some());
        let asked = asked.map(|(record, claim)| {
            if claim.was_sent {
                claim.is_doubtful();
            }
            record.clone()
        });
        let asked: Vec<Record> = asked.collect();
        asked.iter().for_each(|record| self.ask(record));
    }

    /// Says once more that a lock is over, whatever had become of it.
    fn leave_again(&mut self, count: u64) {
        let Some(leaving) = self.leaving.get(&count) else { return };
        let (record, keys) = (leaving.record.clone(), Arc::clone(&leaving.keys));
        let before = leaving.before.clone();
        self.call(&record, (count, &before), &keys, Op::Cancel, None);
    }

    fn ring(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.alarms.rings(now) {
            match due {
                Due::Claim(record, count) => {
                    if let Some(claim) = self.claims.get_mut(&record).filter(|c| c.count == count) {
                        claim.alarm = None;
                        self.ask(&record);
                    }
                }
                Due::Leaving(count) => {
                    if self.leaving.get(&count).is_some_and(|leaving| leaving.until <= now) {
                        self.leaving.remove(&count);
                    }
                    self.leave_again(count);
                }
            }
        }
    }

    /// Refuses whoever waits for a record here.
    pub(crate) fn refuse(&self, record: &Record, why: Trouble) {
        self.ear.refuse(record, &LockError::Trouble(Box::new(why)));
    }
}

/// The pause after one between two attempts to connect.
fn next_pause(pause: Duration) -> Duration {
    (pause * 2).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// It waits in line, so many before it if that is known. Its place is kept by Redis alone.
pub(crate) fn queued(record: Record, seq: Seq, ahead: Option<u32>) -> ToNode {
    let ahead = ahead.unwrap_or(AHEAD_UNKNOWN);
    ToNode::Queued { record, seq, ticket: Ticket::default(), ahead }
}

async fn rung(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
