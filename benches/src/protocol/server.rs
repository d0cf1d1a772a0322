//! A whole server, and the leases of its sessions on both sides.

use std::hint::black_box;
use std::time::Duration;

use lockspan_protocol::server::{Input, Output};
use lockspan_protocol::{Epoch, GroupSet, LockServer, Mode, Seq, SessionId, Tick, ToServer};

use super::table::{self, SESSIONS, record, release};
use super::{Access, Machine};

/// A server of all groups with open sessions.
struct Server {
    server: LockServer,
    now: Tick,
    seq: u64,
    inputs: Vec<Input>,
    out: Vec<Output>,
    /// Who has each record, and under which number; only for the hand-over.
    holders: Vec<(SessionId, u64)>,
}

impl Server {
    fn new(sessions: usize) -> Self {
        let server = table::sessions(sessions);
        let (inputs, out, holders) = (Vec::new(), Vec::new(), Vec::new());
        let mut this = Self { server, now: Tick::ZERO, seq: 0, inputs, out, holders };
        let (groups, above) = (GroupSet::ALL, Epoch::NONE);
        this.do_now(Input::Take { groups, above, listed: Vec::new() });
        this
    }

    /// An input, and all that is stored because of it.
    fn do_now(&mut self, input: Input) {
        self.server.handle(self.now, input, &mut self.out).expect("a good input");
        for output in std::mem::take(&mut self.out) {
            if let Output::Store { store, .. } = output {
                self.do_now(Input::Stored { store });
            }
        }
        self.out.clear();
    }

    fn acquire(&mut self, session: SessionId, number: usize) -> Input {
        self.seq += 1;
        let message = ToServer::Acquire {
            record: record(number),
            mode: Mode::Write,
            seq: Seq(self.seq),
            epoch: Epoch::new(1).expect("a small epoch"),
            upgrade: false,
            owners: Vec::new(),
        };
        Input::Message { session, message }
    }

    fn run(&mut self, step: Duration) -> usize {
        let steps = self.inputs.len();
        for input in self.inputs.drain(..) {
            self.now = self.now + step;
            let result = self.server.handle(self.now, input, &mut self.out);
            debug_assert!(result.is_ok(), "{result:?}");
            black_box(&self.out);
            self.out.clear();
        }
        steps
    }
}

/// So many sessions as there are to be records; one after the other says that it lives.
pub(super) fn keep_alive(records: usize) -> Box<dyn Machine> {
    Box::new(KeepAlive(Server::new(records)))
}

struct KeepAlive(Server);

impl Machine for KeepAlive {
    fn prepare(&mut self, access: &mut Access, steps: usize) {
        let server = &mut self.0;
        for _ in 0..steps {
            server.seq += 1;
            let message = ToServer::KeepAlive { number: server.seq };
            let session = SessionId(access.next() as u64);
            server.inputs.push(Input::Message { session, message });
        }
    }

    fn run(&mut self) -> usize {
        self.0.run(Duration::from_micros(1))
    }

    fn skip(&mut self) -> usize {
        std::mem::take(&mut self.0.inputs).len()
    }
}

/// Records are cached for writing; another session wants one, the first gives it back.
pub(super) fn hand_over(records: usize) -> Box<dyn Machine> {
    let mut server = Server::new(SESSIONS as usize);
    for number in 0..records {
        let session = SessionId(number as u64 % SESSIONS);
        let acquire = server.acquire(session, number);
        server.holders.push((session, server.seq));
        server.do_now(acquire);
    }
    Box::new(HandOver(server))
}

struct HandOver(Server);

impl Machine for HandOver {
    fn prepare(&mut self, access: &mut Access, steps: usize) {
        let server = &mut self.0;
        for _ in 0..steps / 2 {
            let number = access.next();
            let (holder, seq) = server.holders[number];
            let next = SessionId((holder.0 + 1) % SESSIONS);
            let acquire = server.acquire(next, number);
            server.inputs.push(acquire);
            let message = release(number, seq);
            server.inputs.push(Input::Message { session: holder, message });
            server.holders[number] = (next, server.seq);
        }
    }

    fn run(&mut self) -> usize {
        self.0.run(Duration::ZERO)
    }

    fn skip(&mut self) -> usize {
        std::mem::take(&mut self.0.inputs).len()
    }
}
