//! The data file, `lockspan.redb`, and the file that keeps others away from it.
//!
//! A new data file is made under another name and moved when it is whole: a file that is there and
//! can't be read was whole once, and is never replaced by an empty one.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{error, io, panic};

use lockspan_protocol::server::{Listed, Store};
use lockspan_protocol::{Epoch, Handoff, SessionId};
use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableHandle as _,
    WriteTransaction,
};

use super::{Owners, Saved};
use crate::error::StartError;

const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
const EPOCHS: TableDefinition<'_, u8, u32> = TableDefinition::new("epochs");
/// The lease in microseconds, whether waits end by a retry, whether it is not extended any more.
const SESSIONS: TableDefinition<'_, u64, (u64, bool, bool)> = TableDefinition::new("sessions");

/// The user of a session, where there are users.
const OWNERS: TableDefinition<'_, u64, &str> = TableDefinition::new("owners");

const FORMAT: &str = "lockspan 1";
/// The sessions are in a log beside this file. Who knows nothing of logs must not take them for
/// none.
const FORMAT_LOGGED: &str = "lockspan 2";

/// The key of [`META`] that is there while the sessions are in a log: the longest lease that one of
/// them may have, in microseconds.
const LOGGED: &str = "logged";

type Failure = Box<dyn error::Error + Send + Sync>;

/// The open data file of this server alone.
#[derive(Debug)]
pub(super) struct DataFile {
    path: PathBuf,
    /// None after a failed write, until the file is open again.
    database: Option<Database>,
    owners: Owners,
    /// Locked as long as it is open.
    _lock: File,
}

impl DataFile {
    /// Opens the file in `dir`, or makes both. If its sessions are in a log, the longest lease that
    /// they may have comes with it.
    pub(super) fn open(dir: &Path) -> Result<(Self, Saved, Option<Duration>), StartError> {
        let failed = |path: &Path, why| StartError::Data { path: path.to_owned(), why };
        make_dir(dir, sync).map_err(|why| failed(dir, why))?;
        let lock_path = dir.join("lockspan.lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(|why| failed(&lock_path, why))?;
        lock.try_lock().map_err(|why| match why {
            fs::TryLockError::WouldBlock => StartError::DataInUse(dir.to_owned()),
            fs::TryLockError::Error(why) => failed(&lock_path, why),
        })?;
        let path = dir.join("lockspan.redb");
        let there = path.try_exists().map_err(|why| failed(&path, why))?;
        if !there && super::log::is_there(dir) {
            // The log is never made first: epochs were here, and tokens would fall without them.
            let why = "it is gone, and its sessions are not".to_owned();
            return Err(StartError::Damaged { path, why });
        }
        if !there {
            make(dir, &path).map_err(|why| failed(&path, io::Error::other(why)))?;
            // A start that died may have made the directory, and not come to this.
            match sync(&parent(dir)) {
                // Then somebody else has made it.
                Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {}
                result => result.map_err(|why| failed(dir, why))?,
            }
        }
        // One of an earlier version may be readable for others.
        if let Err(why) = make_private(&path) {
            tracing::warn!("can't keep others from reading {}: {why}", path.display());
        }
        // A damaged file must not end the process, whatever the library thinks of it.
        let read = panic::catch_unwind(|| read(&path));
        let read = read.unwrap_or_else(|_| Err("it is damaged".into()));
        let (database, saved, logged, owners) = read.map_err(|why| {
            let why = why.to_string();
            StartError::Damaged { path: path.clone(), why }
        })?;
        Ok((Self { path, database: Some(database), owners, _lock: lock }, saved, logged))
    }

    /// From now on the sessions are in a log, and none has a longer lease.
    pub(super) fn log_begins(&mut self, longest: Duration) -> Result<(), Failure> {
        let database = self.database.as_ref().ok_or(NOT_OPEN)?;
        let write = database.begin_write()?;
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX).to_string();
        write.open_table(META)?.insert("format", FORMAT_LOGGED)?;
        write.open_table(META)?.insert(LOGGED, &micros[..])?;
        write.open_table(SESSIONS)?.retain(|_, _| false)?;
        write.open_table(OWNERS)?.retain(|_, _| false)?;
        write.commit()?;
        Ok(())
    }

    /// The sessions are here again: these.
    pub(super) fn log_ends(&mut self, sessions: &[Store]) -> Result<(), Failure> {
        let database = self.database.as_ref().ok_or(NOT_OPEN)?;
        let write = database.begin_write()?;
        write.open_table(META)?.insert("format", FORMAT)?;
        write.open_table(META)?.remove(LOGGED)?;
        put(&write, sessions, &self.owners)?;
        write.commit()?;
        Ok(())
    }

