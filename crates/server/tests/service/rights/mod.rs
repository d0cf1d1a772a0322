//! The table of rights: every command with every flag, and every message of a node, as users with
//! each right alone.
//!
//! The lines are made from the usages that `COMMAND DOCS` tells, so that a new command or a new
//! flag is in the table as soon as it is in a usage; what each line needs is said in `needs.rs`.
//! Two things are asked of the server beyond its answers: that nobody holds or waits for what they
//! have no right to, whatever they were answered, and that a session of another user is answered
//! exactly as one that there is not.

mod needs;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use lockspan_protocol::{
    AcquireRefusal, Claim, Epoch, GroupSet, Handoff, LocalWait, Mode, Owner, Seq, SessionId,
    ToNode, ToServer, Token,
};
use lockspan_server::{Config, Data, Server};
use lockspan_wire::{
    Command, CommandError, ErrorCode, Event, Value, WireLimits, put_command, put_tell, reply,
    take_command,
};

use crate::client::{Client, field, fresh, record, start, word};
use crate::users::hash;
use needs::Need;

/// A user with few rights.
struct Person {
    name: &'static str,
    /// As in the file of users.
    rules: &'static str,
    has: &'static [Need],
}

const PEOPLE: [Person; 7] = [
    Person { name: "nothing", rules: "", has: &[] },
    Person { name: "reads", rules: "read = [\"doc\"]", has: &[Need::Read] },
    Person { name: "writes", rules: "write = [\"doc\"]", has: &[Need::Read, Need::Write] },
    Person { name: "inspects", rules: "inspect = [\"doc\"]", has: &[Need::Inspect] },
    Person { name: "inspects-all", rules: "inspect = [\"*\"]", has: &[Need::Inspect] },
    Person { name: "admins-doc", rules: "admin = [\"doc\"]", has: &[] },
    Person { name: "admins", rules: "admin = [\"*\"]", has: &[Need::AdminAll, Need::Epoch] },
];

/// Who sees everything, and has sessions that others try to use.
const ROOT: &str = "root";

impl Person {
    fn may(&self, needs: &[Need]) -> bool {
        needs.iter().all(|need| self.has.contains(need))
    }
}

fn file(dir: &Path) -> PathBuf {
    let all = "write = [\"*\"]\ninspect = [\"*\"]\nadmin = [\"*\"]";
    let people = PEOPLE.iter().map(|it| (it.name, it.rules)).chain([(ROOT, all)]);
    let section = |(name, rules): (&str, &str)| {
        format!("[users.{name}]\npassword = \"{}\"\n{rules}\n", hash(name, 8, 1))
    };
    let path = dir.join("users.toml");
    std::fs::write(&path, people.map(section).collect::<String>()).expect("written");
    path
}

async fn log_in(server: &Server, name: &str) -> Client {
    let mut client = Client::raw(&server.addresses()[0]).await;
    let hello = client.ask(&["HELLO", "3", "AUTH", name, name]).await;
    assert_eq!(field(&hello, "proto"), &Value::Int(3), "{hello:?}");
    client
}

/// Each command and its usage.
fn usages() -> BTreeMap<String, String> {
    let Value::Map(all) = reply::command_info(&["DOCS".into()]) else { panic!("a map") };
    let text = |value: &Value| match value {
        Value::Bulk(text) => String::from_utf8_lossy(text).to_uppercase(),
        other => panic!("not a name: {other:?}"),
    };
    all.iter().map(|(name, docs)| (text(name), word(docs, "usage"))).collect()
}

/// What stands for the placeholders of a line.
struct Filling {
    session: String,
    record: String,
    former: String,
    public: String,
    handles: Vec<String>,
    present: u32,
    user: &'static str,
}

fn token(epoch: u32, count: i64) -> Token {
    Token::from_number((i64::from(epoch) << 40) | count).expect("a token")
}

