//! A server from its start to its end.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use lockspan_protocol::SessionId;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{Address, Config, Data};
use crate::error::StartError;
use crate::http;
use crate::net::admission::Admission;
use crate::net::attention::Vigil;
use crate::net::budget::{self, Budget};
use crate::net::listen::{self, Tls};
use crate::net::peers::Peers;
use crate::net::socket_file::SocketFile;
use crate::net::{Floods, Shared};
use crate::own_runtime::OwnRuntime;
use crate::private::FileMode;
use crate::service::{PerUser, PublicKey, Service, Work};
use crate::stats::Stats;
use crate::store::{self, Opened, Saved, Storage, Use};
use crate::turn::Lane;
use crate::users::Users;

/// Things that happened to records of which a server with a page remembers the last.
const HAPPENINGS: usize = 32 << 10;

/// The name of the threads that make TLS handshakes.
const HANDSHAKES: &str = "lockspan-tls";

/// The longest time before the first probe that the system takes.
const KEEPALIVE_MAX: Duration = Duration::from_secs(9 * 3600);

/// How many threads a runtime for a server should have: half of the processors, because clients
/// often run on the same machine. A runtime with one thread polls for messages for a moment before
/// it sleeps.
#[must_use]
pub fn threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).max(1)
}

/// A running server.
///
/// [`Server::stop`] ends it in order. Dropping it ends it at once, as if its process had been
/// killed. Either way its sessions stay in the data directory, and the next server there continues
/// them.
#[derive(Debug)]
pub struct Server {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    /// Listeners, the timer, the watch for idleness.
    tasks: Mutex<Vec<JoinHandle<()>>>,
    writer: Mutex<Option<thread::JoinHandle<()>>>,
    socket_files: Mutex<Vec<SocketFile>>,
    /// The page; it is there until the end, and tells that the server stops.
    page: Mutex<Option<OwnRuntime>>,
    /// Where TLS handshakes are made.
    handshakes: Mutex<Option<OwnRuntime>>,
    http: Option<SocketAddr>,
    stage: watch::Sender<Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    Stopping,
    Stopped,
}

