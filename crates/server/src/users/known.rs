//! From which places each user has logged in, kept over a restart.
//!
//! `queue` prefers such a place to others. After a restart that matters most: nobody is logged in,
//! all come back at once, and whoever wants to keep them out guesses just then.
//!
//! The file `lockspan.logins` in the data directory has 16 bytes for each user and place: 8 that
//! stand for the user and 8 that stand for both, by a hash with the key of the directory
//! (`lockspan.key`), so that the file alone tells neither. A damaged file, or none, is no error:
//! what does not fit is nobody's, and the next login from there is noted again. So it is not
//! synced, and a disk without room costs only the memory of new places.
//!
//! Of each user the last [`PLACES`] are kept, so that a user who logs in from everywhere takes room
//! from nobody else.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use blake2::Blake2sMac256;
use blake2::digest::{KeyInit as _, Mac as _};

use super::place::Place;
use crate::private;

const FILE: &str = "lockspan.logins";

/// Places that are kept of each user.
const PLACES: usize = 256;

/// What stands for a user, and for a user and a place.
type Mark = [u8; 8];

const ENTRY: usize = 16;

/// Places from which users have logged in.
pub(super) struct KnownPlaces {
    key: [u8; 32],
    /// By the users of the file, in their order.
    users: Vec<Known>,
}

impl fmt::Debug for KnownPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownPlaces").field("users", &self.users).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Known {
    name: String,
    mark: Mark,
    /// The oldest first.
    places: VecDeque<Mark>,
}

/// A place that was not known before, to be written to the file.
pub(super) type New = [u8; ENTRY];

impl KnownPlaces {
    /// None yet, for these users. `key` is that of the data directory.
    pub(super) fn new(key: [u8; 32], names: impl IntoIterator<Item = String>) -> Self {
        let key = derived(key);
        let known = |name: String| {
            let mark = mark(&key, &[], &name);
            Known { name, mark, places: VecDeque::new() }
        };
        Self { key, users: names.into_iter().map(known).collect() }
    }

    /// Takes what an earlier run has noted. What is not of one of these users is left out.
    fn take(&mut self, bytes: &[u8]) {
        let by_mark: HashMap<Mark, usize> =
            self.users.iter().enumerate().map(|(at, known)| (known.mark, at)).collect();
        for entry in bytes.as_chunks::<ENTRY>().0 {
            let (user, place) = halves(entry);
            if let Some(&at) = by_mark.get(&user) {
                self.users[at].add(place);
            }
        }
    }

    /// All that is known, as the file has it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let all = self.users.iter().flat_map(|known| {
            known.places.iter().flat_map(|place| [known.mark, *place].into_iter().flatten())
        });
        all.collect()
    }

    fn of(&self, user: usize, place: Place) -> Mark {
        mark(&self.key, &place.bytes(), &self.users[user].name)
    }

    pub(super) fn has(&self, user: usize, place: Place) -> bool {
        let mark = self.of(user, place);
        self.users[user].places.contains(&mark)
    }

    /// The user has logged in from there; something if that is new.
    pub(super) fn add(&mut self, user: usize, place: Place) -> Option<New> {
        let mark = self.of(user, place);
        let known = &mut self.users[user];
        known.add(mark).then(|| {
            let mut entry = [0; ENTRY];
            entry[..8].copy_from_slice(&known.mark);
            entry[8..].copy_from_slice(&mark);
            entry
        })
    }
}

impl Known {
    fn add(&mut self, place: Mark) -> bool {
        let is_new = !self.places.contains(&place);
        if is_new {
            if self.places.len() >= PLACES {
                self.places.pop_front();
            }
            self.places.push_back(place);
        }
        is_new
    }
}

fn halves(entry: &[u8; ENTRY]) -> (Mark, Mark) {
    let (mut user, mut place) = ([0; 8], [0; 8]);
    user.copy_from_slice(&entry[..8]);
    place.copy_from_slice(&entry[8..]);
    (user, place)
}

/// The key of the directory is that of public ids too, so ours is derived from it.
fn derived(key: [u8; 32]) -> [u8; 32] {
    let mut derive = Blake2sMac256::new(&key.into());
    derive.update(b"lockspan: the key of the places of users");
    derive.finalize().into_bytes().into()
}

fn mark(key: &[u8; 32], place: &[u8], name: &str) -> Mark {
    let mut mac = Blake2sMac256::new(key.into());
    mac.update(place);
    mac.update(name.as_bytes());
    let tag: [u8; 32] = mac.finalize().into_bytes().into();
    tag.first_chunk().copied().unwrap_or_default()
}

/// The file.
#[derive(Debug)]
pub(super) struct KnownFile {
    path: PathBuf,
    /// Entries that it has.
    len: usize,
    /// With so many it is written anew.
    max: usize,
    has_failed: bool,
}

/// A larger file is not one of ours: users have [`PLACES`] places at most, of some bytes each.
const LARGEST: u64 = 64 << 20;

/// Reads the file, if it is a plain one of this user.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = private::open(path, File::options().read(true), None)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file of this server"));
    }
    Ok(bytes)
}

