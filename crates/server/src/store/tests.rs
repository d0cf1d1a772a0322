//! Runs one after the other in one directory: what each of them begins with.

use std::fs;

use super::*;
use lockspan_protocol::{Client, GroupSet, Term};

const LONGEST: Duration = Duration::from_secs(60);
const PHANTOM: SessionId = SessionId(999);
const MACHINE: Use = Use { one_machine: true, longest: LONGEST, phantom: PHANTOM };
const NETWORK: Use = Use { one_machine: false, ..MACHINE };

fn session(id: u64) -> Store {
    let (session, ttl) = (SessionId(id), Duration::from_secs(5));
    Store::Session { session, ttl, handoff: Handoff::Direct, last: false, client: Client::Node }
}

/// One run: what it begins with, and whether each of these is durable at once.
fn run(dir: &Path, how: Use, puts: &[Store]) -> (Saved, Vec<bool>) {
    let (opened, storage, saved) = open(dir, how).expect("opened");
    let (told, stored) = mpsc::channel();
    let tell = move |ids: Vec<StoreId>| {
        for id in ids {
            let _ = told.send(id);
        }
    };
    let writer = opened.start(tell, || panic!("it can be written"));
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

fn data(dir: &Path) -> PathBuf {
    dir.join("lockspan.data")
}

#[test]
fn only_what_one_machine_reaches_is_not_synced() {
    let dir = tempfile::tempdir().expect("a directory");
    let epoch = Epoch::new(3).expect("small");
    let term = Store::Epoch(Term { groups: GroupSet::ALL, epoch });
    let (saved, at_once) = run(dir.path(), NETWORK, &[session(1), term.clone()]);
    assert_eq!((ids(&saved), at_once), (vec![], vec![false, false]));
    assert!(is_synced(dir.path()));
    // It goes on with what is there, and an epoch is synced all the same.
    let (saved, at_once) = run(dir.path(), MACHINE, &[session(2), term]);
    assert_eq!((ids(&saved), at_once), (vec![1], vec![true, false]), "an epoch is not");
    assert!(!is_synced(dir.path()));
    assert_eq!(saved.epoch, epoch);
    let (saved, at_once) = run(dir.path(), MACHINE, &[Store::Forget { session: SessionId(1) }]);
    assert_eq!((ids(&saved), at_once), (vec![1, 2], vec![true]));
    // And back.
    let (saved, at_once) = run(dir.path(), NETWORK, &[session(3)]);
    assert_eq!((ids(&saved), at_once), (vec![2], vec![false]));
    assert!(is_synced(dir.path()));
    let (saved, _) = run(dir.path(), NETWORK, &[]);
    assert_eq!(ids(&saved), [2, 3]);
}

fn is_synced(dir: &Path) -> bool {
    let bytes = fs::read(data(dir)).expect("there");
    let first = bytes.split(|byte| *byte == b'\n').next().expect("a line");
    line::Head::read(first).expect("it is whole").boot.is_none()
}

/// As if the machine had been restarted while the server ran.
fn cut_power(dir: &Path) {
    let mut bytes = fs::read(data(dir)).expect("there");
    let half = bytes.len() / 2;
    for copy in bytes.chunks_mut(half) {
        let room = copy.len() - past::LAST.len();
        let copy = &mut copy[..room];
        let text = String::from_utf8(copy.to_owned()).expect("text");
        let (first, rest) = text.trim_end_matches('\0').split_once('\n').expect("a first line");
        let mut head = line::Head::read(first.as_bytes()).expect("it is whole");
        head.boot = Some("00000000-0000-0000-0000-000000000000".to_owned());
        let mut other = String::new();
        head.put(&mut other);
        let (rest, end) = rest.trim_end().rsplit_once('\n').expect("lines");
        assert!(end.contains(" end "), "{end}");
        other.push_str(rest);
        other.push('\n');
        copy.fill(0);
        copy[..other.len()].copy_from_slice(other.as_bytes());
    }
    fs::write(data(dir), bytes).expect("written");
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
fn service_f47_a_data_file_that_is_gone_is_no_new_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    for how in [NETWORK, MACHINE] {
        run(dir.path(), how, &[session(1)]);
        let whole = fs::read(data(dir.path())).expect("there");
        fs::remove_file(data(dir.path())).expect("it was there");
        for _ in 0..2 {
            let why = open(dir.path(), how).expect_err("tokens would fall").to_string();
            assert!(why.contains("lockspan.data: it is missing"), "{why}");
        }
        fs::write(data(dir.path()), whole).expect("written");
        assert_eq!(ids(&run(dir.path(), how, &[Store::Forget { session: SessionId(1) }]).0), [1]);
    }
    // The mark could not be written, or is that of an older version.
    fs::remove_file(data(dir.path())).expect("it was there");
    fs::write(dir.path().join("lockspan.lock"), "").expect("written");
    fs::write(dir.path().join("operator.secret"), "secret").expect("written");
    let why = open(dir.path(), NETWORK).expect_err("a server was here").to_string();
    assert!(why.contains("lockspan.data: it is missing"), "{why}");
    // A start that died before it made a data file has left nothing but an empty lock file.
    fs::remove_file(dir.path().join("operator.secret")).expect("it was there");
    run(dir.path(), NETWORK, &[]);
}

#[test]
fn service_f47_files_of_a_development_version_are_refused() {
    for name in ["lockspan.redb", "lockspan.sessions"] {
        let dir = tempfile::tempdir().expect("a directory");
        let old = dir.path().join(name);
        fs::write(&old, "something").expect("written");
        for _ in 0..2 {
            let why = open(dir.path(), NETWORK).expect_err("it has epochs that are not read");
            assert!(matches!(&why, StartError::OldData(path) if *path == old), "{why}");
            assert!(why.to_string().contains("earlier development version"), "{why}");
        }
        assert!(old.exists() && !data(dir.path()).exists());
    }
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    for content in [&b""[..], b"something else entirely", b"a\nb\n", &[0; 100_000], &[7; 100_000]] {
        fs::write(data(dir.path()), content).expect("written");
        let why = open(dir.path(), NETWORK).expect_err("it is foreign");
        assert!(matches!(why, StartError::Damaged { .. }), "{why}");
        assert_eq!(fs::read(data(dir.path())).expect("still there"), content);
    }
}

#[test]
fn a_directory_that_can_not_be_used_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    // What stands for a directory without the right to write: root has every right.
    fs::create_dir(dir.path().join("lockspan.data.new")).expect("made");
    let why = open(dir.path(), NETWORK).expect_err("no file can be made");
    assert!(matches!(why, StartError::Data { .. }), "{why}");
    fs::remove_dir(dir.path().join("lockspan.data.new")).expect("it was there");
    fs::create_dir(data(dir.path())).expect("made");
    let why = open(dir.path(), NETWORK).expect_err("it can't be read");
    assert!(matches!(why, StartError::Data { .. }), "{why}");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    let why = open(&file, NETWORK).expect_err("it is no directory");
    assert!(matches!(why, StartError::Data { .. }), "{why}");
    assert!(why.to_string().contains("file is not a directory"), "{why}");
}