impl Server {
    /// Starts a server. When this returns, it accepts connections. Call it within a tokio runtime,
    /// which runs the server's tasks. The web page and TLS handshakes have their own threads.
    ///
    /// If the disk is full, the server starts all the same: commands that need storage are refused
    /// with `LOADING` until there is space.
    ///
    /// # Errors
    ///
    /// [`StartError`]: an option is out of its bounds, an address is in use, or a file cannot be
    /// used.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        check(&config)?;
        let tls = config.tls.as_ref().map(|files| files.load()).transpose();
        let tls = tls.map_err(StartError::Tls)?;
        let handshakes = tls.as_ref().map(|_| OwnRuntime::start(HANDSHAKES, threads())).transpose();
        let handshakes = handshakes.map_err(StartError::Thread)?;
        let tls = tls.zip(handshakes.as_ref().map(|own| own.handle().clone()));
        let tls = tls.map(|(config, own)| Tls::new(config, own));
        let users = config.users.as_deref().map(Users::load).transpose();
        let users = users.map_err(StartError::Users)?.map(Arc::new);
        check_reach(&config)?;
        warn_of_rights(&config);
        warn_of_certificates(&config)?;
        let (mut listeners, mut socket_files) = (Vec::new(), Vec::new());
        for address in &config.listen {
            let (listener, file) = listen::bind(address, tls.as_ref(), config.socket).await?;
            listeners.push(listener);
            socket_files.extend(file);
        }
        let door = http::bind(config.http)?;
        let (opened, storage, mut saved) = open_data(&config)?;
        if let Some(lost) = config.lost {
            let phantom = SessionId(draw()?);
            saved.after(lost, config.protocol.ttl_max, phantom);
        }
        let has_room = opened.as_ref().is_none_or(|opened| opened.is_made);
        let operators = http::operators::Operators::of(users.as_ref(), &config.data, has_room)?;
        if door.is_some() {
            operators.log_how();
        }
        let public_key = public_key(&config)?;
        if let Some(users) = &users {
            users.work_in(tokio::runtime::Handle::current());
            if let (Data::Dir(dir), true) = (&config.data, has_room) {
                users.remember_in(dir, public_key.0);
            }
        }
        let remembered = if config.http.is_some() { HAPPENINGS / config.shards } else { 0 };
        let limits = config.protocol.clone();
        let keys = (draw()?, public_key);
        let mut service = Service::new(limits, config.shards, keys, storage, remembered);
        if let Some(users) = &users {
            users.divide(&service.datatypes);
        }
        service.allow_each_user(PerUser {
            sessions: config.sessions_per_user,
            records: config.records_per_user,
        });
        service.has_users = users.is_some();
        let service = Arc::new(service);
        let writer = match opened {
            Some(opened) => Some(start_writer(opened, &service).map_err(StartError::Thread)?),
            None => None,
        };
        let shared = Arc::new(Shared {
            service: Arc::clone(&service),
            peers: Peers::default(),
            admission: Admission::new(
                config.connections,
                users.as_ref().map(|_| config.connections_per_user),
                listen::HANDSHAKES,
            ),
            users,
            floods: Floods::default(),
            lane: Lane::for_this_runtime(config.turn),
            budget: Budget::new(config.outboxes),
            vigil: Vigil::for_this_runtime(),
            addresses: listeners.iter().map(|listener| listener.address.clone()).collect(),
            run_id: format!("{:016x}{:016x}{:08x}", draw()?, draw()?, draw()? >> 32),
            started: Instant::now(),
            config,
        });
        let server = Self {
            running: Arc::new(Running {
                shared: Arc::clone(&shared),
                tasks: Mutex::default(),
                writer: Mutex::new(writer),
                socket_files: Mutex::new(socket_files),
                page: Mutex::default(),
                handshakes: Mutex::new(handshakes),
                http: door.as_ref().map(|door| door.at),
                stage: watch::Sender::new(Stage::Running),
            }),
        };
        let mut work = Work::default();
        service
            .take_all(saved, &mut work)
            .map_err(|why| StartError::Option { option: "data-dir", why: why.to_string() })?;
        service.finish(&mut work);
        // No message is looked at before: a session that is listed would seem unknown. If the disk
        // is full that may take long, and clients are told why they have to wait.
        while !service.is_ready() && service.storage_trouble().is_none() {
            service.began.notified().await;
        }
        let mut tasks = crate::lock(&server.running.tasks);
        tasks.push(tokio::spawn({
            let service = Arc::clone(&service);
            async move { service.run_timer().await }
        }));
        for listener in listeners {
            tracing::debug!("listening on {}", listener.address);
            tasks.push(tokio::spawn(listener.run(Arc::clone(&shared))));
        }
        if let Some(door) = door {
            let page = door.open(Arc::clone(&shared), operators).map_err(StartError::Thread)?;
            *crate::lock(&server.running.page) = Some(page);
        }
        tasks.push(tokio::spawn(budget::keep(Arc::clone(&shared))));
        if shared.vigil.is_some() {
            let shared = Arc::clone(&shared);
            tasks.push(tokio::spawn(async move {
                if let Some(vigil) = &shared.vigil {
                    vigil.keep().await;
                }
            }));
        }
        if let Some(idle) = shared.config.idle_exit {
            tasks.push(tokio::spawn(exit_when_idle(Arc::downgrade(&server.running), idle)));
        }
        drop(tasks);
        Ok(server)
    }

    /// The addresses that the server listens on, with the actual ports.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.running.shared.addresses
    }

    /// The address of the web page and the metrics, with the actual port.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.running.http
    }

    /// The epoch of this run: the upper part of the tokens that it issues.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.running.shared.service.highest_epoch()
    }

    /// Creates a socket file again that was deleted, and listens there. Connected clients stay.
    pub async fn listen_again(&self, path: &Path) -> Result<(), StartError> {
        let shared = &self.running.shared;
        // It has the lock beside it, which we could not take a second time.
        crate::lock(&self.running.socket_files).retain(|file| file.path != path);
        let address = Address::Unix(path.to_owned());
        let (listener, file) = listen::bind(&address, None, shared.config.socket).await?;
        crate::lock(&self.running.socket_files).extend(file);
        let task = tokio::spawn(listener.run(Arc::clone(shared)));
        crate::lock(&self.running.tasks).push(task);
        Ok(())
    }

    /// Stops the server: it accepts and grants nothing more, tells every session, and waits for
    /// clients to read what they were sent, for at most [`Config::stop_grace`]. Sessions stay in
    /// the data directory.
    pub async fn stop(&self) {
        self.running.stop().await;
    }

    /// Waits until the server has stopped.
    pub async fn wait(&self) {
        self.running.wait().await;
    }

    /// Counts of what the server has done, and of what it has now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.running.shared.stats()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.kill();
    }
}

impl Running {
    async fn wait(&self) {
        let mut stage = self.stage.subscribe();
        // It is never dropped while `self` is there.
        let _ = stage.wait_for(|stage| *stage == Stage::Stopped).await;
    }

