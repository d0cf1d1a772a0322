//! What may happen to a server, and more.

use std::time::Duration;

use lockspan_protocol::server::Listed;
use lockspan_protocol::{
    Bugs, Claim, Client, Epoch, Group, GroupSet, Handoff, Input, Limits, LockServer, Output,
    Record, Refusal, Seq, SessionId, SessionRefusal, StoreId, Term, Tick, ToNode, ToServer,
};

use crate::common::{self, OWNERS_MAX, RECORDS};
use crate::harness::Fuzz;
use crate::rng::Rng;

const TABLES: usize = 2;
/// Sessions that a store may list: they are there whatever the limit says.
const LISTED: u64 = 3;
const LIMITS: Limits = Limits {
    sessions: 4,
    records: 2,
    claims: 6,
    claims_per_session: 2,
    waiters_per_record: 2,
    waiters_per_user: 2,
    owners: OWNERS_MAX,
    search_steps: 50,
    portion: 2,
    crowd: 2,
    ttl_min: Duration::from_secs(1),
    ttl_max: Duration::from_secs(10),
    reserve: Duration::from_secs(1),
    resend: Duration::from_millis(500),
    bugs: Bugs::NONE,
};
/// Whatever happens, a server with these limits can be written down in that many bytes.
const TEXT_MAX: usize = 120_000;

pub(crate) struct ServerFuzz {
    rng: Rng,
    server: LockServer,
    now: Tick,
    /// Writes that are not durable yet.
    stores: Vec<StoreId>,
    /// The highest epoch that was stored or shown.
    above: Epoch,
    /// Sessions that were told that they are open, and not that they have ended.
    open: Vec<SessionId>,
    /// The last number of each session.
    seqs: [u64; 8],
    /// What each session has re-asserted.
    reasserted: [Vec<u64>; 8],
    steps: u64,
    seen: u32,
    out: Vec<Output>,
}

impl Fuzz for ServerFuzz {
    type Input = Input;
    const KINDS: u32 = 17;

    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let key = rng.next();
        let now = Tick(rng.below(1 << 40));
        Self {
            rng,
            server: LockServer::new(LIMITS, TABLES, key),
            now,
            stores: Vec::new(),
            above: Epoch::NONE,
            open: Vec::new(),
            seqs: [0; 8],
            reasserted: Default::default(),
            steps: 0,
            seen: 0,
            out: Vec::new(),
        }
    }

    fn draw(&mut self) -> (Tick, Input) {
        self.now = common::later(&mut self.rng, self.now, self.server.next_deadline());
        (self.now, self.input())
    }

    /// Whether it was accepted.
    fn step(&mut self, now: Tick, input: Input) -> bool {
        // Time passes first; beyond that, a refused input changes nothing.
        self.server.handle(now, Input::Tick, &mut self.out).expect("a tick is never refused");
        self.perform();
        let deadline = self.server.next_deadline();
        assert!(deadline.is_none_or(|at| at > now), "{deadline:?} is over at {now:?}");

        let session = match input {
            Input::Message { session, .. } => Some(session),
            _ => None,
        };
        let before = self.server.clone();
        let result = self.server.handle(now, input, &mut self.out);
        if let Err(refusal) = &result {
            assert!(!refusal.to_string().is_empty());
            if let (Some(session), Refusal::Session(SessionRefusal::Unknown)) = (session, refusal) {
                self.open.retain(|&other| other != session);
            }
            assert!(self.out.is_empty(), "refused ({refusal}), and {:?}", self.out);
            assert_eq!(before.views(), self.server.views(), "{refusal}");
            // All of it takes longer. (The short form leaves out what is in a slab.)
            if self.rng.percent(5) {
                assert_eq!(format!("{before:#?}"), format!("{:#?}", self.server), "{refusal}");
            }
        }
        self.perform();
        self.check();
        result.is_ok()
    }

    fn seen(&self) -> u32 {
        self.seen
    }

    /// All writes become durable, nobody says anything more: nothing is left.
    fn finish(&mut self) {
        self.server.handle(self.now, Input::Own { until: None }, &mut self.out).unwrap();
        for _ in 0..1000 {
            self.perform();
            if let Some(store) = self.stores.pop() {
                // Its groups may have been left.
                let _ = self.server.handle(self.now, Input::Stored { store }, &mut self.out);
            } else if let Some(deadline) = self.server.next_deadline() {
                self.now = self.now.max(deadline);
                self.server.handle(self.now, Input::Tick, &mut self.out).unwrap();
            } else {
                break;
            }
            self.check();
        }
        assert_eq!(self.server.formers(), 0, "listed sessions are left over");
        let left = (self.server.sessions(), self.server.records(), self.server.claims());
        assert_eq!(left, (0, 0, 0), "sessions, records and claims are left over");
        assert!(self.server.graph_is_empty(), "the graph is left over");
        assert!(!self.server.is_recovering(), "a recovery that nobody is in");
    }
}

