//! One client that asks the server each time, beside a bare round trip and beside Redis.

use std::time::Duration;

use bytes::BytesMut;
use lockspan::{Name, Options};
use lockspan_protocol::{Epoch, Mode, Seq, SessionId, ToNode, ToServer, Token};
use lockspan_wire::{Event, EventStyle, put_event, put_tell};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::args::Args;
use crate::contest::{Contest, Id, Rounds};
use crate::process::Process;
use crate::redis::Redis;
use crate::report::{Report, Row, TIMES, Target, time};
use crate::say;
use crate::timing::{lone_runtime, of_cycles};

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
    let mut contest = Contest::default();

    let runtime = lone_runtime()?;
    let options = Options::new().lease(Duration::from_secs(60)).caching(false);
    let locks = runtime.block_on(options.connect(&server.url())).map_err(say)?;
    let record = locks.named(&name);
    let ours = contest.enter(move || {
        let cycle = async || record.write().await.map(drop);
        runtime.block_on(of_cycles(sample, cycle))
    });

    let bare_runtime = lone_runtime()?;
    let mut stream = bare_runtime.block_on(TcpStream::connect(echo.address)).map_err(say)?;
    stream.set_nodelay(true).map_err(say)?;
    let bare = contest.enter(move || {
        let (question, mut reply) = (vec![b'x'; ask], vec![0; answer]);
        bare_runtime.block_on(of_cycles(sample, async || {
            stream.write_all(&question).await?;
            stream.read_exact(&mut reply).await.map(drop)
        }))
    });

    let redis_runtime = lone_runtime()?;
    let redis_lock = match &redis {
        Err(why) => Err(why),
        Ok(redis) => {
            let mut redis = redis_runtime.block_on(Redis::connect(redis.address))?;
            Ok(contest.enter(move || {
                redis_runtime.block_on(of_cycles(sample, async || {
                    if !redis.try_lock("uncached:1", "me").await? {
                        return Err("somebody else has the lock on Redis".to_owned());
                    }
                    redis.unlock("uncached:1", "me").await
                }))
            }))
        }
    };
    let rounds = contest.run(args.rounds(9))?;
    report.row(Row {
        what: "cycle against a bare round trip".to_owned(),
        ours: time(rounds.median(ours)),
        beside: format!("{} for {ask} bytes there, {answer} back", time(rounds.median(bare))),
        result: Some(rounds.ratio(ours, bare)),
        unit: TIMES,
        target: Target::AtMost(1.5),
    });
    let what = "how much faster than SET NX PX and compare-and-delete";
    match redis_lock {
        Err(why) => report.absent(what, why, Target::AtLeast(2.0)),
        Ok(redis) => report.row(faster(&rounds, what, ours, redis)),
    }
    Ok(())
}

fn faster(rounds: &Rounds, what: &str, ours: Id, redis: Id) -> Row {
    Row {
        what: what.to_owned(),
        ours: time(rounds.median(ours)),
        beside: format!("{} on Redis", time(rounds.median(redis))),
        result: Some(rounds.ratio(redis, ours)),
        unit: TIMES,
        target: Target::AtLeast(2.0),
    }
}