impl Filling {
    /// The words that may stand for a placeholder, behind the last keyword of its line.
    fn words(&self, keyword: &str, placeholder: &str) -> Vec<String> {
        let one = |word: &str| vec![word.to_owned()];
        match (keyword, placeholder) {
            (_, "session") => one(&self.session),
            (_, "record") => one(&self.record),
            ("FORMER", "id") => one(&self.former),
            ("SESSION", "id") => one(&self.session),
            (_, "id") => one(&self.public),
            (_, "uuid") => one(&format!("{:032x}", record(&self.record).as_bytes().len())),
            (_, "handle") => self.handles.clone(),
            (_, "channel") => one(&format!("lockspan:{}", self.session)),
            (_, "epoch") => vec![self.present.to_string(), (self.present + 1).to_string()],
            (_, "token") => {
                let [old, new] = [self.present - 1, self.present].map(|epoch| token(epoch, 7));
                vec![old.number().to_string(), new.number().to_string()]
            }
            // Longer than all lines take.
            ("LEASE", "ms") => one("60000"),
            (_, "ms") => one("5000"),
            ("KEEP", "n") => one("9"),
            (_, "n" | "seq") => one("1"),
            (_, "count" | "sum" | "cursor") => one("0"),
            (_, "numrecords") => vec!["1".to_owned(), "2".to_owned()],
            (_, "ranges") => one("0-255"),
            (_, "pattern") => one("*"),
            (_, "attribute") => one("lib-name"),
            (_, "user" | "password") => one(self.user),
            (_, "name" | "value" | "text" | "section") => one("x"),
            // Words in small letters, and numbers, that are written as they stand.
            (_, "push" | "message" | "none" | "direct" | "retry" | "forever" | "on" | "off") => {
                one(placeholder)
            }
            ("LOCKSPAN", "version") => one("2"),
            (_, "0" | "2" | "3") => one(placeholder),
            _ => panic!("{placeholder} behind {keyword}: what stands for it is not known here"),
        }
    }

    /// All lines of a command, as the parser takes them.
    fn lines(&self, name: &str, usage: &str) -> Vec<Vec<String>> {
        let mut used = BTreeSet::new();
        let mut lines = Vec::new();
        for line in usage::lines(usage) {
            let mut keyword = "";
            let mut places = vec![vec![name.to_owned()]];
            for word in &line {
                if usage::is_keyword(word) {
                    keyword = word;
                    places.push(vec![word.clone()]);
                } else {
                    places.push(self.words(keyword, word));
                }
            }
            for filled in usage::fill(&places) {
                if parse(&filled).is_some() {
                    used.extend(line.iter().cloned());
                    lines.push(filled);
                }
            }
        }
        for word in usage::words(usage) {
            assert!(used.contains(&word), "{name} {usage}: no line with {word} is understood");
        }
        // The parser names the options that it knows when it meets another one.
        for line in &lines {
            let longer = [&line[..], &["NO-SUCH-OPTION".to_owned()]].concat();
            let Err(why) = understand(&longer) else { continue };
            let known = why.text.split(" is not ").nth(1).filter(|_| why.text.contains("option"));
            let known = known.unwrap_or_default().trim_start_matches("one of ").split(", ");
            for option in known.filter(|word| usage::is_keyword(word)) {
                assert!(used.contains(option), "{name} knows {option}, and its usage does not");
            }
        }
        lines
    }
}

fn parse(words: &[String]) -> Option<Command> {
    understand(words).ok()
}

fn understand(words: &[String]) -> Result<Command, CommandError> {
    let mut bytes = BytesMut::new();
    let words: Vec<_> = words.iter().map(String::as_bytes).collect();
    put_command(&words, &mut bytes);
    let taken = take_command(&mut bytes, &WireLimits::default()).expect("it is RESP");
    taken.expect("it is whole")
}

/// Commands that need no login; that they are alone in that is tried by `users.rs`.
const FREE: [&str; 2] = ["QUIT", "RESET"];

/// What the server answers to a line, and what follows from that.
async fn answer(client: &mut Client, line: &[String]) -> (Vec<Value>, Vec<Event>) {
    let words: Vec<_> = line.iter().map(String::as_str).collect();
    client.send(&words).await;
    client.send(&["ECHO", "that was all"]).await;
    let mut replies = Vec::new();
    loop {
        match client.reply().await {
            Value::Bulk(text) if text == "that was all" => break,
            reply => replies.push(reply),
        }
    }
    (replies, client.settle().await.1)
}

