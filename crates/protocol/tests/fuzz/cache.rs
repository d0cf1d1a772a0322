//! What may happen to a node's cache, and more.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockspan_protocol::cache::{Config, Input, LeaseId, Output, PageLimits};
use lockspan_protocol::{
    AcquireRefusal, Bugs, Epoch, GroupSet, Handoff, Holder, LockCache, Mode, NotServed, Record,
    Seq, ServerId, SessionId, StayLimits, Term, Tick, ToNode, ToServer, Token,
};

use crate::common::{self, OWNERS_MAX, RECORDS};
use crate::harness::Fuzz;
use crate::rng::Rng;

const SERVERS: u64 = 3;
const FIRST: u64 = 100;
const CONFIG: Config = Config {
    first_session: SessionId(FIRST),
    ttl: Duration::from_secs(3),
    handoff: Handoff::Direct,
    label: None,
    resend: Duration::from_millis(300),
    stay: StayLimits { turns: 2, time: Duration::from_millis(2) },
    records: 3,
    owners: OWNERS_MAX,
    pages: PageLimits { claims: 1, bytes: 1 << 10, window: 2 },
    bugs: Bugs::NONE,
};
/// Whatever happens, a cache with these limits can be written down in that many bytes.
const TEXT_MAX: usize = 60_000;

/// A number of this node that a server knows.
#[derive(Clone)]
struct Topic {
    server: ServerId,
    session: SessionId,
    record: Record,
    seq: Seq,
}

pub(crate) struct CacheFuzz {
    rng: Rng,
    cache: LockCache,
    now: Tick,
    /// The last number that was seen in a message.
    last: u64,
    /// What was asked for lately, or goes on as a read: it can be talked about.
    topics: VecDeque<Topic>,
    /// The last keep-alive.
    number: u64,
    /// The last re-assertion: to whom, for what, and of which session.
    awaited: Option<(ServerId, SessionId, Term, SessionId)>,
    /// The last page that was asked about.
    page: Seq,
    /// What the servers say that they serve; a server may say something else.
    terms: Vec<Term>,
    steps: u64,
    seen: u32,
    /// The ends of leases, as they were told last.
    leases: BTreeMap<LeaseId, Tick>,
    out: Vec<Output>,
}

impl Fuzz for CacheFuzz {
    type Input = Input;
    const KINDS: u32 = 18;

    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let now = Tick(rng.below(1 << 40));
        let handoff = common::handoff(&mut rng);
        let terms = vec![Term { groups: GroupSet::ALL, epoch: Epoch::new(1).unwrap() }];
        Self {
            rng,
            cache: LockCache::new(Config { handoff, ..CONFIG }),
            now,
            last: 0,
            topics: VecDeque::new(),
            number: 0,
            awaited: None,
            page: Seq::NONE,
            terms,
            steps: 0,
            seen: 0,
            leases: BTreeMap::new(),
            out: Vec::new(),
        }
    }

    fn draw(&mut self) -> (Tick, Input) {
        self.now = common::later(&mut self.rng, self.now, self.cache.next_deadline());
        (self.now, self.input())
    }

    /// Whether it was accepted.
    fn step(&mut self, now: Tick, input: Input) -> bool {
        // Time passes first; beyond that, a refused input changes nothing.
        self.cache.handle(now, Input::Tick, &mut self.out).expect("a tick is never refused");
        self.perform();
        let deadline = self.cache.next_deadline();
        assert!(deadline.is_none_or(|at| at > now), "{deadline:?} is over at {now:?}");

        let before = self.cache.clone();
        let result = self.cache.handle(now, input, &mut self.out);
        if let Err(refusal) = &result {
            assert!(!refusal.to_string().is_empty());
            assert!(self.out.is_empty(), "refused ({refusal}), and {:?}", self.out);
            assert_eq!(format!("{before:?}"), format!("{:?}", self.cache), "{refusal}");
        }
        self.perform();
        self.check();
        result.is_ok()
    }

    fn seen(&self) -> u32 {
        self.seen
    }

    /// The node closes: nothing is left.
    fn finish(&mut self) {
        let closed = self.cache.handle(self.now, Input::Close, &mut self.out);
        let sends_only = self.out.iter().all(|output| matches!(output, Output::Send { .. }));
        assert!(closed.is_err() || sends_only, "{:?}", self.out);
        self.check();
        assert!(self.cache.is_empty(), "closed, and not empty");
        assert_eq!(self.cache.sessions().count(), 0, "closed, and with sessions");
        assert_eq!(self.cache.next_deadline(), None, "closed, and with a deadline");
    }
}

