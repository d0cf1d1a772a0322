//! How many frames a second one core writes and reads: `cargo run --release -p lockspan-wire
//! --example frames`. The hot ones are those of an uncached acquire and release.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use bytes::BytesMut;
use lockspan_protocol::{Epoch, Mode, Record, Seq, SessionId, ToNode, ToServer, Token};
use lockspan_wire::{
    Event, EventStyle, WireLimits, put_event, put_tell, take_command, take_from_server,
};

const BATCH: usize = 100;
const ROUNDS: usize = 10_000;
const SESSION: SessionId = SessionId(9_876_543_210_123_456_789);

fn main() {
    let record = Record::new("invoice", "2026-000042").expect("a good name");
    let epoch = Epoch::new(3).expect("a small number");
    let seq = Seq(123_456);
    let token = Token::new(epoch, 987_654).expect("a small number");
    let acquire = ToServer::Acquire {
        record: record.clone(),
        mode: Mode::Write,
        seq,
        epoch,
        upgrade: false,
        owners: Vec::new(),
    };
    let release = ToServer::Release { record: record.clone(), seq, keep: None };
    let granted =
        Event::Node(ToNode::Granted { record, seq, mode: Mode::Write, token, give_back: None });

    for (name, message) in [("acquire", &acquire), ("release", &release)] {
        let put = |out: &mut BytesMut| put_tell(SESSION, message, out);
        measure(&format!("put {name}"), put);
        measure_take(&format!("take {name}"), put, |buf| {
            take_command(buf, &WireLimits::default()).expect("our own bytes").is_some()
        });
    }
    let put = |out: &mut BytesMut| put_event(SESSION, &granted, EventStyle::Push, out);
    measure("put granted", put);
    measure_take("take granted", put, |buf| {
        take_from_server(buf, &WireLimits::default()).expect("our own bytes").is_some()
    });
}

fn measure(name: &str, put: impl Fn(&mut BytesMut)) {
    let mut out = BytesMut::new();
    let start = Instant::now();
    for _ in 0..ROUNDS {
        out.clear();
        (0..BATCH).for_each(|_| put(black_box(&mut out)));
    }
    report(name, start);
}

fn measure_take(name: &str, put: impl Fn(&mut BytesMut), take: impl Fn(&mut BytesMut) -> bool) {
    let mut frames = BytesMut::new();
    (0..BATCH).for_each(|_| put(&mut frames));
    let start = Instant::now();
    let mut buf = BytesMut::new();
    for _ in 0..ROUNDS {
        buf.extend_from_slice(&frames);
        let taken = (0..).take_while(|_| take(black_box(&mut buf))).count();
        assert_eq!(taken, BATCH);
    }
    report(name, start);
}

fn report(name: &str, start: Instant) {
    let frames = (BATCH * ROUNDS) as f64 / start.elapsed().as_secs_f64();
    println!("{name:<13} {:>6.2} million frames/s", frames / 1e6);
}
