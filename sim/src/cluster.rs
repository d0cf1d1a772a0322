//! The store of a cluster, in place of etcd: who owns which groups in which epoch, which sessions
//! each server has, and which servers live.
//!
//! A server says `Hello` when it starts and is told what it owns; it renews its lease; it writes.
//! Everything carries the server's *life*, the number of its start, so that nothing of an earlier
//! one counts. When a lease ends, the groups go to other servers that live. They may also go before
//! that: on the suspicion that the server is dead, while it acts on for as long as it believes in
//! its lease. The sessions of the server that had them, and those that were listed for them and are
//! not settled, become *formers* of the heirs, each for the groups that it comes with. A former
//! goes when it is settled in all of them, or with the groups.

use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Epoch, GROUPS, Group, GroupSet, SessionId, StoreId, Term, Tick, margin};
use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;

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
    /// There is something new for the server, which hears it when it renews.
    News,
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
    /// It gets no groups any more.
    departs: bool,
    /// It has spoken since its welcome.
    started: bool,
    groups: GroupSet,
    sessions: Sessions,
    formers: Formers,
    handovers: Vec<(u64, Handover)>,
    /// The wish that it leaves groups, for another server.
    leaving: Option<(u64, GroupSet)>,
    written: u64,
}

/// Sessions of former owners that are not settled.
type Formers = BTreeMap<SessionId, Former>;

#[derive(Clone, Copy, Debug)]
struct Former {
    entry: Entry,
    /// Where it is not settled.
    groups: GroupSet,
    /// Its server may have been alive when it lost the groups.
    acts: bool,
}

impl Member {
    /// Nobody has anything from a server without groups: when that is over, so are its sessions.
    fn forget_idle(&mut self) {
        if self.groups.is_empty() {
            self.sessions.clear();
            self.formers.clear();
        }
    }

    /// Takes these groups away, with what is listed for them. `acts`: the server does not know yet.
    fn lose(&mut self, groups: GroupSet, acts: bool) -> Formers {
        self.groups = self.groups.without(groups);
        self.leaving = None;
        let mut lost = Formers::new();
        for (&session, former) in &mut self.formers {
            let with = former.groups.and(groups);
            former.groups = former.groups.without(groups);
            if !with.is_empty() {
                lost.insert(session, Former { groups: with, ..*former });
            }
        }
        self.formers.retain(|_, former| !former.groups.is_empty());
        for (&session, &entry) in &self.sessions {
            lost.insert(session, Former { entry, groups, acts });
        }
        lost
    }
}

/// The store.
#[derive(Debug)]
pub(crate) struct Cluster {
    clock: Clock,
    lease: Duration,
    rng: Rng,
    /// Groups of one server may go to several.
    several: bool,
    epochs: Vec<Epoch>,
    members: Vec<Member>,
    handed_over: u64,
    /// Servers for which there is something new.
    news: Vec<u8>,
}

/// What a change of owners was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gave {
    pub(crate) heirs: usize,
}

