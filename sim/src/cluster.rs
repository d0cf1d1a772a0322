//! The store of a cluster, in place of etcd: who owns which groups in which epoch, which sessions
//! each server has, and which servers live.
//!
//! A server says `Hello` when it starts and is told what it owns; it renews its lease; it writes.
//! Everything carries the server's *life*, the number of its start, so that nothing of an earlier
//! one counts. When a lease ends, the groups go to another server that lives, together with the
//! sessions of the dead one: the heir keeps its own copy of them, for these groups, until it
//! forgets them or has the groups no more; so the next heir finds them too.

use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Epoch, GROUPS, Group, GroupSet, StoreId, Tick, margin};
use std::time::Duration;

use crate::clock::Clock;
use crate::disk::{Entry, Sessions, listed};

/// From a server.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A server has started. `sent` comes back in the answer.
    Hello { sent: Tick },
    /// The lease goes on; hand-overs up to `upto` are known, and wishes up to `left` are fulfilled.
    Renew { sent: Tick, upto: u64, left: u64 },
    /// Writes number `first` and following.
    Write { first: u64, writes: Vec<(StoreId, Store)> },
}

/// To a server.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// What the server owns at its start; all hand-overs up to `upto` are in it.
    Welcome { sent: Tick, upto: u64, own: Option<Handover> },
    /// The lease goes on, these groups are the server's now, and those are to be left.
    Renewed { sent: Tick, handovers: Vec<(u64, Handover)>, leave: Option<(u64, GroupSet)> },
    /// Writes up to this number are durable.
    Written { upto: u64 },
    /// The lease has ended.
    Gone,
}

/// Groups to take.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) groups: GroupSet,
    pub(crate) above: Epoch,
    pub(crate) listed: Vec<Listed>,
}

/// What the store knows of a server.
#[derive(Debug, Default)]
struct Member {
    life: u32,
    /// None if the lease has ended.
    until: Option<Tick>,
    /// It has spoken since its welcome.
    started: bool,
    groups: GroupSet,
    sessions: Sessions,
    /// Of former owners of its groups.
    inherited: Vec<Inherited>,
    handovers: Vec<(u64, Handover)>,
    /// The wish that it leaves groups, for another server.
    leaving: Option<(u64, GroupSet)>,
    written: u64,
}

/// Sessions that came with groups.
#[derive(Debug)]
struct Inherited {
    groups: GroupSet,
    sessions: Sessions,
}

impl Member {
    /// Nobody has anything from a server without groups: when that is over, so are its sessions.
    fn forget_idle(&mut self) {
        if self.groups.is_empty() {
            self.sessions.clear();
            self.inherited.clear();
        }
    }

    /// Sessions that came with any of these groups.
    fn inherited(&self, groups: GroupSet) -> Sessions {
        let concerned = |one: &&Inherited| !one.groups.and(groups).is_empty();
        let inherited = self.inherited.iter().filter(concerned);
        inherited.flat_map(|one| one.sessions.clone()).collect()
    }

    /// These groups are another server's now.
    fn lose(&mut self, groups: GroupSet) {
        self.groups = self.groups.without(groups);
        self.leaving = None;
        for one in &mut self.inherited {
            one.groups = one.groups.without(groups);
        }
        self.inherited.retain(|one| !one.groups.is_empty() && !one.sessions.is_empty());
    }
}

/// The store.
#[derive(Debug)]
pub(crate) struct Cluster {
    clock: Clock,
    lease: Duration,
    epochs: Vec<Epoch>,
    members: Vec<Member>,
    handed_over: u64,
}

impl Cluster {
    /// A store in which `servers` share all groups.
    pub(crate) fn new(clock: Clock, lease: Duration, servers: usize) -> Self {
        let mut members: Vec<Member> = (0..servers).map(|_| Member::default()).collect();
        for group in GroupSet::ALL.iter() {
            members[usize::from(group.0) * servers / GROUPS].groups.insert(group);
        }
        let epochs = vec![Epoch::NONE; GROUPS];
        Self { clock, lease, epochs, members, handed_over: 0 }
    }

    /// How long after it has asked a server may believe in its lease, by its own clock.
    pub(crate) fn own_lease(&self) -> Duration {
        self.lease - margin(self.lease)
    }

