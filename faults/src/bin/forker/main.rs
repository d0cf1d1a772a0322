//! `forker STORY URL WAY PARENT`: a program that uses the lock service and forks. It is killed when
//! its parent, the process with that id, dies; its own children are killed by an alarm.
//!
//! The tests of `faults/tests/fork.rs` run it. Each story connects to the service at URL, forks,
//! and looks in both processes at what has become of the connection. It ends with status 0 if all
//! is as promised, and says otherwise what is not.
//!
//! `forker holds …` is a node of `faults run` that forks when it is told to, see `holds.rs`.
//!
//! This is the one program of the package with unsafe code: there is no safe call for `fork`.

mod holds;
mod process;
mod stories;
mod storm;

use std::process::ExitCode;
use std::time::Duration;

use lockspan::{LockError, Locks, Options, Record};
use tokio::runtime::Runtime;

/// Whatever takes longer has failed.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Short, so that several are over within a story.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// What is not as it should be.
pub(crate) type Outcome = Result<(), String>;

/// Fails with these words unless it holds.
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use ensure;

/// How the program uses the service.
pub(crate) enum Way {
    /// By blocking calls; the library has a thread for the connection.
    Threads,
    /// In the tasks of a runtime with several threads.
    Tasks(Runtime),
    /// In the tasks of a runtime without threads of its own.
    Current(Runtime),
}

impl Way {
    fn named(name: &str) -> Self {
        match name {
            "threads" => Self::Threads,
            "tasks" => Self::Tasks(runtime()),
            "current" => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                Self::Current(runtime.expect("a runtime"))
            }
            _ => panic!("there is no way {name:?}"),
        }
    }

    /// Another node of this process.
    pub(crate) fn connect(&self, url: &str) -> Result<Locks, String> {
        let options = Options::new().lease(LEASE);
        let connected = match self {
            Self::Threads => options.blocking_connect(url),
            Self::Tasks(runtime) | Self::Current(runtime) => runtime.block_on(options.connect(url)),
        };
        connected.map_err(|why| format!("connect: {why}"))
    }

    /// Waits for a future in this way's runtime, or in a small one of its own.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Self::Threads => runtime().block_on(future),
            Self::Tasks(runtime) | Self::Current(runtime) => runtime.block_on(future),
        }
    }

    /// Lets the connection be looked after for a while.
    pub(crate) fn pass(&self, time: Duration) {
        self.block_on(async { tokio::time::sleep(time).await });
    }
}

/// A runtime of the calling process.
pub(crate) fn runtime() -> Runtime {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

pub(crate) fn record(locks: &Locks, name: &str) -> Record {
    locks.parse(name).expect("a name")
}

/// The connection must be refused to a child, with words that name the remedy.
pub(crate) fn refused<T>(what: &str, got: Result<T, LockError>) -> Outcome {
    match got {
        Ok(_) => Err(format!("{what}: the child got the parent's lock")),
        Err(why) if why.to_string().contains("call connect again") => Ok(()),
        Err(why) => Err(format!("{what}: the error does not name connect: {why}")),
    }
}

fn die_with(parent: &str) {
    let parent = parent.parse().expect("the id of a process");
    lockspan_faults::process::die_with_parent(parent).expect("it was started a moment ago");
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [story, words @ .., _, parent] = &words[..]
        && story == "holds"
    {
        die_with(parent);
        return match holds::holds(words) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                process::say(&format!("forker holds: {why}"));
                ExitCode::FAILURE
            }
        };
    }
    let [story, url, way, parent] = &words[..] else { panic!("forker STORY URL WAY PARENT") };
    die_with(parent);
    let way = Way::named(way);
    let told = match story.as_str() {
        "cached" => stories::cached(url, way, process::By::Fork),
        "cloned" => stories::cached(url, way, process::By::Clone),
        "dropped" => stories::dropped(url, way),
        "connects" => stories::connects(url, way),
        "futures" => stories::futures(url, way),
        "daemon" => stories::daemon(url, &way),
        "storm" => storm::storm(url),
        "connecting" => storm::connecting(url),
        "spawns" => stories::spawns(url, &way),
        _ => panic!("there is no story {story:?}"),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            process::say(&format!("forker {story} {url}: {why}"));
            ExitCode::FAILURE
        }
    }
}
