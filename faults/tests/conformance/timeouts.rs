//! What a wait is told that was not granted in time: who holds the record, and who is before it.

use std::time::Duration;

use lockspan::{ConnectError, LockError, Mode, Options, TimedOut};

use crate::Service;
use crate::suite::{node, record, soon};

/// Long enough for the server to be asked who holds the record.
const WHILE: Duration = Duration::from_millis(400);

fn timed_out<T>(acquired: Result<T, LockError>) -> TimedOut {
    match acquired {
        Err(LockError::Timeout(why)) => *why,
        Err(why) => panic!("it ended otherwise: {why}"),
        Ok(_) => panic!("it was granted"),
    }
}

/// How a wait for `WHILE` ends once the server has told what `is_told` looks for. A busy machine
/// may need several waits: the error has what the server said by then.
async fn told<T>(
    mut wait: impl AsyncFnMut() -> Result<T, LockError>,
    is_told: impl Fn(&TimedOut) -> bool,
) -> TimedOut {
    let mut why = timed_out(wait().await);
    for _ in 0..40 {
        if is_told(&why) {
            break;
        }
        why = timed_out(wait().await);
    }
    why
}

/// Whether it is known who holds the record.
fn has_holder(why: &TimedOut) -> bool {
    !why.holders.is_empty()
}

pub(crate) async fn a_timeout_names_who_holds_the_record(service: &Service) {
    let one = node(service, Options::new().label("billing@host9[412]")).await;
    let other = node(service, Options::new().label("report")).await;
    let (here, there) = (record(&one), record(&other));
    let held = soon(here.write().note("nightly import")).await.unwrap();
    // Before the one that gives up stands a third.
    let third = node(service, Options::new()).await;
    let before = tokio::spawn({
        let record = record(&third);
        async move { record.write_owned().await }
    });
    let waits = there.write_timeout(WHILE * 20);
    tokio::pin!(waits);
    tokio::select! {
        _ = &mut waits => panic!("it is held"),
        // The third is in line before this one gives up: each gets in line at once.
        () = tokio::time::sleep(WHILE) => {}
    }
    let is_whole = |why: &TimedOut| why.holders.iter().any(|it| it.note.is_some());
    let why = told(async || there.write_timeout(WHILE).await, is_whole).await;
    assert_eq!((&why.record, why.waited, why.connected), (here.name(), WHILE, true));
    let [holder] = &why.holders[..] else { panic!("{:?}", why.holders) };
    assert_eq!((holder.label.as_str(), holder.mode), ("billing@host9[412]", Mode::Write));
    assert_eq!(holder.note.as_ref().map(|note| note.as_str()), Some("nightly import"));
    assert!(why.place.is_some_and(|before| before >= 1), "{:?}", why.place);
    let text = LockError::Timeout(Box::new(why)).to_string();
    assert!(text.contains("held by billing@host9[412] for "), "{text}");
    assert!(text.contains("(nightly import); "), "{text}");
    // A thread is told the same.
    let late = async || {
        let blocked = there.clone();
        let late = move || blocked.blocking_read_timeout(WHILE).map(drop);
        tokio::task::spawn_blocking(late).await.unwrap()
    };
    let why = told(late, has_holder).await;
    assert_eq!(why.holders.len(), 1);
    drop(held);
    let third = async { drop(before.await.unwrap().unwrap()) };
    let waits = async { drop(waits.await.unwrap()) };
    soon(async { tokio::join!(third, waits) }).await;
}

/// Polls an acquire until it knows how many are before it.
macro_rules! place {
    ($acquire:expr) => {
        soon(async {
            loop {
                tokio::select! {
                    biased;
                    _ = &mut $acquire => panic!("it is held"),
                    () = tokio::time::sleep(Duration::from_millis(2)) => {}
                }
                if let Some(place) = $acquire.place() {
                    return place;
                }
            }
        })
        .await
    };
}

pub(crate) async fn how_many_are_before_is_told_while_it_waits_and_after(service: &Service) {
    let mut nodes = Vec::new();
    for _ in 0..5 {
        nodes.push(record(&node(service, Options::new()).await));
    }
    let [holder, first, second, third, reader] = &nodes[..] else { unreachable!() };
    let held = soon(holder.write()).await.unwrap();
    let mut first = Box::pin(first.write());
    assert_eq!(first.place(), None, "it does not wait yet");
    assert_eq!(place!(first), 0);
    let mut second = Box::pin(second.write());
    assert_eq!(place!(second), 1);
    let mut noted = Box::pin(third.write().note("nightly import"));
    assert_eq!(place!(noted), 2);
    drop(noted);
    let is = |place| move |why: &TimedOut| why.place == Some(place);
    assert_eq!(told(async || third.write_timeout(WHILE).await, is(2)).await.place, Some(2));
    // Readers go first when a writer leaves: what is told is the order of turns.
    let mut reading = Box::pin(reader.read());
    assert_eq!(place!(reading), 0);
    let why = told(async || third.write_timeout(WHILE).await, is(3)).await;
    assert_eq!(why.place, Some(3));
    let text = LockError::Timeout(Box::new(why)).to_string();
    assert!(text.ends_with("; 3 before you"), "{text}");
    drop(reading);
    // What the server says when it is asked at the end is newer than what it said first.
    let mut waits = third.write();
    while place!(waits) != 2 {
        waits = third.write();
    }
    drop(first);
    loop {
        let mut last = Box::pin(reader.write());
        if place!(last) == 2 {
            break;
        }
    }
    assert_eq!(timed_out(waits.within(WHILE * 5).await).place, Some(1));
    drop(held);
    drop(soon(second).await.unwrap());
}

