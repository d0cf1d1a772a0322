//! The scripts, and how they are called.

use std::sync::LazyLock;

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

macro_rules! script {
    ($file:literal $(, $usual:literal)?) => {
        LazyLock::new(|| {
            Text::new(concat!(
                include_str!("lua/head.lua"),
                $(include_str!(concat!("lua/", $usual)),)?
                include_str!("lua/common.lua"),
                include_str!(concat!("lua/", $file)),
            ))
        })
    };
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
        static ACQUIRE_READ: LazyLock<Text> = script!("acquire_read.lua");
        static ACQUIRE_WRITE: LazyLock<Text> =
            script!("acquire_write.lua", "acquire_write_usual.lua");
        static RELEASE_READ: LazyLock<Text> = script!("release_read.lua");
        static RELEASE_WRITE: LazyLock<Text> =
            script!("release_write.lua", "release_write_usual.lua");
        static CANCEL: LazyLock<Text> = script!("cancel.lua");
        static RENEW: LazyLock<Text> = script!("renew.lua");
        static UPGRADE: LazyLock<Text> = script!("upgrade.lua");
        static DOWNGRADE: LazyLock<Text> = script!("downgrade.lua");
        match self {
            Self::AcquireRead => &ACQUIRE_READ,
            Self::AcquireWrite => &ACQUIRE_WRITE,
            Self::ReleaseRead => &RELEASE_READ,
            Self::ReleaseWrite => &RELEASE_WRITE,
            Self::Cancel => &CANCEL,
            Self::Renew => &RENEW,
            Self::Upgrade => &UPGRADE,
            Self::Downgrade => &DOWNGRADE,
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
        }
    }
}

/// The commands that bring the server all scripts. It may forget them; but as long as it has them,
/// calls stay in order.
pub(crate) fn loads(plain: bool) -> impl Iterator<Item = Cmd> {
    let all = if plain { &[][..] } else { &OPS[..] };
    let texts = all.iter().map(|op| op.script().text);
    texts.chain(plain.then(|| PLAIN.text)).map(|text| {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(text);
        load
    })
}

const OPS: [Op; 8] = [
    Op::AcquireRead,
    Op::AcquireWrite,
    Op::ReleaseRead,
    Op::ReleaseWrite,
    Op::Cancel,
    Op::Renew,
    Op::Upgrade,
    Op::Downgrade,
];

static PLAIN: LazyLock<Text> = LazyLock::new(|| Text::new(include_str!("lua/plain.lua")));

impl Call<'_> {
    /// The call by the script's name, and the one that brings the script with it.
    pub(crate) fn commands(&self) -> (Cmd, impl FnOnce() -> Cmd + Send + 'static) {
        let text = if self.plain { &*PLAIN } else { self.op.script() };
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
