//! Every command: its name, how it is used, how many arguments it takes, who reads them.

use bytes::Bytes;

use super::{Command, parse, redis};
use crate::error::CommandError;
use crate::read::{Bad, Reader, quoted};
use crate::value::Value;

/// One command.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    /// Its arguments, for a person.
    pub(crate) usage: &'static str,
    pub(crate) summary: &'static str,
    /// The fewest arguments, without the name.
    pub(crate) min: usize,
    /// The most arguments; any number if there is none.
    pub(crate) max: Option<usize>,
    /// Which argument is the record: 0 if none is.
    pub(crate) record: usize,
    read: fn(&mut Reader<'_>) -> Result<Command, Bad>,
}

/// `name usage, fewest..most, record, summary, reader`, a line each.
macro_rules! specs {
    ($($name:literal $usage:literal, $min:literal..$max:tt, $record:literal, $summary:literal,
       $read:path;)*) => {
        pub(crate) static SPECS: &[Spec] = &[$(Spec {
            name: $name,
            usage: $usage,
            summary: $summary,
            min: $min,
            max: specs!(@most $max),
            record: $record,
            read: $read,
        }),*];
    };
    (@most any) => { None };
    (@most $max:literal) => { Some($max) };
}

specs! {
    "LS.TELL" "session verb [field ...]",
        2..any, 0, "Sends a node's message; no reply, the answer comes as an event", parse::tell;
    "LS.OPEN" "[LEASE ms] [HANDOFF direct|retry] [EVENTS push|message|none] [SESSION id] \
        [LABEL text]",
        0..10, 0, "Opens a session", parse::open;
    "LS.KEEP" "session",
        1..1, 0, "Extends a session's lease", parse::keep;
    "LS.CLOSE" "session",
        1..1, 0, "Ends a session and releases all that it holds", parse::close;
    "LS.END" "id",
        1..1, 0, "Ends a session by its public id (operators): no more renewal", parse::end;
    "LS.EVENTS" "session push|message|none",
        2..2, 0, "Sends the events of a session to this connection", parse::events;
    "LS.ACQUIRE" "session record R|W [WAIT ms|forever] [SEQ n] [UPGRADE] [NOTE text] \
        [OWNER n ...]",
        3..any, 2, "Acquires a record for reading or writing, or waits for it", parse::acquire;
    "LS.RELEASE" "session record seq [KEEP n]",
        3..5, 2, "Releases a record, or keeps it for reading", parse::release;
    "LS.CONVERT" "session record seq R|W [WAIT ms|forever]",
        4..6, 2, "Upgrades a read to a write, or downgrades a write to a read", parse::convert;
    "LS.CANCEL" "session record seq",
        3..3, 2, "Cancels a waiting acquire", parse::cancel;
    "LS.LOCK" "record R|W [WAIT ms|forever] [LEASE ms] [ID uuid] [LABEL text] [NOTE text]",
        2..12, 1, "Acquires a lock that has its own session; replies with its handle", parse::lock;
    "LS.LOCKALL" "numrecords record R|W [record R|W ...] [WAIT ms|forever] [LEASE ms] [ID uuid] \
        [LABEL text] [NOTE text]",
        3..any, 2, "Acquires several locks, all or none; replies with their handles",
        parse::lock_all;
    "LS.RENEW" "record handle",
        2..2, 1, "Extends the lease of a lock, also after a restart of the server", parse::renew;
    "LS.UNLOCK" "record handle",
        2..2, 1, "Releases a lock of LS.LOCK", parse::unlock;
    "LS.REASSERT" "session record epoch seq R|W HELD token|WAITING [TICKET n] [UPGRADE] \
        [OWNER n ...] [FORMER id]",
        6..any, 2, "Re-asserts a claim on a record after a restart", parse::reassert;
    "LS.REASSERTED" "session epoch count sum [GROUPS ranges] [FORMER id]",
        4..8, 0, "Ends the re-assertion: all records have been reported", parse::reasserted;
    "LS.LABEL" "session text",
        2..2, 0, "Names a session for people", parse::label;
    "LS.TAKEBACK" "record [WAIT ms]",
        1..3, 1, "An operator asks the holders of a record to give it back", parse::take_back;
    "LS.INSPECT" "record",
        1..1, 1, "Shows the holders and the waiters of a record", parse::inspect;
    "LS.HISTORY" "record [COUNT n]",
        1..3, 1, "Shows the recent events of a record", parse::history;
    "LS.WAITS" "",
        0..0, 0, "Shows who waits for whom, and refused deadlocks", parse::waits;
    "LS.LOCKS" "[cursor] [MATCH pattern] [COUNT n]",
        0..5, 0, "Lists records that are held or waited for", parse::locks;
    "LS.SESSIONS" "[AFTER id] [COUNT n]",
        0..4, 0, "Lists the sessions by their public ids", parse::sessions;
    "LS.SLOTS" "",
        0..0, 0, "Lists the slots that are served, and in which epoch", parse::slots;
    "HELLO" "[2|3 [AUTH user password] [SETNAME name] [LOCKSPAN version]]",
        0..8, 0, "Selects the version of RESP", redis::hello;
    "AUTH" "[user] password",
        1..2, 0, "Authenticates the connection", redis::auth;
    "PING" "[text]",
        0..1, 0, "Replies with PONG or the text", redis::ping;
    "ECHO" "text",
        1..1, 0, "Replies with the text", redis::echo;
    "QUIT" "",
        0..any, 0, "Closes the connection", redis::quit;
    "RESET" "",
        0..0, 0, "Resets the connection to its initial state", redis::reset;
    "SELECT" "0",
        1..1, 0, "Does nothing: there is only database 0", redis::select;
    "COMMAND" "[COUNT|LIST|INFO [name ...]|DOCS [name ...]]",
        0..any, 0, "Shows information about the commands", redis::command;
    "INFO" "[section ...]",
        0..any, 0, "Shows information about the server", redis::info;
    "CLIENT" "ID|GETNAME|SETNAME name|SETINFO attribute value|INFO|NO-EVICT on|off|\
        NO-TOUCH on|off|TRACKING off|REPLY on|LIST [AFTER n]",
        1..any, 0, "Shows or changes information about the connection", redis::client;
    "SUBSCRIBE" "channel [channel ...]",
        1..any, 0, "Listens to channels lockspan:<session>", redis::subscribe;
    "UNSUBSCRIBE" "[channel ...]",
        0..any, 0, "Stops listening to channels", redis::unsubscribe;
    "CLUSTER" "SLOTS",
        1..any, 0, "Lists the slots as Redis Cluster does", redis::cluster;
}

