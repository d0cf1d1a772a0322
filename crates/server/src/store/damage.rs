//! Every byte of a data file is damaged, and every write is cut short: what is read afterwards is
//! all that was acknowledged, or it is known that something is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use lockspan_protocol::server::Store;
use lockspan_protocol::{Client, Epoch, GroupSet, Handoff, SessionId, Term};

use super::Owners;
use super::dir::Dir;
use super::log::Log;
use super::past::{self, Found, Past};

const BOOT: &str = "11111111-1111-1111-1111-111111111111";
const LONGEST: Duration = Duration::from_secs(60);
const SECTOR: usize = 512;

fn session(id: u64) -> Store {
    let (session, ttl) = (SessionId(id), Duration::from_secs(5));
    Store::Session { session, ttl, handoff: Handoff::Retry, last: false, client: Client::Node }
}

fn forget(id: u64) -> Store {
    Store::Forget { session: SessionId(id) }
}

fn term(number: u32) -> Store {
    let epoch = Epoch::new(number).expect("small");
    Store::Epoch(Term { groups: GroupSet::ALL, epoch })
}

/// A log in which all this was written, and acknowledged.
fn log(dir: &Path, boot: Option<&str>, batches: &[&[Store]]) -> Log {
    let (dir, _) = Dir::take(dir).expect("taken");
    let boot = boot.map(str::to_owned);
    let mut log = Log::new(dir, boot, LONGEST, Epoch::NONE, &[], Owners::default());
    batches.iter().for_each(|batch| log.write(batch).expect("written"));
    log
}

const EPOCH: u32 = 9;

/// Some sessions, and the epoch in the middle of them.
fn typical(dir: &Path, boot: Option<&str>) -> Vec<u8> {
    let batches: [&[Store]; 4] = [
        &[term(8), session(1)],
        &[session(2), session(3), forget(2)],
        &[term(EPOCH)],
        &[session(4)],
    ];
    let log = log(dir, boot, &batches);
    let bytes = fs::read(log.path()).expect("there");
    assert_eq!(see(&bytes, &[1, 3, 4], "whole"), Seen::All);
    bytes
}

fn used(bytes: &[u8]) -> usize {
    let copy = &bytes[..bytes.len() / 2];
    copy.iter().position(|byte| *byte == 0).expect("there is room")
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    All,
    Unknown,
    Refused,
}

/// What is read; never less than what was acknowledged, and never a lower epoch.
fn see(bytes: &[u8], acknowledged: &[u64], about: &str) -> Seen {
    let owners = Owners::default();
    let Ok(found) = past::read(bytes, Some(BOOT), &owners) else { return Seen::Refused };
    let Found { epoch, past, longest, .. } = found;
    assert!(epoch.number() >= EPOCH, "{about}: {epoch}");
    assert_eq!(longest, LONGEST, "{about}");
    match past {
        Past::Known(sessions) => {
            let known: Vec<_> = sessions.iter().map(|one| one.session.0).collect();
            assert_eq!(known, acknowledged, "{about}");
            Seen::All
        }
        Past::Unknown(_) => Seen::Unknown,
    }
}

#[test]
fn service_f46_any_flipped_bit_is_made_good() {
    let dir = tempfile::tempdir().expect("a directory");
    for boot in [None, Some(BOOT)] {
        let whole = typical(dir.path(), boot);
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let about = format!("bit {bit} of byte {at}");
                assert_eq!(see(&bytes, &[1, 3, 4], &about), Seen::All, "{about}");
            }
        }
        fs::remove_file(dir.path().join("lockspan.data")).expect("it was there");
    }
}

#[test]
fn service_f46_a_file_that_is_cut_off_anywhere_is_not_a_shorter_past() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = typical(dir.path(), None);
    let size = whole.len() / 2;
    for len in 0..whole.len() {
        let seen = see(&whole[..len], &[1, 3, 4], &format!("{len} bytes"));
        assert_eq!(seen == Seen::All, len >= size, "{len} bytes: {seen:?}");
    }
    for len in 0..whole.len() {
        // The end is not missing, but zero.
        let mut bytes = whole.clone();
        bytes[len..].fill(0);
        let seen = see(&bytes, &[1, 3, 4], &format!("zeros from byte {len}"));
        assert_eq!(seen == Seen::All, len >= size, "zeros from byte {len}: {seen:?}");
    }
}

#[test]
fn service_f46_damage_that_reaches_into_both_copies_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = typical(dir.path(), None);
    let (used, size) = (used(&whole), whole.len() / 2);
    let mut counts = [0; 3];
    for from in 0..used {
        for to in (size..size + used + 100).step_by(3) {
            let mut bytes = whole.clone();
            bytes[from..to].fill(0);
            let seen = see(&bytes, &[1, 3, 4], &format!("zeros from {from} to {to}"));
            counts[seen as usize] += 1;
        }
    }
    assert!(counts[Seen::All as usize] > 0 && counts[Seen::Unknown as usize] > 0, "{counts:?}");
}