impl Cluster {
    /// A store in which `servers` share all groups; those after the first `owners` have none.
    pub(crate) fn new(
        clock: Clock,
        lease: Duration,
        (servers, owners): (usize, usize),
        several: bool,
        rng: Rng,
    ) -> Self {
        let mut members: Vec<Member> = (0..servers).map(|_| Member::default()).collect();
        for group in GroupSet::ALL.iter() {
            members[usize::from(group.0) * owners / GROUPS].groups.insert(group);
        }
        let epochs = vec![Epoch::NONE; GROUPS];
        Self { clock, lease, rng, several, epochs, members, handed_over: 0, news: Vec::new() }
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
                    self.give_away(usize::from(server), groups, false);
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

    /// Ends leases that are over and hands groups on. Says how, for each server that had some.
    pub(crate) fn expire(&mut self, at: u64) -> Vec<Gave> {
        let now = self.clock.at(at);
        for member in &mut self.members {
            if member.until.is_some_and(|until| now >= until) {
                member.until = None;
                member.forget_idle();
            }
        }
        let mut gave = Vec::new();
        for dead in 0..self.members.len() {
            let member = &self.members[dead];
            if member.until.is_none() && member.life > 0 && !member.groups.is_empty() {
                gave.extend(self.give_away(dead, member.groups, false));
            }
        }
        gave
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

    /// What a server owns.
    pub(crate) fn groups_of(&self, server: u8) -> GroupSet {
        self.members[usize::from(server)].groups
    }

    /// Sessions that are stored for anybody, those of other servers included.
    pub(crate) fn sessions(&self) -> usize {
        self.members.iter().map(|one| one.sessions.len() + one.formers.len()).sum()
    }

    /// The servers for which there is something new since this was asked last.
    pub(crate) fn take_news(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.news)
    }

    /// A server is to depart, if another lives. Whether it has nothing any more.
    pub(crate) fn depart(&mut self, server: u8) -> Option<bool> {
        let at = usize::from(server);
        self.living(at).next()?;
        let member = &mut self.members[at];
        member.departs = true;
        Some(member.groups.is_empty())
    }

    /// Asks a living server to leave some of its groups, if another one lives: of those that may
    /// move nearly none, half of them, any, or all. Says whether it is all.
    pub(crate) fn plan_move(&mut self, from: u8, may_move: GroupSet) -> Option<bool> {
        let share = [1, 4, 8, 12, 16][self.rng.usize(..5)];
        self.plan_move_of(from, may_move, share)
    }

    /// The same, of each sixteen so many.
    pub(crate) fn plan_move_of(
        &mut self,
        from: u8,
        may_move: GroupSet,
        share: u32,
    ) -> Option<bool> {
        self.news.push(from);
        let from = usize::from(from);
        let has_heir = self.living(from).next().is_some();
        let member = &mut self.members[from];
        let is_free = member.until.is_some() && member.leaving.is_none();
        if !is_free || member.groups.is_empty() || !has_heir {
            return None;
        }
        self.handed_over += 1;
        let rng = &mut self.rng;
        let some = member.groups.and(may_move).iter().filter(|_| rng.u32(..16) < share).collect();
        member.leaving = Some((self.handed_over, some));
        (!some.is_empty()).then_some(some == member.groups)
    }

    /// Whether a server owns all these groups, in an epoch that is not above.
    pub(crate) fn is_ahead_of(&self, server: u8, groups: GroupSet, above: Epoch) -> bool {
        let member = &self.members[usize::from(server)];
        groups.without(member.groups).is_empty() && self.epoch_of(groups) < above
    }

    /// Gives the groups of a living server to others, which believe that it is dead.
    pub(crate) fn suspect(&mut self, server: u8) -> Option<Gave> {
        let at = usize::from(server);
        let member = &mut self.members[at];
        if member.until.is_none() || member.life == 0 || member.groups.is_empty() {
            return None;
        }
        let groups = member.groups;
        let gave = self.give_away(at, groups, true)?;
        self.members[at].until = None;
        self.members[at].sessions.clear();
        Some(gave)
    }

    /// These groups of a server go to others that live, if there are any.
    fn give_away(&mut self, from: usize, groups: GroupSet, acts: bool) -> Option<Gave> {
        let heirs = self.heirs(from)?;
        let is_dead = self.members[from].until.is_none();
        let formers = self.members[from].lose(groups, acts);
        if is_dead {
            self.members[from].sessions.clear();
            self.members[from].handovers.clear();
        }
        let mut parts = vec![GroupSet::EMPTY; heirs.len()];
        for group in groups.iter() {
            parts[self.rng.usize(..heirs.len())].insert(group);
        }
        for (&heir, &part) in heirs.iter().zip(&parts) {
            self.give(heir, part, &formers);
        }
        Some(Gave { heirs: parts.iter().filter(|part| !part.is_empty()).count() })
    }

    /// The living servers but for `other`.
    fn living(&self, other: usize) -> impl Iterator<Item = usize> {
        let alive = move |&at: &usize| {
            at != other && self.members[at].until.is_some() && !self.members[at].departs
        };
        (0..self.members.len()).filter(alive)
    }

    /// The living server that has fewest groups, but for `other`; or all that live.
    fn heirs(&mut self, other: usize) -> Option<Vec<usize>> {
        let all: Vec<_> = self.living(other).collect();
        if self.several && self.rng.bool() && !all.is_empty() {
            return Some(all);
        }
        let fewest = all.into_iter().min_by_key(|&at| self.members[at].groups.iter().count());
        fewest.map(|heir| vec![heir])
    }

    fn give(&mut self, heir: usize, groups: GroupSet, formers: &Formers) {
        if groups.is_empty() {
            return;
        }
        self.handed_over += 1;
        self.news.push(heir as u8);
        let above = self.epoch_of(groups);
        let acts = self.lease;
        let heir = &mut self.members[heir];
        let mut listed = Vec::new();
        for (&session, former) in formers {
            let with = former.groups.and(groups);
            if with.is_empty() {
                continue;
            }
            // A session with the heir itself can come back with groups that it has left before.
            if let Some(own) = heir.sessions.get(&session) {
                listed.push(own.listed(session, None));
                continue;
            }
            listed.push(former.listed(session, acts));
            let known = heir.formers.entry(session).or_insert(Former { groups: with, ..*former });
            known.groups = known.groups.or(with);
            known.acts |= former.acts;
        }
        let handover = Handover { groups, above, listed };
        heir.groups = heir.groups.or(groups);
        heir.handovers.push((self.handed_over, handover));
    }

    /// Everything a server owns.
    fn own(&self, server: u8) -> Option<Handover> {
        let member = &self.members[usize::from(server)];
        let groups = member.groups;
        let formers = member.formers.iter();
        let formers = formers.filter(|(id, _)| !member.sessions.contains_key(id));
        let formers = formers.map(|(&session, former)| former.listed(session, self.lease));
        let listed = listed(&member.sessions).chain(formers).collect();
        let handover = Handover { groups, above: self.epoch_of(groups), listed };
        (!groups.is_empty()).then_some(handover)
    }

    fn epoch_of(&self, groups: GroupSet) -> Epoch {
        let epoch = |group: Group| self.epochs[usize::from(group.0)];
        groups.iter().map(epoch).max().unwrap_or(Epoch::NONE)
    }
}

impl Former {
    fn listed(&self, session: SessionId, own_lease: Duration) -> Listed {
        let acts = if self.acts { own_lease } else { Duration::ZERO };
        self.entry.listed(session, Some(acts))
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
        Store::Session { session, ttl, handoff, last, client } => {
            member.sessions.insert(session, Entry { ttl, handoff, last, client });
        }
        Store::Forget { session } => {
            member.sessions.remove(&session);
            member.formers.remove(&session);
        }
        Store::Settle { former, term: Term { groups, epoch } } => {
            let is_so = |group: &Group| epochs[usize::from(group.0)] == epoch;
            let settled: GroupSet = groups.iter().filter(is_so).collect();
            if let Some(known) = member.formers.get_mut(&former) {
                known.groups = known.groups.without(settled);
            }
            member.formers.retain(|_, former| !former.groups.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::{Client, Handoff};

    const LEASE: Duration = Duration::from_millis(1);

    fn cluster() -> Cluster {
        let rng = Rng::with_seed(1);
        let mut cluster = Cluster::new(Clock::new(0, 0), LEASE, (2, 2), false, rng);
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
        let (ttl, handoff, client) = (LEASE, Handoff::Direct, Client::Node);
        (StoreId(id), Store::Session { session: SessionId(id), ttl, handoff, last: false, client })
    }

    fn handed(cluster: &mut Cluster, at: u64, upto: u64) -> Vec<(u64, Handover)> {
        match cluster.handle(at, 1, 1, renew(upto)) {
            Some(Reply::Renewed { handovers, .. }) => handovers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_heir_gets_groups_and_sessions_until_it_says_that_it_knows() {
        let mut cluster = cluster();
        let writes = vec![session(17)];
        cluster.handle(10, 0, 1, Request::Write { first: 1, writes });
        cluster.handle(900, 1, 1, renew(0));
        assert_eq!(cluster.expire(1000), [Gave { heirs: 1 }]);
        assert_eq!(cluster.owners(GroupSet::ALL), [(1, GroupSet::ALL)]);
        let handovers = handed(&mut cluster, 1001, 0);
        let listed = handovers[0].1.listed[0];
        assert_eq!((listed.session, listed.acts), (SessionId(17), Duration::ZERO));
        assert!(handed(&mut cluster, 1002, handovers[0].0).is_empty());
        let late =
            cluster.handle(1002, 0, 1, Request::Write { first: 2, writes: vec![session(18)] });
        assert!(matches!(late, Some(Reply::Gone)), "the dead write nothing");
    }

    #[test]
    fn a_server_that_leaves_groups_keeps_its_sessions() {
        let mut cluster = cluster();
        cluster.handle(10, 0, 1, Request::Write { first: 1, writes: vec![session(17)] });
        while cluster.plan_move(0, GroupSet::ALL).is_none() {
            cluster.members[0].leaving = None;
        }
        let asked = cluster.handle(11, 0, 1, renew(0));
        let Some(Reply::Renewed { leave: Some((wish, groups)), .. }) = asked else {
            panic!("{asked:?}")
        };
        assert!(!groups.is_empty());
        let left = Request::Renew { sent: Tick(0), upto: 0, left: wish };
        cluster.handle(12, 0, 1, left);
        assert_eq!(cluster.owners(groups), [(1, groups)]);
        assert_eq!(cluster.sessions(), 2, "the heir has a copy");
    }

    #[test]
    fn the_sessions_of_a_server_that_was_suspected_are_waited_for_longer() {
        let mut cluster = cluster();
        cluster.handle(10, 0, 1, Request::Write { first: 1, writes: vec![session(17)] });
        assert_eq!(cluster.suspect(0), Some(Gave { heirs: 1 }));
        assert_eq!(handed(&mut cluster, 20, 0)[0].1.listed[0].acts, LEASE);
        assert!(matches!(cluster.handle(21, 0, 1, renew(0)), Some(Reply::Gone)));
    }

    #[test]
    fn a_former_session_is_settled_where_it_is_said_and_in_that_epoch() {
        let mut cluster = cluster();
        cluster.handle(10, 0, 1, Request::Write { first: 1, writes: vec![session(17)] });
        cluster.suspect(0);
        let groups = handed(&mut cluster, 20, 0)[0].1.groups;
        let (some, epoch) = (GroupSet::from_iter([Group(0), Group(1)]), Epoch::new(1).unwrap());
        let settle = |groups, epoch| {
            (StoreId(0), Store::Settle { former: SessionId(17), term: Term { groups, epoch } })
        };
        let later = Epoch::new(2).unwrap();
        let writes = vec![
            (StoreId(0), Store::Epoch(Term { groups, epoch })),
            settle(groups, later),
            settle(some, epoch),
        ];
        cluster.handle(21, 1, 1, Request::Write { first: 1, writes });
        assert_eq!(cluster.members[1].formers[&SessionId(17)].groups, groups.without(some));
        cluster.handle(22, 1, 1, Request::Write { first: 4, writes: vec![settle(groups, epoch)] });
        assert_eq!(cluster.sessions(), 0);
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
