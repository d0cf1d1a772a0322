//! What this process tells the `metrics` façade about its nodes.
//!
//! # Who counts, and where
//!
//! - A cached acquire: in its processor's part of a [`Counter`](lockspan_thread::percpu::Counter),
//!   by an addition that is no atomic read-modify-write.
//! - What goes to the server or comes from it, by datatype: in a word of the [`Tally`], by an
//!   atomic addition beside a message.
//! - Messages, bytes, connections: in the node's own [`Counts`](crate::stats::Counts).
//! - How long was waited or held: the recorder hears it as soon as it is over, from who was about
//!   to go on, with nothing held.
//!
//! All else the recorder hears from the background task, once a second ([`Node::publish`]). The
//! façade is never called where a cached record is taken.
//!
//! Everything is counted for the process, since the façade is: two nodes that set the same counter
//! would overwrite each other. Datatypes have a [`Tally`] each, and none is forgotten; so there are
//! at most [`tally::DATATYPES`] of them, and one for the rest.
//!
//! While there is no recorder nothing of this is done: a cached acquire looks at
//! [`Meter::is_on`], and that is all.

mod names;
mod publish;
mod tally;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use lockspan_protocol::{Mode, Record as Name, Tick, ToNode, ToServer};

use self::tally::Tally;
use crate::clock;
use crate::entry::{Entry, lock};
use crate::node::{Core, Node};
use crate::record::Record;
use crate::stats::Stats;

/// How often the recorder is told.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// A node's part in it.
#[derive(Debug)]
pub(crate) struct Meter {
    /// What the options say; unless told, it depends on whether there is a recorder.
    wish: Option<bool>,
    is_on: AtomicBool,
    told: Mutex<Told>,
}

/// What the totals have of this node.
#[derive(Debug, Default)]
struct Told {
    stats: Stats,
    is_described: bool,
}

impl Meter {
    pub(crate) fn new(wish: Option<bool>) -> Self {
        let is_on = AtomicBool::new(wish.unwrap_or_else(publish::is_heard));
        Self { wish, is_on, told: Mutex::default() }
    }

    /// Whether anything is counted by datatype.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

/// What a record on this node has for it.
#[derive(Debug, Default)]
pub(crate) struct Metered {
    /// Where it is counted, if it ever was.
    tally: OnceLock<&'static Tally>,
    /// Since when the node has it; 0 if it has not, or nobody counts. Changed with the core held.
    held_since: AtomicU64,
}

impl Metered {
    /// The node has it from now on, unless it had it before.
    fn hold_begins(&self, now: Tick) {
        if self.held_since.load(Ordering::Relaxed) == 0 {
            self.held_since.store(now.0, Ordering::Relaxed);
        }
    }

    /// The node has it no more; since when it had, if it is known.
    fn hold_ends(&self) -> Option<Tick> {
        let since = self.held_since.load(Ordering::Relaxed);
        self.held_since.store(0, Ordering::Relaxed);
        (since != 0).then_some(Tick(since))
    }
}

impl Entry {
    /// Where it is counted.
    #[inline]
    fn tally(&self) -> &'static Tally {
        self.metered.tally.get_or_init(|| Tally::of(self.name.datatype()))
    }
}

/// Somebody who waits in line, and is counted as long as this is there.
#[derive(Debug)]
pub(crate) struct Wait {
    tally: &'static Tally,
    since: Tick,
}