/// Nobody holds or waits for more than they may, whatever they said and were answered.
async fn check_claims(root: &mut Client) -> usize {
    let mut user_of = BTreeMap::new();
    loop {
        let last = user_of.last_key_value().map(|(id, _): (&String, &String)| id.clone());
        let words = last
            .as_ref()
            .map_or_else(|| vec!["LS.SESSIONS"], |id| vec!["LS.SESSIONS", "AFTER", id]);
        let Value::Array(sessions) = root.ask(&words).await else { panic!("a list") };
        if sessions.is_empty() {
            break;
        }
        user_of.extend(sessions.iter().map(|it| (word(it, "session"), word(it, "user"))));
    }
    let (mut cursor, mut seen) = ("0".to_owned(), 0);
    loop {
        let page = root.ask(&["LS.LOCKS", &cursor, "COUNT", "1000"]).await;
        let Value::Array(page) = page else { panic!("a page") };
        let Value::Array(records) = &page[1] else { panic!("records") };
        for one in records {
            for claims in ["holders", "waiters"] {
                let Value::Array(claims) = field(one, claims) else { panic!("claims") };
                for claim in claims {
                    let user = &user_of[&word(claim, "session")];
                    let person = PEOPLE.iter().find(|it| it.name == user);
                    let Some(person) = person else { continue };
                    let need = match word(claim, "mode").as_str() {
                        "R" => Need::Read,
                        _ => Need::Write,
                    };
                    assert!(person.may(&[need]), "{user} has {claim:?} of {one:?}");
                    seen += 1;
                }
            }
        }
        let Value::Bulk(next) = &page[0] else { panic!("a cursor") };
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            return seen;
        }
    }
}

/// Handles of a lock that nobody has, in both modes.
fn unknown_handles() -> Vec<String> {
    let (id, seal) = ("6f9619ff8b86d011b42d00c04fc964ff", "0".repeat(31) + "a");
    let granted = |mode| format!("{id}.{mode}.1099511627777.{seal}");
    vec![granted("R"), granted("W"), id.to_owned()]
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f68_every_command_and_flag_needs_its_right() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(Config { users: Some(file(dir.path())), ..fresh() }).await;
    let mut root = log_in(&server, ROOT).await;
    let present = Epoch::new(1).expect("small");
    let (mut lines, mut refused) = (0, 0);
    for person in &PEOPLE {
        let mut client = log_in(&server, person.name).await;
        for (name, usage) in usages().iter().filter(|(name, _)| *name != "LS.TELL") {
            let filling = Filling {
                session: "1".to_owned(),
                record: "doc:1".to_owned(),
                former: "1".to_owned(),
                public: "s000000000001".to_owned(),
                handles: unknown_handles(),
                present: 1,
                user: person.name,
            };
            for line in filling.lines(name, usage) {
                if FREE.contains(&name.as_str()) {
                    continue;
                }
                // Each has a session and a record of its own.
                lines += 1;
                let session = client.open(&["LEASE", "60000"]).await;
                let own = |word: &String| match (word.as_str(), name.as_str()) {
                    ("doc:1", _) => format!("doc:{lines}"),
                    ("lockspan:1", _) => format!("lockspan:{session}"),
                    // A new one.
                    ("1", "LS.OPEN") => (1_000_000 + lines).to_string(),
                    _ => word.clone(),
                };
                let mut line: Vec<_> = line.iter().map(own).collect();
                let names_session = usage.split(' ').next() == Some("session");
                if names_session {
                    line[1].clone_from(&session);
                }
                if let Some(at) = line.iter().position(|word| word == "FORMER") {
                    line[at + 1].clone_from(&session);
                }
                let locks = name == "LS.LOCK" || name == "LS.LOCKALL";
                if let Some(at) = line.iter().position(|word| word == "ID" && locks) {
                    line[at + 1] = format!("{lines:032x}");
                }
                let command = parse(&line).expect("it was understood before");
                let needs = needs::of_command(present, &command);
                let (replies, _) = answer(&mut client, &line).await;
                let denied =
                    |value: &Value| matches!(value, Value::Error { code: ErrorCode::NoPerm, .. });
                let is_denied = replies.iter().any(denied);
                let who = person.name;
                assert_eq!(is_denied, !person.may(&needs), "{who} {line:?}: {replies:?}");
                refused += usize::from(is_denied);
                if name == "HELLO" {
                    client = log_in(&server, person.name).await;
                }
            }
        }
    }
    assert!(lines > 7 * 200 && refused > 300, "{lines} lines, of which {refused} were refused");
    let seen = check_claims(&mut root).await;
    assert!(seen > 50, "{seen} claims of what was allowed");
    server.stop().await;
}

