//! What a connection takes that says nothing after it has said hello.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::args::Args;
use crate::contest::Spread;
use crate::process::Process;
use crate::report::{Report, Row, Target};
use crate::say;

pub(crate) fn run(args: &Args, report: &mut Report) -> Result<(), String> {
    let count = args.count(1_000, 50);
    report.cell(&format!("{count} idle connections"));
    let server = Process::lockspan()?;
    let ours = bytes_each(&server, count)?;
    let beside = match Process::redis() {
        Ok(redis) => format!("{:.0} bytes in Redis", bytes_each(&redis, count)?),
        Err(why) => why,
    };
    report.row(Row {
        what: "memory of an idle connection on the server".to_owned(),
        ours: format!("{ours:.0} bytes"),
        beside,
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
