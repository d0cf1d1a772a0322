//! The decoder alone: whatever it gets, and in whatever pieces, it says the same.

use bytes::BytesMut;
use lockspan_wire::{WireLimits, take_command, take_from_server};

use crate::bytes_of::stream;
use crate::rng::Rng;
use crate::seeds;

/// Each command as text, and why it ended.
fn heard(buf: &mut BytesMut, limits: &WireLimits, out: &mut Vec<String>) -> bool {
    loop {
        match take_command(buf, limits) {
            Ok(None) => return true,
            Ok(Some(command)) => out.push(format!("{command:?}")),
            Err(why) => {
                out.push(why.to_string());
                return false;
            }
        }
    }
}

#[test]
fn the_decoder_takes_anything_in_any_pieces() {
    let (mut bytes, mut commands, mut errors) = (0, 0, 0);
    let all = seeds(4000);
    for seed in all.clone() {
        let mut rng = Rng::new(seed);
        let sent = stream(seed, &mut rng);
        let limits = if rng.one_in(4) {
            WireLimits { frame: 64 + rng.below(200), args: 1 + rng.below(9) }
        } else {
            WireLimits::default()
        };
        let mut whole = Vec::new();
        heard(&mut BytesMut::from(&sent[..]), &limits, &mut whole);
        let mut parts = Vec::new();
        let mut buf = BytesMut::new();
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let (part, after) = rest.split_at(1 + rng.below(rest.len().min(50)));
            rest = after;
            buf.extend_from_slice(part);
            let kept = buf.len();
            if !heard(&mut buf, &limits, &mut parts) {
                break;
            }
            assert!(buf.len() <= kept, "seed {seed}: it adds bytes");
        }
        assert_eq!(parts, whole, "seed {seed}");
        // A client is told as much nonsense.
        let mut buf = BytesMut::from(&sent[..]);
        while let Ok(Some(_)) = take_from_server(&mut buf, &limits) {}
        bytes += sent.len();
        commands += whole.iter().filter(|said| said.starts_with("Ok(")).count();
        errors += whole.iter().filter(|said| !said.starts_with("Ok(")).count();
    }
    println!("decoder: seeds {all:?}, {bytes} bytes, {commands} commands, {errors} errors");
    assert!(commands > 0 && errors > 0, "both are met");
}
