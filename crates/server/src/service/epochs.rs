//! What is believed of epochs that clients show.
//!
//! A client that shows a later epoch than the server's says that the server's storage went back in
//! time, as it does if a data directory is restored from a backup. The server then takes all groups
//! again, above that epoch, and everybody re-asserts. Epochs are numbered to 2^23, and a data
//! directory that has used the last one can't be used any more. So a client with a bug, or one that
//! means harm, must not be able to use them up:
//!
//! | who shows it | is believed up to |
//! |---|---|
//! | anybody, where there are no users | [`AHEAD_MAX`] above the epoch of this start |
//! | a user who may *admin* everything; no other user | [`AHEAD_MAX_ADMIN`] above the present |
//!
//! Both at most once in [`PAUSE`], and nobody into the [`LAST`] epochs but by one.

use std::fmt;
use std::time::{Duration, Instant};

use lockspan_protocol::server::Listed;
use lockspan_protocol::server::table::TableInput;
use lockspan_protocol::{Epoch, GroupSet, SessionId, Tick};

use super::desk::Desk;
use super::{Service, Work};
use crate::seldom::Seldom;

/// An epoch is taken at each start. A backup that is further behind needs an operator.
const AHEAD_MAX: u32 = 64;

/// As far as an operator may go at a time.
const AHEAD_MAX_ADMIN: u32 = 1 << 16;

/// Each such term makes everybody re-assert.
const PAUSE: Duration = Duration::from_secs(60);

/// They are left to the starts of the server.
const LAST: u32 = 1 << 16;

/// What the registry remembers of epochs that clients have shown.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// The epoch of this start.
    pub(super) first: u32,
    /// When a client was believed last.
    pub(super) believed_at: Option<Tick>,
    refused: Seldom,
}

/// Why an epoch is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unbelieved {
    /// The server is past it.
    Over,
    TooFar {
        most: u32,
    },
    TooSoon {
        wait: Duration,
    },
    Last,
}

impl fmt::Display for Unbelieved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over => f.write_str("it is older than the current one"),
            Self::TooFar { most } => {
                write!(f, "a client may report at most epoch {most}")
            }
            Self::TooSoon { wait } => {
                write!(
                    f,
                    "another client's report was accepted a short time ago; the next is possible \
                     in {wait:.0?}"
                )
            }
            Self::Last => f.write_str("the last epochs are reserved for starts of the server"),
        }
    }
}

impl Epochs {
    /// Whether a client is believed that shows this epoch. `trusted`: it may admin everything.
    pub(super) fn check(
        &self,
        now: Tick,
        present: Epoch,
        shown: Epoch,
        trusted: bool,
    ) -> Result<(), Unbelieved> {
        let (present, shown) = (present.number(), shown.number());
        if shown < present {
            return Err(Unbelieved::Over);
        }
        let most = if trusted {
            present.saturating_add(AHEAD_MAX_ADMIN)
        } else {
            self.first.saturating_add(AHEAD_MAX)
        };
        if shown > most {
            return Err(Unbelieved::TooFar { most });
        }
        if shown >= Epoch::MAX.number() - LAST && shown > present {
            return Err(Unbelieved::Last);
        }
        let next = self.believed_at.map(|at| at + PAUSE).filter(|&next| now < next);
        next.map_or(Ok(()), |next| Err(Unbelieved::TooSoon { wait: next.since(now) }))
    }
}

impl Service {
    /// A table can't go on with these groups in their epoch: a session has shown a later one, or
    /// the tokens of it are used up.
    pub(super) fn behind(
        &self,
        desk: &mut Desk,
        now: Tick,
        groups: GroupSet,
        above: Epoch,
        by: Option<SessionId>,
        work: &mut Work,
    ) {
        let Some(by) = by else {
            tracing::info!(
                "the tokens of {above} of {groups} are used up: starting the next epoch"
            );
            self.take_again(desk, now, groups, above, work);
            return;
        };
        let terms = desk.registry.terms();
        let mut of_group = terms.iter().filter(|term| !term.groups.and(groups).is_empty());
        let Some(present) = of_group.next().map(|term| term.epoch) else { return };
        match desk.epochs.check(now, present, above, self.has_users) {
            Ok(()) => {
                tracing::warn!(
                    "session {} reports {above}, but the current one is {present}: the data \
                     directory is an old copy. Continuing above the reported epoch; clients \
                     re-assert their locks",
                    self.who_at(desk, by)
                );
                desk.epochs.believed_at = Some(now);
                // One server has all groups, so all of its storage went back.
                self.take_again(desk, now, GroupSet::ALL, above, work);
            }
            Err(Unbelieved::Over) => {
                tracing::debug!("a client reports {above}, but the current one is {present}");
            }
            Err(why) => {
                if let Some(times) = desk.epochs.refused.may_log(Instant::now()) {
                    tracing::warn!(
                        "session {} reports {above}, but the current one is {present}: ignored \
                         ({why}). If the data directory is an old copy, see \
                         docs/operating.md{times}",
                        self.who_at(desk, by)
                    );
                }
            }
        }
    }