#[test]
fn whose_a_session_is_is_written_down() {
    let dir = tempfile::tempdir().expect("a directory");
    for how in [NETWORK, MACHINE, NETWORK] {
        let (opened, storage, _) = open(dir.path(), how).expect("opened");
        storage.set_owner(SessionId(1), "ann".into());
        let thread = opened.start(|_| (), || ()).expect("started");
        for (id, what) in (1..).zip([session(1), session(2)]) {
            storage.put(StoreId(id), what);
        }
        storage.end();
        thread.join().expect("it ends");
        let (opened, storage, saved) = open(dir.path(), how).expect("opened");
        assert_eq!(ids(&saved), [1, 2]);
        assert_eq!(storage.owner(SessionId(1)).as_deref(), Some("ann"));
        assert_eq!(storage.owner(SessionId(2)), None);
        drop((opened, storage));
        run(dir.path(), how, &[Store::Forget { session: SessionId(1) }]);
        let (_, storage, _) = open(dir.path(), how).expect("opened");
        assert_eq!(storage.owner(SessionId(1)), None);
    }
}

#[test]
fn the_file_does_not_grow_with_sessions_that_are_gone() {
    for how in [NETWORK, MACHINE] {
        let dir = tempfile::tempdir().expect("a directory");
        run(dir.path(), how, &[session(7)]);
        let len = || fs::metadata(data(dir.path())).expect("there").len();
        let first = len();
        let all: Vec<_> = (1000..1100)
            .flat_map(|id| [session(id), Store::Forget { session: SessionId(id) }])
            .collect();
        for some in all.chunks(40) {
            run(dir.path(), how, some);
        }
        run(dir.path(), how, &all);
        assert!(len() < 20 * first, "{} bytes after {first}", len());
        run(dir.path(), how, &[session(8)]);
        assert_eq!(ids(&run(dir.path(), how, &[]).0), [7, 8]);
    }
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
    let tell = move |ids: Vec<StoreId>| {
        // The epoch is durable and not told yet: nor must this be.
        let at_once = ids.first() == Some(&StoreId(2)) && other.put(StoreId(5), session(5));
        told.send((ids, at_once)).expect("heard");
    };
    let thread = opened.start(tell, || ());
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
    run(dir.path(), MACHINE, &[session(1)]);
    let path = dir.path().join("lockspan.data");
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", path.display());
}
