//! The sessions of a server that only this machine's processes can reach, `lockspan.sessions`:
//! written at once, and not synced.
//!
//! What a process has written is in the hands of the system, whatever becomes of the process: a
//! server that is killed finds all of it again. Only the end of the machine takes it away, and the
//! file says during which life of the machine it was written, so nobody mistakes what is left of it
//! for all of it. `docs/decisions/0006-sessions-of-one-machine-are-not-synced.md` has the reasons.
//!
//! It is text, a line a change, and the last about a session counts:
//!
//! | line | meaning |
//! |---|---|
//! | `lockspan sessions 1 BOOT` | the first one: the machine's life, as the system names it |
//! | `open ID MICROS HANDOFF LAST [USER]` | a session, as in [`Store::Session`], and whose it is |
//! | `gone ID` | it is forgotten |
//! | `end` | the server has stopped, and all before this is synced |
//!
//! A last line without an end was not told to anybody. When most of it is about sessions that are
//! gone, it is written anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, mem};

use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Handoff, SessionId};

use super::Owners;
use super::file::sync;

const NAME: &str = "lockspan.sessions";
const FIRST: &str = "lockspan sessions 1 ";
const END: &str = "end";

/// A file that is shorter is not written anew.
const SHORT: u64 = 1 << 20;

/// A line is not longer than this.
const LINE: u64 = 160;

/// The name of this life of the machine, if the system gives it one.
pub(super) fn boot() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let name = name.trim();
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    (name.len() >= 32 && name.bytes().all(is_plain)).then(|| name.to_owned())
}

/// What a file tells of the run that wrote it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// These were its sessions.
    Known(Vec<Listed>),
    /// The machine ended before the run did: some of it may be lost.
    Unknown,
}

/// Reads the file in `dir`, which is known to have been there.
pub(super) fn read(
    dir: &Path,
    boot: Option<&str>,
    owners: &Owners,
) -> Result<Past, (PathBuf, String)> {
    let path = dir.join(NAME);
    let bytes = match fs::read(&path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err((path, why.to_string())),
        read => read.unwrap_or_default(),
    };
    let text = String::from_utf8_lossy(&bytes);
    // What is behind the last end of a line was being written.
    let mut lines = text.rsplit_once('\n').map_or("", |(whole, _)| whole).split('\n');
    let written = lines.next().and_then(|line| line.strip_prefix(FIRST));
    let is_present = written.is_some() && written == boot;
    let mut sessions = Sessions::default();
    let mut ended = false;
    for (at, line) in lines.enumerate() {
        if mem::replace(&mut ended, line == END) || !(ended || sessions.hear(line, owners)) {
            if is_present {
                let what = format!("line {} makes no sense: {line:?}", at + 2);
                return Err((path, what));
            }
            return Ok(Past::Unknown);
        }
    }
    let is_whole = written.is_some() && (is_present || ended);
    Ok(if is_whole { Past::Known(sessions.list()) } else { Past::Unknown })
}

/// Whether there is such a file in `dir`.
pub(super) fn is_there(dir: &Path) -> bool {
    dir.join(NAME).exists()
}

/// Deletes the file in `dir`; nobody looks at it any more.
pub(super) fn remove(dir: &Path) {
    // If it stays, it is in nobody's way.
    let _ = fs::remove_file(dir.join(NAME));
}

/// The sessions that there are: lease in microseconds, whether waits end by a retry, whether it is
/// not extended any more.
#[derive(Debug, Default)]
struct Sessions(BTreeMap<u64, (u64, bool, bool)>);

impl Sessions {
    fn take(&mut self, what: &Store) {
        match what {
            Store::Session { session, ttl, handoff, last } => {
                let micros = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
                self.0.insert(session.0, (micros, *handoff == Handoff::Retry, *last));
            }
            Store::Forget { session } => {
                self.0.remove(&session.0);
            }
            Store::Epoch(_) => {}
        }
    }