impl CacheFuzz {
    fn perform(&mut self) {
        for output in self.out.drain(..) {
            self.seen |= 1 << kind(&output);
            if let Output::Lease { lease, until } = output {
                self.leases.insert(lease, until);
            }
            let Output::Send { server, session, message } = output else { continue };
            assert!(server.0 < SERVERS as u32 && session.0 >= FIRST, "{server} {session}");
            match message {
                ToServer::Acquire { record, seq, .. }
                | ToServer::Release { record, keep: Some(seq), .. }
                | ToServer::Cancel { record, keep: Some(seq), .. } => {
                    self.last = self.last.max(seq.0);
                    self.topics.retain(|topic| topic.record != record || topic.seq != seq);
                    self.topics.push_back(Topic { server, session, record, seq });
                    if self.topics.len() > 5 {
                        self.topics.pop_front();
                    }
                }
                ToServer::KeepAlive { number } => self.number = number,
                ToServer::Page { groups, epoch, former, first, .. } => {
                    self.awaited = Some((server, session, Term { groups, epoch }, former));
                    self.page = first;
                }
                ToServer::Reasserted { groups, epoch, former, .. } => {
                    self.awaited = Some((server, session, Term { groups, epoch }, former));
                }
                _ => {}
            }
        }
    }

    fn check(&mut self) {
        self.cache.check();
        let most = CONFIG.records;
        assert!(self.cache.len() <= most, "{} records", self.cache.len());
        assert!(self.cache.sessions().count() <= SERVERS as usize);
        self.steps += 1;
        if self.steps.is_multiple_of(20) {
            let text = format!("{:?}", self.cache);
            assert!(text.len() < TEXT_MAX, "{} bytes: {text}", text.len());
        }
        // Nothing is usable past the lease, whatever was said.
        for id in 0..RECORDS {
            let record = Record::new("r", id.to_string()).unwrap();
            if self.cache.is_usable(self.now, &record, Mode::Read) {
                let mut leases = self.leases.values();
                assert!(leases.any(|&until| until > self.now), "{record} without a lease");
            }
        }
    }

    fn input(&mut self) -> Input {
        let rng = &mut self.rng;
        let record = record(rng);
        match rng.below(10_000) {
            0..800 => {
                let groups =
                    if rng.percent(70) { GroupSet::ALL } else { common::groups(rng, &self.terms) };
                Input::Route { groups, server: server(rng) }
            }
            800..900 => Input::Connected { server: server(rng) },
            900..2500 => Input::Want {
                record,
                mode: common::mode(rng),
                upgrade: rng.percent(30),
                owners: common::owners(rng),
            },
            2500..2600 => Input::Withdraw { record },
            2600..2700 => Input::Note { record, note: common::annotation(rng) },
            2700..2800 => Input::WhoHolds { record },
            2800..3300 => Input::Drained { record },
            3300..3400 => Input::Downgraded { record },
            3400..3800 => {
                Input::Busy { record, holders: common::owners(rng), waits: common::waits(rng) }
            }
            3800..3900 => Input::GiveBack { record },
            3900..3980 => Input::Return { record },
            3980..4000 => {
                Input::Serves { server: server(rng), term: common::term(rng, &self.terms) }
            }
            4000..4002 => Input::Close,
            4002..4100 => Input::Tick,
            4100..4700 if self.awaited.is_some() => {
                let (server, session, term, former) = self.awaited.unwrap();
                let message = match rng.below(10) {
                    0..4 => ToNode::Recovered { term, former },
                    4..8 => {
                        let (first, whole) = (self.page, rng.percent(70));
                        ToNode::Heard { term, former, first, whole }
                    }
                    _ => ToNode::Unlisted { term, former },
                };
                Input::Message { server, session, message }
            }
            _ if !self.topics.is_empty() && rng.percent(60) => {
                let at = rng.below(self.topics.len() as u64) as usize;
                let Topic { server, session, record, seq } = self.topics[at].clone();
                let message = self.about(record, seq);
                Input::Message { server, session, message }
            }
            _ => {
                let known: Vec<_> = self.cache.sessions().collect();
                let (server, session) = match known.is_empty() || rng.percent(3) {
                    true => (server(rng), SessionId(FIRST + rng.below(5))),
                    false => rng.pick(&known),
                };
                let seq = common::seq(rng, &mut self.last.clone());
                let message =
                    if rng.percent(60) { self.message() } else { self.about(record, seq) };
                Input::Message { server, session, message }
            }
        }
    }