/// Every message that a node can send, with every flag.
fn messages(session: SessionId, name: &str, present: u32) -> Vec<ToServer> {
    let epochs = [present, present + 1].map(|number| Epoch::new(number).expect("small"));
    let (modes, bools) = ([Mode::Read, Mode::Write], [false, true]);
    let (seq, owners) = (Seq(1), vec![Owner(1)]);
    let record = || record(name);
    let mut all = vec![
        ToServer::Open { ttl: std::time::Duration::from_secs(60), handoff: Handoff::Direct },
        ToServer::KeepAlive { number: 1 },
        ToServer::Label { label: "ann".parse().expect("a label") },
        ToServer::Note { record: record(), seq, note: "import".parse().expect("a note") },
        ToServer::WhoHolds { record: record(), seq },
        ToServer::Report {
            record: record(),
            seq,
            number: 1,
            holders: owners.clone(),
            waits: vec![LocalWait { waiter: Owner(1), holder: Owner(2) }],
        },
    ];
    for keep in [None, Some(Seq(9))] {
        all.push(ToServer::Release { record: record(), seq, keep });
        all.push(ToServer::Cancel { record: record(), seq, keep });
    }
    for epoch in epochs {
        let (groups, former) = (GroupSet::ALL, session);
        let (first, last, count, sum) = (seq, seq, 0, 0);
        all.push(ToServer::Page { groups, epoch, former, first, last, count, sum });
        all.push(ToServer::Nothing { groups, epoch });
        for (mode, upgrade) in modes.into_iter().flat_map(|mode| bools.map(|flag| (mode, flag))) {
            for owners in [Vec::new(), owners.clone()] {
                let record = record();
                all.push(ToServer::Acquire { record, mode, seq, epoch, upgrade, owners });
            }
            let ticket = None;
            let owners = owners.clone();
            let held = [present - 1, present].map(|it| Claim::Held { token: token(it, 7) });
            let waiting = Claim::Waiting { ticket, upgrade, owners };
            for claim in held.into_iter().chain([waiting]) {
                let record = record();
                all.push(ToServer::Reassert { record, epoch, former, seq, mode, claim });
            }
        }
        all.push(ToServer::Reasserted { groups, epoch, former, count, sum });
    }
    all.push(ToServer::Close);
    all
}