    /// Whose the sessions are.
    pub(super) fn owners(&self) -> Owners {
        self.owners.clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All of it becomes durable, or none.
    pub(super) fn write(&mut self, batch: &[Store]) -> Result<(), Failure> {
        let database = self.database.as_ref().ok_or(NOT_OPEN)?;
        let write = database.begin_write()?;
        put(&write, batch, &self.owners)?;
        write.commit()?;
        self.owners.written(batch);
        Ok(())
    }

    /// After a failed write: the library wants the file to be opened again.
    pub(super) fn open_again(&mut self) {
        self.database = None;
        match Database::open(&self.path) {
            Ok(database) => self.database = Some(database),
            Err(why) => tracing::error!("can't open {}: {why}", self.path.display()),
        }
    }
}

const NOT_OPEN: &str = "it could not be opened again";

fn put(write: &WriteTransaction, batch: &[Store], owners: &Owners) -> Result<(), Failure> {
    let mut epochs = write.open_table(EPOCHS)?;
    let mut sessions = write.open_table(SESSIONS)?;
    let mut users = write.open_table(OWNERS)?;
    for what in batch {
        match what {
            Store::Epoch(term) => {
                for group in term.groups.iter() {
                    epochs.insert(group.0, term.epoch.number())?;
                }
            }
            Store::Session { session, ttl, handoff, last } => {
                let micros = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
                let retries = *handoff == Handoff::Retry;
                sessions.insert(session.0, (micros, retries, *last))?;
                if let Some(user) = owners.get(*session) {
                    users.insert(session.0, &*user)?;
                }
            }
            Store::Forget { session } => {
                sessions.remove(session.0)?;
                users.remove(session.0)?;
            }
        }
    }
    Ok(())
}

/// Makes the directory, and those above it that are not there. A crash must not take them back with
/// all that is in them, so each directory in which one was made is synced.
fn make_dir(dir: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut new = Vec::new();
    let mut above = dir.to_owned();
    while !above.try_exists()? {
        let next = parent(&above);
        new.push(next.clone());
        above = next;
    }
    fs::create_dir_all(dir)?;
    new.iter().rev().try_for_each(|above| sync(above))
}

/// The directory that this one is in.
fn parent(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) => above.to_owned(),
        None => dir.to_owned(),
    }
}

/// Nobody but the server's user may read the file.
fn make_private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

/// What was made in the directory is durable.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn make(dir: &Path, path: &Path) -> Result<(), Failure> {
    let new = dir.join("lockspan.redb.new");
    match fs::remove_file(&new) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why.into()),
        _ => {}
    }
    let database = Database::create(&new)?;
    // Before there is a session in it: their numbers are secrets.
    make_private(&new)?;
    let write = database.begin_write()?;
    write.open_table(META)?.insert("format", FORMAT)?;
    write.open_table(EPOCHS)?;
    write.open_table(SESSIONS)?;
    write.commit()?;
    drop(database);
    fs::rename(&new, path)?;
    sync(dir)?;
    Ok(())
}

type Read = (Database, Saved, Option<Duration>, Owners);

