//! `LS.LOCKALL` at random: sets, modes, times and ids follow from a seed, connections are cut
//! anywhere, and a command may be given again, also by two connections at once.
//!
//! Checked: what is told to be held excludes others; every command that may wait for ever is
//! granted; a lock that was told of is there until it is unlocked; in the end nothing is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockspan_server::Server;
use lockspan_wire::{ErrorCode, Value};
use tokio::time::sleep;

use crate::client::{Client, DEADLINE, fresh, start, within, word};

/// Few, so that the sets overlap.
const RECORDS: [&str; 5] = ["a:1", "a:2", "a!:1", "b:1", "b:2"];
const CLIENTS: u64 = 6;
const TURNS: usize = 40;

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    async fn while_passes(&mut self, micros: u64) {
        sleep(Duration::from_micros(self.below(micros))).await;
    }

    fn id(&mut self) -> String {
        let [a, b] = [(); 2].map(|()| self.below(u64::MAX));
        let hex = format!("{a:016x}{b:016x}");
        let part = |from: usize, to: usize| &hex[from..to];
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }

    /// A command for up to three records.
    fn command(&mut self) -> Vec<String> {
        let mut left = RECORDS.to_vec();
        let count = 1 + self.below(3);
        let mut words = vec!["LS.LOCKALL".to_owned(), count.to_string()];
        for _ in 0..count {
            let record = left.remove(self.below(left.len() as u64) as usize);
            let mode = if self.one_in(3) { "R" } else { "W" };
            words.extend([record, mode].map(str::to_owned));
        }
        words
    }
}

/// Who is inside, by what the server has told: a writer counts as -1.
#[derive(Default)]
struct Inside(Mutex<BTreeMap<String, i64>>);

impl Inside {
    fn enter(&self, record: &str, mode: &str) {
        let mut all = self.0.lock().unwrap();
        let inside = all.entry(record.to_owned()).or_default();
        if mode == "W" {
            assert_eq!(std::mem::replace(inside, -1), 0, "a writer beside others in {record}");
        } else {
            assert!(*inside >= 0, "a reader beside a writer in {record}");
            *inside += 1;
        }
    }

    fn leave(&self, record: &str, mode: &str) {
        let mut all = self.0.lock().unwrap();
        let inside = all.get_mut(record).unwrap();
        *inside += if mode == "W" { 1 } else { -1 };
    }
}

/// The words of a command with more of them.
async fn say(client: &mut Client, words: &[String], more: &[&str]) {
    let words: Vec<_> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    client.send(&words).await;
}

/// Uses what was granted, and gives it back.
async fn hold(client: &mut Client, granted: &Value, inside: &Inside, random: &mut Random) {
    let Value::Array(locks) = granted else { panic!("not granted: {granted:?}") };
    let locks: Vec<_> =
        locks.iter().map(|it| ["record", "handle", "mode"].map(|of| word(it, of))).collect();
    locks.iter().for_each(|[record, _, mode]| inside.enter(record, mode));
    random.while_passes(1000).await;
    for [record, handle, mode] in &locks {
        inside.leave(record, mode);
        let unlocked = client.ask(&["LS.UNLOCK", record, handle]).await;
        assert_eq!(unlocked, Value::Int(1), "{record}: it was told to be held");
    }
}

/// One turn of a client, which may end with its connection.
async fn turn(server: &Server, inside: &Inside, random: &mut Random) {
    let mut client = Client::new(server).await;
    let (words, id) = (random.command(), random.id());
    let wait = random.below(15).to_string();
    match random.below(6) {
        // It waits as long as it takes, or for a short time.
        0 => {
            say(&mut client, &words, &["LEASE", "60000"]).await;
            let granted = client.reply().await;
            hold(&mut client, &granted, inside, random).await;
        }
        1 => {
            say(&mut client, &words, &["LEASE", "60000", "WAIT", &wait]).await;
            match client.reply().await {
                Value::Null => {}
                granted => hold(&mut client, &granted, inside, random).await,
            }
        }
        // It is cut, and nobody can ask again. If it was granted just before, that ends by itself.
        2 => {
            say(&mut client, &words, &["LEASE", "50"]).await;
            random.while_passes(4000).await;
        }
        // It is cut, and nobody asks again though they could.
        3 => {
            say(&mut client, &words, &["LEASE", "50", "ID", &id]).await;
            random.while_passes(4000).await;
        }
        // It is cut until one connection lives to hear the reply.
        4 => {
            let more = ["LEASE", "60000", "ID", &id];
            say(&mut client, &words, &more).await;
            while random.one_in(2) {
                random.while_passes(3000).await;
                client = Client::new(server).await;
                say(&mut client, &words, &more).await;
            }
            let granted = client.reply().await;
            hold(&mut client, &granted, inside, random).await;
        }
        // Two ask with the same id: both have the same locks, or one has given up. An id whose wait
        // is over is remembered for a lease.
        _ => {
            let mut twin = Client::new(server).await;
            let more = ["LEASE", "3000", "ID", &id, "WAIT", &wait];
            let times = [random.one_in(2), random.one_in(2)];
            let more = |waits: bool| if waits { &more[..] } else { &more[..4] };
            say(&mut client, &words, more(times[0])).await;
            say(&mut twin, &words, more(times[1])).await;
            let replies = [client.reply().await, twin.reply().await];
            let mut granted = None;
            for reply in &replies {
                match reply {
                    Value::Array(_) => assert_eq!(granted.get_or_insert(reply), &reply, "one lock"),
                    // One lock has one wait, which is over for both.
                    Value::Null if times != [false; 2] => {}
                    // The other one has given up, and what they shared has ended with it.
                    Value::Error { code: ErrorCode::Stale, .. } if times != [false; 2] => {}
                    other => panic!("{words:?} {times:?}: {other:?}"),
                }
            }
            if let Some(granted) = granted {
                hold(&mut client, granted, inside, random).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_at_random_exclude_each_other_all_end_and_leave_nothing() {
    let server = Arc::new(start(fresh()).await);
    let inside = Arc::new(Inside::default());
    let mut tasks = Vec::new();
    for client in 0..CLIENTS {
        let (server, inside) = (Arc::clone(&server), Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (client << 7));
            for _ in 0..TURNS {
                turn(&server, &inside, &mut random).await;
            }
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    let mut looker = Client::new(&server).await;
    let mut left = Value::Null;
    let ended = async {
        while left != Value::Array(Vec::new()) {
            left = looker.ask(&["LS.SESSIONS"]).await;
            sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(DEADLINE, ended).await.is_err() {
        panic!("left: {left:?}, {:?}", looker.ask(&["LS.LOCKS"]).await);
    }
    for record in RECORDS {
        let seen = looker.ask(&["LS.INSPECT", record]).await;
        assert_eq!(word(&seen, "state"), "free", "{seen:?}");
    }
    drop(looker);
    Arc::into_inner(server).expect("all tasks have ended").stop().await;
}