/// The word by which a message is sent.
fn verb(message: &ToServer) -> String {
    let mut bytes = BytesMut::new();
    put_tell(SessionId(1), message, &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split("\r\n").nth(6).expect("the third word").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn service_f68_every_message_of_a_node_needs_its_right() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(Config { users: Some(file(dir.path())), ..fresh() }).await;
    let mut root = log_in(&server, ROOT).await;
    // The parser names all verbs when it does not know one.
    let (_, text) = root.refused(&["LS.TELL", "1", "bogus"]).await;
    let known = text.split("one of ").nth(1).expect("a list");
    let known: BTreeSet<_> = known.split(", ").map(str::to_owned).collect();
    let tried = messages(SessionId(1), "doc:1", 1);
    assert_eq!(known, tried.iter().map(verb).collect(), "each verb has a message here");

    let present = Epoch::new(1).expect("small");
    let mut sent = 0;
    for person in &PEOPLE {
        let mut client = log_in(&server, person.name).await;
        for index in 0..tried.len() {
            sent += 1;
            let session = client.open_native_for(sent, std::time::Duration::from_secs(60)).await;
            let message = messages(session, &format!("doc:{sent}"), 1).remove(index);
            let needs = needs::of_message(present, &message);
            client.tell(session, &message).await;
            let (replies, events) = client.settle().await;
            assert_eq!(replies, [], "{message:?}");
            let is_denied = events.iter().any(|event| match event {
                Event::Node(ToNode::Refused { why, .. }) => {
                    matches!(why, AcquireRefusal::Denied { .. })
                }
                _ => false,
            });
            let may = person.may(&needs);
            let who = person.name;
            if let ToServer::Acquire { upgrade: false, .. } = &message {
                let granted = |event: &Event| matches!(event, Event::Node(ToNode::Granted { .. }));
                let is_granted = events.iter().any(granted);
                let expected = may && !needs.contains(&Need::Epoch);
                assert_eq!(is_granted, expected, "{who} {message:?}: {events:?}");
            }
            assert!(!(is_denied && may), "{who} {message:?}: {events:?}");
            if matches!(message, ToServer::Acquire { .. }) && !may && needs.len() == 1 {
                assert!(is_denied, "{who} {message:?} is told why: {events:?}");
            }
        }
    }
    assert!(sent > 7 * 40, "{sent} messages");
    assert!(check_claims(&mut root).await > 2, "what was allowed was done");
    server.stop().await;
}

/// After a restart sessions say what they held and waited for: within their rights, too.
#[tokio::test(flavor = "multi_thread")]
async fn service_f68_a_restart_gives_nobody_more_rights() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(file(dir.path()));
    let config = Config { users, data: Data::Dir(dir.path().join("data")), ..fresh() };
    let server = start(config.clone()).await;
    let mut sessions = Vec::new();
    for person in &PEOPLE {
        let mut client = log_in(&server, person.name).await;
        let by_command = client.open(&["LEASE", "60000"]).await;
        let native = SessionId(1_000 + sessions.len() as u64);
        client.open_native_for(native.0, std::time::Duration::from_secs(60)).await;
        sessions.push((by_command, native));
    }
    server.stop().await;
    drop(server);
    let server = start(config).await;
    let mut root = log_in(&server, ROOT).await;
    let present = Epoch::new(2).expect("small");
    let mut lines = 0_u64;
    for (person, (session, native)) in PEOPLE.iter().zip(&sessions) {
        let mut client = log_in(&server, person.name).await;
        let filling = Filling {
            session: session.clone(),
            record: "doc:1".to_owned(),
            former: session.clone(),
            public: "s000000000001".to_owned(),
            handles: unknown_handles(),
            present: 2,
            user: person.name,
        };
        for mut line in filling.lines("LS.REASSERT", &usages()["LS.REASSERT"]) {
            lines += 1;
            line[2] = format!("doc:{lines}");
            line[4] = lines.to_string();
            let needs = needs::of_command(present, &parse(&line).expect("understood"));
            // Who is believed begins a new term, and this one is to go on.
            if person.may(&needs) && needs.contains(&Need::Epoch) {
                continue;
            }
            let (replies, _) = answer(&mut client, &line).await;
            let denied =
                |value: &Value| matches!(value, Value::Error { code: ErrorCode::NoPerm, .. });
            let is_denied = replies.iter().any(denied);
            assert_eq!(is_denied, !person.may(&needs), "{} {line:?}: {replies:?}", person.name);
        }
        for index in 0..messages(*native, "doc:1", 2).len() {
            lines += 1;
            let mut message = messages(*native, &format!("doc:{lines}"), 2).remove(index);
            if let ToServer::Reassert { seq, .. } = &mut message {
                *seq = Seq(lines);
                client.tell(*native, &message).await;
                client.settle().await;
            }
        }
    }
    assert!(check_claims(&mut root).await > 10, "what was allowed was believed");
    server.stop().await;
}

/// Replies without the numbers of sessions in them.
fn nameless(replies: &[Value], events: &[Event], numbers: &[&str]) -> String {
    let mut text = format!("{replies:?} {events:?}");
    for number in numbers {
        text = text.replace(number, "<number>");
    }
    text
}

