//! Options of a connection, and connecting with them.

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

/// Options of a connection to any service, and some that concern Redis only.
///
/// | option | defaults to | change it when |
/// |---|---|---|
/// | [`lease`](Self::lease) | 10 s | locks of a dead process must be free sooner, or later |
/// | [`margin`](Self::margin) | 0 | clocks drift by more than 5 % |
/// | [`stay`](Self::stay) | 16 turns, 2 ms | others wait too long, or handing over costs too much |
/// | [`handoff`](Self::handoff) | [`Handoff::Direct`] | hardly ever |
/// | [`caching`](Self::caching) | `true`; on Redis `false` | records are seldom used twice |
/// | [`idle`](Self::idle) | 60 s | many records are used once and never again |
/// | [`max_cached`](Self::max_cached) | 100,000 records | memory is short |
/// | [`try_for`](Self::try_for) | 100 ms | the network is slow |
/// | [`counting`](Self::counting) | if a `metrics` recorder is installed | hardly ever |
/// | [`name`](Self::name) | `lockspan` | operators look at the lists of the server |
/// | [`user`](Self::user), [`password`](Self::password) | none | the server has users |
/// | [`ca`](Self::ca), [`certificate`](Self::certificate) | the system's, none | private TLS |
/// | Redis: [`hash_tag`](Self::hash_tag) | `false`; in a cluster `true` | others use it |
/// | Redis: [`plain`](Self::plain) | `false` | nothing but the two keys may be written |
/// | Redis: [`recheck`](Self::recheck) | 2 s | programs lock by hand |
/// | Redis: [`poll`](Self::poll) | 50 ms | with `plain` |
/// | Redis: [`patience`](Self::patience) | 3 s | Redis has long fail-overs |
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
///
/// let locks = lockspan_redis::Options::new()
///     .lease(Duration::from_secs(5))
///     .caching(true)
///     .connect("memory:")
///     .await?;
/// # Ok::<(), lockspan_client::ConnectError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    common: lockspan_client::Options,
    lease: Duration,
    stay: StayLimits,
    label: Option<String>,
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
    /// All options at their defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            common: lockspan_client::Options::new(),
            lease: Duration::from_secs(10),
            stay: StayLimits::default(),
            label: None,
            caching: None,
            hash_tag: false,
            plain: false,
            recheck: Duration::from_secs(2),
            poll: Duration::from_millis(50),
            patience: Duration::from_secs(3),
        }
    }

    /// How long the server keeps this process's locks without hearing from it. Then other
    /// processes may acquire them. Defaults to 10 s; at least 10 ms.
    ///
    /// The client extends the lease in the background. If it cannot, its guards stop being
    /// [valid](lockspan_client::Guard::is_valid) a tenth of the lease before it expires at the
    /// server. A Lockspan server has bounds for the lease: `--min-lease` and `--max-lease`.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, common: self.common.lease(lease), ..self }
    }

    /// How much earlier guards stop being valid, in addition to a tenth of the
    /// [lease](Self::lease). Defaults to 0; must be below half of the lease.
    ///
    /// Set it where clocks drift by more than 5 %, or where a program goes on working for a known
    /// time after it has checked [`Guard::is_valid`](lockspan_client::Guard::is_valid).
    #[must_use]
    pub fn margin(self, margin: Duration) -> Self {
        Self { common: self.common.margin(margin), ..self }
    }

    /// How long this process may go on using a cached record that another process waits for: at
    /// most `turns` acquisitions, which all begin within `time` of the other's request. Defaults to
    /// 16 turns and 2 ms.
    ///
    /// On Redis without [`caching`](Self::caching) the time begins when a write was granted, even
    /// if nobody else waits. Waiting writers of this process then take turns without a round trip
    /// to Redis. With 0 turns every write is a round trip.
    #[must_use]
    pub fn stay(self, turns: u32, time: Duration) -> Self {
        Self { common: self.common.stay(turns, time), stay: StayLimits { turns, time }, ..self }
    }

    /// How the server ends a wait: by pushing the grant, or by telling the client to ask again.
    /// Defaults to [`Handoff::Direct`], which pushes the grant.
    ///
    /// It makes no difference on Redis.
    #[must_use]
    pub fn handoff(self, handoff: Handoff) -> Self {
        Self { common: self.common.handoff(handoff), ..self }
    }

    /// Whether a released record stays cached, so that acquiring it again sends no message.
    /// Defaults to `true`. With `false` each release goes to the server.
    ///
    /// On Redis it defaults to `false`: a program that locks by hand cannot ask for a cached
    /// record, and waits until it was [idle](Self::idle) for long enough.
    #[must_use]
    pub fn caching(self, caching: bool) -> Self {
        Self { common: self.common.caching(caching), caching: Some(caching), ..self }
    }

    /// How long a cached record may be unused before it goes back to the server. Defaults to 60 s.
    #[must_use]
    pub fn idle(self, idle: Duration) -> Self {
        Self { common: self.common.idle(idle), ..self }
    }

    /// How many records may be cached. Beyond that, those used least recently go back to the
    /// server. Defaults to 100,000.
    #[must_use]
    pub fn max_cached(self, max_cached: usize) -> Self {
        Self { common: self.common.max_cached(max_cached), ..self }
    }

    /// Whether this connection reports to the [`metrics`](https://docs.rs/metrics) crate. Defaults
    /// to yes if a recorder is installed. A recorder that is installed later is noticed within a
    /// second.
    ///
    /// A recorder type without any fields is not noticed: it needs `true`.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn counting(self, counting: bool) -> Self {
        Self { common: self.common.counting(counting), ..self }
    }

    /// How long the `try_` methods, such as
    /// [`Record::try_read`](lockspan_client::Record::try_read), wait for another process to hand
    /// over a record that it has cached but does not use. Defaults to 100 ms.
    #[must_use]
    pub fn try_for(self, time: Duration) -> Self {
        Self { common: self.common.try_for(time), ..self }
    }

    /// The name of this client in the lists of the server (`lockspan locks`, the web page).
    /// Defaults to `lockspan`.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { common: self.common.name(name), ..self }
    }

    /// How people see this node's sessions: in `lockspan locks`, on the server's page, in the
    /// timeouts of others that wait for its records. Defaults to `program@host[pid]`. At most 256
    /// bytes without control characters; otherwise connecting fails.
    ///
    /// In Redis, the identifiers of this client begin with it.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        let label = label.into();
        Self { common: self.common.label(label.clone()), label: Some(label), ..self }
    }

    /// The user to log in as, for a server that has users. Defaults to `default` if there is a
    /// password, otherwise to no login. A user in the URL takes precedence.
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

    /// A file with the password of the [user](Self::user). It is read each time that a connection
    /// is made; white space at its end is ignored. Defaults to none. A password in the URL takes
    /// precedence.
    #[must_use]
    pub fn password_file(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.password_file(path), ..self }
    }

    /// For `lockspans://`: a PEM file with the certificate authorities to trust. Defaults to those
    /// of the system.
    ///
    /// `rediss://` ignores it, and trusts those of the system or of `SSL_CERT_FILE`.
    #[must_use]
    pub fn ca(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.ca(path), ..self }
    }

    /// For `lockspans://`: the client's certificate and its key, both PEM files. Defaults to none.
    ///
    /// `rediss://` ignores it.
    #[must_use]
    pub fn certificate(self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { common: self.common.certificate(cert, key), ..self }
    }

    /// Only the certificate of [`certificate`](Self::certificate). Defaults to none. Connecting
    /// fails unless [`key`](Self::key) is set too.
    #[must_use]
    pub fn cert(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.cert(path), ..self }
    }

    /// Only the key of [`certificate`](Self::certificate). Defaults to none. Connecting fails
    /// unless [`cert`](Self::cert) is set too.
    #[must_use]
    pub fn key(self, path: impl Into<PathBuf>) -> Self {
        Self { common: self.common.key(path), ..self }
    }

    /// Redis: whether the name of the record is in braces, `readlock:{<datatype>:<id>}`, so that a
    /// Redis Cluster keeps all keys of a record in one slot. Defaults to `false`, and with
    /// `redis-cluster://` to `true`. All programs that lock the same records must agree.
    #[must_use]
    pub fn hash_tag(self, hash_tag: bool) -> Self {
        Self { hash_tag, ..self }
    }

    /// Redis: writes only the two keys of a record, and nothing else. Defaults to `false`.
    ///
    /// Then there are no leases: what a dead program held stays held until a person deletes it.
    /// There is no queue: waiters poll. There are no fencing tokens: all are zero.
    #[must_use]
    pub fn plain(self, plain: bool) -> Self {
        Self { plain, ..self }
    }

    /// Redis: how often a waiter checks whether a record was released by a person or a program that
    /// locks by hand, and so notifies nobody. Defaults to 2 s; at least 1 s. Up to half of it is
    /// added at random.
    #[must_use]
    pub fn recheck(self, recheck: Duration) -> Self {
        Self { recheck, ..self }
    }

    /// Redis, with [`Options::plain`]: how often a waiter tries again. Defaults to 50 ms; at least
    /// 1 ms.
    #[must_use]
    pub fn poll(self, poll: Duration) -> Self {
        Self { poll, ..self }
    }

    /// Redis: how long a waiting call goes on while Redis cannot be reached, or has a failure that
    /// [may pass](lockspan_client::TroubleKind::may_pass). Then it ends with
    /// [`LockError::Trouble`](lockspan_client::LockError::Trouble). Defaults to 3 s.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Connects to `url` with these options. See [`connect`](crate::connect) for the URLs.
    ///
    /// A task of the current tokio runtime looks after the connection.
    ///
    /// # Errors
    ///
    /// As [`connect`](crate::connect), and [`ConnectError::BadOption`].
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

    /// Connects for a program without an async runtime. A background thread looks after the
    /// connection.
    ///
    /// # Errors
    ///
    /// As [`Options::connect`].
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
            return Err(bad("recheck must be at least 1 s"));
        }
        if [self.lease, self.recheck, self.poll, self.patience].iter().any(|time| *time > DAY) {
            return Err(bad("lease, recheck, poll and patience must be at most a day"));
        }
        if self.poll < Duration::from_millis(1) {
            return Err(bad("poll must be at least 1 ms"));
        }
        let label = self.label.or_else(|| lockspan_client::label::usual().map(|it| it.to_string()));
        let me = Identity::draw(label.as_deref().unwrap_or_default())?;
        let (words, heard) = tokio::sync::mpsc::unbounded_channel();
        let (address, has_login) = (target.place.shown(), target.place.has_login());
        let dial = Dial {
            place: target.place,
            channel: (!plain).then(|| me.channel.clone()),
            patience: (self.lease / 4).clamp(Duration::from_millis(100), Duration::from_secs(2)),
            words,
        };
        let first = dial.connect(0).await.map_err(|why| {
            let Trouble { kind, said, .. } = trouble(&why);
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