    async fn stop(&self) {
        let first = self.stage.send_if_modified(|stage| {
            let first = *stage == Stage::Running;
            *stage = (*stage).max(Stage::Stopping);
            first
        });
        if !first {
            self.wait().await;
            return;
        }
        let shared = &self.shared;
        tracing::debug!("stopping");
        shared.service.halt();
        // Until they are gone somebody may be let in, or finish a handshake.
        for task in self.abort_tasks() {
            let _ = task.await;
        }
        let mut work = Work::default();
        shared.service.announce_stop(&mut work);
        work.dirty.flush();
        let deadline = Instant::now() + shared.config.stop_grace;
        while Instant::now() < deadline && shared.peers.list().iter().any(|it| !it.outbox.is_sent())
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        shared.peers.list().iter().for_each(|peer| peer.outbox.close());
        // The writer may be in the middle of a commit.
        let writer = self.end_writer();
        let handshakes = crate::lock(&self.handshakes).take();
        let _ = tokio::task::spawn_blocking(move || {
            drop(handshakes);
            writer.map(thread::JoinHandle::join)
        })
        .await;
        crate::lock(&self.socket_files).clear();
        let page = crate::lock(&self.page).take();
        let _ = tokio::task::spawn_blocking(move || drop(page)).await;
        self.stage.send_replace(Stage::Stopped);
        tracing::debug!("stopped");
    }

    /// Ends everything without a word to anybody.
    fn kill(&self) {
        self.shared.service.halt();
        drop(self.abort_tasks());
        self.shared.peers.list().iter().for_each(|peer| peer.outbox.close());
        if let Some(writer) = self.end_writer() {
            // It has said what went wrong, if anything did.
            let _ = writer.join();
        }
        crate::lock(&self.socket_files).clear();
        let own = [crate::lock(&self.handshakes).take(), crate::lock(&self.page).take()];
        drop(own);
        self.stage.send_replace(Stage::Stopped);
    }

    /// Listeners and the like end at their next step; those that do.
    fn abort_tasks(&self) -> Vec<JoinHandle<()>> {
        let tasks = std::mem::take(&mut *crate::lock(&self.tasks));
        tasks.iter().for_each(JoinHandle::abort);
        tasks
    }

    fn end_writer(&self) -> Option<thread::JoinHandle<()>> {
        self.shared.service.end_storage();
        crate::lock(&self.writer).take()
    }
}

/// Other machines reach only what has TLS and users, unless it is wanted otherwise.
fn check_reach(config: &Config) -> Result<(), StartError> {
    let is_far = |at: &&Address| matches!(at, Address::Tcp(at) if !at.ip().is_loopback());
    let (no_tls, no_users) = (config.tls.is_none(), config.users.is_none());
    for address in config.listen.iter().filter(is_far).filter(|_| no_tls || no_users) {
        if !config.insecure {
            let address = address.clone();
            return Err(StartError::NotLoopback { address, no_tls, no_users });
        }
        let danger = match (no_tls, no_users) {
            (true, false) => "passwords and locks go over the network unencrypted",
            (false, true) => "anyone who reaches it can see, take and break every lock",
            _ => "anyone who reaches it can see, take and break every lock, and read the traffic",
        };
        tracing::warn!("INSECURE: {address} can be reached from other machines; {danger}");
    }
    Ok(())
}

/// Keys and hashes are secrets, and who may change a certificate decides who is believed. The file
/// of users is refused if others may change it: see `users/file.rs`.
fn warn_of_rights(config: &Config) {
    let tls = config.tls.as_ref();
    let secret = [tls.map(|tls| &tls.key), config.users.as_ref()].map(|path| (path, true));
    let public = [tls.map(|tls| &tls.cert), tls.and_then(|tls| tls.client_ca.as_ref())];
    let all = secret.into_iter().chain(public.map(|path| (path, false)));
    for (path, is_secret) in all.filter_map(|(path, is_secret)| Some((path?, is_secret))) {
        let Ok(mode) = std::fs::metadata(path).map(|found| FileMode::of(&found)) else { continue };
        let path = path.display();
        if is_secret && mode.lets_all_read() {
            tracing::warn!(
                "every user of this machine may read {path} ({mode}); run: chmod o-r {path}"
            );
        }
        if mode.lets_all_write() {
            tracing::warn!(
                "every user of this machine may change {path} ({mode}); run: chmod o-w {path}"
            );
        }
    }
}

/// A server whose certificate is over would start without a word, and no client would get in.
fn warn_of_certificates(config: &Config) -> Result<(), StartError> {
    let concerns = config.tls.as_ref().map(|files| files.present_concerns()).transpose();
    for concern in concerns.map_err(StartError::Tls)?.into_iter().flatten() {
        tracing::warn!("tls: {concern}");
    }
    Ok(())
}