impl Wait {
    /// It has got what it waited for.
    pub(crate) fn over(self, now: Tick) {
        publish::record(&self.tally.wait_key, now.since(self.since));
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.tally.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A record that a node had for so long, and has no more.
#[derive(Debug)]
pub(crate) struct Hold {
    tally: &'static Tally,
    time: Duration,
}

impl Hold {
    pub(crate) fn tell(&self) {
        publish::record(&self.tally.hold_key, self.time);
    }
}

impl Record {
    /// A cached acquire more, or one less that came to nothing.
    #[inline(always)]
    pub(crate) fn count_cached(&self, mode: Mode, more: i64) {
        if self.node().meter.is_on() {
            self.entry.tally().cached[usize::from(mode == Mode::Write)].add(more);
        }
    }

    /// Somebody begins to wait.
    pub(crate) fn begin_wait(&self) -> Option<Wait> {
        self.node().meter.is_on().then(|| {
            let tally = self.entry.tally();
            tally.waiting.fetch_add(1, Ordering::Relaxed);
            Wait { tally, since: clock::now() }
        })
    }
}

fn one(of: &AtomicU64) {
    of.fetch_add(1, Ordering::Relaxed);
}

fn one_of(of: &[AtomicU64; 2], mode: Mode) {
    one(&of[usize::from(mode == Mode::Write)]);
}

/// What a node counts with the core held.
impl Node {
    /// The server has said something.
    pub(crate) fn count_heard(&self, core: &Core, message: &ToNode) {
        if !self.meter.is_on() {
            return;
        }
        // A server can name what nobody here has asked for: that gets no tally of its own.
        let of = |record: &Name| Tally::known(record.datatype());
        match message {
            ToNode::Granted { record, mode, .. } => {
                one_of(&of(record).grants, *mode);
                if core.cache.is_in_line(record) {
                    one(&of(record).handovers);
                }
            }
            ToNode::Revoke { record, .. } => one(&of(record).revokes),
            ToNode::Retry { record, .. } => one(&of(record).retries),
            _ => {}
        }
    }

    /// The server is told something.
    pub(crate) fn count_told(&self, core: &mut Core, message: &ToServer) {
        if !self.meter.is_on() {
            return;
        }
        match message {
            ToServer::Acquire { record, mode, upgrade, .. } => {
                one_of(&Tally::of(record.datatype()).sent, *mode);
                // What was read until now is traded for it.
                if !upgrade {
                    self.hold_ends(core, record);
                }
            }
            ToServer::Release { record, keep: None, .. } => self.hold_ends(core, record),
            _ => {}
        }
    }

    /// The node has the record from now on.
    pub(crate) fn hold_begins(&self, core: &Core, entry: &Entry) {
        if self.meter.is_on() {
            entry.metered.hold_begins(core.now);
        }
    }

    fn hold_ends(&self, core: &mut Core, record: &Name) {
        let last = core.last.as_ref().filter(|last| last.name == *record);
        if let Some(entry) = last.cloned().or_else(|| self.entries.find(record)) {
            Self::entry_hold_ends(core, &entry);
        }
    }

    /// The node has the record no more.
    pub(crate) fn entry_hold_ends(core: &mut Core, entry: &Entry) {
        if let Some(since) = entry.metered.hold_ends() {
            core.holds.push(Hold { tally: entry.tally(), time: core.now.since(since) });
        }
    }

    /// A grant was lost.
    pub(crate) fn count_lost(&self, core: &mut Core, entry: &Entry) {
        if self.meter.is_on() {
            one(&entry.tally().lost);
            Self::entry_hold_ends(core, entry);
        }
    }

    /// Tells the recorder what was counted, if there is one.
    pub(crate) fn publish(&self) {
        if self.is_forked() {
            return;
        }
        let is_heard = publish::is_heard();
        if self.meter.wish.is_none() && is_heard {
            self.meter.is_on.store(true, Ordering::Relaxed);
        }
        if !self.meter.is_on() {
            return;
        }
        let is_new = {
            let mut told = lock(&self.meter.told);
            // Whoever comes later has later numbers.
            let stats = self.stats();
            publish::add(&stats, &std::mem::replace(&mut told.stats, stats));
            is_heard && !std::mem::replace(&mut told.is_described, true)
        };
        if is_new {
            publish::guarded(names::describe);
        }
        publish::publish();
    }
}