    /// A server of this life says something at the moment `at`.
    pub(crate) fn handle(
        &mut self,
        at: u64,
        server: u8,
        life: u32,
        request: Request,
    ) -> Option<Reply> {
        let now = self.clock.at(at);
        let until = now + self.lease;
        let upto = self.handed_over;
        let member = &mut self.members[usize::from(server)];
        if let Request::Hello { sent } = request {
            if life < member.life || (life == member.life && member.started) {
                return None;
            }
            let ended = member.until.is_none_or(|until| now >= until);
            if life == member.life && ended {
                // The groups may be another's already: it has to start anew.
                return Some(Reply::Gone);
            }
            if life > member.life {
                (member.life, member.started, member.written) = (life, false, 0);
                member.leaving = None;
                member.forget_idle();
            }
            member.until = Some(until);
            return Some(Reply::Welcome { sent, upto, own: self.own(server) });
        }
        if life != member.life || member.until.is_none_or(|until| now >= until) {
            return (life >= member.life).then_some(Reply::Gone);
        }
        member.started = true;
        match request {
            Request::Hello { .. } => None,
            Request::Renew { sent, upto, left } => {
                member.until = Some(until);
                member.handovers.retain(|(number, _)| *number > upto);
                if let Some((_, groups)) = member.leaving.filter(|(wish, _)| *wish <= left) {
                    self.moved(usize::from(server), groups);
                }
                let member = &self.members[usize::from(server)];
                let (handovers, leave) = (member.handovers.clone(), member.leaving);
                Some(Reply::Renewed { sent, handovers, leave })
            }
            Request::Write { first, writes } => {
                for (number, (_, what)) in (first..).zip(writes) {
                    // A write that comes again, perhaps late, must not undo what came after it.
                    if number == member.written + 1 {
                        member.written = number;
                        apply(member, &mut self.epochs, what);
                    }
                }
                Some(Reply::Written { upto: member.written })
            }
        }
    }

    /// Ends leases that are over and hands groups on. Says which servers have got some.
    pub(crate) fn expire(&mut self, at: u64) -> Vec<u8> {
        let now = self.clock.at(at);
        for member in &mut self.members {
            if member.until.is_some_and(|until| now >= until) {
                member.until = None;
                member.forget_idle();
            }
        }
        let mut heirs = Vec::new();
        for dead in 0..self.members.len() {
            let member = &self.members[dead];
            if member.until.is_none() && member.life > 0 && !member.groups.is_empty() {
                heirs.extend(self.hand_over(dead));
            }
        }
        heirs
    }

    /// When the next lease ends.
    pub(crate) fn next_end(&self) -> Option<u64> {
        let ends = self.members.iter().filter_map(|member| member.until);
        ends.min().map(|until| self.clock.when(until))
    }

    /// Who owns these groups.
    pub(crate) fn owners(&self, groups: GroupSet) -> Vec<(u8, GroupSet)> {
        let owned = self.members.iter().zip(0..);
        let owned = owned.map(|(member, server)| (server, member.groups.and(groups)));
        owned.filter(|(_, groups)| !groups.is_empty()).collect()
    }

    /// Sessions that are stored for anybody.
    pub(crate) fn sessions(&self) -> usize {
        let members = self.members.iter();
        members.map(|one| one.sessions.len() + one.inherited(GroupSet::ALL).len()).sum()
    }

    /// Asks a living server to leave half of its groups, if another one lives.
    pub(crate) fn plan_move(&mut self, from: u8) {
        let from = usize::from(from);
        let member = &mut self.members[from];
        if member.until.is_some() && member.leaving.is_none() {
            self.handed_over += 1;
            let half = member.groups.iter().filter(|group| group.0 % 2 == 0);
            member.leaving = Some((self.handed_over, half.collect()));
        }
    }

    /// A living server has left these groups. Its sessions stay its own; the heir gets a copy.
    fn moved(&mut self, from: usize, groups: GroupSet) {
        let Some(heir) = self.heir(from) else { return };
        let member = &mut self.members[from];
        let mut sessions = member.inherited(groups);
        sessions.extend(member.sessions.clone());
        member.lose(groups);
        self.give(heir, groups, sessions);
    }

    /// Gives the groups of a dead server to a living one.
    fn hand_over(&mut self, dead: usize) -> Option<u8> {
        let heir = self.heir(dead)?;
        let member = &mut self.members[dead];
        let groups = member.groups;
        let mut sessions = member.inherited(groups);
        sessions.append(&mut member.sessions);
        member.lose(groups);
        member.handovers.clear();
        self.give(heir, groups, sessions);
        u8::try_from(heir).ok()
    }

    /// The living server that has fewest groups, but for `other`.
    fn heir(&self, other: usize) -> Option<usize> {
        let alive = |&at: &usize| at != other && self.members[at].until.is_some();
        let heirs = (0..self.members.len()).filter(alive);
        heirs.min_by_key(|&at| self.members[at].groups.iter().count())
    }

    fn give(&mut self, heir: usize, groups: GroupSet, sessions: Sessions) {
        self.handed_over += 1;
        let above = self.epoch_of(groups);
        let heir = &mut self.members[heir];
        // A session with the heir itself can come back with groups that it has left before.
        let (own, others): (Sessions, Sessions) =
            sessions.into_iter().partition(|(session, _)| heir.sessions.contains_key(session));
        let listed = listed(&own, true).chain(listed(&others, false)).collect();
        let handover = Handover { groups, above, listed };
        let sessions = others;
        heir.groups = heir.groups.or(groups);
        heir.inherited.push(Inherited { groups, sessions });
        heir.handovers.push((self.handed_over, handover));
    }

