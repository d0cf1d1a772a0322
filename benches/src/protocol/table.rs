//! The table alone, with every record in use.

use std::hint::black_box;
use std::time::Duration;

use lockspan_protocol::server::table::{TableInput, TableOutput};
use lockspan_protocol::server::{Input, Output};
use lockspan_protocol::{
    Epoch, GroupSet, Handoff, Limits, LockServer, LockTable, Mode, Record, Seq, SessionId, Term,
    Tick, ToServer,
};

use super::{Access, Machine};

pub(super) const SESSIONS: u64 = 64;

/// A table whose records are all live.
struct Table {
    table: LockTable,
    epoch: Epoch,
    seq: u64,
    inputs: Vec<TableInput>,
    out: Vec<TableOutput>,
    /// Who has each record, and under which number; only for the hand-over.
    holders: Vec<(SessionId, u64)>,
}

pub(crate) fn record(number: usize) -> Record {
    Record::new("record", format!("{number:08}")).expect("a good name")
}

impl Table {
    fn new(records: usize, mode: Mode) -> Self {
        let mut table = LockTable::new(Limits::default(), 7);
        let epoch = Epoch::new(1).expect("a small epoch");
        let mut out = Vec::new();
        for number in 0..SESSIONS {
            let session = SessionId(number);
            let began = TableInput::Began { session, handoff: Handoff::Direct, user: None };
            table.handle(Tick::ZERO, began, &mut out).expect("a session begins");
        }
        let term = Term { groups: GroupSet::ALL, epoch };
        let begin = TableInput::Begin { term, listed: Vec::new(), formers: false };
        table.handle(Tick::ZERO, begin, &mut out).expect("a term begins");
        let mut this = Self { table, epoch, seq: 0, inputs: Vec::new(), out, holders: Vec::new() };
        for number in 0..records {
            let session = SessionId(number as u64 % SESSIONS);
            let input = this.acquire(session, number, mode);
            this.holders.push((session, this.seq));
            this.table.handle(Tick::ZERO, input, &mut this.out).expect("it is free");
            this.out.clear();
        }
        this
    }

    fn acquire(&mut self, session: SessionId, number: usize, mode: Mode) -> TableInput {
        self.seq += 1;
        let message = ToServer::Acquire {
            record: record(number),
            mode,
            seq: Seq(self.seq),
            epoch: self.epoch,
            upgrade: false,
            owners: Vec::new(),
        };
        TableInput::Message { session, message }
    }

    fn run(&mut self) -> usize {
        let steps = self.inputs.len();
        for input in self.inputs.drain(..) {
            let result = self.table.handle(Tick::ZERO, input, &mut self.out);
            debug_assert!(result.is_ok(), "{result:?}");
            black_box(&self.out);
            self.out.clear();
        }
        steps
    }
}

pub(super) fn release(number: usize, seq: u64) -> ToServer {
    ToServer::Release { record: record(number), seq: Seq(seq), keep: None }
}

/// Records are cached for reading; another session reads one as well, and gives it back.
pub(super) fn share(records: usize) -> Box<dyn Machine> {
    Box::new(Share(Table::new(records, Mode::Read)))
}

struct Share(Table);

impl Machine for Share {
    fn prepare(&mut self, access: &mut Access, steps: usize) {
        let table = &mut self.0;
        for _ in 0..steps / 2 {
            let number = access.next();
            let session = SessionId((number as u64 + 1 + table.seq % (SESSIONS - 1)) % SESSIONS);
            let acquire = table.acquire(session, number, Mode::Read);
            table.inputs.push(acquire);
            let message = release(number, table.seq);
            table.inputs.push(TableInput::Message { session, message });
        }
    }

    fn run(&mut self) -> usize {
        self.0.run()
    }

    fn skip(&mut self) -> usize {
        std::mem::take(&mut self.0.inputs).len()
    }
}

/// Records are cached for writing; another session wants one, the first gives it back.
pub(super) fn hand_over(records: usize) -> Box<dyn Machine> {
    Box::new(HandOver(Table::new(records, Mode::Write)))
}

struct HandOver(Table);

impl Machine for HandOver {
    fn prepare(&mut self, access: &mut Access, steps: usize) {
        let table = &mut self.0;
        for _ in 0..steps / 2 {
            let number = access.next();
            let (holder, seq) = table.holders[number];
            let next = SessionId((holder.0 + 1) % SESSIONS);
            let acquire = table.acquire(next, number, Mode::Write);
            table.inputs.push(acquire);
            let message = release(number, seq);
            table.inputs.push(TableInput::Message { session: holder, message });
            table.holders[number] = (next, table.seq);
        }
    }

    fn run(&mut self) -> usize {
        self.0.run()
    }

    fn skip(&mut self) -> usize {
        std::mem::take(&mut self.0.inputs).len()
    }
}

/// A server with this many idle sessions.
pub(crate) fn sessions(count: usize) -> LockServer {
    let limits = Limits { sessions: count, ..Limits::default() };
    let mut server = LockServer::new(limits, 2, 7);
    let mut out = Vec::new();
    for number in 0..count {
        let message = ToServer::Open { ttl: Duration::from_secs(10), handoff: Handoff::Direct };
        let input = Input::Message { session: SessionId(number as u64), message };
        server.handle(Tick::ZERO, input, &mut out).expect("a session opens");
        for output in std::mem::take(&mut out) {
            if let Output::Store { store, .. } = output {
                let stored = Input::Stored { store };
                server.handle(Tick::ZERO, stored, &mut out).expect("it was under way");
            }
        }
        out.clear();
    }
    server
}
