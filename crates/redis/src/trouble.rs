//! What Redis refuses or fails to do, in words for the person who has to do something about it.

use lockspan_client::{Trouble, TroubleKind};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// What an error means.
pub(crate) fn trouble(why: &RedisError) -> Trouble {
    let kind = kind(why);
    Trouble::new(kind, format!("{}; Redis said: {}", advice(kind), reason(why)))
}

/// What the server said, without what the client library makes of it.
pub(crate) fn reason(why: &RedisError) -> String {
    match (why.code(), why.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => why.to_string(),
    }
}

/// How Redis says, inside a script, that the user may not do something.
const NO_RIGHT: [&str; 3] =
    ["NOPERM", "The user executing the script can't", "ACL failure in script"];

fn kind(why: &RedisError) -> TroubleKind {
    let text = || why.to_string();
    match why.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly) => return TroubleKind::ReadOnly,
        ErrorKind::Server(ServerErrorKind::NoPerm) => return TroubleKind::NoPermission,
        ErrorKind::Server(ServerErrorKind::CrossSlot) => return TroubleKind::CrossSlot,
        ErrorKind::Server(
            ServerErrorKind::ClusterDown
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain,
        )
        | ErrorKind::ClusterConnectionNotFound => return TroubleKind::ClusterDown,
        ErrorKind::Server(ServerErrorKind::BusyLoading) => return TroubleKind::Busy,
        ErrorKind::Server(ServerErrorKind::MasterDown)
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel => return TroubleKind::FailOver,
        ErrorKind::AuthenticationFailed => return TroubleKind::NoAuthentication,
        ErrorKind::Io => return TroubleKind::Unreachable,
        _ => {}
    }
    match why.code() {
        Some("OOM") => TroubleKind::OutOfMemory,
        Some("BUSY") => TroubleKind::Busy,
        Some("NOAUTH" | "WRONGPASS") => TroubleKind::NoAuthentication,
        Some("UNKILLABLE") => TroubleKind::Busy,
        Some("NOREPLICAS") => TroubleKind::FailOver,
        Some("MISCONF") => TroubleKind::CantSave,
        // Before Redis 7 the word of what a script met stands inside the message.
        _ if text().contains("WRONGTYPE") => TroubleKind::WrongType,
        _ if text().contains("MISCONF") => TroubleKind::CantSave,
        _ if NO_RIGHT.iter().any(|words| text().contains(words)) => TroubleKind::NoPermission,
        _ if text().contains("Script killed") || text().contains("killed by user") => {
            TroubleKind::Killed
        }
        _ if text().contains("CROSSSLOT") || text().contains("hash to the same slot") => {
            TroubleKind::CrossSlot
        }
        _ if why.is_connection_dropped() || why.is_timeout() || why.is_connection_refusal() => {
            TroubleKind::Unreachable
        }
        _ => TroubleKind::Other,
    }
}

fn advice(kind: TroubleKind) -> &'static str {
    match kind {
        TroubleKind::Unreachable => {
            "the connection to Redis is lost, or Redis does not reply; is it running, and is the \
             address right?"
        }
        TroubleKind::FailOver => {
            "Redis has no master at the moment, or a master without replicas: a failover is in \
             progress; try again later"
        }
        TroubleKind::ReadOnly => {
            "this Redis is a read-only replica: a failover is in progress, or the URL is that of a \
             replica instead of the master"
        }
        TroubleKind::OutOfMemory => {
            "Redis has no memory left for another lock; free some memory, or raise maxmemory"
        }
        TroubleKind::Busy => {
            "Redis is busy with a script or with loading its data; try again later"
        }
        TroubleKind::Killed => {
            "the script was killed (SCRIPT KILL), and changed nothing; try again"
        }
        TroubleKind::NoPermission => {
            "the Redis user lacks rights that locks need: +evalsha +eval +subscribe +publish and \
             the commands of the scripts, ~readlock:* ~writelock:* ~lockspan:* and &lockspan:*"
        }
        TroubleKind::NoAuthentication => "wrong user or password for Redis",
        TroubleKind::CrossSlot => {
            "the keys of the record are in different slots of this Redis Cluster; connect with \
             hash_tag, or with redis-cluster://, which includes it, and begin no datatype with }"
        }
        TroubleKind::ClusterDown => {
            "the Redis Cluster does not serve the slot of this record at the moment; or this is a \
             cluster, and the URL must begin with redis-cluster://"
        }
        TroubleKind::WrongType => {
            "a key of this record is used for something else: readlock must be a set, writelock a \
             string"
        }
        TroubleKind::CantSave => {
            "Redis can't write to its disk, and accepts no changes until it can \
             (stop-writes-on-bgsave-error)"
        }
        _ => "Redis refused",
    }
}

/// Whether it is about one record, while all else may be in order: a key that somebody has given
/// another type, or that we may not touch.
pub(crate) fn is_about_the_record(kind: TroubleKind) -> bool {
    matches!(kind, TroubleKind::NoPermission | TroubleKind::CrossSlot | TroubleKind::WrongType)
}

/// Whether the connection is of no use any more. A replica may have been the master when we
/// connected.
pub(crate) fn is_broken(why: &RedisError) -> bool {
    let kind = kind(why);
    why.is_unrecoverable_error()
        || matches!(kind, TroubleKind::Unreachable | TroubleKind::ReadOnly | TroubleKind::FailOver)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Redis 7 says, word for word; 6 and earlier put the second word before it.
    #[test]
    fn what_can_hardly_be_brought_about_is_called_by_its_name_too() {
        for (said, kind) in [
            (
                "-ERR Error running script (call to f_5c): @user_script:1: Script killed by user \
                 with SCRIPT KILL...\r\n",
                TroubleKind::Killed,
            ),
            ("-ERR Script killed by user with SCRIPT KILL.\r\n", TroubleKind::Killed),
            ("-UNKILLABLE Sorry the script already executed write commands\r\n", TroubleKind::Busy),
            ("-NOREPLICAS Not enough good replicas to write.\r\n", TroubleKind::FailOver),
            ("-TRYAGAIN Multiple keys request during rehashing\r\n", TroubleKind::ClusterDown),
            ("-MISCONF Redis is configured to save RDB snapshots\r\n", TroubleKind::CantSave),
            (
                "-ERR Error running script (call to f_5c): @user_script:9: @user_script: 9: \
                 -WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
                TroubleKind::WrongType,
            ),
            (
                "-ERR The user executing the script can't run this command or subcommand\r\n",
                TroubleKind::NoPermission,
            ),
            ("-EXECABORT what nobody has seen yet\r\n", TroubleKind::Other),
        ] {
            let value = redis::parse_redis_value(said.as_bytes()).unwrap();
            let why = value.extract_error().unwrap_err();
            let trouble = trouble(&why);
            assert_eq!(trouble.kind, kind, "{said}");
            let word = said[1..].split(' ').next().unwrap();
            assert!(trouble.said.contains(word), "{trouble}");
        }
    }
}