#[test]
fn service_f46_a_part_that_is_overwritten_is_made_good_by_the_other_copy() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = typical(dir.path(), None);
    let (used, size) = (used(&whole), whole.len() / 2);
    for from in 0..used {
        for len in [2, 7, 64, SECTOR] {
            for fill in [0, 0xff, b'\n', b'7'] {
                for copy in [0, size] {
                    let mut bytes = whole.clone();
                    let end = (copy + from + len).min(copy + size);
                    bytes[copy + from..end].fill(fill);
                    let about = format!("{len} bytes of {fill} from {from} on in copy {copy}");
                    assert_eq!(see(&bytes, &[1, 3, 4], &about), Seen::All, "{about}");
                }
            }
        }
    }
}

#[test]
fn service_f46_damage_in_both_copies_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = typical(dir.path(), None);
    let (used, size) = (used(&whole), whole.len() / 2);
    let mut counts = [0; 3];
    for one in 0..used {
        for other in 0..used {
            let mut bytes = whole.clone();
            bytes[one] ^= 0x10;
            bytes[size + other] ^= 0x02;
            let seen = see(&bytes, &[1, 3, 4], &format!("bytes {one} and {other}"));
            counts[seen as usize] += 1;
        }
    }
    let [all, unknown, refused] = counts;
    assert!(all > 0 && unknown > 0 && refused > 0, "{counts:?}");
}

/// Each sector of what was being written is on the disk, or is not.
#[test]
fn service_f46_a_write_that_was_cut_short_takes_nothing_else_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = log(dir.path(), None, &[&[term(EPOCH)], &[session(1), session(2), session(3)]]);
    let before = fs::read(log.path()).expect("there");
    let more: Vec<_> = (4..20).map(session).collect();
    log.write(&more).expect("written");
    let after = fs::read(log.path()).expect("there");
    let differs = |at: &usize| before[*at] != after[*at];
    let sectors: BTreeSet<_> = (0..after.len()).filter(differs).map(|at| at / SECTOR).collect();
    let sectors: Vec<_> = sectors.into_iter().collect();
    assert!((4..=12).contains(&sectors.len()), "{sectors:?}");
    let mut counts = [0; 2];
    for mask in 0..1_u32 << sectors.len() {
        let mut bytes = before.clone();
        for (_, sector) in sectors.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0) {
            let range = sector * SECTOR..((sector + 1) * SECTOR).min(after.len());
            bytes[range.clone()].copy_from_slice(&after[range]);
        }
        let found = past::read(&bytes, Some(BOOT), &Owners::default()).expect("it can be read");
        assert!(found.epoch.number() >= EPOCH);
        match found.past {
            Past::Known(sessions) => {
                let known: Vec<_> = sessions.iter().map(|one| one.session.0).collect();
                assert!(known.starts_with(&[1, 2, 3]), "sectors {mask:b}: {known:?}");
                counts[0] += 1;
            }
            Past::Unknown(_) => counts[1] += 1,
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_killed_server_has_left_everything_and_a_later_boot_trusts_only_an_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = log(dir.path(), Some(BOOT), &[&[term(EPOCH)], &[session(1)], &[session(2)]]);
    let read = |bytes: &[u8], boot: Option<&str>| {
        past::read(bytes, boot, &Owners::default()).expect("it can be read").past
    };
    let open = fs::read(log.path()).expect("there");
    assert_eq!(see(&open, &[1, 2], "killed"), Seen::All);
    for boot in [None, Some("22222222-2222-2222-2222-222222222222")] {
        assert!(matches!(read(&open, boot), Past::Unknown(_)), "{boot:?}");
    }
    log.end().expect("synced");
    let ended = fs::read(log.path()).expect("there");
    assert_eq!(see(&ended, &[1, 2], "ended"), Seen::All);
    for boot in [None, Some("22222222-2222-2222-2222-222222222222")] {
        assert!(matches!(read(&ended, boot), Past::Known(all) if all.len() == 2), "{boot:?}");
    }
    // Whatever a loss of power leaves of a log that has no end is no past.
    for len in 0..open.len() / 2 {
        for copies in [&[0][..], &[open.len() / 2], &[0, open.len() / 2]] {
            let mut bytes = open.clone();
            for copy in copies {
                bytes[copy + len..copy + open.len() / 2].fill(0);
            }
            if let Ok(found) = past::read(&bytes, None, &Owners::default()) {
                assert!(matches!(found.past, Past::Unknown(_)), "zeros from {len} on");
            }
        }
    }
}

#[test]
fn a_file_that_was_made_anew_is_as_whole_as_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = log(dir.path(), None, &[&[term(EPOCH)]]);
    for id in 1..200 {
        log.write(&[session(id)]).expect("written");
        let bytes = fs::read(log.path()).expect("there");
        let all: Vec<_> = (1..=id).collect();
        assert_eq!(see(&bytes, &all, &format!("{id} sessions")), Seen::All);
    }
    // A batch that is larger than the file.
    let many: Vec<_> = (200..1000).map(session).collect();
    log.write(&many).expect("written");
    let bytes = fs::read(log.path()).expect("there");
    assert_eq!(see(&bytes, &(1..1000).collect::<Vec<_>>(), "many"), Seen::All);
}