    /// Takes groups again, above this epoch; those that are above it already are left as they are.
    /// The sessions that are open may re-assert what they had.
    fn take_again(
        &self,
        desk: &mut Desk,
        now: Tick,
        groups: GroupSet,
        above: Epoch,
        work: &mut Work,
    ) {
        let terms = desk.registry.terms().iter().filter(|term| term.epoch <= above);
        let groups = terms.fold(GroupSet::EMPTY, |all, term| all.or(term.groups.and(groups)));
        if groups.is_empty() {
            return;
        }
        desk.registry.leave(groups);
        for group in groups.iter() {
            self.unserve(group);
        }
        for shard in 0..self.shards.len() {
            self.tell_shard(shard, TableInput::Leave { groups }, work);
        }
        let open = desk.registry.open_sessions();
        let open = open.map(|it| Listed {
            session: it.session,
            ttl: it.ttl,
            handoff: it.handoff,
            here: true,
            last: false,
            client: it.client,
            acts: Duration::ZERO,
        });
        let listed: Vec<_> = open.chain(desk.phantom()).collect();
        if let Err(why) = desk.registry.take(now, groups, above, listed, &mut desk.out) {
            tracing::error!("{groups} can no longer be served: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u32) -> Epoch {
        Epoch::new(number).expect("it fits")
    }

    fn check(first: u32, present: u32, shown: u32, trusted: bool) -> Result<(), Unbelieved> {
        let epochs = Epochs { first, ..Epochs::default() };
        epochs.check(Tick(0), epoch(present), epoch(shown), trusted)
    }

    #[test]
    fn service_f75_a_client_is_believed_a_little_above_the_epoch_of_the_start() {
        assert_eq!(check(7, 7, 7, false), Ok(()), "a token of the present epoch");
        assert_eq!(check(7, 7, 71, false), Ok(()));
        assert_eq!(check(7, 7, 72, false), Err(Unbelieved::TooFar { most: 71 }));
        assert_eq!(check(7, 72, 72, false), Err(Unbelieved::TooFar { most: 71 }), "and no further");
        assert_eq!(check(7, 9, 8, false), Err(Unbelieved::Over));
        assert_eq!(check(7, 72, 72 + AHEAD_MAX_ADMIN, true), Ok(()));
        let most = 72 + AHEAD_MAX_ADMIN;
        assert_eq!(check(7, 72, most + 1, true), Err(Unbelieved::TooFar { most }));
    }

    #[test]
    fn service_f75_nobody_goes_into_the_last_epochs_but_by_one() {
        let last = Epoch::MAX.number() - LAST;
        for trusted in [false, true] {
            let first = last - 30;
            assert_eq!(check(first, first, last - 1, trusted), Ok(()));
            assert_eq!(check(first, first, last, trusted), Err(Unbelieved::Last));
            assert_eq!(check(last, last, last, trusted), Ok(()));
            assert_eq!(check(last, last, last + 1, trusted), Err(Unbelieved::Last));
        }
        let end = Epoch::MAX.number();
        assert_eq!(check(end - 1, end - 1, end, true), Err(Unbelieved::Last));
    }

    #[test]
    fn service_f75_one_client_a_minute_is_believed() {
        let mut epochs = Epochs { first: 1, ..Epochs::default() };
        let minute = u64::try_from(PAUSE.as_micros()).expect("small");
        epochs.believed_at = Some(Tick(1_000));
        for trusted in [false, true] {
            let at = |now: u64| epochs.check(Tick(now), epoch(5), epoch(9), trusted);
            let wait = Duration::from_micros(1);
            assert_eq!(at(1_000 + minute - 1), Err(Unbelieved::TooSoon { wait }));
            assert_eq!(at(1_000 + minute), Ok(()));
        }
    }
}
