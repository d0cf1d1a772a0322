//! Users, what they may, and how long it takes to find out. Time is held, and goes on when nobody
//! has anything to do but to wait.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use argon2::{Argon2, PasswordHasher as _};
use lockspan_wire::Secret;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::hash::{PASSWORD, SALT};
use super::queue::HOLD;
use super::*;

const HERE: Place = Place::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
const AWAY: Place = Place::Ip(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)));

async fn check_at(
    users: &Arc<Users>,
    place: Place,
    name: &str,
    password: &str,
) -> Result<Arc<User>, Refused> {
    users.check(place, name, &Secret::copy(password.as_bytes())).await
}

async fn check(users: &Arc<Users>, name: &str, password: &str) -> Result<Arc<User>, Refused> {
    check_at(users, HERE, name, password).await
}

/// Uses up what is free here, and lets time go on until that is answered.
async fn use_up_free(users: &Arc<Users>) {
    for _ in 0..4 {
        check(users, "mallory", "guess").await.expect_err("nobody");
    }
}

/// The cheapest hash that the algorithm has: these tests are about what comes of it.
fn cheap(password: &str) -> String {
    let params = argon2::Params::new(8, 1, 1, None).expect("allowed");
    let argon = Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let salt: [u8; SALT] = super::drawn();
    argon.hash_password_with_salt(password.as_bytes(), &salt).expect("hashed").to_string()
}

fn some() -> Arc<Users> {
    let (ann, bob) = (cheap("apple"), cheap("banana"));
    let text = format!(
        "[users.ann]\npassword = {ann:?}\nread = [\"*\"]\nwrite = [\"invoice\", \"order*\"]\n\
         [users.bob]\npassword = {bob:?}\ninspect = [\"*\"]\nadmin = [\"invoice\"]\n"
    );
    Arc::new(Users::parse(&text).expect("a good file"))
}

#[tokio::test(start_paused = true)]
async fn a_user_is_who_knows_the_password() {
    let users = some();
    let ann = check(&users, "ann", "apple").await.expect("it is ann");
    assert_eq!(&**ann.name(), "ann");
    let long = "x".repeat(PASSWORD + 1);
    for (name, password) in [("ann", "banana"), ("ann", &*long), ("", ""), ("carol", "apple")] {
        let refused = check(&users, name, password).await;
        assert_eq!(refused.expect_err(name), Refused::Wrong, "{name}");
    }
    for (name, password) in [("ann", "banana"), ("ann", &*long), ("", ""), ("carol", "apple")] {
        let refused = check(&users, name, password).await;
        assert_eq!(refused.expect_err(name), Refused::TryAgain, "{name}");
    }
    check(&users, "ann", "apple").await.expect("it is still ann");
}