impl ServerFuzz {
    fn perform(&mut self) {
        for output in self.out.drain(..) {
            self.seen |= 1 << kind(&output);
            match output {
                Output::Store { store, .. } => self.stores.push(store),
                Output::Behind { above, .. } if above < Epoch::MAX => {
                    self.above = self.above.max(above);
                }
                Output::Send { session, message: ToNode::Opened { .. } | ToNode::Serving(_) } => {
                    self.open.retain(|&other| other != session);
                    self.open.push(session);
                }
                Output::Ended { session } => {
                    self.open.retain(|&other| other != session);
                    self.reasserted[session.0 as usize].clear();
                }
                Output::Behind { .. }
                | Output::Left { .. }
                | Output::Settled { .. }
                | Output::Send { .. } => {}
            }
        }
    }

    fn check(&mut self) {
        self.server.check();
        let most = LIMITS.sessions + LISTED as usize;
        assert!(self.server.sessions() <= most, "{} sessions", self.server.sessions());
        // What is re-asserted is let in up to twice the limit.
        let records = self.server.records();
        assert!(records <= TABLES * LIMITS.records * 2, "{records} records");
        // An upgrade is a second claim at a record, and does not count.
        let claims = self.server.claims();
        assert!(claims <= TABLES * most * LIMITS.claims_per_session * 2, "{claims} claims");
        assert!(claims <= TABLES * LIMITS.claims * 2, "{claims} claims");
        self.steps += 1;
        if self.steps.is_multiple_of(50) {
            let text = format!("{:#?}", self.server);
            assert!(text.len() < TEXT_MAX, "{} bytes: {text}", text.len());
        }
    }

    fn input(&mut self) -> Input {
        let rng = &mut self.rng;
        let served =
            self.server.terms().iter().fold(GroupSet::EMPTY, |all, term| all.or(term.groups));
        let records = (0..RECORDS).map(|id| Record::new("r", id.to_string()).unwrap().group());
        let serves_all = records.into_iter().all(|group: Group| served.contains(group));
        match rng.below(1000) {
            0..250 if !self.stores.is_empty() => {
                let at = rng.below(self.stores.len() as u64) as usize;
                Input::Stored { store: self.stores.swap_remove(at) }
            }
            250..400 if !serves_all => self.take(GroupSet::ALL.without(served)),
            400..550 if self.server.is_resting(self.now) => Input::Own { until: None },
            0..5 => Input::Stored { store: StoreId(rng.below(20)) },
            5..10 => {
                let until = rng.percent(50).then(|| Tick(self.now.0 + rng.below(2_000_000)));
                Input::Own { until }
            }
            10..12 => Input::Own { until: Some(Tick(rng.below(self.now.0 + 1))) },
            12..16 => Input::Leave { groups: common::groups(rng, self.server.terms()) },
            16..30 => {
                let groups = common::groups(&mut self.rng, self.server.terms());
                self.take(groups)
            }
            30..36 => Input::Tick,
            36..40 => Input::Retire { session: common::session(rng) },
            40..48 => {
                let (session, handoff) = (common::session(rng), common::handoff(rng));
                Input::Admit { session, ttl: Duration::from_secs(10), handoff }
            }
            _ => {
                let session = match self.open.is_empty() || rng.percent(20) {
                    true => common::session(rng),
                    false => rng.pick(&self.open),
                };
                Input::Message { session, message: self.message(session) }
            }
        }
    }

    fn take(&mut self, groups: GroupSet) -> Input {
        let rng = &mut self.rng;
        let above = match rng.below(100) {
            0..90 => self.above,
            90..95 => Epoch::new(rng.below(3) as u32).unwrap(),
            95..99 => Epoch::new(self.above.number() + 1).unwrap_or(Epoch::MAX),
            _ => Epoch::MAX,
        };
        if above < Epoch::MAX {
            self.above = self.above.max(above.next().unwrap());
        }
        let mut listed = Vec::new();
        for session in 1..=LISTED {
            if rng.percent(40) {
                listed.push(Listed {
                    session: SessionId(session),
                    ttl: Duration::from_millis(500 * rng.below(20)),
                    handoff: common::handoff(rng),
                    here: rng.percent(70),
                    last: rng.percent(20),
                    client: rng.pick(&[Client::Node, Client::Stranger]),
                    acts: Duration::from_millis(500 * rng.below(5)),
                });
            }
        }
        Input::Take { groups, above, listed }
    }

