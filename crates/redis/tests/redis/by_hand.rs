//! People with `redis-cli` and programs that follow the data model by hand, and we exclude each
//! other.

use std::process::{Command, Stdio};
use std::time::Duration;

use lockspan_redis::Options;

use crate::server::Redis;
use crate::world::{cli, emptied, keys, node, record, soon, until};

const READ: &str = "readlock:invoice:42";
const WRITE: &str = "writelock:invoice:42";

/// The four steps of the data model, each a line of Lua.
fn by_hand(redis: &Redis, step: &str, identifier: &str) -> bool {
    let script = match step {
        "acquire read" => {
            "if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end \
             redis.call('SADD', KEYS[1], ARGV[1]) return 1"
        }
        "release read" => "return redis.call('SREM', KEYS[1], ARGV[1])",
        "acquire write" => {
            "if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end \
             redis.call('SET', KEYS[2], ARGV[1]) return 1"
        }
        "release write" => {
            "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end \
             return redis.call('DEL', KEYS[2])"
        }
        other => panic!("no such step: {other}"),
    };
    cli(redis, &["EVAL", script, "2", READ, WRITE, identifier]) == "1"
}

/// A few lines of redis-py that do the same.
fn by_python(redis: &Redis, step: &str, identifier: &str) -> bool {
    let python = std::env::var_os("LOCKSPAN_PYTHON")
        .expect("LOCKSPAN_PYTHON must name a Python with redis-py: run `cargo xtask test tools`");
    let program = include_str!("by_hand.py");
    let output = Command::new(python)
        .args(["-c", program, &redis.port.to_string(), step, identifier])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).trim() == "1"
}

/// Both directions, in every pair of modes.
async fn exclude_each_other(options: Options, hand: impl Fn(&Redis, &str, &str) -> bool) {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, options.recheck(Duration::from_secs(1))).await;
    let record = record(&locks);

    let held = soon(record.write()).await.unwrap();
    assert!(!hand(&redis, "acquire read", "ann") && !hand(&redis, "acquire write", "ann"));
    drop(held);
    emptied(&redis).await;

    let held = soon(record.read()).await.unwrap();
    assert!(hand(&redis, "acquire read", "ann") && !hand(&redis, "acquire write", "ann"));
    drop(held);
    assert!(record.try_write().await.unwrap().is_none(), "Ann reads");
    drop(soon(record.read()).await.unwrap());
    assert!(hand(&redis, "release read", "ann") && !hand(&redis, "release read", "ann"));

    until("Ann may write", || hand(&redis, "acquire write", "ann")).await;
    assert!(record.try_read().await.unwrap().is_none(), "Ann writes");
    assert!(record.try_write().await.unwrap().is_none(), "Ann writes");
    // She tells nobody when she leaves; who waits looks now and then.
    let waiting = tokio::spawn(record.clone().write_owned());
    assert!(!hand(&redis, "release write", "bob"), "it is not Bob's");
    assert!(hand(&redis, "release write", "ann"));
    drop(soon(waiting).await.unwrap().unwrap());
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_and_we_exclude_each_other() {
    exclude_each_other(Options::new(), by_hand).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_and_we_exclude_each_other() {
    exclude_each_other(Options::new(), by_python).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plain_mode_and_redis_cli_exclude_each_other() {
    exclude_each_other(Options::new().plain(true), by_hand).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_are_those_of_the_data_model_and_say_who_has_them() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, Options::new().label("billing@host9[412]")).await;
    let held = soon(record(&locks).write_owned()).await.unwrap();
    let identifier = cli(&redis, &["GET", WRITE]);
    let parts: Vec<&str> = identifier.split(':').collect();
    assert!(
        matches!(parts[..], ["billing@host9[412]", random, "1"] if random.len() == 32),
        "{identifier}"
    );
    assert_eq!(keys(&redis), ["lockspan:ends:invoice:42", WRITE]);
    drop(held);
    let held = soon(record(&locks).read_owned()).await.unwrap();
    assert!(cli(&redis, &["SMEMBERS", READ]).starts_with("billing@host9[412]:"));
    drop(held);
    emptied(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plain_mode_has_the_two_keys_alone() {
    let redis = Redis::start(&[]).await;
    let locks = Options::new().connect(&format!("{}?plain", redis.url())).await.unwrap();
    let record = record(&locks);
    let held = soon(record.write()).await.unwrap();
    assert_eq!((keys(&redis), held.token().number()), (vec![WRITE.to_owned()], 0));
    let held = held.downgrade();
    drop(held);
    let held = soon(record.read()).await.unwrap();
    let held = soon(held.upgrade()).await.unwrap();
    assert_eq!(cli(&redis, &["KEYS", "*"]), WRITE);
    drop(held);
    until("nothing is left", || cli(&redis, &["DBSIZE"]) == "0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ours_is_not_released() {
    let redis = Redis::start(&[]).await;
    let locks = node(&redis, Options::new()).await;
    let held = soon(record(&locks).write_owned()).await.unwrap();
    assert_eq!(cli(&redis, &["SET", WRITE, "ann"]), "OK");
    drop(held);
    // The release was heard when the next is: it is not held, and Ann still has hers.
    drop(soon(locks.record("x", "1").unwrap().write_owned()).await.unwrap());
    assert_eq!(cli(&redis, &["GET", WRITE]), "ann");
}
