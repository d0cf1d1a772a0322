//! The memory of a connection that is idle after its first request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::args::Args;
use crate::process::Process;
use crate::report::{Report, Row, Target};
use crate::say;
use crate::stats::Spread;

pub(crate) const FAMILY: &str = "connections";

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let count = args.count(1_000, 50);
    report.cell(&format!("{count} idle connections"));
    let server = Process::lockspan()?;
    let ours = bytes_each(&server, count)?;
    report.once(FAMILY, "lockspan", &[("bytes", ours)]);
    let compared_with = match Process::redis() {
        Ok(redis) => {
            let bytes = bytes_each(&redis, count)?;
            report.once(FAMILY, "Redis", &[("bytes", bytes)]);
            format!("{bytes:.0} bytes in Redis")
        }
        Err(why) => why,
    };
    report.row(Row {
        what: "memory of an idle connection on the server".to_owned(),
        ours: format!("{ours:.0} bytes"),
        compared_with,
        result: Some(Spread::one(ours.round())),
        unit: " bytes",
        target: Target::Open,
    });
    Ok(())
}

/// Resident bytes of the server for each of so many connections.
fn bytes_each(server: &Process, count: usize) -> Result<f64, String> {
    // The first ones bring in what all of them share.
    let few = (0..8).map(|_| hello(server.address)).collect::<Result<Vec<_>, _>>()?;
    let before = server.resident()?;
    let many = (0..count).map(|_| hello(server.address)).collect::<Result<Vec<_>, _>>()?;
    let bytes = (server.resident()? - before) / count as f64;
    drop((few, many));
    Ok(bytes)
}

/// A connection that has been answered once.
fn hello(address: SocketAddr) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).map_err(say)?;
    stream.write_all(b"HELLO 3\r\n").map_err(say)?;
    let read = stream.read(&mut [0; 1024]).map_err(say)?;
    if read == 0 { Err("the connection was closed".to_owned()) } else { Ok(stream) }
}