    /// Everything a server owns.
    fn own(&self, server: u8) -> Option<Handover> {
        let member = &self.members[usize::from(server)];
        let groups = member.groups;
        let inherited = member.inherited(groups);
        let listed = listed(&member.sessions, true).chain(listed(&inherited, false)).collect();
        let handover = Handover { groups, above: self.epoch_of(groups), listed };
        (!groups.is_empty()).then_some(handover)
    }

    fn epoch_of(&self, groups: GroupSet) -> Epoch {
        let epoch = |group: Group| self.epochs[usize::from(group.0)];
        groups.iter().map(epoch).max().unwrap_or(Epoch::NONE)
    }
}

fn apply(member: &mut Member, epochs: &mut [Epoch], what: Store) {
    match what {
        Store::Epoch(term) => {
            for group in term.groups.and(member.groups).iter() {
                let epoch = &mut epochs[usize::from(group.0)];
                *epoch = term.epoch.max(*epoch);
            }
        }
        Store::Session { session, ttl, handoff, last } => {
            member.sessions.insert(session, Entry { ttl, handoff, last });
        }
        Store::Forget { session } => {
            member.sessions.remove(&session);
            for inherited in &mut member.inherited {
                inherited.sessions.remove(&session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::{Handoff, SessionId};

    const LEASE: Duration = Duration::from_millis(1);

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new(Clock::new(0, 0), LEASE, 2);
        for server in 0..2 {
            let hello = Request::Hello { sent: Tick(0) };
            let reply = cluster.handle(0, server, 1, hello);
            assert!(matches!(reply, Some(Reply::Welcome { own: Some(_), .. })));
        }
        cluster
    }

    fn renew(upto: u64) -> Request {
        Request::Renew { sent: Tick(0), upto, left: 0 }
    }

    fn session(id: u64) -> (StoreId, Store) {
        let (ttl, handoff) = (LEASE, Handoff::Direct);
        (StoreId(id), Store::Session { session: SessionId(id), ttl, handoff, last: false })
    }

    #[test]
    fn the_heir_gets_groups_and_sessions_until_it_says_that_it_knows() {
        let mut cluster = cluster();
        let writes = vec![session(17)];
        cluster.handle(10, 0, 1, Request::Write { first: 1, writes });
        cluster.handle(900, 1, 1, renew(0));
        assert_eq!(cluster.expire(1000), [1]);
        assert_eq!(cluster.owners(GroupSet::ALL), [(1, GroupSet::ALL)]);
        let ask = |cluster: &mut Cluster, upto| match cluster.handle(1001, 1, 1, renew(upto)) {
            Some(Reply::Renewed { handovers, .. }) => handovers,
            other => panic!("{other:?}"),
        };
        let handovers = ask(&mut cluster, 0);
        assert_eq!(handovers[0].1.listed[0].session, SessionId(17));
        assert!(ask(&mut cluster, handovers[0].0).is_empty());
        let late =
            cluster.handle(1002, 0, 1, Request::Write { first: 2, writes: vec![session(18)] });
        assert!(matches!(late, Some(Reply::Gone)), "the dead write nothing");
    }

    #[test]
    fn a_server_that_leaves_groups_keeps_its_sessions() {
        let mut cluster = cluster();
        cluster.handle(10, 0, 1, Request::Write { first: 1, writes: vec![session(17)] });
        cluster.plan_move(0);
        let asked = cluster.handle(11, 0, 1, renew(0));
        let Some(Reply::Renewed { leave: Some((wish, groups)), .. }) = asked else {
            panic!("{asked:?}")
        };
        assert_eq!(groups.iter().count(), 64);
        let left = Request::Renew { sent: Tick(0), upto: 0, left: wish };
        cluster.handle(12, 0, 1, left);
        assert_eq!(cluster.owners(groups), [(1, groups)]);
        assert_eq!(cluster.sessions(), 2, "the heir has a copy");
    }

    #[test]
    fn a_late_double_of_a_write_changes_nothing() {
        let mut cluster = cluster();
        let open = || Request::Write { first: 1, writes: vec![session(5)] };
        cluster.handle(1, 0, 1, open());
        let forget = vec![(StoreId(6), Store::Forget { session: SessionId(5) })];
        cluster.handle(2, 0, 1, Request::Write { first: 2, writes: forget });
        cluster.handle(3, 0, 1, open());
        assert_eq!(cluster.sessions(), 0);
    }

    #[test]
    fn nothing_of_an_earlier_life_counts() {
        let mut cluster = cluster();
        cluster.handle(5, 0, 2, Request::Hello { sent: Tick(0) });
        assert!(cluster.handle(6, 0, 1, renew(0)).is_none());
        assert!(cluster.handle(7, 0, 1, Request::Hello { sent: Tick(0) }).is_none());
    }
}