/// The command with this name, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

/// What these words ask for; the first is the command's name.
pub(crate) fn parse(words: &[&[u8]]) -> Result<Command, CommandError> {
    let (name, args) = words.split_first().ok_or_else(|| CommandError::bad("no command"))?;
    let spec = find(name).ok_or_else(|| unknown(name))?;
    if args.len() < spec.min || spec.max.is_some_and(|max| args.len() > max) {
        let number = args.len();
        let space = if spec.usage.is_empty() { "" } else { " " };
        return Err(CommandError::bad(format!(
            "{}: wrong number of arguments ({number}); usage: {}{space}{}",
            spec.name, spec.name, spec.usage
        )));
    }
    (spec.read)(&mut Reader::list("argument", args))
        .map_err(|bad| CommandError::new(bad.code, format!("{}: {}", spec.name, bad.text)))
}

/// Commands of Redis that lock libraries and other clients of a database send.
static KEY_COMMANDS: &[&str] = &[
    "APPEND",
    "BLPOP",
    "BRPOP",
    "DECR",
    "DECRBY",
    "DEL",
    "DISCARD",
    "EVAL",
    "EVALSHA",
    "EVALSHA_RO",
    "EVAL_RO",
    "EXEC",
    "EXISTS",
    "EXPIRE",
    "EXPIREAT",
    "FCALL",
    "FUNCTION",
    "GET",
    "GETDEL",
    "GETEX",
    "GETSET",
    "HDEL",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HINCRBY",
    "HMGET",
    "HMSET",
    "HSET",
    "HSETNX",
    "INCR",
    "INCRBY",
    "KEYS",
    "LLEN",
    "LPOP",
    "LPUSH",
    "LRANGE",
    "LREM",
    "MGET",
    "MSET",
    "MULTI",
    "PERSIST",
    "PEXPIRE",
    "PEXPIREAT",
    "PSETEX",
    "PSUBSCRIBE",
    "PTTL",
    "PUBLISH",
    "RPOP",
    "RPUSH",
    "SADD",
    "SCAN",
    "SCRIPT",
    "SET",
    "SETEX",
    "SETNX",
    "SISMEMBER",
    "SMEMBERS",
    "SREM",
    "STRLEN",
    "TTL",
    "TYPE",
    "UNLINK",
    "UNWATCH",
    "WAIT",
    "WATCH",
    "XADD",
    "ZADD",
    "ZRANGE",
    "ZREM",
    "ZSCORE",
];