fn read(path: &Path) -> Result<Read, Failure> {
    if fs::metadata(path)?.len() == 0 {
        return Err("it is empty".into());
    }
    let mut database = Database::open(path)?;
    let whole = database.check_integrity()?;
    let ours = {
        let read = database.begin_read()?;
        let has_meta = read.list_tables()?.any(|table| table.name() == META.name());
        let known = |it: &str| [FORMAT, FORMAT_LOGGED].contains(&it);
        has_meta && read.open_table(META)?.get("format")?.is_some_and(|it| known(it.value()))
    };
    if !ours {
        return Err(format!("it is not a data file of this version ({FORMAT:?})").into());
    }
    if !whole {
        // What was repaired may be older than what clients were told. That is still so next time.
        let write = database.begin_write()?;
        write.open_table(META)?.insert("damaged", "yes")?;
        write.commit()?;
    }
    let read = database.begin_read()?;
    if read.open_table(META)?.get("damaged")?.is_some() {
        return Err("it was damaged, and what could be repaired may be out of date".into());
    }
    let mut epoch = Epoch::NONE;
    for entry in read.open_table(EPOCHS)?.iter()? {
        let number = entry?.1.value();
        epoch = epoch.max(Epoch::new(number).ok_or("it has an epoch that is too high")?);
    }
    let mut sessions = Vec::new();
    for entry in read.open_table(SESSIONS)?.iter()? {
        let (session, value) = entry?;
        let (micros, retries, last) = value.value();
        sessions.push(Listed {
            session: SessionId(session.value()),
            ttl: Duration::from_micros(micros),
            handoff: if retries { Handoff::Retry } else { Handoff::Direct },
            here: true,
            last,
        });
    }
    let owners = Owners::default();
    // A file of a version without users has none.
    if read.list_tables()?.any(|table| table.name() == OWNERS.name()) {
        for entry in read.open_table(OWNERS)?.iter()? {
            let (session, user) = entry?;
            owners.set(SessionId(session.value()), user.value().into());
        }
    }
    let logged = match read.open_table(META)?.get(LOGGED)? {
        Some(micros) => Some(Duration::from_micros(micros.value().parse()?)),
        None => None,
    };
    drop(read);
    Ok((database, Saved { epoch, sessions }, logged, owners))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockspan_protocol::{GroupSet, Term};

    fn session(id: u64) -> Store {
        let ttl = Duration::from_secs(5);
        Store::Session { session: SessionId(id), ttl, handoff: Handoff::Retry, last: false }
    }

    fn open(dir: &Path) -> Result<(DataFile, Saved), StartError> {
        DataFile::open(dir).map(|(file, saved, _)| (file, saved))
    }

    #[test]
    fn what_was_written_is_there_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut file, saved) = open(dir.path()).expect("it is made");
        assert_eq!((saved.epoch, saved.sessions.len()), (Epoch::NONE, 0));
        let epoch = Epoch::new(7).expect("small");
        let term = Store::Epoch(Term { groups: GroupSet::ALL, epoch });
        let forget = Store::Forget { session: SessionId(1) };
        file.write(&[session(1), term, session(2), forget]).expect("it is written");
        drop(file);
        let (mut file, saved) = open(dir.path()).expect("it is opened");
        assert_eq!(saved.epoch, epoch);
        let listed: Vec<_> = saved.sessions.iter().map(|one| (one.session.0, one.here)).collect();
        assert_eq!(listed, [(2, true)]);
        assert_eq!(saved.sessions[0].handoff, Handoff::Retry);
        file.open_again();
        file.write(&[session(3)]).expect("it goes on after it was opened again");
    }

    #[test]
    fn each_directory_that_is_made_is_durable_in_the_one_above() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("one"), dir.path().join("one/two"));
        let made = |dir: &Path| {
            let mut synced = Vec::new();
            let sync = |above: &Path| {
                synced.push(above.to_owned());
                Ok(())
            };
            make_dir(dir, sync).expect("it is made");
            assert!(dir.is_dir());
            synced
        };
        assert_eq!(made(&two.join("three")), [dir.path().to_owned(), one, two.clone()]);
        assert_eq!(made(&two.join("three")), [] as [PathBuf; 0], "nothing is new");
        assert_eq!(made(&two.join("four")), [two]);
        assert_eq!(parent(Path::new("data")), Path::new("."));
        assert_eq!(parent(Path::new("/")), Path::new("/"));
        let why = make_dir(&dir.path().join("five"), |_| Err(io::ErrorKind::Other.into()));
        why.expect_err("a directory that may not survive is no place for data");
    }

    #[test]
    fn a_directory_has_one_server() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = open(dir.path()).expect("it is made");
        let why = open(dir.path()).expect_err("it is in use");
        assert!(matches!(why, StartError::DataInUse(_)), "{why}");
    }

    #[test]
    fn a_file_that_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lockspan.redb");
        for content in [&b""[..], b"something else entirely", &[0; 100_000]] {
            fs::write(&path, content).expect("written");
            let why = open(dir.path()).expect_err("it is foreign");
            assert!(matches!(why, StartError::Damaged { .. }), "{why}");
            assert_eq!(fs::read(&path).expect("still there"), content);
        }
        fs::remove_file(&path).expect("removed");
        drop(Database::create(&path).expect("an empty database of somebody"));
        let why = open(dir.path()).expect_err("it is foreign");
        assert!(why.to_string().contains("not a data file of this version"), "{why}");
    }

    #[test]
    fn a_damaged_file_is_never_a_fresh_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut file, _) = open(dir.path()).expect("it is made");
        let many: Vec<_> = (1..500).map(session).collect();
        file.write(&many).expect("it is written");
        drop(file);
        let path = dir.path().join("lockspan.redb");
        let whole = fs::read(&path).expect("it is there");
        for at in (0..whole.len()).step_by(1777) {
            let mut broken = whole.clone();
            broken.iter_mut().skip(at).take(1777).for_each(|byte| *byte ^= 0x5a);
            fs::write(&path, &broken).expect("written");
            match open(dir.path()) {
                Ok((_, saved)) => assert_eq!(saved.sessions.len(), 499, "damage at {at}"),
                Err(why) => assert!(matches!(why, StartError::Damaged { .. }), "{why}"),
            }
        }
    }
}