    /// False if the line makes no sense.
    fn hear(&mut self, line: &str, owners: &Owners) -> bool {
        let words: Vec<_> = line.split(' ').collect();
        let switch = |word: &str, on: &str, off: &str| match word {
            word if word == on => Some(true),
            word if word == off => Some(false),
            _ => None,
        };
        let heard = match words[..] {
            ["open", id, micros, handoff, last, ref user @ ..] if user.len() < 2 => (|| {
                let handoff = switch(handoff, "retry", "direct")?;
                let last = switch(last, "last", "lives")?;
                let id = id.parse().ok()?;
                self.0.insert(id, (micros.parse().ok()?, handoff, last));
                if let Some(&user) = user.first() {
                    owners.set(SessionId(id), user.into());
                }
                Some(())
            })(
            ),
            ["gone", id] => id.parse().ok().map(|id: u64| {
                self.0.remove(&id);
            }),
            _ => None,
        };
        heard.is_some()
    }

    fn list(&self) -> Vec<Listed> {
        let listed = |(&id, &(micros, retries, last)): (&u64, &(u64, bool, bool))| Listed {
            session: SessionId(id),
            ttl: Duration::from_micros(micros),
            handoff: if retries { Handoff::Retry } else { Handoff::Direct },
            here: true,
            last,
        };
        self.0.iter().map(listed).collect()
    }
}

fn put_line(what: &Store, owners: &Owners, text: &mut String) {
    // Writing to a text does not fail.
    let _ = match what {
        Store::Session { session, ttl, handoff, last } => {
            let handoff = if *handoff == Handoff::Retry { "retry" } else { "direct" };
            let last = if *last { "last" } else { "lives" };
            let micros = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
            let user = owners.get(*session).map(|user| format!(" {user}")).unwrap_or_default();
            writeln!(text, "open {} {micros} {handoff} {last}{user}", session.0)
        }
        Store::Forget { session } => writeln!(text, "gone {}", session.0),
        Store::Epoch(_) => Ok(()),
    };
}

/// A session as it is stored.
pub(super) fn store_of(listed: &Listed) -> Store {
    let &Listed { session, ttl, handoff, last, .. } = listed;
    Store::Session { session, ttl, handoff, last }
}

/// The open file.
#[derive(Debug)]
pub(super) struct Log {
    dir: PathBuf,
    boot: String,
    file: File,
    /// What is whole of it; behind may be what was not written to its end.
    len: u64,
    /// When it is as long as this, it is looked at whether it should be shorter.
    look_at: u64,
    sessions: Sessions,
    owners: Owners,
    text: String,
}

impl Log {
    /// Makes the file anew with these sessions, synced: nothing of an older one comes back.
    pub(super) fn make(
        dir: &Path,
        boot: &str,
        listed: &[Listed],
        owners: Owners,
    ) -> io::Result<Self> {
        let mut sessions = Sessions::default();
        listed.iter().for_each(|listed| sessions.take(&store_of(listed)));
        let (file, len) = write_all(dir, boot, (&sessions, &owners), File::sync_all)?;
        sync(dir)?;
        let (dir, boot) = (dir.to_owned(), boot.to_owned());
        Ok(Self { dir, boot, file, len, look_at: SHORT, sessions, owners, text: String::new() })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// All of it is there, if need be after the end of this process, or none.
    pub(super) fn write<'a>(
        &mut self,
        batch: impl IntoIterator<Item = &'a Store> + Clone,
    ) -> io::Result<()> {
        self.text.clear();
        let (owners, text) = (&self.owners, &mut self.text);
        batch.clone().into_iter().for_each(|what| put_line(what, owners, text));
        if let Err(why) = self.file.write_all_at(self.text.as_bytes(), self.len) {
            // If it stays, it is written over: the same comes again first.
            let _ = self.file.set_len(self.len);
            return Err(why);
        }
        self.len += self.text.len() as u64;
        batch.clone().into_iter().for_each(|what| self.sessions.take(what));
        self.owners.written(batch);
        if self.len >= self.look_at {
            self.shorten();
        }
        Ok(())
    }