impl KnownFile {
    /// Reads what is there into `known`, and leaves a file without what is of no use.
    pub(super) fn open(dir: &Path, known: &mut KnownPlaces) -> Self {
        let path = dir.join(FILE);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(why) => {
                tracing::warn!("can't read {}: {why}; creating a new one", path.display());
                Vec::new()
            }
        };
        known.take(&bytes);
        let mut file = Self { path, len: 0, max: 0, has_failed: false };
        file.rewrite(&known.bytes());
        file
    }

    /// Notes one more; `all` are all that are known, with it.
    pub(super) fn add(&mut self, new: &New, all: impl FnOnce() -> Vec<u8>) {
        if self.len >= self.max {
            self.rewrite(&all());
            return;
        }
        let mut options = File::options();
        let opened = private::open(&self.path, options.append(true).create(true), None);
        let written = opened.and_then(|mut file| file.write_all(new));
        self.len += 1;
        self.is_written(written);
    }

    /// Under another name first, so that a crash leaves the old one or the new one.
    fn rewrite(&mut self, bytes: &[u8]) {
        let new = self.path.with_extension("logins.new");
        let written = private::create(&new).and_then(|mut file| file.write_all(bytes));
        let written = written.and_then(|()| fs::rename(&new, &self.path));
        self.len = bytes.len() / ENTRY;
        self.max = 2 * self.len + PLACES;
        self.is_written(written);
    }

    fn is_written(&mut self, written: io::Result<()>) {
        if let Err(why) = &written
            && !self.has_failed
        {
            let path = self.path.display();
            tracing::warn!(
                "can't write {path}: {why}; after a restart it is not known from where users have \
                 logged in before"
            );
        }
        self.has_failed = written.is_err();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn at(number: u32) -> Place {
        Place::Ip(std::net::Ipv4Addr::from(number).into())
    }

    fn two() -> KnownPlaces {
        KnownPlaces::new(KEY, ["ann", "bob"].map(str::to_owned))
    }

    fn opened(dir: &Path) -> (KnownPlaces, KnownFile) {
        let mut known = two();
        let file = KnownFile::open(dir, &mut known);
        (known, file)
    }

    fn log_in((known, file): &mut (KnownPlaces, KnownFile), user: usize, place: Place) {
        if let Some(new) = known.add(user, place) {
            file.add(&new, || known.bytes());
        }
    }

    #[test]
    fn service_f89_who_has_logged_in_from_where_is_known_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = opened(dir.path());
        for (user, place) in [(0, at(1)), (0, Place::Unix(Some(0))), (1, at(2)), (0, at(1))] {
            log_in(&mut first, user, place);
        }
        drop(first);
        let path = dir.path().join(FILE);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&path).expect("there").len(), 3 * 16);
        let (known, _) = opened(dir.path());
        let of = |user| [at(1), at(2), Place::Unix(Some(0))].map(|place| known.has(user, place));
        assert_eq!((of(0), of(1)), ([true, false, true], [false, true, false]));
        // Another key, another user: nothing is known, and nothing is kept.
        let mut other = KnownPlaces::new([8; 32], ["ann".to_owned()]);
        KnownFile::open(dir.path(), &mut other);
        assert!(!other.has(0, at(1)));
        assert_eq!(fs::metadata(&path).expect("there").len(), 0);
    }

    #[test]
    fn service_f89_a_damaged_file_costs_what_is_damaged_and_no_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = opened(dir.path());
        for number in 0..10 {
            log_in(&mut first, 0, at(number));
        }
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).expect("there");
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).expect("written");
            let (known, _) = opened(dir.path());
            let left = (0..10).filter(|&number| known.has(0, at(number))).count();
            assert_eq!(left, cut / 16);
            assert_eq!(fs::metadata(&path).expect("there").len() as usize, cut / 16 * 16);
        }
        for byte in 0..whole.len() {
            let mut bad = whole.clone();
            bad[byte] ^= 1;
            fs::write(&path, &bad).expect("written");
            let (known, _) = opened(dir.path());
            let left = (0..10).filter(|&number| known.has(0, at(number))).count();
            assert_eq!(left, 9);
        }
        fs::remove_file(&path).expect("there");
        fs::create_dir(&path).expect("in its place");
        let mut bad = opened(dir.path());
        log_in(&mut bad, 0, at(1));
        assert!(bad.0.has(0, at(1)), "it is known as long as the server runs");
    }

    /// A pipe would make the start wait for whoever writes to it; a link would have another file
    /// overwritten.
    #[test]
    fn service_f105_pipes_and_links_in_the_place_of_the_file_are_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, other) = (dir.path().join(FILE), dir.path().join("other"));
        for name in [FILE.to_owned(), format!("{FILE}.new")] {
            let bad = dir.path().join(&name);
            for is_pipe in [true, false] {
                fs::write(&other, "untouched").expect("written");
                let _ = fs::remove_file(&bad);
                if is_pipe {
                    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                    let kind = rustix::fs::FileType::Fifo;
                    rustix::fs::mknodat(rustix::fs::CWD, &bad, kind, mode, 0).expect("a pipe");
                } else {
                    std::os::unix::fs::symlink(&other, &bad).expect("a link");
                }
                let mut known = opened(dir.path());
                log_in(&mut known, 0, at(1));
                assert!(fs::symlink_metadata(&path).expect("there").is_file(), "{name}");
                assert_eq!(fs::metadata(&path).expect("there").len(), 16, "{name}");
                assert_eq!(fs::read(&other).expect("there"), b"untouched", "{name}");
                fs::remove_file(&path).expect("there");
            }
        }
    }

    #[test]
    fn a_user_who_is_everywhere_takes_no_room_from_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut known = opened(dir.path());
        log_in(&mut known, 1, at(1));
        for number in 0..10_000 {
            log_in(&mut known, 0, at(number));
        }
        let size = || fs::metadata(dir.path().join(FILE)).expect("there").len() as usize / 16;
        assert!(size() <= 3 * PLACES, "{}", size());
        drop(known);
        let (known, _) = opened(dir.path());
        assert!(known.has(1, at(1)));
        assert_eq!((0..10_000).filter(|&number| known.has(0, at(number))).count(), PLACES);
        assert!(known.has(0, at(9_999)) && !known.has(0, at(0)), "the last ones are kept");
        assert_eq!(size(), PLACES + 1);
    }
}
