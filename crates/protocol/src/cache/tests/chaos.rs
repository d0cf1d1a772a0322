//! Any input at any time, from servers that know no rule: the invariants hold.

use super::*;
use crate::refusal::NotServed;

const WHYS: [AcquireRefusal; 4] = [
    AcquireRefusal::StaleSeq,
    AcquireRefusal::NotHeld,
    AcquireRefusal::UpgradeConflict,
    AcquireRefusal::TooManyWaiters { max: 1 },
];

/// Xorshift: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    fn name(&mut self) -> &'static str {
        self.of(&["x", "y", "z"])
    }

    fn mode(&mut self) -> Mode {
        self.of(&[Read, Write])
    }

    fn term(&mut self) -> Term {
        let half: GroupSet = GroupSet::ALL.iter().filter(|group| group.0 < 128).collect();
        let groups = self.of(&[GroupSet::ALL, half, GroupSet::ALL.without(half)]);
        Term { groups, ..term(1 + self.below(4) as u32) }
    }

    fn groups(&mut self) -> GroupSet {
        self.term().groups
    }

    fn input(&mut self, cache: &LockCache) -> Input {
        let name = self.name();
        match self.below(18) {
            0 => {
                Input::Route { groups: self.term().groups, server: ServerId(self.below(2) as u32) }
            }
            1 if self.below(3) == 0 => {
                Input::Serves { server: ServerId(self.below(2) as u32), term: self.term() }
            }
            1 => Input::Connected { server: ServerId(self.below(2) as u32) },
            2 | 3 => want(name, self.mode()),
            4 => upgrade(name),
            5 => withdraw(name),
            6 => drained(name),
            7 => busy(name, &[1], &[]),
            8 => give_back(name),
            9 | 10 => Input::Tick,
            _ => {
                let sessions: Vec<_> = cache.sessions().collect();
                if sessions.is_empty() {
                    return Input::Tick;
                }
                let (server, session) = self.of(&sessions);
                Input::Message { server, session, message: self.message(cache) }
            }
        }
    }

    fn message(&mut self, cache: &LockCache) -> ToNode {
        let record = record(self.name());
        let last = cache.seq.0;
        let seq = Seq(last.saturating_sub(self.below(4)));
        match self.below(14) {
            0 | 1 => ToNode::Opened { terms: vec![self.term()] },
            2 => ToNode::Alive { number: self.below(4), groups: self.groups() },
            3 if self.below(4) == 0 => ToNode::NoSession,
            3 if self.below(3) == 0 => ToNode::Moved { groups: self.groups() },
            3 | 4 => ToNode::Serving(self.term()),
            5 => {
                let former = SessionId(100 + self.below(4));
                ToNode::Recovered { term: self.term(), former }
            }
            6 => {
                let former = SessionId(100 + self.below(4));
                ToNode::Unlisted { term: self.term(), former }
            }
            7 | 8 => {
                let (epoch, give_back) = (1 + self.below(4) as u32, self.mode());
                let give_back = (self.below(3) == 0).then_some(give_back);
                let asked = cache.records.get(&record).and_then(|entry| entry.want.as_ref());
                let mode = asked.map_or(Read, |want| want.mode);
                ToNode::Granted { record, seq, mode, token: token(epoch, last), give_back }
            }
            9 => {
                let ticket = Ticket::new(Epoch::new(1).unwrap(), last).unwrap();
                ToNode::Queued { record, seq, ticket, ahead: 0 }
            }
            10 => ToNode::Retry { record, seq },
            11 => {
                let at = Ticket::new(Epoch::new(1).unwrap(), last).unwrap();
                let wanted = self.mode();
                if self.below(4) == 0 {
                    ToNode::Keep { record, seq, at }
                } else {
                    ToNode::Revoke { record, seq, wanted, at }
                }
            }
            12 if self.below(2) == 0 => {
                let why = AcquireRefusal::NotServed(NotServed { group: record.group() });
                ToNode::Refused { record, seq, why }
            }
            12 => ToNode::Refused { record, seq, why: self.of(&WHYS) },
            _ => ToNode::Lost { record, seq },
        }
    }
}

#[test]
fn whatever_comes_the_invariants_hold_and_the_same_again_does_the_same() {
    for seed in 0..20 {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15 + seed);
        let mut cache = LockCache::new(config());
        let mut twin = cache.clone();
        let mut at = 0;
        for _ in 0..300 {
            at += dice.of(&[0, 0, 1, 40, 400, 2500]);
            let input = dice.input(&cache);
            let said = step(&mut cache, at, input.clone());
            assert_eq!(said, step(&mut twin, at, input));
        }
        assert_eq!(format!("{cache:?}"), format!("{twin:?}"));
    }
}
