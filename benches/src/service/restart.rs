//! A server that is killed and started again: how long it takes until all that clients had cached
//! is locked again, what they send for that, and what it takes in memory.
//!
//! Each client is a process of its own with the default lease of 10 seconds. The time is from the
//! signal to the first answer of the new server that says that it does not recover any more.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::process::{self, Process, child, memory};
use crate::report::{Report, Row, Target};
use crate::say;
use crate::stats::Spread;

pub(crate) const FAMILY: &str = "restart";

/// Longer than the longest recovery: what is not back by then is lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two questions to the server.
const GLANCE: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("A killed server with cached records, until all of them are locked again");
    let sizes = if args.smoke {
        vec![(1, 1_000), (2, 500)]
    } else {
        vec![(1, 10_000), (1, 100_000), (1, 1_000_000), (8, 100_000)]
    };
    for (clients, records) in sizes {
        measure(clients, records, report)?;
    }
    Ok(())
}

/// What a restart came to.
struct Restart {
    /// None if not everything was locked again.
    seconds: Option<f64>,
    /// What the clients sent meanwhile.
    messages: f64,
    bytes: f64,
    lost: f64,
    /// Resident bytes of the server, before and after, and its peak.
    server_before: f64,
    server: f64,
    server_peak: f64,
    /// The same of the largest client.
    client: f64,
    client_peak: f64,
}

fn measure(clients: usize, records: usize, report: &mut Report) -> Result<(), String> {
    let restart = restart(clients, records)?;
    let what = format!("{clients} x {records} records");
    let each = restart.messages / (clients * records) as f64;
    report.once(
        FAMILY,
        what.clone(),
        &[
            ("seconds", restart.seconds.unwrap_or(f64::NAN)),
            ("messages_per_record", each),
            ("sent_bytes", restart.bytes),
            ("lost", restart.lost),
            ("server_bytes", restart.server),
            ("client_bytes", restart.client),
        ],
    );
    let seconds = restart.seconds;
    report.row(Row {
        what: format!("{what}: seconds"),
        ours: seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.2} s")),
        compared_with: restart.memory(),
        result: seconds.map(Spread::one),
        unit: " s",
        target: Target::Open,
    });
    report.row(Row {
        what: format!("{what}: messages sent for each"),
        ours: format!("{:.0}", restart.messages),
        compared_with: String::new(),
        result: Some(Spread::one(each)),
        unit: " messages",
        target: Target::AtMost(1.1),
    });
    report.row(Row {
        what: format!("{what}: lost"),
        ours: format!("{:.0}", restart.lost),
        compared_with: String::new(),
        result: Some(Spread::one(restart.lost)),
        unit: " records",
        target: Target::AtMost(0.0),
    });
    Ok(())
}

fn restart(clients: usize, records: usize) -> Result<Restart, String> {
    let mut server = Process::lockspan()?;
    let mut keepers = Vec::new();
    for number in 0..clients {
        keepers.push(Keeper::start(&server.url(), number, records)?);
    }
    let before = keepers.iter_mut().map(Keeper::ask).collect::<Result<Vec<_>, _>>()?;
    let server_before = server.resident()?;
    let begun = Instant::now();
    server.kill_and_restart()?;
    let took = until_recovered(server.address, clients * records, begun)?;
    let after = keepers.iter_mut().map(Keeper::ask).collect::<Result<Vec<_>, _>>()?;
    let sum = |of: fn(&Seen) -> f64, seen: &[Seen]| seen.iter().map(of).sum::<f64>();
    let grown = |of: fn(&Seen) -> f64| sum(of, &after) - sum(of, &before);
    Ok(Restart {
        seconds: took.map(|took| took.as_secs_f64()),
        messages: grown(|it| it.told),
        bytes: grown(|it| it.bytes),
        lost: sum(|it| it.lost, &after),
        server_before,
        server: server.resident()?,
        server_peak: memory::peak(&server.id())?,
        client: after.iter().map(|it| it.resident).fold(0.0, f64::max),
        client_peak: after.iter().map(|it| it.peak).fold(0.0, f64::max),
    })
}

impl Restart {
    fn memory(&self) -> String {
        let mebi = |bytes: f64| bytes / f64::from(1 << 20);
        format!(
            "{:.0} MiB sent; server {:.0} MiB, {:.0} at most (before: {:.0}); a client {:.0} MiB, \
             {:.0} at most",
            mebi(self.bytes),
            mebi(self.server),
            mebi(self.server_peak),
            mebi(self.server_before),
            mebi(self.client),
            mebi(self.client_peak),
        )
    }
}

/// A client that caches records, and tells what it has done when it is asked.
struct Keeper {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What a [`Keeper`] tells.
struct Seen {
    told: f64,
    bytes: f64,
    lost: f64,
    resident: f64,
    peak: f64,
}

impl Keeper {
    fn start(url: &str, number: usize, records: usize) -> Result<Self, String> {
        let mut command = std::process::Command::new(std::env::current_exe().map_err(say)?);
        let words = [child::KEEP, url, &format!("n{number}"), &records.to_string()];
        command.arg(child::CHILD).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::spawn(&mut command)?;
        let (asks, answers) = (child.stdin.take(), child.stdout.take());
        let asks = asks.ok_or("it has no input")?;
        let answers = BufReader::new(answers.ok_or("it has no output")?);
        let mut keeper = Self { child, asks, answers };
        // The first line says that all are cached.
        keeper.line()?;
        Ok(keeper)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(say)?;
        if line.is_empty() { Err("a client has ended".to_owned()) } else { Ok(line) }
    }

    fn ask(&mut self) -> Result<Seen, String> {
        self.asks.write_all(b"\n").map_err(say)?;
        let line = self.line()?;
        let numbers: Vec<f64> = line.split(' ').filter_map(|it| it.trim().parse().ok()).collect();
        let [told, bytes, lost] = numbers[..] else { return Err(format!("odd: {line}")) };
        let id = self.child.id().to_string();
        Ok(Seen { told, bytes, lost, resident: memory::resident(&id)?, peak: memory::peak(&id)? })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // It fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long after `begun` the server says that it does not recover and has all claims; none if it
/// never has.
fn until_recovered(
    address: SocketAddr,
    claims: usize,
    begun: Instant,
) -> Result<Option<Duration>, String> {
    while begun.elapsed() < PATIENCE {
        let info = info(address).unwrap_or_default();
        let has = |line: &str| info.lines().any(|it| it == line);
        if has("recovering:0") {
            let took = begun.elapsed();
            return Ok(has(&format!("claims:{claims}")).then_some(took));
        }
        std::thread::sleep(GLANCE);
    }
    Err(format!("the server recovers for more than {PATIENCE:?}"))
}

fn info(address: SocketAddr) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(say)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(say)?;
    stream.write_all(b"INFO lockspan\r\nQUIT\r\n").map_err(say)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(say)?;
    Ok(text)
}