pub(crate) async fn a_timeout_names_this_process_if_it_holds_the_record(service: &Service) {
    let locks = node(service, Options::new().label("billing@host9[412]")).await;
    let record = record(&locks);
    let held = soon(record.write()).await.unwrap();
    let why = told(async || record.read_timeout(WHILE).await, has_holder).await;
    let [holder] = &why.holders[..] else { panic!("{:?}", why.holders) };
    assert_eq!((holder.label.as_str(), holder.mode), ("billing@host9[412]", Mode::Write));
    assert_eq!(why.place, Some(0));
    let text = LockError::Timeout(Box::new(why)).to_string();
    assert!(text.ends_with(": held by billing@host9[412]"), "{text}");
    drop(held);
    // Two tasks of it read, and one of them is to be upgraded: the other is in its way.
    let reads = soon(record.read()).await.unwrap();
    let beside = soon(record.read()).await.unwrap();
    let stays = reads.upgrade_timeout(WHILE).await.unwrap_err();
    let why = timed_out::<()>(Err(stays.source));
    let [holder] = &why.holders[..] else { panic!("{:?}", why.holders) };
    assert_eq!((holder.label.as_str(), holder.mode), ("billing@host9[412]", Mode::Read));
    drop(beside);
    // Alone it would not be: then it is somebody else.
    let other = node(service, Options::new().label("report")).await;
    let elsewhere = crate::suite::record(&other);
    let beside = soon(elsewhere.read()).await.unwrap();
    let stays = stays.guard.upgrade_timeout(WHILE * 5).await.unwrap_err();
    let why = timed_out::<()>(Err(stays.source));
    let [holder] = &why.holders[..] else { panic!("{:?}", why.holders) };
    assert_eq!((holder.label.as_str(), holder.mode), ("report", Mode::Read));
    drop((beside, stays.guard));
}

pub(crate) async fn bad_labels_and_notes_are_refused(service: &Service) {
    for bad in ["two\nlines", "", &"x".repeat(257)] {
        let refused = Options::new().label(bad).connect(&service.url).await;
        let Err(ConnectError::BadOption { what }) = refused else { panic!("{bad:?}") };
        assert!(what.contains("label"), "{what}");
        let locks = node(service, Options::new()).await;
        let record = record(&locks);
        assert!(matches!(record.write().note(bad).await, Err(LockError::BadNote(_))), "{bad:?}");
        assert!(record.with_note(bad).is_err());
        // Nothing is held.
        let other = node(service, Options::new()).await;
        drop(soon(crate::suite::record(&other).write()).await.unwrap());
    }
}

/// Labels and notes are told again to a server that has been restarted.
#[tokio::test(flavor = "multi_thread")]
async fn labels_and_notes_survive_a_restart_of_the_server() {
    use lockspan_server::{Config, Data, Server};
    let folder = tempfile::tempdir().unwrap();
    let start = async |listen: String| {
        let listen = vec![listen.parse().unwrap()];
        let config = Config { listen, data: Data::Dir(folder.path().into()), ..Config::default() };
        Server::start(config).await.unwrap()
    };
    let server = start("127.0.0.1:0".to_owned()).await;
    let address = server.addresses()[0].to_string();
    let url = format!("lockspan://{address}");
    let one = Options::new().label("billing").connect(&url).await.unwrap();
    let held = one.record("invoice", 42).unwrap().write_owned().note("import").await.unwrap();
    server.stop().await;
    let server = start(address).await;
    let other = Options::new().connect(&url).await.unwrap();
    let late = other.record("invoice", 42).unwrap();
    // Until the holder has come back, nobody is known to hold the record.
    let why = told(async || late.write_timeout(WHILE).await, has_holder).await;
    let [holder] = &why.holders[..] else { panic!("{why:?}") };
    assert_eq!(holder.label.as_str(), "billing");
    assert_eq!(holder.note.as_ref().map(|note| note.as_str()), Some("import"));
    assert!(held.is_valid());
    drop(held);
    server.stop().await;
}