/// A command that there is not. Whoever takes the server for a Redis is told what it is.
fn unknown(name: &[u8]) -> CommandError {
    let shown = quoted(name);
    let is_key_command =
        KEY_COMMANDS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    CommandError::bad(if is_key_command {
        format!(
            "unknown command {shown}: this is a Lockspan server, which stores no keys. A lock \
             library for Redis can't lock anything here: give it the URL of a Redis, or use the \
             package lockspan (Python, Rust), or LS.LOCK and LS.UNLOCK with any Redis client"
        )
    } else {
        format!("unknown command {shown}; COMMAND LIST shows all commands")
    })
}

/// What `COMMAND` answers to these arguments.
#[must_use]
pub fn command_info(args: &[Bytes]) -> Value {
    let Some((what, names)) = args.split_first() else {
        return Value::Array(SPECS.iter().map(info).collect());
    };
    let named = || -> Vec<Option<&'static Spec>> {
        if names.is_empty() {
            return SPECS.iter().map(Some).collect();
        }
        names.iter().map(|name| find(name)).collect()
    };
    match parse::upper(what).as_str() {
        "COUNT" => Value::Int(SPECS.len() as i64),
        "LIST" => Value::Array(SPECS.iter().map(|spec| lower(spec.name)).collect()),
        "INFO" => {
            Value::Array(named().into_iter().map(|spec| spec.map_or(Value::Null, info)).collect())
        }
        "DOCS" => Value::Map(
            named().into_iter().flatten().map(|spec| (lower(spec.name), docs(spec))).collect(),
        ),
        _ => CommandError::bad(format!(
            "COMMAND: subcommand {} at argument 1 is not one of COUNT, LIST, INFO, DOCS",
            quoted(what)
        ))
        .into(),
    }
}

/// As Redis tells of a command: name, arity, flags, where the keys are, and what we have none of.
fn info(spec: &Spec) -> Value {
    let fixed = spec.max == Some(spec.min);
    let arity = spec.min as i64 + 1;
    let record = spec.record as i64;
    let nothing = || Value::Array(Vec::new());
    Value::Array(vec![
        lower(spec.name),
        Value::Int(if fixed { arity } else { -arity }),
        nothing(),
        Value::Int(record),
        Value::Int(record),
        Value::Int(record.min(1)),
        nothing(),
        nothing(),
        nothing(),
        nothing(),
    ])
}

fn docs(spec: &Spec) -> Value {
    Value::map([
        ("summary", spec.summary.into()),
        ("since", "0.1.0".into()),
        ("group", "generic".into()),
        ("usage", spec.usage.into()),
    ])
}

fn lower(name: &str) -> Value {
    Value::bulk(name.to_ascii_lowercase())
}
