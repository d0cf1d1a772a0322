//! A node and a server that is restarted, page by page; and what comes of it if either is wrong.

use std::collections::VecDeque;

use super::*;
use crate::bugs::Bugs;
use crate::cache::{self, LockCache, PageLimits};
use crate::mode::Mode::Write;
use crate::stay::StayLimits;

const NODE: SessionId = SessionId(7);
const SERVER: crate::ServerId = crate::ServerId(1);

/// A server of one table, a node whose pages have one record each, and session B of nobody.
struct World {
    server: LockServer,
    node: LockCache,
    now: Tick,
    bugs: Bugs,
    /// How many re-assertions the server was told, those that were lost included.
    told: usize,
    /// The seq whose re-assertion is lost, once.
    loses: Option<Seq>,
    /// What B has heard.
    heard: Vec<ToNode>,
    /// Messages between the node and the server, in the order in which they were sent.
    post: VecDeque<Packet>,
}

enum Packet {
    Up(ToServer),
    Down(ToNode),
}

impl World {
    fn new(bugs: Bugs) -> Self {
        let config = cache::Config {
            first_session: NODE,
            ttl: TTL,
            handoff: Handoff::Direct,
            label: None,
            resend: Duration::from_millis(500),
            stay: StayLimits::default(),
            records: 100,
            owners: 2,
            pages: PageLimits { claims: 1, bytes: 1 << 10, window: 1 },
            bugs,
        };
        let node = LockCache::new(config);
        let server = Self::start(bugs);
        let (now, heard) = (Tick(1_000), Vec::new());
        let post = VecDeque::new();
        let mut world = Self { server, node, now, bugs, told: 0, loses: None, heard, post };
        world.take(Epoch::NONE, Vec::new());
        world.says(B, ToServer::Open { ttl: TTL, handoff: Handoff::Direct });
        world.input(cache::Input::Route { groups: GroupSet::ALL, server: SERVER });
        world
    }

    fn start(bugs: Bugs) -> LockServer {
        LockServer::new(Limits { bugs, ..Limits::default() }, 1, 1)
    }

    fn take(&mut self, above: Epoch, listed: Vec<Listed>) {
        self.server_input(Input::Take { groups: GroupSet::ALL, above, listed });
    }

    fn restart(&mut self) {
        self.server = Self::start(self.bugs);
        let here = |session| super::recovery::listed(session, true);
        self.take(Epoch::new(1).unwrap(), vec![here(NODE), here(B)]);
    }

    /// One input of the server, and all messages that follow from it.
    fn server_input(&mut self, input: Input) {
        self.step_server(input);
        self.deliver();
    }

    fn deliver(&mut self) {
        while let Some(packet) = self.post.pop_front() {
            match packet {
                Packet::Up(message) => self.step_server(Input::Message { session: NODE, message }),
                Packet::Down(message) => {
                    let (server, session) = (SERVER, NODE);
                    self.step_node(cache::Input::Message { server, session, message });
                }
            }
        }
    }