    fn message(&mut self, session: SessionId) -> ToServer {
        let rng = &mut self.rng;
        let terms = self.server.terms();
        let record = common::record(rng);
        let present = common::epoch_of(terms, GroupSet::from_iter([record.group()]));
        let last = &mut self.seqs[session.0 as usize];
        let former = if rng.percent(60) { session } else { common::session(rng) };
        match rng.below(1000) {
            open if open < if self.open.contains(&session) { 20 } else { 700 } => {
                let millis = rng.pick(&[1000, 10_000, 10_000, 10_000, 10_000, 10_000]);
                let odd = rng.pick(&[0, 999, 10_001, u64::MAX]);
                let ttl = Duration::from_millis(if rng.percent(95) { millis } else { odd });
                ToServer::Open { ttl, handoff: rng.pick(&[Handoff::Direct, Handoff::Retry]) }
            }
            0..200 => ToServer::KeepAlive { number: rng.below(10) },
            200..206 => ToServer::Close,
            206..216 => {
                let Term { groups, epoch } = common::term(rng, terms);
                ToServer::Nothing { groups, epoch }
            }
            216..600 => ToServer::Acquire {
                mode: common::mode(rng),
                seq: common::seq(rng, last),
                epoch: common::epoch(rng, present),
                upgrade: rng.percent(20),
                owners: common::owners(rng),
                record,
            },
            600..760 => {
                let seq = common::seq(rng, last);
                let keep = rng.percent(30).then(|| common::seq(rng, last));
                ToServer::Release { record, seq, keep }
            }
            760..800 => {
                let seq = common::seq(rng, last);
                let keep = rng.percent(30).then(|| common::seq(rng, last));
                ToServer::Cancel { record, seq, keep }
            }
            800..806 => ToServer::Label { label: common::annotation(rng) },
            806..830 => {
                let (seq, note) = (common::seq(rng, last), common::annotation(rng));
                ToServer::Note { record, seq, note }
            }
            830..836 => ToServer::WhoHolds { record, seq: common::seq(rng, last) },
            836..850 => ToServer::Report {
                record,
                seq: common::seq(rng, last),
                number: rng.below(20),
                holders: common::owners(rng),
                waits: common::waits(rng),
            },
            850..940 => {
                let claim = if rng.percent(50) {
                    Claim::Held { token: common::token(rng, present) }
                } else {
                    let ticket = rng.percent(70).then(|| common::ticket(rng, present));
                    let upgrade = rng.percent(40);
                    Claim::Waiting { ticket, upgrade, owners: common::owners(rng) }
                };
                let seq = common::seq(rng, last);
                let told = &mut self.reasserted[session.0 as usize];
                if !told.contains(&seq.0) && told.len() < 3 {
                    told.push(seq.0);
                }
                ToServer::Reassert {
                    record,
                    epoch: common::epoch(rng, present),
                    former,
                    seq,
                    mode: common::mode(rng),
                    claim,
                }
            }
            _ => {
                let Term { groups, epoch } = common::term(rng, terms);
                let told = &self.reasserted[session.0 as usize];
                let (count, sum) = match rng.below(10) {
                    0..4 => (0, 0),
                    4..8 => {
                        (told.len() as u32, told.iter().fold(0, |sum, &seq| seq.wrapping_add(sum)))
                    }
                    8 => (rng.below(3) as u32, rng.below(30)),
                    _ => (u32::MAX, u64::MAX),
                };
                if rng.percent(40) {
                    // Also the other way round.
                    let (least, most) = (Seq::NONE, Seq(u64::MAX));
                    let any = Seq(rng.below(64));
                    let (first, last) = match rng.below(4) {
                        0 => (any, Seq(rng.below(64))),
                        1 => (most, least),
                        _ => (least, most),
                    };
                    return ToServer::Page { groups, epoch, former, first, last, count, sum };
                }
                ToServer::Reasserted { groups, epoch, former, count, sum }
            }
        }
    }
}

/// Of everything that a server can put out, which: so that it is seen whether all of it was.
fn kind(output: &Output) -> u32 {
    match output {
        Output::Store { .. } => 0,
        Output::Ended { .. } => 1,
        Output::Behind { .. } => 2,
        Output::Left { .. } => 14,
        Output::Settled { .. } => 17,
        Output::Send { message, .. } => match message {
            ToNode::Opened { .. } => 3,
            ToNode::Alive { .. } => 4,
            ToNode::Serving(_) => 5,
            ToNode::Recovered { .. } => 6,
            ToNode::Granted { give_back: None, .. } => 7,
            ToNode::Granted { .. } => 8,
            ToNode::Queued { .. } => 9,
            ToNode::Retry { .. } => 10,
            ToNode::Revoke { .. } => 11,
            ToNode::Refused { .. } => 12,
            ToNode::Lost { .. } => 13,
            ToNode::Keep { .. } => 14,
            ToNode::Heard { .. } => 15,
            ToNode::NoSession => 16,
            ToNode::Moved { .. } => 18,
            other => panic!("a server does not put out {other:?}"),
        },
    }
}
