//! One client that asks the server each time, compared with a bare round trip and with Redis.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use lockspan::{Name, Options};
use lockspan_protocol::{Epoch, Mode, Seq, SessionId, ToNode, ToServer, Token};
use lockspan_wire::{Event, EventStyle, put_event, put_tell};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::args::Args;
use crate::contest::{Contest, Id};
use crate::process::Process;
use crate::report::format::time;
use crate::report::{Report, Row, TIMES, Target};
use crate::say;
use crate::set_nx::Redis;
use crate::timing::{lone_runtime, of_cycles, process_time};

pub(crate) const FAMILY: &str = "uncached";

/// How many bytes an acquire and its grant are on the wire.
fn frames(name: &Name) -> Option<(usize, usize)> {
    let session = SessionId(u64::MAX);
    let (epoch, seq, mode) = (Epoch::new(1)?, Seq(100_000), Mode::Write);
    let (mut acquire, mut granted) = (BytesMut::new(), BytesMut::new());
    let (record, owners) = (name.clone(), Vec::new());
    let message = ToServer::Acquire { record, mode, seq, epoch, upgrade: false, owners };
    put_tell(session, &message, &mut acquire);
    let (record, token) = (name.clone(), Token::new(epoch, seq.0)?);
    let message = ToNode::Granted { record, seq, mode, token, give_back: None };
    put_event(session, &Event::Node(message), EventStyle::Push, &mut granted);
    Some((acquire.len(), granted.len()))
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    report.cell("Uncached acquire and release, one client, one connection");
    let name = Name::new("uncached", "1").map_err(say)?;
    let (ask, answer) = frames(&name).ok_or("no such epoch or token")?;
    let (server, echo, redis) =
        (Process::lockspan()?, Process::echo(ask, answer)?, Process::redis());
    let sample = args.time(200);
    let mut contest = Contest::new(FAMILY, "");

    let runtime = lone_runtime()?;
    let options = Options::new().lease(Duration::from_secs(60)).caching(false);
    let locks = runtime.block_on(options.connect(&server.url())).map_err(say)?;
    let record = locks.named(&name);
    let ours = watched("lockspan", &mut contest, &server, move || {
        let cycle = async || record.write().await.map(drop);
        runtime.block_on(of_cycles(sample, cycle))
    });

    let bare_runtime = lone_runtime()?;
    let mut stream = bare_runtime.block_on(TcpStream::connect(echo.address)).map_err(say)?;
    stream.set_nodelay(true).map_err(say)?;
    let bare = watched("bare round trip", &mut contest, &echo, move || {
        let (question, mut reply) = (vec![b'x'; ask], vec![0; answer]);
        bare_runtime.block_on(of_cycles(sample, async || {
            stream.write_all(&question).await?;
            stream.read_exact(&mut reply).await.map(drop)
        }))
    });

    let redis_runtime = lone_runtime()?;
    let redis_lock = match &redis {
        Err(why) => Err(why),
        Ok(server) => {
            let mut redis = redis_runtime.block_on(Redis::connect(server.address))?;
            Ok(watched("SET NX PX", &mut contest, server, move || {
                redis_runtime.block_on(of_cycles(sample, async || {
                    if !redis.try_lock("uncached:1", "me").await? {
                        return Err("somebody else has the lock on Redis".to_owned());
                    }
                    redis.unlock("uncached:1", "me").await
                }))
            }))
        }
    };
    let rounds = contest.run(args.rounds(9), report)?;
    for (what, of, most) in [("cycle", 0, Target::AtMost(1.5)), (CPU_TIME, 1, Target::Open)] {
        report.row(Row {
            what: format!("{what} against a bare round trip"),
            ours: time(rounds.median(ours[of])),
            compared_with: format!(
                "{} for {ask} bytes there, {answer} back",
                time(rounds.median(bare[of]))
            ),
            result: Some(rounds.ratio(ours[of], bare[of])),
            unit: TIMES,
            target: most,
        });
    }
    for (what, of, least) in [("cycle", 0, Target::AtLeast(2.0)), (CPU_TIME, 1, Target::Open)] {
        let what = format!("{what}: how much less than SET NX PX and compare-and-delete");
        match redis_lock {
            Err(why) => report.absent(&what, why, least),
            Ok(redis) => report.row(Row {
                what,
                ours: time(rounds.median(ours[of])),
                compared_with: format!("{} on Redis", time(rounds.median(redis[of]))),
                result: Some(rounds.ratio(redis[of], ours[of])),
                unit: TIMES,
                target: least,
            }),
        }
    }
    Ok(())
}

const CPU_TIME: &str = "CPU time of client and server";

/// Enters a contestant: the nanoseconds of a cycle, and the CPU time that it takes on both sides.
fn watched<'a>(
    name: &'static str,
    contest: &mut Contest<'a>,
    server: &'a Process,
    mut measure: impl FnMut() -> Result<f64, String> + 'a,
) -> [Id; 2] {
    contest.enter_many(name, &["ns", "cpu_ns"], move || {
        let (start, before) = (Instant::now(), process_time() + server.cpu_time()?);
        let cycle = measure()?;
        let busy = process_time() + server.cpu_time()? - before;
        Ok([cycle, busy / start.elapsed().as_nanos() as f64 * cycle])
    })
}