    fn step_server(&mut self, input: Input) {
        let mut out = Vec::new();
        // What is refused here is not answered.
        let _ = self.server.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Store { store, .. } => self.step_server(Input::Stored { store }),
                Output::Send { session: NODE, message } => {
                    self.post.push_back(Packet::Down(message));
                }
                Output::Send { message, .. } => self.heard.push(message),
                _ => {}
            }
        }
    }

    fn says(&mut self, session: SessionId, message: ToServer) {
        self.server_input(Input::Message { session, message });
    }

    /// One input of the node, and all messages that follow from it.
    fn input(&mut self, input: cache::Input) {
        self.step_node(input);
        self.deliver();
    }

    fn step_node(&mut self, input: cache::Input) {
        let mut out = Vec::new();
        self.node.handle(self.now, input, &mut out).unwrap();
        self.node.check();
        for output in out {
            let cache::Output::Send { message, .. } = output else { continue };
            if let ToServer::Reassert { seq, .. } = message {
                self.told += 1;
                if self.loses.take_if(|lost| *lost == seq).is_some() {
                    continue;
                }
            }
            self.post.push_back(Packet::Up(message));
        }
    }

    fn want(&mut self, id: &str) {
        let (record, mode) = (record(id), Write);
        self.input(cache::Input::Want { record, mode, upgrade: false, owners: Vec::new() });
    }

    fn acquire(&mut self, id: &str, seq: u64) {
        let epoch = self.server.terms()[0].epoch;
        let (record, mode, seq) = (record(id), Write, Seq(seq));
        let (upgrade, owners) = (false, Vec::new());
        self.says(B, ToServer::Acquire { record, mode, seq, epoch, upgrade, owners });
    }

    /// Time passes, for everybody.
    fn wait(&mut self) {
        self.now = self.now + Duration::from_millis(500);
        self.input(cache::Input::Tick);
        self.server_input(Input::Tick);
    }
}

/// A node holds three records; the server is restarted, and the re-assertion of the second is lost
/// on its way. Session B asks for that record when the server has recovered. Whether both have it
/// then, and how many re-assertions were sent.
fn second_page_lost(bugs: Bugs) -> (bool, usize) {
    let mut world = World::new(bugs);
    ["x", "y", "z"].into_iter().for_each(|id| world.want(id));
    assert_eq!(world.server.claims(), 3);
    world.loses = Some(Seq(2));
    world.restart();
    let Term { groups, epoch } = world.server.terms()[0];
    let nothing = ToServer::Reasserted { groups, epoch, former: B, count: 0, sum: 0 };
    world.says(B, nothing);
    for _ in 0..6 {
        world.wait();
    }
    assert!(!world.server.is_recovering(), "it has recovered, or believes so");
    world.heard.clear();
    world.acquire("y", 1);
    let is_granted = world.heard.iter().any(|message| matches!(message, ToNode::Granted { .. }));
    (is_granted && world.node.is_usable(world.now, &record("y"), Write), world.told)
}

#[test]
fn a_page_that_is_lost_is_told_again_and_no_other() {
    assert_eq!(second_page_lost(Bugs::NONE), (false, 4), "three re-assertions, and one again");
}

#[cfg(feature = "mutants")]
#[test]
fn a_lost_page_that_is_taken_for_heard_gives_its_records_away() {
    use crate::bugs::Bug;
    for bug in [Bug::PageTakenForAll, Bug::EndBeforePages] {
        assert!(second_page_lost(Bugs::only(bug)).0, "{bug:?} makes two holders");
    }
}

/// With the square of their number this would take minutes.
#[test]
fn a_hundred_thousand_re_assertions_of_one_table_take_no_longer_each() {
    const RECORDS: u64 = 100_000;
    let mut world = World::new(Bugs::NONE);
    world.restart();
    let (epoch, groups, former) = (Epoch::new(2).unwrap(), GroupSet::ALL, B);
    let mut sum = 0;
    for number in 1..=RECORDS {
        let (record, seq, mode) = (record(&number.to_string()), Seq(number), Write);
        let claim = super::recovery::held(number);
        world.says(B, ToServer::Reassert { record, epoch, former, seq, mode, claim });
        sum += number;
        if number % 100 == 0 {
            let (first, last, count) = (Seq(number - 99), Seq(number), 100);
            let sum = 100 * number - 99 * 50;
            world.heard.clear();
            world.says(B, ToServer::Page { groups, epoch, former, first, last, count, sum });
            assert!(matches!(world.heard[..], [ToNode::Heard { whole: true, .. }]));
        }
    }
    let count = RECORDS as u32;
    world.says(B, ToServer::Reasserted { groups, epoch, former, count, sum });
    assert!(matches!(world.heard[..], [_, ToNode::Recovered { .. }]));
    assert_eq!(world.server.claims(), RECORDS as usize);
}