/// A session of another user, one that there never was and one that is over are answered alike, by
/// every command and message that names one; so are locks.
#[tokio::test(flavor = "multi_thread")]
async fn service_f69_a_session_of_another_user_is_answered_as_one_that_there_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let users = Some(file(dir.path()));
    // Leases outlast the test.
    let ttl_max = std::time::Duration::from_secs(600);
    let protocol = lockspan_protocol::Limits { ttl_max, ..fresh().protocol };
    let data = Data::Dir(dir.path().join("data"));
    let config = Config { users, data, protocol, ..fresh() };
    let mut server = start(config.clone()).await;
    let (theirs, unknown) = ("700000000000001", "700000000000002");
    let mut root = log_in(&server, ROOT).await;
    root.open(&["LEASE", "600000", "SESSION", theirs]).await;
    let lock = ["LS.LOCK", "doc:lock", "R", "LEASE", "600000", "ID", &lock_id(theirs)];
    let lock = word(&root.ask(&lock).await, "handle");
    let mut own = log_in(&server, "writes").await;
    let mine = own.open(&["LEASE", "600000"]).await;
    let no_lock = unknown_handles().remove(0);

    // Before a restart, and while the server waits for all sessions to re-assert.
    for (present, over) in [(1, "700000000000003"), (2, "700000000000004")] {
        if present == 2 {
            server.stop().await;
            server = start(config.clone()).await;
            root = log_in(&server, ROOT).await;
        }
        root.open(&["LEASE", "600000", "SESSION", over]).await;
        assert_eq!(root.ask(&["LS.CLOSE", over]).await, Value::OK);
        assert_eq!(root.ask(&["LS.UNLOCK", "doc:lock", &lock_id(over)]).await, Value::Int(0));
        let mut compared = 0;
        for (name, usage) in usages() {
            let filling = |session: &str, former: &str, handle: &str| Filling {
                session: session.to_owned(),
                record: "doc:lock".to_owned(),
                former: former.to_owned(),
                public: "s000000000001".to_owned(),
                handles: vec![handle.to_owned()],
                present,
                user: "writes",
            };
            // As the one who speaks, and as the one who is spoken for.
            let of = |other: &str, lock: &str| match name.as_str() {
                "LS.REASSERT" | "LS.REASSERTED" => {
                    let mut lines = filling(other, other, lock).lines(&name, &usage);
                    lines.extend(filling(&mine, other, lock).lines(&name, &usage));
                    lines
                }
                "LS.TELL" => Vec::new(),
                _ => filling(other, other, lock).lines(&name, &usage),
            };
            // What would begin a session or a lock is compared with one that is over.
            let begins = ["LS.OPEN", "LS.LOCK", "LS.LOCKALL"].contains(&name.as_str());
            let other = if begins { over } else { unknown };
            for (line, same) in of(theirs, &lock).into_iter().zip(of(other, &no_lock)) {
                let line = with_id(&name, line, theirs);
                let same = with_id(&name, same, other);
                let epoch = Epoch::new(present).expect("small");
                let needs = needs::of_command(epoch, &parse(&line).expect("understood"));
                let names_none = line == same || FREE.contains(&name.as_str());
                if names_none || needs.contains(&Need::Epoch) {
                    continue;
                }
                let mut client = log_in(&server, "writes").await;
                let numbers = [theirs, unknown, over, &mine];
                let (replies, events) = answer(&mut client, &line).await;
                let said = nameless(&replies, &events, &numbers);
                let mut client = log_in(&server, "writes").await;
                let (replies, events) = answer(&mut client, &same).await;
                assert_eq!(said, nameless(&replies, &events, &numbers), "{line:?} and {same:?}");
                compared += 1;
            }
        }
        assert!(compared > 100, "{compared} lines in epoch {present}");
        let session = |number: &str| SessionId(number.parse().expect("a number"));
        for index in 0..messages(session(theirs), "doc:lock", present).len() {
            let mut said = Vec::new();
            for other in [theirs, unknown] {
                let message = messages(session(other), "doc:lock", present).remove(index);
                let epoch = Epoch::new(present).expect("small");
                let is_shown = needs::of_message(epoch, &message).contains(&Need::Epoch);
                if matches!(message, ToServer::Open { .. }) || is_shown {
                    continue;
                }
                // Both as the one who speaks and as the one who is spoken for.
                let speaks_for = matches!(
                    message,
                    ToServer::Reassert { .. } | ToServer::Page { .. } | ToServer::Reasserted { .. }
                );
                for speaker in [other, &mine].into_iter().take(1 + usize::from(speaks_for)) {
                    let mut client = log_in(&server, "writes").await;
                    client.tell(session(speaker), &message).await;
                    let (replies, events) = client.settle().await;
                    let numbers = [theirs, unknown, &mine];
                    said.push(nameless(&replies, &events, &numbers));
                }
            }
            let (first, second) = said.split_at(said.len() / 2);
            assert_eq!(
                first,
                second,
                "{:?}",
                messages(session(theirs), "doc:lock", present)[index]
            );
        }
    }
    server.stop().await;
}

/// The id of the lock that belongs to a number, in a line that names one.
fn with_id(name: &str, mut line: Vec<String>, number: &str) -> Vec<String> {
    if ["LS.LOCK", "LS.LOCKALL"].contains(&name)
        && let Some(at) = line.iter().position(|word| word == "ID")
    {
        line[at + 1] = lock_id(number);
    }
    line
}

fn lock_id(number: &str) -> String {
    format!("{:032x}", number.parse::<u64>().expect("a number"))
}
