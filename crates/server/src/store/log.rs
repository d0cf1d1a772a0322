//! The open data file: changes are appended to both of its copies, see `past` for the layout.
//!
//! # Invariants
//!
//! - [`Log::write`] returns when the changes are in both copies, and synced if they have to be. A
//!   server that other machines reach syncs everything, one write and one sync a batch. One that
//!   only processes of this machine reach syncs epochs and new files only:
//!   `docs/decisions/0006-sessions-of-one-machine-are-not-synced.md` has the reasons.
//! - All bytes of the file are written when it is made, so that appending needs no room on the disk
//!   and syncs no more than the bytes. If it is full, a new one is made with the sessions that are
//!   left, and takes its place when it is synced.
//! - After a failed write the same changes come first at the next attempt, in the same place. After
//!   a failed sync it is unknown what is on the disk, so a new file is made.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use lockspan_protocol::Epoch;
use lockspan_protocol::server::{Listed, Store};

use super::Owners;
use super::dir::Dir;
use super::line::{Change, Head, Line};
use super::past::{LAST, Sessions, listed};

/// A new file has room for so many bytes of changes, and for half as many as its sessions take.
/// Tests damage every byte, so there it is small.
const ROOM: usize = if cfg!(test) { 1 << 10 } else { 512 << 10 };

/// The bytes of a first line, at most.
const HEAD: usize = 256;

/// The data file, and what is in it.
#[derive(Debug)]
pub(super) struct Log {
    dir: Dir,
    longest: Duration,
    /// Sessions are not synced: the boot that they are written in.
    boot: Option<String>,
    epoch: Epoch,
    sessions: Sessions,
    owners: Owners,
    /// None if it has to be made first.
    open: Option<Open>,
    text: String,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// The bytes of a copy.
    size: u64,
    /// How much of it is used; behind may be what was not written to its end.
    len: u64,
    /// The number of the last line.
    seq: u64,
}

impl Log {
    /// A log that begins with these sessions, none of which has a longer lease than `longest`. With
    /// a `boot`, sessions are not synced. [`Log::make`] makes its file, or the first write.
    pub(super) fn new(
        dir: Dir,
        boot: Option<String>,
        longest: Duration,
        epoch: Epoch,
        sessions: &[Listed],
        owners: Owners,
    ) -> Self {
        let sessions = sessions.iter().map(|one| (one.session, *one)).collect();
        let text = String::new();
        Self { dir, longest, boot, epoch, sessions, owners, open: None, text }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.data()
    }

    /// All of it is there, if need be after the end of this process, or none.
    pub(super) fn write(&mut self, batch: &[Store]) -> io::Result<()> {
        let is_epoch = |what: &Store| matches!(what, Store::Epoch(_));
        let must_sync = self.boot.is_none() || batch.iter().any(is_epoch);
        let epoch = batch.iter().fold(self.epoch, raised);
        let mut room = 0;
        let (open, text, seq) = loop {
            let Some(open) = self.open.as_mut() else {
                self.make(room)?;
                continue;
            };
            self.text.clear();
            let (mut seq, mut epoch) = (open.seq, self.epoch);
            for what in batch {
                (seq, epoch) = (seq + 1, raised(epoch, what));
                Line::of(seq, epoch, what, &self.owners).put(&mut self.text);
            }
            if open.len + self.text.len() as u64 <= open.room() {
                break (open, self.text.as_bytes(), seq);
            }
            room = self.text.len();
            self.make(room)?;
        };
        open.append(text)?;
        if must_sync && let Err(why) = open.file.sync_data() {
            self.open = None;
            return Err(why);
        }
        open.len += text.len() as u64;
        open.seq = seq;
        self.epoch = epoch;
        for what in batch {
            take(&mut self.sessions, what);
        }
        self.owners.written(batch);
        Ok(())
    }

    /// The server stops: what is there is synced, and says so.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if self.boot.is_none() {
            return Ok(());
        }
        if self.open.is_none() {
            self.make(0)?;
        }
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        open.file.sync_data()?;
        let mut text = String::new();
        Line { seq: open.seq + 1, epoch: self.epoch, change: Change::End }.put(&mut text);
        if open.len + text.len() as u64 > open.room() {
            // Too full for one more line: the next boot waits for the longest lease.
            return Ok(());
        }
        open.append(text.as_bytes())?;
        open.file.sync_data()
    }

    /// Makes a new file with what there is now, and room for as many more bytes, synced.
    pub(super) fn make(&mut self, room: usize) -> io::Result<()> {
        let mut body = String::new();
        let mut seq = 1;
        Line { seq, epoch: self.epoch, change: Change::Epoch }.put(&mut body);
        for listed in self.sessions.values() {
            seq += 1;
            let change = Change::Open { listed: *listed, user: self.owners.get(listed.session) };
            Line { seq, epoch: self.epoch, change }.put(&mut body);
        }
        // Numbers of lines may be longer than they were when `room` was counted.
        let size = HEAD + body.len() + body.len() / 2 + 2 * room + ROOM;
        let mut text = String::with_capacity(HEAD + body.len());
        let (longest, boot) = (self.longest, self.boot.clone());
        Head { size: size as u64, longest, boot }.put(&mut text);
        text.push_str(&body);
        let mut content = vec![0; 2 * size];
        for copy in content.chunks_mut(size) {
            copy[..text.len()].copy_from_slice(text.as_bytes());
            copy[size - LAST.len()..].copy_from_slice(LAST);
        }
        let open = &mut self.open;
        // What is written to a file that was replaced is lost.
        let file = self.dir.replace(&content, || *open = None)?;
        self.open = Some(Open { file, size: size as u64, len: text.len() as u64, seq });
        Ok(())
    }
}

impl Open {
    /// The bytes of a copy that lines may take.
    fn room(&self) -> u64 {
        self.size - LAST.len() as u64
    }

    fn append(&self, text: &[u8]) -> io::Result<()> {
        self.file.write_all_at(text, self.len)?;
        self.file.write_all_at(text, self.size + self.len)
    }
}

fn raised(epoch: Epoch, what: &Store) -> Epoch {
    match what {
        Store::Epoch(term) => epoch.max(term.epoch),
        _ => epoch,
    }
}

fn take(sessions: &mut Sessions, what: &Store) {
    match what {
        &Store::Session { session, ttl, handoff, last, .. } => {
            sessions.insert(session, listed(session, ttl, handoff, last));
        }
        Store::Forget { session } | Store::Settle { former: session, .. } => {
            sessions.remove(session);
        }
        Store::Epoch(_) => {}
    }
}