    /// What a server says about its sessions and terms.
    fn message(&mut self) -> ToNode {
        let rng = &mut self.rng;
        if rng.percent(8) {
            // A new term: of all groups, or of some.
            let epoch = self.terms.iter().map(|term| term.epoch).max().unwrap();
            let groups = common::groups(rng, &self.terms);
            let term = Term { groups, epoch: epoch.next().unwrap() };
            for old in &mut self.terms {
                old.groups = old.groups.without(term.groups);
            }
            self.terms.push(term);
            self.terms.retain(|term| !term.groups.is_empty());
        }
        match rng.below(100) {
            0..50 => {
                let sane = rng.percent(80);
                let odd = rng.some(2, |rng| common::term(rng, &self.terms));
                ToNode::Opened { terms: if sane { self.terms.clone() } else { odd } }
            }
            50..75 => {
                let number =
                    if rng.percent(80) { self.number } else { rng.next() >> rng.below(64) };
                ToNode::Alive { number, groups: common::groups(rng, &self.terms) }
            }
            75..78 => ToNode::NoSession,
            78..80 => ToNode::Moved { groups: common::groups(rng, &self.terms) },
            80..88 => ToNode::Serving(common::term(rng, &self.terms)),
            88..98 => {
                let term = common::term(rng, &self.terms);
                ToNode::Recovered { term, former: SessionId(FIRST + rng.below(5)) }
            }
            _ => {
                let former = SessionId(FIRST + rng.below(5));
                ToNode::Unlisted { term: common::term(rng, &self.terms), former }
            }
        }
    }

    /// What a server says about a number.
    fn about(&mut self, record: Record, seq: Seq) -> ToNode {
        let rng = &mut self.rng;
        let present = common::epoch_of(&self.terms, GroupSet::from_iter([record.group()]));
        match rng.below(100) {
            0..45 => ToNode::Granted {
                record,
                seq,
                mode: common::mode(rng),
                token: if rng.percent(90) {
                    Token::new(present, rng.below(5)).unwrap()
                } else {
                    common::token(rng, present)
                },
                give_back: rng.percent(30).then(|| common::mode(rng)),
            },
            45..55 => {
                let ticket = common::ticket(rng, present);
                ToNode::Queued { record, seq, ticket, ahead: rng.below(5) as u32 }
            }
            55..58 => ToNode::Retry { record, seq },
            58..60 => {
                let label = common::annotation(rng);
                let holder =
                    Holder { label, note: None, mode: common::mode(rng), held: Duration::ZERO };
                ToNode::HeldBy { record, seq, ahead: 1, holders: vec![holder] }
            }
            60..76 => {
                let (wanted, at) = (common::mode(rng), common::ticket(rng, present));
                ToNode::Revoke { record, seq, wanted, at }
            }
            76..82 => ToNode::Keep { record, seq, at: common::ticket(rng, present) },
            82..94 => {
                let (group, cycle) = (record.group(), common::owners(rng));
                let why = rng.pick(&[
                    AcquireRefusal::NotServed(NotServed { group }),
                    AcquireRefusal::StaleSeq,
                    AcquireRefusal::UpgradeConflict,
                    AcquireRefusal::NotHeld,
                    AcquireRefusal::Deadlock { cycle },
                    AcquireRefusal::TooManyWaiters { max: 1 },
                ]);
                ToNode::Refused { record, seq, why }
            }
            _ => ToNode::Lost { record, seq },
        }
    }
}

/// A few more than the cache may have.
fn record(rng: &mut Rng) -> Record {
    Record::new("r", rng.below(CONFIG.records as u64 + 1).to_string()).unwrap()
}

fn server(rng: &mut Rng) -> ServerId {
    ServerId(rng.below(SERVERS) as u32)
}

/// Of everything that a cache can put out, which: so that it is seen whether all of it was.
fn kind(output: &Output) -> u32 {
    match output {
        Output::Open { .. } => 0,
        Output::Rests { .. } => 1,
        Output::Drain { to: None, .. } => 2,
        Output::Drain { .. } => 3,
        Output::Lost { .. } => 4,
        Output::Refused { .. } => 5,
        Output::Lease { .. } => 6,
        Output::Locate { .. } => 7,
        Output::HeldBy { .. } => 18,
        Output::Send { message, .. } => match message {
            ToServer::Open { .. } => 8,
            ToServer::KeepAlive { .. } => 9,
            ToServer::Acquire { upgrade: false, .. } => 10,
            ToServer::Acquire { .. } => 11,
            ToServer::Release { .. } => 12,
            ToServer::Cancel { .. } => 13,
            ToServer::Report { .. } => 14,
            ToServer::Reassert { .. } => 15,
            ToServer::Reasserted { .. } => 16,
            ToServer::Page { .. } => 17,
            ToServer::Nothing { .. } => 21,
            ToServer::Note { .. } => 19,
            ToServer::WhoHolds { .. } => 20,
            ToServer::Close => 0,
            other => panic!("a node does not say {other:?}"),
        },
    }
}
