//! The guard in a hold, of either kind.

use std::sync::Arc;
use std::time::Duration;

use lockspan::{LockError, OwnedReadGuard, OwnedWriteGuard, UpgradeError};

use crate::park::Boxed;

/// What holds a record.
#[derive(Debug)]
pub(crate) enum Grip {
    Read(OwnedReadGuard),
    Write(OwnedWriteGuard),
    /// Somebody watches whether it is lost. The watcher lets go before it is released.
    Watched(Arc<Self>),
}

/// What becomes of an upgrade: the grip as it is now, and why it was not upgraded.
pub(crate) type Upgraded = (Grip, Option<LockError>);

impl Grip {
    pub(crate) fn token(&self) -> i64 {
        match self {
            Self::Read(guard) => guard.token().number(),
            Self::Write(guard) => guard.token().number(),
            Self::Watched(grip) => grip.token(),
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Read(guard) => guard.is_valid(),
            Self::Write(guard) => guard.is_valid(),
            Self::Watched(grip) => grip.is_valid(),
        }
    }

    pub(crate) fn valid_for(&self) -> Duration {
        match self {
            Self::Read(guard) => guard.valid_for(),
            Self::Write(guard) => guard.valid_for(),
            Self::Watched(grip) => grip.valid_for(),
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        match self {
            Self::Read(_) => false,
            Self::Write(_) => true,
            Self::Watched(grip) => grip.is_write(),
        }
    }

    /// Waits until it is lost.
    async fn lost(&self) {
        match self {
            Self::Read(guard) => guard.lost().await,
            Self::Write(guard) => guard.lost().await,
            Self::Watched(grip) => Box::pin(grip.lost()).await,
        }
    }

    /// The same grip with a future that is ready when it is lost. The grip can change only after
    /// the future was dropped.
    pub(crate) fn watched(self) -> (Self, Boxed<()>) {
        let shared = match self {
            Self::Watched(shared) => shared,
            other => Arc::new(other),
        };
        let watched = Arc::clone(&shared);
        (Self::Watched(shared), Box::pin(async move { watched.lost().await }))
    }

    /// The guard itself. `Err` if somebody still watches it.
    pub(crate) fn unwatched(self) -> Result<Self, Self> {
        match self {
            Self::Watched(shared) => Arc::try_unwrap(shared).map_err(Self::Watched),
            other => Ok(other),
        }
    }

    /// A writer becomes a reader.
    pub(crate) fn downgraded(self) -> Self {
        match self {
            Self::Write(guard) => Self::Read(guard.downgrade()),
            other => other,
        }
    }

    /// A reader becomes the writer.
    pub(crate) fn upgraded(self, time: Option<Duration>) -> Boxed<Upgraded> {
        let Self::Read(guard) = self else { return Box::pin(async move { (self, None) }) };
        Box::pin(async move {
            let done = match time {
                Some(time) => guard.upgrade_timeout(time).await,
                None => guard.upgrade().await,
            };
            match done {
                Ok(guard) => (Self::Write(guard), None),
                Err(UpgradeError { guard, source }) => (Self::Read(guard), Some(source)),
            }
        })
    }
}
