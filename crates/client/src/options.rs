//! How to be connected.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lockspan_park::fork::BoundFuture;
use lockspan_protocol::cache::{Config, PageLimits};
use lockspan_protocol::{Bugs, Handoff, SessionId, StayLimits};
use lockspan_tls::ClientFiles;
use lockspan_wire::Secret;

use crate::error::ConnectError;
use crate::line::OWNERS;
use crate::local;
use crate::locks::{Handle, Locks};
use crate::memory::Seat;
use crate::meter::Meter;
use crate::node::{Habits, Node};
use crate::task::{self, Attended, Dial};
use crate::url::{Login, Target};
use crate::way::{Outbox, Way};

/// Choices for a connection; each has a default that is good for most.
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
    counting: Option<bool>,
    pub(crate) try_for: Duration,
    name: String,
    login: Login,
    tls: ClientFiles,
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
            lease: Duration::from_secs(10),
            margin: Duration::ZERO,
            stay: StayLimits::default(),
            handoff: Handoff::Direct,
            caching: true,
            idle: Duration::from_secs(60),
            max_cached: 100_000,
            counting: None,
            try_for: Duration::from_millis(100),
            name: "lockspan".to_owned(),
            login: Login::default(),
            tls: ClientFiles::default(),
        }
    }

    /// How long the service waits for a word from this node before it gives its records to others.
    /// Defaults to 10 s. The node extends its lease by itself, and stops using its records a tenth
    /// earlier. A server has bounds for it: `--min-lease` and `--max-lease`.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// How much earlier than that tenth of the [lease](Self::lease) this node stops using its
    /// records. Defaults to 0. Choose more where clocks are worse than 5 %, or where work goes on
    /// for a while after the guard was checked. It has to be below half of the lease.
    #[must_use]
    pub fn margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    /// How long threads of this node may keep a record that others wait for: at most so many turns
    /// that begin after the others have asked, within this time. Defaults to 16 turns and 2 ms.
    #[must_use]
    pub fn stay(self, turns: u32, time: Duration) -> Self {
        Self { stay: StayLimits { turns, time }, ..self }
    }

    /// How waits end: by a grant that the server pushes, or by its word to ask again. Defaults to
    /// [`Handoff::Direct`], the grant.
    #[must_use]
    pub fn handoff(self, handoff: Handoff) -> Self {
        Self { handoff, ..self }
    }

    /// Whether a record stays on this node while it is not used, so that taking it again makes no
    /// call. Defaults to `true`; without it each release goes to the server.
    #[must_use]
    pub fn caching(self, caching: bool) -> Self {
        Self { caching, ..self }
    }

    /// After how long an unused record goes back to the service. Defaults to 60 s.
    #[must_use]
    pub fn idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Beyond this number of records, those that were used least recently go back to the service.
    /// Defaults to 100,000.
    #[must_use]
    pub fn max_cached(self, max_cached: usize) -> Self {
        Self { max_cached, ..self }
    }

    /// Whether this connection counts for the `metrics` façade. Defaults to doing so as soon as a
    /// recorder is installed; one that is installed later than the connection is seen within a
    /// second. Only a recorder that has no fields at all needs `true`.
    #[must_use]
    pub fn counting(self, counting: bool) -> Self {
        Self { counting: Some(counting), ..self }
    }

    /// How long the forms that try, such as [`Record::try_read`](crate::Record::try_read), give
    /// other nodes to hand over what they do not use. Defaults to 100 ms.
    #[must_use]
    pub fn try_for(self, time: Duration) -> Self {
        Self { try_for: time, ..self }
    }

    /// What the server's lists call this node. Defaults to `lockspan`.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The user to log in as, for a server that has users. Defaults to `default` if there is a
    /// password, else to no login. A user in the URL takes precedence.
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

    /// The file that has the password of the [user](Self::user): it is read each time that a
    /// connection is made, without white space at its end. Defaults to none. A password in the URL
    /// takes precedence.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.login.password_file = Some(path.into());
        self
    }

    /// `lockspans://`: a PEM file with the authorities that the server's certificate may be from.
    /// Defaults to those of the system.
    #[must_use]
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(path.into());
        self
    }

    /// `lockspans://`: a certificate to show to the server, and its key, both PEM files. Defaults
    /// to none.
    #[must_use]
    pub fn certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        (self.tls.cert, self.tls.key) = (Some(cert.into()), Some(key.into()));
        self
    }

    /// The certificate of [`certificate`](Self::certificate) alone: connecting fails unless there
    /// is a [key](Self::key) too.
    #[must_use]
    pub fn cert(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.cert = Some(path.into());
        self
    }

    /// The key of [`certificate`](Self::certificate) alone: connecting fails unless there is a
    /// [certificate](Self::cert) too.
    #[must_use]
    pub fn key(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.key = Some(path.into());
        self
    }

    /// The user and the password, if there is one: for crates that connect to something else.
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

    /// Connects. The connection is looked after by a task of the runtime that this is called in,
    /// and belongs to [this process](crate::connect#after-a-fork).
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

    /// Connects for a program without a runtime: the connection is looked after by a thread of its
    /// own.
    pub fn blocking_connect(self, url: &str) -> Result<Locks, ConnectError> {
        let url = url.to_owned();
        task::connect_in_background(async move { self.connect(&url).await })
    }

    pub(crate) fn habits(&self) -> Habits {
        let &Self { caching, idle, max_cached, margin, .. } = self;
        Habits { caching, idle, max_cached, margin }
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter::new(self.counting)
    }

    pub(crate) fn config(&self) -> Result<Config, ConnectError> {
        if self.lease < Duration::from_millis(10) {
            return Err(ConnectError::BadOption {
                what: format!("a lease of {:?} is too short; 10 ms is the least", self.lease),
            });
        }
        if self.margin >= self.lease / 2 {
            return Err(ConnectError::BadOption {
                what: format!(
                    "a margin of {:?} leaves too little of a lease of {:?}; \
                     it has to be below half",
                    self.margin, self.lease
                ),
            });
        }
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).map_err(|why| ConnectError::Local {
            what: format!("the system gives no random number for the session: {why}"),
        })?;
        Ok(Config {
            first_session: SessionId(u64::from_ne_bytes(drawn)),
            ttl: self.lease,
            handoff: self.handoff,
            resend: (self.lease / 10).min(Duration::from_millis(500)),
            stay: self.stay,
            records: self.max_cached.saturating_mul(2).max(1024),
            owners: OWNERS,
            pages: PageLimits::default(),
            bugs: Bugs::NONE,
        })
    }
}