fn check(config: &Config) -> Result<(), StartError> {
    let option = |option, why: &str| Err(StartError::Option { option, why: why.to_owned() });
    if config.listen.is_empty() {
        return option("listen", "at least one address is required");
    }
    if !(1..=256).contains(&config.shards) {
        return option("shards", &format!("{} is not between 1 and 256", config.shards));
    }
    if !(Duration::from_secs(1)..=KEEPALIVE_MAX).contains(&config.keepalive) {
        return option("tcp-keepalive", "it must be from 1s to 9h");
    }
    if config.connections == 0 {
        return option("connections", "it must be at least 1");
    }
    if config.outbox < 1024 {
        return option("outbox", "it must be at least 1024 bytes");
    }
    if config.outboxes < config.outbox.max(config.wire.frame) {
        let why = "it must be at least as large as outbox and as the longest command (frame)";
        return option("outboxes", why);
    }
    let limits = &config.protocol;
    if limits.ttl_min > limits.ttl_max || limits.ttl_min.is_zero() {
        return option(
            "ttl_min",
            "the shortest lease must be above 0 and not longer than the longest lease",
        );
    }
    Ok(())
}

fn open_data(config: &Config) -> Result<(Option<Opened>, Storage, Saved), StartError> {
    match &config.data {
        Data::Dir(dir) => {
            let how = Use {
                one_machine: config.listen.iter().all(|at| matches!(at, Address::Unix(_))),
                longest: config.protocol.ttl_max,
                phantom: SessionId(draw()?),
            };
            let (opened, storage, saved) = store::open(dir, how)?;
            Ok((Some(opened), storage, saved))
        }
        Data::None { fresh } => {
            let ttl = config.protocol.ttl_max;
            tracing::warn!(
                "there is no data directory: fencing tokens only increase within one run of the \
                 server"
            );
            if *fresh {
                tracing::warn!(
                    "fresh start: records are granted at once. If a client of an earlier run still \
                     holds a record, two clients hold it"
                );
            } else {
                let wait = ttl + lockspan_protocol::margin(ttl);
                tracing::warn!(
                    "nothing is granted for {wait:?}, until every lease of an earlier run has \
                     expired"
                );
            }
            let saved = Saved::nothing(*fresh, ttl, SessionId(draw()?));
            Ok((None, Storage::Memory, saved))
        }
    }
}

/// The key of public ids: that of the data directory, if there is one.
fn public_key(config: &Config) -> Result<PublicKey, StartError> {
    let new = PublicKey::draw().map_err(no_random)?;
    Ok(match &config.data {
        Data::Dir(dir) => PublicKey(store::key::read_or_write(dir, new.0)),
        Data::None { .. } => new,
    })
}

fn start_writer(opened: Opened, service: &Arc<Service>) -> std::io::Result<thread::JoinHandle<()>> {
    let service: Weak<Service> = Arc::downgrade(service);
    let running = move || service.upgrade().filter(|service| !service.is_halted());
    let stored = {
        let running = running.clone();
        move |stores| {
            if let Some(service) = running() {
                let mut work = Work::default();
                service.stored(stores, &mut work);
                service.finish(&mut work);
                work.dirty.flush();
            }
        }
    };
    let failed = move || {
        if let Some(service) = running() {
            service.began.notify_one();
        }
    };
    opened.start(stored, failed)
}

/// Stops the server when there was no session and no connection for so long.
async fn exit_when_idle(running: Weak<Running>, idle: Duration) {
    let pause = (idle / 10).clamp(Duration::from_millis(5), Duration::from_secs(1));
    let mut quiet_since = Instant::now();
    let mut seen = 0;
    loop {
        tokio::time::sleep(pause).await;
        let Some(running) = running.upgrade() else { return };
        let shared = &running.shared;
        let total = shared.peers.total();
        if shared.peers.len() > 0 || shared.service.session_count() > 0 || total != seen {
            quiet_since = Instant::now();
            seen = total;
        } else if quiet_since.elapsed() >= idle {
            tracing::info!("no session and no connection for {idle:?}");
            // In a task of its own: stopping ends this one.
            tokio::spawn(async move { running.stop().await });
            return;
        }
    }
}

fn draw() -> Result<u64, StartError> {
    getrandom::u64().map_err(no_random)
}

fn no_random(why: getrandom::Error) -> StartError {
    let why = format!("the system has none: {why}");
    StartError::Option { option: "random numbers", why }
}
