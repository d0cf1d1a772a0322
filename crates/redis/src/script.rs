//! The scripts, and how they are called.

use lockspan_park::fork::ProcessLocal;
use redis::{Cmd, Script};

use crate::keys::Keys;

/// What is done to a record, each by one script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    AcquireRead,
    AcquireWrite,
    ReleaseRead,
    ReleaseWrite,
    /// Whatever it is, it is over.
    Cancel,
    /// A lease from now on, and a look at what we have.
    Renew,
    /// A reader becomes the writer.
    Upgrade,
    /// A writer becomes a reader, or an upgrader waits no more.
    Downgrade,
    /// A waiter asks who holds the record.
    Who,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) op: Op,
    pub(crate) keys: &'a Keys,
    pub(crate) identifier: &'a str,
    /// Identifiers that it may still be instead.
    pub(crate) before: &'a [String],
    pub(crate) record: &'a [u8],
    pub(crate) lease_micros: u64,
    /// The two keys alone.
    pub(crate) plain: bool,
}

/// A script, whose name is computed at the first use. Nobody waits for another thread that computes
/// it: after a fork that thread is not there.
macro_rules! script {
    ($($part:literal),+) => {{
        static TEXT: ProcessLocal<Text> = ProcessLocal::new();
        TEXT.get_or_init(|| Text::new(concat!($(include_str!(concat!("lua/", $part))),+)))
    }};
}

/// A script, and the name under which the server keeps it.
#[derive(Debug)]
struct Text {
    text: &'static str,
    script: Script,
}

impl Text {
    fn new(text: &'static str) -> Self {
        Self { text, script: Script::new(text) }
    }
}

impl Op {
    fn script(self) -> &'static Text {
        match self {
            Self::AcquireRead => script!("head.lua", "common.lua", "acquire_read.lua"),
            Self::AcquireWrite => {
                script!("head.lua", "acquire_write_usual.lua", "common.lua", "acquire_write.lua")
            }
            Self::ReleaseRead => script!("head.lua", "common.lua", "release_read.lua"),
            Self::ReleaseWrite => {
                script!("head.lua", "release_write_usual.lua", "common.lua", "release_write.lua")
            }
            Self::Cancel => script!("head.lua", "common.lua", "cancel.lua"),
            Self::Renew => script!("head.lua", "common.lua", "renew.lua"),
            Self::Upgrade => script!("head.lua", "common.lua", "upgrade.lua"),
            Self::Downgrade => script!("head.lua", "common.lua", "downgrade.lua"),
            Self::Who => script!("head.lua", "common.lua", "who.lua"),
        }
    }

    /// The word for it in the script for the two keys alone.
    fn word(self) -> &'static str {
        match self {
            Self::AcquireRead => "read",
            Self::AcquireWrite => "write",
            Self::ReleaseRead | Self::ReleaseWrite | Self::Cancel => "release",
            Self::Renew => "renew",
            Self::Upgrade => "upgrade",
            Self::Downgrade => "downgrade",
            Self::Who => "who",
        }
    }
}

/// The commands that bring the server all scripts. It may forget them; but as long as it has them,
/// calls stay in order.
pub(crate) fn loads(plain: bool) -> impl Iterator<Item = Cmd> {
    let all = if plain { &[][..] } else { &OPS[..] };
    let texts = all.iter().map(|op| op.script().text);
    texts.chain(plain.then(|| self::plain().text)).map(|text| {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(text);
        load
    })
}

const OPS: [Op; 9] = [
    Op::AcquireRead,
    Op::AcquireWrite,
    Op::ReleaseRead,
    Op::ReleaseWrite,
    Op::Cancel,
    Op::Renew,
    Op::Upgrade,
    Op::Downgrade,
    Op::Who,
];

/// The script for the two keys alone.
fn plain() -> &'static Text {
    script!("plain.lua")
}

impl Call<'_> {
    /// The call by the script's name, and the one that brings the script with it.
    pub(crate) fn commands(&self) -> (Cmd, impl FnOnce() -> Cmd + Send + 'static) {
        let text = if self.plain { plain() } else { self.op.script() };
        let (plain, all) = (self.keys.plain(), self.keys.all());
        let keys = if self.plain { &plain[..] } else { &all[..] };
        let lease = self.lease_micros.to_string();
        let arguments = if self.plain {
            &[self.identifier.as_bytes(), self.op.word().as_bytes()][..]
        } else {
            &[self.identifier.as_bytes(), self.record, lease.as_bytes()][..]
        };
        let words = keys.iter().chain(arguments).copied();
        let words = words.chain(self.before.iter().map(String::as_bytes));
        let rest: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).collect();
        let keys = keys.len();
        let mut short = redis::cmd("EVALSHA");
        short.arg(text.script.get_hash()).arg(keys).arg(&rest);
        let long = move || {
            let mut long = redis::cmd("EVAL");
            long.arg(text.text).arg(keys).arg(&rest);
            long
        };
        (short, long)
    }
}
