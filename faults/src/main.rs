//! `faults`: see the library's header; `faults help` lists the commands.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockspan_faults::run::{self, Plan};
use lockspan_faults::{abuse, damage, hoard, process, puppet, supervised, worker};
use lockspan_server::{Config, Data, Server, StartError};
use pico_args::Arguments;

const HELP: &str = "\
Breaks the running lock service: kills, stops and cuts off real processes.

  faults run [--seconds N] [--nodes K] [--seed S] [--cached N]
      a server and K nodes under load and faults, and a verdict (default 60, 4, drawn); one more
      node has N idle records in its cache (default 50000). `lockspan run` takes part if the
      program lockspan is beside this one.

What it starts:
  faults serve  --data DIR --listen ADDR [--longest MS]
  faults node   --url URL --name NAME --store DIR --journal FILE --lease MS
                --records N --tasks N --seed S --apart true|false
  faults hoard  --url URL --records N
  faults supervise --cli FILE --url URL --record N --name NAME --store DIR --journal FILE --seed S
  faults inside --record N --name NAME --store DIR --journal FILE --seed S
  faults puppet --url URL --store DIR --lease MS
  faults misuse --kind KIND --server NAME --address ADDR --size N [--http ADDR]
Each ends when its input ends, and is killed with its --parent PID.
";

#[tokio::main]
async fn main() -> ExitCode {
    let work = async {
        let mut args = Arguments::from_env();
        let command = args.subcommand()?.unwrap_or_else(|| "help".to_owned());
        obey(&command, args).await
    };
    let done = tokio::select! {
        done = work => done,
        // Processes end as what holds them is dropped.
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            eprintln!("faults: {why:#}");
            ExitCode::from(2)
        }
    }
}

async fn obey(command: &str, mut args: Arguments) -> Result<ExitCode> {
    if let Some(parent) = args.opt_value_from_str("--parent")? {
        process::die_with_parent(parent)?;
    }
    match command {
        "run" => {
            let plan = Plan {
                time: Duration::from_secs(args.opt_value_from_str("--seconds")?.unwrap_or(60)),
                nodes: args.opt_value_from_str("--nodes")?.unwrap_or(4),
                seed: args.opt_value_from_str("--seed")?.unwrap_or_else(|| fastrand::u64(..)),
                program: std::env::current_exe()?,
                cached: args.opt_value_from_str("--cached")?.unwrap_or(50_000),
            };
            end(args)?;
            let report = run::run(plan).await?;
            println!("{report}");
            return Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        "misuse" => {
            let (kind, server): (String, String) =
                (args.value_from_str("--kind")?, args.value_from_str("--server")?);
            let servers = [abuse::Server::Lockspan, abuse::Server::Redis];
            let attack = abuse::Attack {
                kind: abuse::Kind::named(&kind).with_context(|| kind.clone())?,
                server: servers.into_iter().find(|it| it.name() == server).context("--server")?,
                address: args.value_from_str("--address")?,
                http: args.opt_value_from_str("--http")?,
                size: abuse::Size(args.value_from_str("--size")?),
                requests: Arc::default(),
            };
            end(args)?;
            println!("{}", abuse::attack_until(attack, input_ends(|_| {})).await?);
        }
        "serve" => {
            let data = Data::Dir(args.value_from_str("--data")?);
            let listen = vec![args.value_from_str("--listen")?];
            let mut protocol = Config::default().protocol;
            // A server waits for so long if its data file does not tell it all.
            if let Some(longest) = args.opt_value_from_str("--longest")? {
                protocol.ttl_max = Duration::from_millis(longest);
            }
            end(args)?;
            let served = serve(Config { listen, data, protocol, ..Config::default() }).await;
            if let Err(why) = &served
                && let Some(StartError::Damaged { .. }) = why.downcast_ref()
            {
                eprintln!("faults: {why:#}");
                return Ok(ExitCode::from(damage::REFUSED));
            }
            served?;
        }
        "node" => {
            let job = worker::Job {
                url: args.value_from_str("--url")?,
                name: args.value_from_str("--name")?,
                store: args.value_from_str("--store")?,
                journal: args.value_from_str("--journal")?,
                lease: Duration::from_millis(args.value_from_str("--lease")?),
                records: args.value_from_str("--records")?,
                tasks: args.value_from_str("--tasks")?,
                seed: args.value_from_str("--seed")?,
                is_apart: args.value_from_str("--apart")?,
            };
            end(args)?;
            let mut orders = worker::Orders::default();
            let undriven = Arc::clone(&orders.undriven);
            orders.is_over = input_ends(move |line| {
                if let Some(time) = line.strip_prefix("undriven ")
                    && let Ok(time) = time.parse()
                {
                    undriven.store(time, Ordering::Relaxed);
                }
            });
            worker::work(job, orders).await?;
        }
        "hoard" => {
            let (url, records) = (args.value_from_str("--url")?, args.value_from_str("--records")?);
            end(args)?;
            hoard::keep(url, records, input_ends(|_| {})).await?;
        }
        "supervise" => {
            let (cli, url): (_, String) =
                (args.value_from_str("--cli")?, args.value_from_str("--url")?);
            supervised::supervise(&cli, &url, &supervised_job(args)?)?;
        }
        "inside" => supervised::inside(&supervised_job(args)?)?,
        "puppet" => {
            let strings = puppet::Strings {
                url: args.value_from_str("--url")?,
                store: args.value_from_str("--store")?,
                lease: Duration::from_millis(args.value_from_str("--lease")?),
            };
            end(args)?;
            puppet::dance(strings).await?;
        }
        "help" | "--help" | "-h" => print!("{HELP}"),
        _ => bail!("there is no command {command:?}; `faults help` lists them"),
    }
    Ok(ExitCode::SUCCESS)
}

fn supervised_job(mut args: Arguments) -> Result<supervised::Job> {
    let job = supervised::Job {
        record: args.value_from_str("--record")?,
        name: args.value_from_str("--name")?,
        store: args.value_from_str("--store")?,
        journal: args.value_from_str("--journal")?,
        seed: args.value_from_str("--seed")?,
    };
    end(args)?;
    Ok(job)
}

async fn serve(config: Config) -> Result<()> {
    let server = Server::start(config).await?;
    println!("listening {}", server.addresses()[0]);
    let is_over = input_ends(|_| {});
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop().await;
    Ok(())
}

/// Becomes true when there is no more to read. Each line is shown until then.
fn input_ends(mut read: impl FnMut(&str) + Send + 'static) -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    std::thread::spawn(move || {
        // Why it ends does not matter.
        std::io::stdin().lines().map_while(Result::ok).for_each(|line| read(&line));
        told.store(true, Ordering::Relaxed);
    });
    is_over
}

/// Nothing may be left of the command line.
fn end(args: Arguments) -> Result<()> {
    let rest = args.finish();
    ensure!(rest.is_empty(), "unexpected {rest:?}; `faults help` lists the options");
    Ok(())
}