    /// Leaves out what is gone, if that is most of it.
    fn shorten(&mut self) {
        let needed = LINE * (self.sessions.0.len() as u64 + 1);
        if needed * 4 < self.len {
            match write_all(&self.dir, &self.boot, (&self.sessions, &self.owners), |_| Ok(())) {
                Ok((file, len)) => (self.file, self.len) = (file, len),
                // It goes on as it is.
                Err(why) => tracing::warn!("can't shorten {}: {why}", self.path().display()),
            }
        }
        self.look_at = SHORT.max(self.len * 2);
    }

    /// The server stops: what is there is synced, and says so.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.file.set_len(self.len)?;
        self.file.sync_all()?;
        let line = format!("{END}\n");
        self.file.write_all_at(line.as_bytes(), self.len)?;
        self.file.sync_all()?;
        sync(&self.dir)
    }
}

/// Writes a whole file under another name, and puts it in the place of the old one.
fn write_all(
    dir: &Path,
    boot: &str,
    (sessions, owners): (&Sessions, &Owners),
    finish: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<(File, u64)> {
    let new = dir.join(format!("{NAME}.new"));
    let mut text = format!("{FIRST}{boot}\n");
    sessions.list().iter().for_each(|listed| put_line(&store_of(listed), owners, &mut text));
    // Numbers of sessions are secrets, so the file is for the server's user alone.
    let how = File::options().create(true).truncate(true).write(true).mode(0o600).clone();
    let file = how.open(&new)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all_at(text.as_bytes(), 0)?;
    finish(&file)?;
    fs::rename(&new, dir.join(NAME))?;
    Ok((file, text.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIS: &str = "11111111-1111-1111-1111-111111111111";
    const OTHER: &str = "22222222-2222-2222-2222-222222222222";

    fn session(id: u64) -> Store {
        let ttl = Duration::from_secs(5);
        Store::Session { session: SessionId(id), ttl, handoff: Handoff::Retry, last: false }
    }

    fn forget(id: u64) -> Store {
        Store::Forget { session: SessionId(id) }
    }

    fn ids(dir: &Path, boot: &str) -> Option<Vec<u64>> {
        match read(dir, Some(boot), &Owners::default()).expect("it makes sense") {
            Past::Known(sessions) => Some(sessions.iter().map(|one| one.session.0).collect()),
            Past::Unknown => None,
        }
    }

    #[test]
    fn what_was_written_is_there_without_an_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = Log::make(dir.path(), THIS, &[], Owners::default()).expect("made");
        log.write(&[session(1), session(2)]).expect("written");
        let last = Store::Session {
            session: SessionId(3),
            ttl: Duration::from_millis(7),
            handoff: Handoff::Direct,
            last: true,
        };
        log.write(&[forget(1), last]).expect("written");
        // The process is killed: nothing of the log is called again.
        mem::forget(log);
        let past = read(dir.path(), Some(THIS), &Owners::default()).expect("it makes sense");
        let listed = |id, millis, handoff, last| Listed {
            session: SessionId(id),
            ttl: Duration::from_millis(millis),
            handoff,
            here: true,
            last,
        };
        let expected =
            vec![listed(2, 5000, Handoff::Retry, false), listed(3, 7, Handoff::Direct, true)];
        assert_eq!(past, Past::Known(expected.clone()));
        let log = Log::make(dir.path(), THIS, &expected, Owners::default()).expect("made");
        assert_eq!(log.sessions.list(), expected);
        assert_eq!(ids(dir.path(), THIS), Some(vec![2, 3]));
    }

    #[test]
    fn whose_a_session_is_is_written_down() {
        let dir = tempfile::tempdir().expect("a directory");
        let owners = Owners::default();
        owners.set(SessionId(1), "ann".into());
        let mut log = Log::make(dir.path(), THIS, &[], owners.clone()).expect("made");
        log.write(&[session(1), session(2)]).expect("written");
        let heard = Owners::default();
        read(dir.path(), Some(THIS), &heard).expect("it makes sense");
        assert_eq!(heard.get(SessionId(1)).as_deref(), Some("ann"));
        assert_eq!(heard.get(SessionId(2)), None);
        log.write(&[forget(1)]).expect("written");
        assert_eq!(owners.get(SessionId(1)), None);
    }

    #[test]
    fn in_another_life_of_the_machine_only_an_end_is_trusted() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = Log::make(dir.path(), THIS, &[], Owners::default()).expect("made");
        log.write(&[session(1)]).expect("written");
        assert_eq!(ids(dir.path(), OTHER), None);
        assert_eq!(
            read(dir.path(), None, &Owners::default()),
            Ok(Past::Unknown),
            "nor where lives have no names"
        );
        log.end().expect("synced");
        assert_eq!(ids(dir.path(), OTHER), Some(vec![1]));
        assert_eq!(ids(dir.path(), THIS), Some(vec![1]));
        // The next run has not ended yet.
        Log::make(dir.path(), OTHER, &[], Owners::default()).expect("made");
        assert_eq!(ids(dir.path(), THIS), None);
    }

    #[test]
    fn whatever_a_loss_of_power_leaves_is_an_unknown_past() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = Log::make(dir.path(), THIS, &[], Owners::default()).expect("made");
        log.write(&[session(1), session(2)]).expect("written");
        let path = log.path();
        let whole = fs::read(&path).expect("there");
        for len in 0..=whole.len() {
            fs::write(&path, &whole[..len]).expect("written");
            assert_eq!(ids(dir.path(), OTHER), None, "{len} bytes");
            let mut zeros = whole.clone();
            zeros[len..].fill(0);
            fs::write(&path, &zeros).expect("written");
            assert_eq!(ids(dir.path(), OTHER), None, "zeros from {len} on");
        }
        fs::remove_file(&path).expect("removed");
        assert_eq!(ids(dir.path(), OTHER), None, "it is gone");
        assert_eq!(ids(dir.path(), THIS), None, "it is gone, who knows why");
    }

    #[test]
    fn a_line_without_an_end_was_never_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = Log::make(dir.path(), THIS, &[], Owners::default()).expect("made");
        log.write(&[session(1), session(23)]).expect("written");
        let whole = fs::read(log.path()).expect("there");
        fs::write(log.path(), &whole[..whole.len() - 3]).expect("written");
        assert_eq!(ids(dir.path(), THIS), Some(vec![1]));
    }

    #[test]
    fn nonsense_of_this_life_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = Log::make(dir.path(), THIS, &[], Owners::default()).expect("made");
        let head = fs::read_to_string(log.path()).expect("there");
        for line in ["", "gone", "gone x", "open 1 2 retry", "open 1 2 x lives", "end\ngone 1"] {
            fs::write(log.path(), format!("{head}{line}\n")).expect("written");
            let (path, why) = read(dir.path(), Some(THIS), &Owners::default()).expect_err(line);
            assert_eq!(path, log.path());
            assert!(why.contains("makes no sense"), "{why}");
        }
    }

    #[test]
    fn it_does_not_grow_with_sessions_that_are_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = Log::make(dir.path(), THIS, &[], Owners::default()).expect("made");
        log.write(&[session(7)]).expect("written");
        for id in 1000..60_000 {
            log.write(&[session(id), forget(id)]).expect("written");
        }
        let len = fs::metadata(log.path()).expect("there").len();
        assert!(len < 2 * SHORT, "{len} bytes");
        log.write(&[session(8)]).expect("written");
        assert_eq!(ids(dir.path(), THIS), Some(vec![7, 8]));
    }
}