/// However many connections guess at her name, from where she is.
#[tokio::test(start_paused = true)]
async fn service_f88_a_user_gets_in_while_others_guess_at_that_name() {
    for has_been_in in [true, false] {
        for guessers in [1, 10, 40] {
            let users = some();
            if has_been_in {
                check_at(&users, AWAY, "ann", "apple").await.expect("it is ann");
            }
            let mut all = JoinSet::new();
            for number in 0..guessers {
                let users = Arc::clone(&users);
                all.spawn(async move {
                    loop {
                        check(&users, "ann", &format!("guess {number}")).await.expect_err("wrong");
                    }
                });
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            for _ in 0..3 {
                let began = Instant::now();
                let ann = check(&users, "ann", "apple").await;
                let took = began.elapsed();
                ann.unwrap_or_else(|why| panic!("{why} after {took:?}, {guessers} guessers"));
                assert!(took <= HOLD, "{took:?} with {guessers} guessers");
                let began = Instant::now();
                check(&users, "bob", "banana").await.expect("a neighbour");
                assert!(began.elapsed() <= Duration::from_millis(400), "{:?}", began.elapsed());
            }
            drop(all);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn four_guesses_are_answered_at_once_and_all_others_late() {
    let users = some();
    let mut guesses = JoinSet::new();
    for number in 0..50 {
        let users = Arc::clone(&users);
        guesses.spawn(async move {
            let began = Instant::now();
            let why = check(&users, "ann", &number.to_string()).await.expect_err("a guess");
            (why, began.elapsed())
        });
    }
    let all = guesses.join_all().await;
    let wrong = all.iter().filter(|(why, took)| *why == Refused::Wrong && took.is_zero());
    assert_eq!(wrong.count(), 4, "{all:?}");
    let late = all.iter().filter(|(why, took)| *why == Refused::TryAgain && is_hold(*took));
    assert_eq!(late.count(), 46, "{all:?}");
}

/// Timers have a grain of a millisecond.
fn is_hold(took: Duration) -> bool {
    (HOLD..HOLD + Duration::from_millis(5)).contains(&took)
}

/// No hash can be had, as after a restart with many nodes.
#[tokio::test(start_paused = true)]
async fn service_f96_who_has_shown_the_password_needs_no_hash() {
    let users = some();
    check(&users, "ann", "apple").await.expect("it is ann");
    let hashes = users.hashes.available_permits() as u32;
    let _busy = users.hashes.acquire_many(hashes).await.expect("all of them");
    for place in [HERE, AWAY] {
        for _ in 0..400 {
            check_at(&users, place, "ann", "apple").await.expect("it is ann again");
        }
    }
    // A first login does not wait for those hashes forever.
    check(&users, "bob", "banana").await.expect("it is bob");
    // Another password is not hers.
    assert_eq!(check(&users, "ann", "banana").await.expect_err("wrong"), Refused::TryAgain);
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_leaves_nothing_behind() {
    let users = some();
    use_up_free(&users).await;
    for _ in 0..100 {
        let gone = tokio::time::timeout(Duration::from_secs(1), check(&users, "ann", "pear"));
        gone.await.expect_err("it is answered later");
    }
    let began = Instant::now();
    check(&users, "ann", "apple").await.expect("nobody is in her way");
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let state = crate::lock(&users.state);
    assert!(!state.queue.is_to_be_drawn() && state.waits_for_turns() == 0);
}

/// Each name is tried as often as every other, while the line is full and after it: what each of
/// them hears, and when, is the same.
#[tokio::test(start_paused = true)]
async fn service_f92_nothing_tells_which_users_exist() {
    for is_busy in [false, true] {
        for has_been_in in [false, true] {
            let users = some();
            if has_been_in {
                check(&users, "ann", "apple").await.expect("it is ann");
            }
            let hashes = users.hashes.available_permits() as u32;
            let busy = match is_busy {
                true => Some(users.hashes.acquire_many(hashes).await.expect("all of them")),
                false => None,
            };
            // Those who fill the line, and the queue, come from elsewhere too.
            let mut flood = JoinSet::new();
            for number in 0..420_u32 {
                let (users, place) = (Arc::clone(&users), Place::Unix(Some(number / 8)));
                flood.spawn(async move { drop(check_at(&users, place, "eve", "x").await) });
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut heard = Vec::new();
            for name in ["ann", "carol", "bob", "dave"] {
                // From an address that nobody has used, and then from one that all have.
                let fresh = Place::Ip([10, 7, name.as_bytes()[0], 1].into());
                let mut words = Vec::new();
                for number in 0..12 {
                    let place = if number < 6 { fresh } else { HERE };
                    let began = Instant::now();
                    let why = check_at(&users, place, name, "pear").await.expect_err(name);
                    let millis = began.elapsed().as_millis() as u64;
                    words.push((why, millis / 10));
                }
                heard.push(words);
            }
            assert!(heard.iter().all(|words| words[..6] == heard[0][..6]), "{heard:?}");
            // What is free here is free for the first name only.
            assert!(heard.iter().all(|words| words[10..] == heard[0][10..]), "{heard:?}");
            drop((busy, flood));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn service_f89_a_restart_knows_from_where_users_have_logged_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = some();
    first.remember_in(dir.path(), [1; 32]);
    check(&first, "ann", "apple").await.expect("it is ann");
    check_at(&first, AWAY, "bob", "banana").await.expect("it is bob");
    check_at(&first, AWAY, "ann", "pear").await.expect_err("it is not ann");
    // The file is written by a thread of its own.
    let path = dir.path().join("lockspan.logins");
    for _ in 0..1000 {
        if std::fs::metadata(&path).is_ok_and(|file| file.len() == 32) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::thread::sleep(Duration::from_millis(1));
    }
    let second = some();
    second.remember_in(dir.path(), [1; 32]);
    let state = crate::lock(&second.state);
    let known = |name: &str| [HERE, AWAY].map(|at| state.known.has(second.by_name[name], at));
    assert_eq!((known("ann"), known("bob")), ([true, false], [false, true]));
}

/// A name that nobody has costs what any wrong password costs, whatever its user's hash is.
#[test]
fn there_is_a_decoy_of_each_price() {
    let (cheap, dear) = (cheap("apple"), hash_password(b"banana").expect("made"));
    let text = format!(
        "[users.ann]\npassword = {cheap:?}\n[users.bob]\npassword = {dear:?}\n\
         [users.carol]\npassword = {dear:?}\n"
    );
    let users = Users::parse(&text).expect("good");
    let mut prices: Vec<_> = users.decoys.costs().map(ToString::to_string).collect();
    prices.sort();
    assert_eq!(prices, ["m=19456,t=2,p=1", "m=8,t=1,p=1"]);
}

#[test]
fn verbs_are_allowed_by_datatype() {
    let users = some();
    let (ann, bob) = (&users.all[0].user, &users.all[1].user);
    let may = |user: &User, verb, datatypes: [&str; 3]| {
        datatypes.map(|datatype| user.may(verb, datatype.as_bytes()))
    };
    let types = ["invoice", "invoices", "order-line"];
    assert_eq!(may(ann, Verb::Read, types), [true, true, true]);
    assert_eq!(may(ann, Verb::Write, types), [true, false, true]);
    assert_eq!(may(ann, Verb::Inspect, types), [false; 3]);
    assert_eq!(may(bob, Verb::Inspect, types), [true; 3]);
    assert_eq!(may(bob, Verb::Admin, types), [true, false, false]);
    assert_eq!(may(bob, Verb::Read, types), [false; 3]);
    assert!(bob.may_everywhere(Verb::Inspect) && !bob.may_everywhere(Verb::Admin));
    let only_write = format!("[users.a]\npassword = {:?}\nwrite = [\"x\"]", cheap("a"));
    let users = Users::parse(&only_write).expect("good");
    assert!(users.all[0].user.may(Verb::Read, b"x"), "who may write may read");
}

#[test]
fn a_bad_file_is_told_what_and_where_without_secrets() {
    let hash = cheap("a");
    let good = format!("[users.a]\npassword = {hash:?}\n");
    for (text, why) in [
        (
            String::new(),
            "there is no user in it; a user is a section [users.NAME] with a password".to_owned(),
        ),
        ("[users.a]\nread = []".to_owned(), "1: user \"a\": the password is missing".to_owned()),
        (
            "[users.a]\npassword = \"hunter2\"".to_owned(),
            "2: user \"a\": password must be a hash from `lockspan passwd`, $argon2id$..., not the \
             password itself"
                .to_owned(),
        ),
        (
            format!("{good}reed = []"),
            "3: user \"a\": \"reed\" is not one of password, read, write, inspect, admin"
                .to_owned(),
        ),
        (
            format!("{good}read = \"*\""),
            "3: user \"a\": read must be a list of datatypes, such as [\"invoice\", \"order*\"]"
                .to_owned(),
        ),
        (
            format!("{good}read = [\"a*b\"]"),
            "3: user \"a\": read has \"a*b\", which is not a datatype: a colon is not allowed, and \
             * only at the end"
                .to_owned(),
        ),
        (
            format!("{good}read = [\"\"]"),
            "3: user \"a\": read has \"\", which is not a datatype: use * for all of them"
                .to_owned(),
        ),
        (
            "[user.a]".to_owned(),
            "1: unknown key \"user\"; a user is a section [users.NAME]".to_owned(),
        ),
        (
            "[users.\"a b\"]".to_owned(),
            "1: \"a b\" is not a valid user name: use 1 to 64 letters, digits and any of - _ . @"
            .to_owned(),
        ),
    ] {
        assert_eq!(Users::parse(&text).expect_err(&text).to_string(), why, "{text}");
    }
    let secret = "[users.a]\npassword = hunter2 x";
    let why = Users::parse(secret).expect_err("no TOML").to_string();
    assert!(why.starts_with("2:") && !why.contains("hunter2"), "{why}");
    let shown = format!("{:?}", Users::parse(&good).expect("good"));
    assert_eq!(shown, "{\"a\"}");
}

#[test]
fn a_hash_is_made_with_a_salt_of_its_own() {
    let one = hash_password(b"a").expect("made");
    assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
    assert_ne!(one, hash_password(b"a").expect("made"));
    assert!(hash_password(b"").is_err() && hash_password(&[b'x'; PASSWORD + 1]).is_err());
}

/// Files of users outlive the version of the crate that hashed their passwords.
#[tokio::test(start_paused = true)]
async fn a_hash_that_an_earlier_version_made_is_still_good() {
    let text = "[users.ann]\npassword = \"$argon2id$v=19$m=19456,t=2,p=1$cnRVz802Z2zydG2oNZon9Q$\
                N6VXxHzQOVyse8UASmx6Xrnm3NJxQw/V8Ro2NsNftI8\"\n";
    let users = Arc::new(Users::parse(text).expect("a good file"));
    check(&users, "ann", "apple").await.expect("it is ann");
    check(&users, "ann", "pear").await.expect_err("it is not");
}

/// One login of anybody would end the process.
#[test]
fn a_hash_that_no_machine_can_compute_is_refused_at_the_start() {
    for cost in ["m=4294967295,t=2,p=1", "m=262145,t=2,p=1", "m=64,t=11,p=1", "m=64,t=2,p=5"] {
        let text = format!(
            "[users.a]\npassword = \"$argon2id$v=19${cost}$bG9ja3NwYW4$\
             AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\""
        );
        let why = Users::parse(&text).expect_err(cost).to_string();
        assert!(why.starts_with("2: user \"a\": ") && why.contains("262144"), "{why}");
    }
}

#[test]
fn service_f109_a_file_of_users_that_others_may_change_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("users.toml");
    std::fs::write(&path, format!("[users.ann]\npassword = {:?}\n", cheap("apple"))).expect("made");
    for (mode, is_good) in
        [(0o600, true), (0o644, true), (0o620, false), (0o602, false), (0o666, false)]
    {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("ours");
        match Users::load(&path) {
            Ok(_) => assert!(is_good, "{mode:o}"),
            Err(why) => {
                assert!(!is_good, "{mode:o}: {why}");
                let said = format!("other users may change it (mode {mode:04o})");
                assert!(why.to_string().contains(&said), "{why}");
            }
        }
    }
    // Orchestrators mount files behind links: it is the file that counts.
    let link = dir.path().join("link.toml");
    symlink(&path, &link).expect("linked");
    let why = Users::load(&link).expect_err("the mode is that of the file").to_string();
    assert!(why.contains("may change it"), "{why}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
    assert!(Users::load(&link).is_ok());
}

#[test]
fn a_key_that_is_there_twice_is_named() {
    let hash = hash_password(b"a").expect("hashed");
    let text = format!("[users.a]\npassword = \"{hash}\"\nread = []\nread = [\"x\"]\n");
    let why = Users::parse(&text).expect_err("twice").to_string();
    assert_eq!(why, "4: read is set twice in one section; remove one of them");
    let text = format!("[users.a]\npassword = \"{hash}\"\n[users.a]\nread = []\n");
    let why = Users::parse(&text).expect_err("twice").to_string();
    assert!(why.starts_with("3: a is set twice") && !why.contains("argon"), "{why}");
}
