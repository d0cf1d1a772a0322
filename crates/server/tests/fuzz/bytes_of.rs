//! What is sent: commands that make sense, then changed.

use bytes::BytesMut;
use lockspan_wire::put_command;

use crate::rng::Rng;

/// Commands with sessions and numbers that may exist.
const COMMANDS: &[&str] = &[
    "HELLO",
    "HELLO 2",
    "HELLO 3",
    "HELLO 3 AUTH ann nna SETNAME x",
    "AUTH ann nna",
    "AUTH nobody wrong",
    "PING",
    "PING text",
    "ECHO text",
    "RESET",
    "QUIT",
    "SELECT 0",
    "SELECT 9",
    "INFO",
    "INFO server lockspan",
    "CLIENT ID",
    "CLIENT LIST",
    "CLIENT SETNAME name",
    "CLIENT SETINFO lib-name name",
    "COMMAND",
    "COMMAND INFO ls.keep get",
    "COMMAND DOCS",
    "CLUSTER SLOTS",
    "SUBSCRIBE lockspan:1 lockspan:2 x",
    "UNSUBSCRIBE",
    "UNSUBSCRIBE lockspan:1",
    "LS.OPEN",
    "LS.OPEN LEASE 1000 HANDOFF retry EVENTS message SESSION 1",
    "LS.OPEN LEASE 60000 HANDOFF direct EVENTS push SESSION 2",
    "LS.KEEP 1",
    "LS.CLOSE 2",
    "LS.EVENTS 1 push",
    "LS.EVENTS 2 message",
    "LS.ACQUIRE 1 doc:1 R",
    "LS.ACQUIRE 1 doc:1 W WAIT 1",
    "LS.ACQUIRE 2 doc:1 W SEQ 7 UPGRADE OWNER 1 OWNER 2",
    "LS.ACQUIRE 2 doc:2 W WAIT forever",
    "LS.CONVERT 1 doc:1 1 W WAIT 0.5",
    "LS.RELEASE 1 doc:1 1",
    "LS.RELEASE 2 doc:1 18446744073709551615 KEEP 18446744073709551615",
    "LS.CANCEL 2 doc:2 1",
    "LS.LOCK doc:1 W WAIT 1",
    "LS.LOCKALL 2 doc:1 W doc:2 R WAIT 1",
    "LS.LOCK doc:1 R WAIT forever LEASE 1000 ID 6f9619ff-8b86-d011-b42d-00c04fc964ff",
    "LS.RENEW doc:1 6f9619ff8b86d011b42d00c04fc964ff.R.1099511627777.\
     0000000000000000000000000000002a",
    "LS.UNLOCK doc:1 6f9619ff8b86d011b42d00c04fc964ff",
    "LS.REASSERT 1 doc:1 1 5 W HELD 1099511627777",
    "LS.REASSERT 1 doc:1 8388607 5 R WAITING TICKET 1 UPGRADE OWNER 3 FORMER 2",
    "LS.REASSERTED 1 1 0 0 GROUPS 0-255 FORMER 1",
    "LS.INSPECT doc:1",
    "LS.HISTORY doc:1 COUNT 1000",
    "LS.WAITS",
    "LS.LOCKS",
    "LS.LOCKS 17592186044416 MATCH d*?[a-z]* COUNT 1000",
    "LS.SESSIONS AFTER s000000000000 COUNT 1000",
    "LS.END s000000000000",
    "LS.SLOTS",
    "LS.TELL 3 open 5000 direct",
    "LS.TELL 3 keep-alive 1",
    "LS.TELL 3 acquire W 1 1 0 - doc:1",
    "LS.TELL 3 acquire R 2 1 1 1,2,3 doc:1",
    "LS.TELL 3 release 1 - doc:1",
    "LS.TELL 3 release 18446744073709551615 2 doc:1",
    "LS.TELL 3 cancel 1 4 doc:1",
    "LS.TELL 3 report 1 1 7,8 7>8,8>7 doc:1",
    "LS.TELL 3 reassert 1 3 1 W held 1099511627777 doc:1",
    "LS.TELL 3 reassert 1 3 1 R waiting - 0 - doc:1",
    "LS.TELL 3 reasserted 0-255 1 3 0 0",
    "LS.TELL 3 close",
];

