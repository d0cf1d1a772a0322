//! Options of a connection, and connecting with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::cache::{Config, PageLimits};
use lockspan_protocol::{Annotation, Bugs, Handoff, SessionId, StayLimits};
use lockspan_tls::ClientFiles;
use lockspan_wire::Secret;

use crate::error::ConnectError;
use crate::label;
use crate::line::OWNERS;
use crate::local;
use crate::locks::{Handle, Locks};
use crate::memory::Seat;
use crate::meter::Meter;
use crate::node::{Habits, Node};
use crate::task::{self, Attended, Dial};
use crate::url::{Address, Login, NEEDS_TLS, Target};
use crate::way::{Outbox, Way};

/// Options of a connection.
///
/// | option | defaults to | change it when |
/// |---|---|---|
/// | [`lease`](Self::lease) | 10 s | locks of a dead process must be free sooner, or later |
/// | [`margin`](Self::margin) | 0 | clocks drift by more than 5 % |
/// | [`stay`](Self::stay) | 16 turns, 2 ms | others wait too long, or handing over costs too much |
/// | [`handoff`](Self::handoff) | [`Handoff::Direct`] | hardly ever |
/// | [`caching`](Self::caching) | `true` | records are seldom used twice |
/// | [`idle`](Self::idle) | 60 s | many records are used once and never again |
/// | [`max_cached`](Self::max_cached) | 100,000 records | memory is short |
/// | [`try_for`](Self::try_for) | 100 ms | the network is slow |
/// | [`counting`](Self::counting) | if a `metrics` recorder is installed | hardly ever |
/// | [`name`](Self::name) | `lockspan` | operators look at the lists of the server |
/// | [`user`](Self::user), [`password`](Self::password) | none | the server has users |
/// | [`ca`](Self::ca), [`certificate`](Self::certificate) | the system's, none | private TLS |
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::time::Duration;
///
/// let locks = lockspan_client::Options::new()
///     .lease(Duration::from_secs(5))
///     .caching(false)
///     .connect("memory:")
///     .await?;
/// # Ok::<(), lockspan_client::ConnectError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    lease: Duration,
    margin: Duration,
    stay: StayLimits,
    handoff: Handoff,
    caching: bool,
    idle: Duration,
    max_cached: usize,
    #[cfg(feature = "metrics")]
    counting: Option<bool>,
    pub(crate) try_for: Duration,
    name: String,
    label: Option<String>,
    login: Login,
    tls: ClientFiles,
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
            lease: Duration::from_secs(10),
            margin: Duration::ZERO,
            stay: StayLimits::default(),
            handoff: Handoff::Direct,
            caching: true,
            idle: Duration::from_secs(60),
            max_cached: 100_000,
            #[cfg(feature = "metrics")]
            counting: None,
            try_for: Duration::from_millis(100),
            name: "lockspan".to_owned(),
            label: None,
            login: Login::default(),
            tls: ClientFiles::default(),
        }
    }

    /// How long the server keeps this process's locks without hearing from it. Then other
    /// processes may acquire them. Defaults to 10 s; at least 10 ms.
    ///
    /// The client extends the lease in the background. If it cannot, its guards stop being
    /// [valid](crate::Guard::is_valid) a tenth of the lease before it expires at the server. A
    /// server has bounds for the lease: `--min-lease` and `--max-lease`.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// How much earlier guards stop being valid, in addition to a tenth of the
    /// [lease](Self::lease). Defaults to 0; must be below half of the lease.
    ///
    /// Set it where clocks drift by more than 5 %, or where a program goes on working for a known
    /// time after it has checked [`Guard::is_valid`](crate::Guard::is_valid).
    #[must_use]
    pub fn margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    /// How long this process may go on using a cached record that another process waits for: at
    /// most `turns` acquisitions, which all begin within `time` of the other's request. Defaults to
    /// 16 turns and 2 ms.
    #[must_use]
    pub fn stay(self, turns: u32, time: Duration) -> Self {
        Self { stay: StayLimits { turns, time }, ..self }
    }

    /// How the server ends a wait: by pushing the grant, or by telling the client to ask again.
    /// Defaults to [`Handoff::Direct`], which pushes the grant.
    #[must_use]
    pub fn handoff(self, handoff: Handoff) -> Self {
        Self { handoff, ..self }
    }

    /// Whether a released record stays cached, so that acquiring it again sends no message.
    /// Defaults to `true`. With `false` each release goes to the server.
    #[must_use]
    pub fn caching(self, caching: bool) -> Self {
        Self { caching, ..self }
    }

    /// How long a cached record may be unused before it goes back to the server. Defaults to 60 s.
    #[must_use]
    pub fn idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// How many records may be cached. Beyond that, those used least recently go back to the
    /// server. Defaults to 100,000.
    #[must_use]
    pub fn max_cached(self, max_cached: usize) -> Self {
        Self { max_cached, ..self }
    }

    /// Whether this connection reports to the [`metrics`](https://docs.rs/metrics) crate. Defaults
    /// to yes if a recorder is installed. A recorder that is installed later is noticed within a
    /// second.
    ///
    /// A recorder type without any fields is not noticed: it needs `true`.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn counting(self, counting: bool) -> Self {
        Self { counting: Some(counting), ..self }
    }

    /// How long the `try_` methods, such as [`Record::try_read`](crate::Record::try_read), wait for
    /// another process to hand over a record that it has cached but does not use. Defaults to
    /// 100 ms.
    #[must_use]
    pub fn try_for(self, time: Duration) -> Self {
        Self { try_for: time, ..self }
    }

    /// The name of this client in the lists of the server (`lockspan locks`, the web page).
    /// Defaults to `lockspan`.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// How people see this node's sessions: in `lockspan locks`, on the server's page, in the
    /// timeouts of others that wait for its records. Defaults to `program@host[pid]`. At most 256
    /// bytes without control characters; otherwise connecting fails.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// The user to log in as, for a server that has users. Defaults to `default` if there is a
    /// password, otherwise to no login. A user in the URL takes precedence.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.login.user = Some(name.into());
        self
    }

    /// The password of the [user](Self::user). Defaults to none. A password in the URL takes
    /// precedence.
    #[must_use]
    pub fn password(mut self, password: impl Into<Vec<u8>>) -> Self {
        self.login.password = Some(Secret::new(password.into()));
        self
    }

    /// A file with the password of the [user](Self::user). It is read each time that a connection
    /// is made; white space at its end is ignored. Defaults to none. A password in the URL takes
    /// precedence.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login.password_file = Some(path.into());
        self
    }

    /// For `lockspans://`: a PEM file with the certificate authorities to trust. Defaults to those
    /// of the system.
    #[must_use]
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(path.into());
        self
    }

    /// For `lockspans://`: the client's certificate and its key, both PEM files. Defaults to none.
    #[must_use]
    pub fn certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        (self.tls.cert, self.tls.key) = (Some(cert.into()), Some(key.into()));
        self
    }

    /// Only the certificate of [`certificate`](Self::certificate). Defaults to none. Connecting
    /// fails unless [`key`](Self::key) is set too.
    #[must_use]
    pub fn cert(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.cert = Some(path.into());
        self
    }

    /// Only the key of [`certificate`](Self::certificate). Defaults to none. Connecting fails
    /// unless [`cert`](Self::cert) is set too.
    #[must_use]
    pub fn key(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.key = Some(path.into());
        self
    }

    /// The user and the password, if there is one. For crates that connect to other services.
    #[doc(hidden)]
    pub fn credentials(&self) -> Result<Option<(String, Secret)>, ConnectError> {
        Ok(self.login.words()?.map(|(user, password)| (user.to_owned(), password)))
    }

    /// How to call the server at `url`; none if there is nobody to call.
    pub(crate) fn dial(&self, url: &str) -> Result<Option<Dial>, ConnectError> {
        let mut site = match Target::parse(url)? {
            Target::Memory(_) => return Ok(None),
            Target::Local => return Ok(Some(Dial::local(local::socket()?, &self.name))),
            Target::Server(site) => *site,
        };
        if matches!(site.address, Address::Tls(_)) && cfg!(not(feature = "tls")) {
            return Err(ConnectError::bad_url(url, NEEDS_TLS));
        }
        let Login { user, password, password_file } = self.login.clone();
        let is_said = site.login.password.is_some() || site.login.password_file.is_some();
        site.login.user = site.login.user.or(user);
        if !is_said {
            (site.login.password, site.login.password_file) = (password, password_file);
        }
        let ClientFiles { ca, cert, key } = self.tls.clone();
        site.tls.ca = site.tls.ca.or(ca);
        if site.tls.cert.is_none() && site.tls.key.is_none() {
            (site.tls.cert, site.tls.key) = (cert, key);
        }
        Dial::new(site, &self.name).map(Some)
    }

    /// Connects to `url` with these options. See [`connect`](crate::connect) for the URLs.
    ///
    /// A task of the current tokio runtime looks after the connection.
    ///
    /// # Errors
    ///
    /// As [`connect`](crate::connect), and [`ConnectError::BadOption`].
    pub async fn connect(self, url: &str) -> Result<Locks, ConnectError> {
        // A socket that is being connected is the parent's.
        BoundFuture::new(self.connect_here(url), || Poll::Ready(Err(ConnectError::forked()))).await
    }

    async fn connect_here(self, url: &str) -> Result<Locks, ConnectError> {
        let dial = self.dial(url)?;
        let config = self.config()?;
        let (habits, meter) = (self.habits(), self.meter());
        let runtime = task::runtime()?;
        let node = match dial {
            None => {
                let name = url.strip_prefix("memory:").unwrap_or_default();
                let way = Way::Memory(Seat::take(name));
                let node = Arc::new(Node::new(config, habits, meter, way, runtime.clone()));
                if let Way::Memory(seat) = &node.way {
                    seat.belongs_to(&node);
                }
                node.connected();
                task::spawn(&runtime, task::attend(Attended(Arc::clone(&node))));
                node
            }
            Some(dial) => {
                let first = dial.reach().await?;
                let way = Way::Stream(Outbox::default());
                let node = Arc::new(Node::new(config, habits, meter, way, runtime.clone()));
                task::begin(&node, &first);
                let attended = Attended(Arc::clone(&node));
                task::spawn(&runtime, task::run(attended, dial, first, self.lease));
                node
            }
        };
        Ok(Locks::new(Handle::new(node, self.try_for)))
    }

    /// Connects for a program without an async runtime. A background thread looks after the
    /// connection.
    ///
    /// # Errors
    ///
    /// As [`Options::connect`].
    pub fn blocking_connect(self, url: &str) -> Result<Locks, ConnectError> {
        let url = url.to_owned();
        task::connect_in_background(async move { self.connect(&url).await })
    }

    pub(crate) fn habits(&self) -> Habits {
        let &Self { caching, idle, max_cached, margin, .. } = self;
        Habits { caching, idle, max_cached, margin }
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter::new(
            #[cfg(feature = "metrics")]
            self.counting,
        )
    }

    pub(crate) fn config(&self) -> Result<Config, ConnectError> {
        if self.lease < Duration::from_millis(10) {
            return Err(ConnectError::BadOption {
                what: format!("a lease of {:?} is too short; the minimum is 10 ms", self.lease),
            });
        }
        if self.margin >= self.lease / 2 {
            return Err(ConnectError::BadOption {
                what: format!(
                    "a margin of {:?} is too long for a lease of {:?}; it must be less than half \
                     of the lease",
                    self.margin, self.lease
                ),
            });
        }
        let label = match &self.label {
            None => label::usual(),
            Some(label) => Some(Annotation::new(label).map_err(|why| {
                let what = format!("the label {label:?} can't be used: {why}");
                ConnectError::BadOption { what }
            })?),
        };
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).map_err(|why| ConnectError::Local {
            what: format!("the system has no random numbers: {why}"),
        })?;
        Ok(Config {
            first_session: SessionId(u64::from_ne_bytes(drawn)),
            ttl: self.lease,
            handoff: self.handoff,
            label,
            resend: (self.lease / 10).min(Duration::from_millis(500)),
            stay: self.stay,
            records: self.max_cached.saturating_mul(2).max(1024),
            owners: OWNERS,
            pages: PageLimits::default(),
            bugs: Bugs::NONE,
        })
    }
}
