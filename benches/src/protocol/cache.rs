//! The cache alone, with every record cached and idle: one is given back and wanted again.

use std::hint::black_box;
use std::time::Duration;

use lockspan_protocol::cache::{Config, Input, Output, PageLimits};
use lockspan_protocol::{
    Bugs, Epoch, GroupSet, Handoff, LockCache, Mode, Seq, ServerId, SessionId, StayLimits, Term,
    Tick, ToNode, Token,
};

use super::table::record;
use super::{Access, Machine};

const SERVER: ServerId = ServerId(0);
const SESSION: SessionId = SessionId(1);

struct Cache {
    cache: LockCache,
    seq: u64,
    inputs: Vec<Input>,
    out: Vec<Output>,
}

/// Four steps a round: give back, drained, want, granted.
pub(super) fn churn(records: usize) -> Box<dyn Machine> {
    Box::new(cached(records))
}

/// A cache with these records.
fn cached(records: usize) -> Cache {
    let config = Config {
        first_session: SESSION,
        ttl: Duration::from_secs(10),
        handoff: Handoff::Direct,
        label: None,
        resend: Duration::from_millis(500),
        stay: StayLimits::default(),
        pages: PageLimits::default(),
        records,
        owners: 64,
        bugs: Bugs::NONE,
    };
    let mut this =
        Cache { cache: LockCache::new(config), seq: 0, inputs: Vec::new(), out: Vec::new() };
    this.inputs.push(Input::Route { groups: GroupSet::ALL, server: SERVER });
    this.want(0);
    let term = Term { groups: GroupSet::ALL, epoch: Epoch::new(1).expect("a small epoch") };
    let opened = this.hear(ToNode::Opened { terms: vec![term] });
    this.inputs.push(opened);
    this.grant(0);
    for number in 1..records {
        this.want(number);
        this.grant(number);
        if number % 1024 == 0 {
            this.run();
        }
    }
    this.run();
    assert_eq!(this.cache.len(), records, "all are cached");
    this
}

/// Two steps a round: a keep-alive is due, and is answered.
pub(super) fn keep_alive(records: usize) -> Box<dyn Machine> {
    Box::new(KeepAlive { cache: cached(records), now: Tick::ZERO, number: 0 })
}

struct KeepAlive {
    cache: Cache,
    now: Tick,
    number: u64,
}

impl Machine for KeepAlive {
    fn prepare(&mut self, _: &mut Access, steps: usize) {
        for _ in 0..steps / 2 {
            self.number += 1;
            let alive = ToNode::Alive { number: self.number, groups: GroupSet::ALL };
            let alive = self.cache.hear(alive);
            self.cache.inputs.push(Input::Tick);
            self.cache.inputs.push(alive);
        }
    }

    fn run(&mut self) -> usize {
        let steps = self.cache.inputs.len();
        for input in self.cache.inputs.drain(..) {
            if input == Input::Tick {
                // A third of the lease has passed.
                self.now = self.now + Duration::from_secs(4);
            }
            let result = self.cache.cache.handle(self.now, input, &mut self.cache.out);
            debug_assert!(result.is_ok(), "{result:?}");
            assert!(!self.cache.out.is_empty(), "it is sent, and extends the lease");
            self.cache.out.clear();
        }
        steps
    }

    fn skip(&mut self) -> usize {
        self.cache.skip()
    }
}

impl Cache {
    fn hear(&self, message: ToNode) -> Input {
        Input::Message { server: SERVER, session: SESSION, message }
    }

    fn want(&mut self, number: usize) {
        self.seq += 1;
        let (record, mode) = (record(number), Mode::Write);
        self.inputs.push(Input::Want { record, mode, upgrade: false, owners: Vec::new() });
    }

    fn grant(&mut self, number: usize) {
        let token = Token::new(Epoch::new(1).expect("a small epoch"), self.seq);
        let token = token.expect("a small count");
        let (record, seq, mode) = (record(number), Seq(self.seq), Mode::Write);
        let granted = ToNode::Granted { record, seq, mode, token, give_back: None };
        let granted = self.hear(granted);
        self.inputs.push(granted);
    }
}

impl Machine for Cache {
    fn prepare(&mut self, access: &mut Access, steps: usize) {
        for _ in 0..steps / 4 {
            let number = access.next();
            self.inputs.push(Input::GiveBack { record: record(number) });
            self.inputs.push(Input::Drained { record: record(number) });
            self.want(number);
            self.grant(number);
        }
    }

    fn skip(&mut self) -> usize {
        std::mem::take(&mut self.inputs).len()
    }

    fn run(&mut self) -> usize {
        let steps = self.inputs.len();
        for input in self.inputs.drain(..) {
            let result = self.cache.handle(Tick::ZERO, input, &mut self.out);
            debug_assert!(result.is_ok(), "{result:?}");
            black_box(&self.out);
            self.out.clear();
        }
        steps
    }
}
