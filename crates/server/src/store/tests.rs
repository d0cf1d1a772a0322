//! From one way of keeping sessions to the other, and over the end of the machine.

use std::fs;

use super::*;
use lockspan_protocol::{GroupSet, Term};

const LONGEST: Duration = Duration::from_secs(60);
const PHANTOM: SessionId = SessionId(999);
const MACHINE: Use = Use { one_machine: true, longest: LONGEST, phantom: PHANTOM };
const NETWORK: Use = Use { one_machine: false, ..MACHINE };

fn session(id: u64) -> Store {
    let (session, ttl) = (SessionId(id), Duration::from_secs(5));
    Store::Session { session, ttl, handoff: Handoff::Direct, last: false }
}

/// One run: what it begins with, and whether each of these is durable at once.
fn run(dir: &Path, how: Use, puts: &[Store]) -> (Saved, Vec<bool>) {
    let (opened, storage, saved) = open(dir, how).expect("opened");
    let (told, stored) = mpsc::channel();
    let writer = opened.start(move |ids| {
        for id in ids {
            let _ = told.send(id);
        }
    });
    let put = |(at, what): (usize, &Store)| storage.put(StoreId(at as u64), what.clone());
    let at_once: Vec<_> = puts.iter().enumerate().map(put).collect();
    storage.end();
    writer.expect("started").join().expect("it ends");
    assert!(!storage.put(StoreId(1000), session(1000)), "nothing is durable after the end");
    let late = stored.into_iter().count();
    assert_eq!(late + at_once.iter().filter(|&&now| now).count(), puts.len(), "all is told");
    (saved, at_once)
}

fn ids(saved: &Saved) -> Vec<u64> {
    saved.sessions.iter().map(|one| one.session.0).collect()
}

fn log_of(dir: &Path) -> std::path::PathBuf {
    dir.join("lockspan.sessions")
}

#[test]
fn only_what_one_machine_reaches_is_not_synced() {
    let dir = tempfile::tempdir().expect("a directory");
    let epoch = Epoch::new(3).expect("small");
    let term = Store::Epoch(Term { groups: GroupSet::ALL, epoch });
    let (saved, at_once) = run(dir.path(), NETWORK, &[session(1), term.clone()]);
    assert_eq!((ids(&saved), at_once), (vec![], vec![false, false]));
    assert!(!log_of(dir.path()).exists());
    // It goes on with what is there, and an epoch is synced all the same.
    let (saved, at_once) = run(dir.path(), MACHINE, &[session(2), term]);
    assert_eq!((ids(&saved), at_once), (vec![1], vec![true, false]), "an epoch is not");
    assert_eq!(saved.epoch, epoch);
    let (saved, at_once) = run(dir.path(), MACHINE, &[Store::Forget { session: SessionId(1) }]);
    assert_eq!((ids(&saved), at_once), (vec![1, 2], vec![true]));
    // And back.
    let (saved, at_once) = run(dir.path(), NETWORK, &[session(3)]);
    assert_eq!((ids(&saved), at_once), (vec![2], vec![false]));
    assert!(!log_of(dir.path()).exists());
    let (saved, _) = run(dir.path(), NETWORK, &[]);
    assert_eq!(ids(&saved), [2, 3]);
}

/// As if the machine had been restarted while the server ran.
fn cut_power(dir: &Path) {
    let text = fs::read_to_string(log_of(dir)).expect("there");
    let (_, rest) = text.split_once('\n').expect("a first line");
    let other = "lockspan sessions 1 00000000-0000-0000-0000-000000000000";
    let text = format!("{other}\n{}", rest.strip_suffix("end\n").expect("an end"));
    fs::write(log_of(dir), text).expect("written");
}

#[test]
fn after_a_loss_of_power_the_longest_lease_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), MACHINE, &[session(1)]);
    cut_power(dir.path());
    // The limit is lower by now; the leases of then were given under the old one.
    let lower = Use { longest: Duration::from_secs(10), ..MACHINE };
    for how in [lower, lower, NETWORK, lower] {
        let (saved, _) = run(dir.path(), how, &[]);
        let known: Vec<_> = saved.sessions.iter().map(|one| (one.session, one.ttl)).collect();
        assert_eq!(known, [(PHANTOM, LONGEST)], "also if it is started again before");
        assert!(saved.sessions[0].last, "nobody extends it");
    }
    // When it is over it is forgotten as any other, and all is known again.
    run(dir.path(), lower, &[Store::Forget { session: PHANTOM }, session(2)]);
    assert_eq!(ids(&run(dir.path(), lower, &[]).0), [2]);
    cut_power(dir.path());
    let (saved, _) = run(dir.path(), lower, &[]);
    assert_eq!(saved.sessions[0].ttl, Duration::from_secs(10));
}

#[test]
fn sessions_without_their_data_file_are_no_beginning() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), MACHINE, &[session(1)]);
    fs::remove_file(dir.path().join("lockspan.redb")).expect("it was there");
    let why = open(dir.path(), MACHINE).expect_err("tokens would fall");
    assert!(why.to_string().contains("its sessions are not"), "{why}");
}

#[test]
fn damaged_sessions_are_told_and_without_them_every_lease_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), MACHINE, &[session(1)]);
    let log = log_of(dir.path());
    let text = fs::read_to_string(&log).expect("it is text");
    fs::write(&log, text.replace("open", "what")).expect("written");
    let why = open(dir.path(), MACHINE).expect_err("a session would be forgotten").to_string();
    assert!(why.contains("line 2 makes no sense") && why.contains("move it away"), "{why}");
    fs::remove_file(&log).expect("it was there");
    assert_eq!(run(dir.path(), MACHINE, &[]).0.sessions[0].session, PHANTOM);
}

#[test]
fn what_can_not_be_written_at_once_is_written_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let (opened, storage, _) = open(dir.path(), MACHINE).expect("opened");
    assert!(storage.put(StoreId(1), session(1)));
    // An epoch is under way; who comes now must not overtake it.
    let epoch = Epoch::new(3).expect("small");
    assert!(!storage.put(StoreId(2), Store::Epoch(Term { groups: GroupSet::ALL, epoch })));
    assert!(!storage.put(StoreId(3), session(3)));
    assert!(!storage.put(StoreId(4), Store::Forget { session: SessionId(1) }));
    let (told, stored) = mpsc::channel();
    let storage = Arc::new(storage);
    let other = Arc::clone(&storage);
    let thread = opened.start(move |ids| {
        // The epoch is durable and not told yet: nor must this be.
        let at_once = ids.first() == Some(&StoreId(2)) && other.put(StoreId(5), session(5));
        told.send((ids, at_once)).expect("heard");
    });
    assert_eq!(stored.recv().expect("told"), ([2, 3, 4].map(StoreId).to_vec(), false));
    assert_eq!(stored.recv().expect("told"), (vec![StoreId(5)], false));
    storage.end();
    thread.expect("started").join().expect("it ends");
    assert_eq!(ids(&run(dir.path(), MACHINE, &[]).0), [3, 5]);
}

/// Numbers of sessions are secrets.
#[test]
fn what_has_numbers_of_sessions_is_for_the_servers_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let files = ["lockspan.redb", "lockspan.sessions"].map(|name| dir.path().join(name));
    for _ in 0..2 {
        run(dir.path(), MACHINE, &[session(1)]);
        for path in &files {
            let mode = fs::metadata(path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
            // As an earlier version has left it.
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("changed");
        }
    }
}
