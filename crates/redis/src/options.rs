//! How to be connected.

use std::path::PathBuf;
use std::task::Poll;
use std::time::Duration;

use lockspan_client::{ConnectError, Handoff, Locks, Trouble, TroubleKind};
use lockspan_park::fork::BoundFuture;
use lockspan_protocol::StayLimits;

use crate::desk::{Desk, Settings};
use crate::identity::Identity;
use crate::link::{self, Dial};
use crate::peer::Mouth;
use crate::trouble::{reason, trouble};
use crate::url::{self, Target};

const DAY: Duration = Duration::from_secs(86_400);
const NO_STAY: StayLimits = StayLimits { turns: 0, time: Duration::ZERO };

/// Choices for a connection to any service, and those for Redis. Each has a default that is good
/// for most.
#[derive(Clone, Debug)]
pub struct Options {
    common: lockspan_client::Options,
    lease: Duration,
    stay: StayLimits,
    name: String,
    caching: Option<bool>,
    hash_tag: bool,
    plain: bool,
    recheck: Duration,
    poll: Duration,
    patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            common: lockspan_client::Options::new(),
            lease: Duration::from_secs(10),
            stay: StayLimits::default(),
            name: "lockspan".to_owned(),
            caching: None,
            hash_tag: false,
            plain: false,
            recheck: Duration::from_secs(2),
            poll: Duration::from_millis(50),
            patience: Duration::from_secs(3),
        }
    }

    /// How long the service waits for a word from this node before it gives its records to others.
    /// Defaults to 10 s. The node extends its lease by itself, and stops using its records a tenth
    /// earlier. A server has bounds for it: `--min-lease` and `--max-lease`.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, common: self.common.lease(lease), ..self }
    }

    /// How much earlier than that tenth of the [lease](Self::lease) this node stops using its
    /// records. Defaults to 0. Choose more where clocks are worse than 5 %, or where work goes on
    /// for a while after the guard was checked. It has to be below half of the lease.
    #[must_use]
    pub fn margin(self, margin: Duration) -> Self {
        Self { common: self.common.margin(margin), ..self }
    }

    /// How long threads of this node may keep a record that others wait for: at most so many turns
    /// that begin after the others have asked, within this time. Defaults to 16 turns and 2 ms.
    ///
    /// On Redis without [`caching`](Self::caching) it counts from when a write was granted, also if
    /// nobody else waits, and is for those here who want to write as soon as the one before lets
    /// go. No turns: each write is asked for.
    #[must_use]
    pub fn stay(self, turns: u32, time: Duration) -> Self {
        Self { common: self.common.stay(turns, time), stay: StayLimits { turns, time }, ..self }
    }

    /// How waits end: by a grant that the server pushes, or by its word to ask again. Defaults to
    /// [`Handoff::Direct`], the grant.
    ///
    /// It makes no difference on Redis.
    #[must_use]
    pub fn handoff(self, handoff: Handoff) -> Self {
        Self { common: self.common.handoff(handoff), ..self }
    }

    /// Whether a record stays on this node while it is not used, so that taking it again makes no
    /// call. Defaults to `true`; without it each release goes to the server.
    ///
    /// On Redis it defaults to `false`: a program that follows the data model by hand can't ask for
    /// what a node keeps, and waits until it was [idle](Self::idle) for long enough.
    #[must_use]
    pub fn caching(self, caching: bool) -> Self {
        Self { common: self.common.caching(caching), caching: Some(caching), ..self }
    }

    /// After how long an unused record goes back to the service. Defaults to 60 s.
    #[must_use]
    pub fn idle(self, idle: Duration) -> Self {
        Self { common: self.common.idle(idle), ..self }
    }

    /// Beyond this number of records, those that were used least recently go back to the service.
    /// Defaults to 100,000.
    #[must_use]
    pub fn max_cached(self, max_cached: usize) -> Self {
        Self { common: self.common.max_cached(max_cached), ..self }
    }

    /// Whether this connection counts for the `metrics` façade. Defaults to doing so as soon as a
    /// recorder is installed; one that is installed later than the connection is seen within a
    /// second. Only a recorder that has no fields at all needs `true`.
    #[must_use]
    pub fn counting(self, counting: bool) -> Self {
        Self { common: self.common.counting(counting), ..self }
    }

    /// How long the forms that try, such as
    /// [`Record::try_read`](lockspan_client::Record::try_read), give other nodes to hand over what
    /// they do not use. Defaults to 100 ms.
    #[must_use]
    pub fn try_for(self, time: Duration) -> Self {
        Self { common: self.common.try_for(time), ..self }
    }

    /// What the server's lists call this node. Defaults to `lockspan`.
    ///
    /// In Redis it is how the identifiers of this node begin.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { common: self.common.name(name.clone()), name, ..self }
    }

    /// The user to log in as, for a server that has users. Defaults to `default` if there is a
    /// password, else to no login. A user in the URL takes precedence.
    #[must_use]
    pub fn user(self, name: impl Into<String>) -> Self {
        Self { common: self.common.user(name), ..self }
    }

    /// The password of the [user](Self::user). Defaults to none. A password in the URL takes
    /// precedence.
    #[must_use]
    pub fn password(self, password: impl Into<Vec<u8>>) -> Self {
        Self { common: self.common.password(password), ..self }
    }

    /// The file that has the password of the [user](Self::user): it is read each time that a
    /// connection is made, without white space at its end. Defaults to none. A password in the URL
    /// takes precedence.
    #[must_use]
    pub fn password_file(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.password_file(path), ..self }
    }

    /// `lockspans://`: a PEM file with the authorities that the server's certificate may be from.
    /// Defaults to those of the system.
    ///
    /// `rediss://` ignores it: there it is those of the system, or of `SSL_CERT_FILE`.
    #[must_use]
    pub fn ca(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.ca(path), ..self }
    }

    /// `lockspans://`: a certificate to show to the server, and its key, both PEM files. Defaults
    /// to none.
    ///
    /// `rediss://` ignores it.
    #[must_use]
    pub fn certificate(self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { common: self.common.certificate(cert, key), ..self }
    }

    /// The certificate of [`certificate`](Self::certificate) alone: connecting fails unless there
    /// is a [key](Self::key) too.
    #[must_use]
    pub fn cert(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.cert(path), ..self }
    }

    /// The key of [`certificate`](Self::certificate) alone: connecting fails unless there is a
    /// [certificate](Self::cert) too.
    #[must_use]
    pub fn key(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.key(path), ..self }
    }

    /// Redis: puts the record's name in braces, `readlock:{<datatype>:<id>}`, so that a Redis
    /// Cluster has all keys of a record in one slot. Everybody has to do the same. Defaults to
    /// `false`; with
    /// `redis-cluster://` to `true`.
    #[must_use]
    pub fn hash_tag(self, hash_tag: bool) -> Self {
        Self { hash_tag, ..self }
    }

    /// Redis: only the two keys of the data model, and nothing beside them: no leases, so what a
    /// dead program held stays held; no line, but polling; no tokens, all are zero. Defaults to
    /// `false`.
    #[must_use]
    pub fn plain(self, plain: bool) -> Self {
        Self { plain, ..self }
    }

    /// Redis: how often a waiter looks whether a holder has left that tells nobody: a person, or a
    /// program that follows the data model by hand. Defaults to 2 s, at least 1 s. Up to half of it
    /// is added at random.
    #[must_use]
    pub fn recheck(self, recheck: Duration) -> Self {
        Self { recheck, ..self }
    }

    /// Redis, with [`Options::plain`]: how often a waiter tries again. Defaults to 50 ms.
    #[must_use]
    pub fn poll(self, poll: Duration) -> Self {
        Self { poll, ..self }
    }

    /// Redis: how long a wait goes on while Redis is not reached or is in trouble that
    /// [may pass](lockspan_client::TroubleKind::may_pass), before it ends with
    /// [`LockError::Trouble`](lockspan_client::LockError::Trouble). Defaults to 3 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Connects. The connection is looked after by a task of the runtime that this is called in,
    /// and belongs to [this process](lockspan_client::connect#after-a-fork).
    pub async fn connect(self, url: &str) -> Result<Locks, ConnectError> {
        if url::is_ours(url) {
            let target = Target::parse(url, || self.login())?;
            let connecting = self.connect_redis(target);
            // A socket that is being connected is the parent's.
            BoundFuture::new(connecting, || Poll::Ready(Err(ConnectError::forked()))).await
        } else {
            self.common.connect(url).await
        }
    }

    /// Connects for a program without a runtime: the connection is looked after by a thread of its
    /// own.
    pub fn blocking_connect(self, url: &str) -> Result<Locks, ConnectError> {
        let url = url.to_owned();
        lockspan_client::connect_in_background(async move { self.connect(&url).await })
    }

    /// User and password as they stand in a URL, or nothing.
    fn login(&self) -> Result<String, ConnectError> {
        let Some((user, password)) = self.common.credentials()? else { return Ok(String::new()) };
        let (user, password) = (url::encoded(user.as_bytes()), url::encoded(password.reveal()));
        Ok(format!("{user}:{password}@"))
    }

    async fn connect_redis(self, target: Target) -> Result<Locks, ConnectError> {
        let bad = |what: &str| ConnectError::BadOption { what: what.to_owned() };
        let plain = target.plain.unwrap_or(self.plain);
        if target.place.has_tls() {
            lockspan_client::check_authorities()?;
        }
        if self.recheck < Duration::from_secs(1) {
            return Err(bad(
                "to look again more than once a second costs Redis more than it helps",
            ));
        }
        if [self.lease, self.recheck, self.poll, self.patience].iter().any(|time| *time > DAY) {
            return Err(bad("lease, recheck, poll and patience are a day at most"));
        }
        if self.poll < Duration::from_millis(1) {
            return Err(bad("to poll more than once a millisecond is not allowed"));
        }
        let me = Identity::draw(&self.name)?;
        let (words, heard) = tokio::sync::mpsc::unbounded_channel();
        let (address, has_login) = (target.place.shown(), target.place.has_login());
        let dial = Dial {
            place: target.place,
            channel: (!plain).then(|| me.channel.clone()),
            patience: (self.lease / 4).clamp(Duration::from_millis(100), Duration::from_secs(2)),
            words,
        };
        let first = dial.connect(0).await.map_err(|why| {
            let Trouble { kind, said } = trouble(&why);
            match kind {
                TroubleKind::Unreachable => {
                    let source = std::io::Error::other(reason(&why));
                    ConnectError::Unreachable { address, source }
                }
                TroubleKind::NoAuthentication => {
                    ConnectError::Login { address, given: has_login, said: reason(&why) }
                }
                _ => ConnectError::Refused { address, said },
            }
        })?;
        let caching = !plain && self.caching.or(target.caching).unwrap_or(false);
        let settings = Settings {
            caching,
            hash_tag: target.hash_tag.unwrap_or(self.hash_tag),
            plain,
            // A node that caches has its turns before it is told of anything.
            stay: if caching || plain { NO_STAY } else { self.stay },
            recheck: if plain { self.poll } else { self.recheck },
            patience: self.patience,
        };
        let (mouth, told) = Mouth::new();
        let ours = mouth.clone();
        self.common.caching(caching).connect_to(move |ear| {
            let desk = Desk::new(ear, me, settings, dial, first, ours).run(told, heard);
            link::spawn(desk);
            Box::new(mouth)
        })
    }
}