/// What parsers stumble over.
const ODD: &[&[u8]] = &[
    b"",
    b"*",
    b"$",
    b"-1",
    b"0",
    b"\r\n",
    b"\n",
    b"\0",
    b"*1\r\n",
    b"*-1\r\n",
    b"*1025\r\n",
    b"$1048577\r\n",
    b"$-1\r\n",
    b"18446744073709551616",
    b"99999999999999999999999",
    b"1e308",
    b"nan",
    b"\"",
    b"'",
    b"\xff\xfe",
    b":",
    b"doc:",
    b"lockspan:",
    b"0-255@1;",
    b"1>1,",
    b"\x16\x03\x01\x02\x00",
    b"POST / HTTP/1.1\r\n",
];

/// A stream of commands, some of them broken. Those of neighbouring seeds share sessions.
pub(crate) fn stream(seed: u64, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    let base = seed / 8 * 4;
    if rng.one_in(2) {
        bytes.extend_from_slice(b"HELLO 3 AUTH ann nna\r\n");
    }
    if !rng.one_in(4) {
        let (one, two, three) = (base + 1, base + 2, base + 3);
        bytes.extend_from_slice(
            format!(
                "HELLO 3\r\nLS.OPEN LEASE 2000 EVENTS push SESSION {one}\r\nLS.OPEN LEASE 2000 \
                 SESSION {two}\r\nLS.TELL {three} open 2000 direct\r\n"
            )
            .as_bytes(),
        );
    }
    for _ in 0..=rng.below(60) {
        if rng.one_in(100) {
            let len = rng.below(200);
            bytes.extend((0..len).map(|_| rng.next() as u8));
        } else {
            command(base, rng, &mut bytes);
        }
    }
    if rng.one_in(4) {
        bytes.truncate(rng.below(bytes.len() + 1));
    }
    bytes
}

fn command(base: u64, rng: &mut Rng, out: &mut Vec<u8>) {
    let line = rng.pick(COMMANDS);
    let mut words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    if let Some(session) = words.get_mut(1).filter(|_| line.starts_with("LS."))
        && let [number @ b'1'..=b'3'] = session[..]
    {
        *session = (base + u64::from(number - b'0')).to_string().into_bytes();
    }
    if rng.one_in(4) {
        change_words(rng, &mut words);
    }
    let mut bytes = if rng.one_in(5) {
        [&words.join(&b' ')[..], b"\r\n"].concat()
    } else {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut bytes = BytesMut::new();
        put_command(&words, &mut bytes);
        bytes.to_vec()
    };
    if rng.one_in(40) {
        for _ in 0..=rng.below(3) {
            change_bytes(rng, &mut bytes);
        }
    }
    out.extend(bytes);
}

fn change_words(rng: &mut Rng, words: &mut Vec<Vec<u8>>) {
    let at = rng.below(words.len());
    match rng.below(6) {
        0 => words[at] = rng.pick(ODD).to_vec(),
        1 => words.insert(at, rng.pick(ODD).to_vec()),
        2 => drop(words.remove(at)),
        3 => words.push(words[at].clone()),
        4 => words[at] = words[at].repeat(1 + rng.below(300)),
        _ => change_bytes(rng, &mut words[at]),
    }
}

fn change_bytes(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let at = rng.below(bytes.len() + 1);
    match rng.below(4) {
        0 => bytes.insert(at, rng.next() as u8),
        1 => drop(bytes.splice(at..at, rng.pick(ODD).iter().copied())),
        2 if at < bytes.len() => drop(bytes.remove(at)),
        _ if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        _ => {}
    }
}
