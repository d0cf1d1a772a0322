//! `lockspan serve`: the service until a signal, or until nobody needs it.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use lockspan_client::local;
use lockspan_server::{Address, Config, Data, Fitted, Machine, Server, StartError};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::exit::{CONFIG, Failure, SYSTEM, of_signal};
use crate::log::{self, LastLines, Log};
use crate::notify::Manager;
use crate::occupant;
use crate::options::table::Settings;
use crate::options::{self, Flags};
use crate::place::Place;
use crate::variables;

/// Serves.
pub(crate) fn main(flags: &Flags) -> Result<ExitCode, Failure> {
    let settings = options::settle(flags, |name| std::env::var_os(name)).map_err(bad)?;
    // That is how clients start it.
    let quietly = settings.local && settings.listen.is_empty();
    let inherited = if quietly { local::let_go_of_inherited() } else { Ok(()) };
    let log = log::start(&settings)?;
    let _last_lines = LastLines(log.clone());
    if let Err(why) = inherited {
        warn!("can't close the files inherited from the client that started this service: {why}");
    }
    // A client that starts it leaves its own variables out.
    variables::unknown().iter().for_each(|warning| warn!("{warning}"));
    let done = serve_with(settings, quietly, &log);
    Ok(done.unwrap_or_else(|failure| {
        log.say_last(&failure.text);
        ExitCode::from(failure.code)
    }))
}

fn bad(bad: options::Bad) -> Failure {
    Failure::new(CONFIG, bad.to_string())
}

fn serve_with(settings: Settings, quietly: bool, log: &Log) -> Result<ExitCode, Failure> {
    // A service of the user's own is nobody's unit: whoever started it may have one, and is not it.
    let (is_local, takes_place) = (settings.local, settings.takes_place());
    let manager = if is_local { Manager::none() } else { Manager::from_env() };
    let given = settings.given.clone();
    let mut config = settings.into_config().map_err(bad)?;
    config.audit = log.audit_gate();
    let fitted = config.fit(&Machine::prepare(), |option| given.contains(option));
    // Without a home there is no place to take; then it is not among the addresses.
    let socket = local::socket().ok().map(Address::Unix);
    let place = match takes_place && socket.is_some_and(|socket| config.listen.contains(&socket)) {
        true => Some(Place::take(quietly)?),
        false => None,
    };
    config.lost = place.as_ref().map(Place::lost).transpose()?.flatten();
    if config.users.is_some() {
        keep_memory_private();
    }
    log.die_of_panics();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(lockspan_server::threads())
        .enable_all()
        .build()
        .map_err(|bad| Failure::new(SYSTEM, format!("can't start threads: {bad}")))?;
    let code = runtime.block_on(serve(config, &fitted, place, &manager))?;
    // A stop at once leaves tasks behind; nobody waits for them.
    runtime.shutdown_background();
    Ok(code)
}

/// Passwords go through this process. No core file is written of it, and no other process of its
/// user may read its memory.
fn keep_memory_private() {
    if let Err(why) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(
            "can't protect the memory of this process, so other processes of this user may read \
             passwords in it: {why}"
        );
    }
}

async fn serve(
    config: Config,
    fitted: &Fitted,
    mut place: Option<Place>,
    manager: &Manager,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()
        .map_err(|bad| Failure::new(SYSTEM, format!("can't handle signals: {bad}")))?;
    let (data, has_tls) = (config.data.clone(), config.tls.is_some());
    let longest = config.protocol.ttl_max;
    let server = Server::start(config).await.map_err(|bad| {
        // Another one may be about to end.
        let is_taken = matches!(bad, StartError::SocketInUse { .. } | StartError::DataInUse { .. });
        let code = if is_taken && place.is_some() { local::TAKEN } else { CONFIG };
        Failure::new(code, format!("can't start: {bad}{}", occupant_of(&bad)))
    })?;
    if let Some(place) = &mut place {
        place.remember();
    }
    greet(server.addresses(), &data, has_tls, place.is_some());
    if let Some(at) = server.http_address() {
        info!("page and metrics on http://{at}/");
    }
    info!("limits: {fitted}");
    fitted.warnings.iter().for_each(|warning| warn!("{warning}"));
    manager.ready();
    let first = tokio::select! {
        () = server.wait() => {
            manager.stopping();
            leave(place.as_mut(), &server);
            info!("stopped: idle, without sessions and connections");
            return Ok(ExitCode::SUCCESS);
        }
        first = signals.next() => first,
        never = look_after(place.as_mut(), &server, longest) => never,
    };
    manager.stopping();
    info!("{}: stopping; a second signal stops at once", first.name);
    tokio::select! {
        () = async { server.stop().await; server.wait().await } => {
            leave(place.as_mut(), &server);
            info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
        second = signals.next() => {
            warn!("{}: stopped at once", second.name);
            Ok(ExitCode::from(of_signal(second.number)))
        }
    }
}

/// Who has the address that a server wanted.
fn occupant_of(bad: &StartError) -> String {
    let taken = match bad {
        StartError::Listen { address: Address::Tcp(at), why } => Some((at, why)),
        _ => None,
    };
    let taken = taken.filter(|(_, why)| why.kind() == ErrorKind::AddrInUse);
    let found = taken.and_then(|(at, _)| occupant::of(*at));
    found.map(|found| format!(". {found}")).unwrap_or_default()
}

/// Looks after the files of the place behind `local:`, if we have it.
async fn look_after(place: Option<&mut Place>, server: &Server, longest: Duration) -> ! {
    if let Some(place) = place {
        place.look_after(server, longest).await;
    }
    std::future::pending().await
}

fn leave(place: Option<&mut Place>, server: &Server) {
    if let Some(place) = place {
        place.leave(server.epoch(), server.stats().sessions);
    }
}

/// The first line: where it listens, where data is, and how to try it.
fn greet(addresses: &[Address], data: &Data, has_tls: bool, is_local: bool) {
    let listen: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let data = match data {
        Data::Dir(dir) => dir.display().to_string(),
        Data::None { .. } => "none".to_owned(),
    };
    let attempt = addresses.first().map(|at| how_to_try(at, has_tls)).unwrap_or_default();
    let local = if is_local { "" } else { ". Commands without --url use another service, local:" };
    info!("listening on {}; data in {data}; try: {attempt}{local}", listen.join(", "));
}

fn how_to_try(address: &Address, has_tls: bool) -> String {
    let (redis, url) = match address {
        Address::Tcp(at) => {
            let (scheme, tls) = if has_tls { ("lockspans", " --tls") } else { ("lockspan", "") };
            let redis = format!("redis-cli -h {} -p {}{tls}", at.ip(), at.port());
            (redis, format!("{scheme}://{at}"))
        }
        Address::Unix(path) => {
            let path = path.display();
            (format!("redis-cli -s {path}"), format!("unix://{path}"))
        }
    };
    format!("{redis} -3 LS.LOCKS 0, or: lockspan run --url {url} demo:1 -- echo locked")
}

/// The signals that stop the service.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

struct Came {
    name: &'static str,
    number: i32,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Came {
        tokio::select! {
            _ = self.terminate.recv() => Came { name: "SIGTERM", number: 15 },
            _ = self.interrupt.recv() => Came { name: "SIGINT", number: 2 },
        }
    }
}
