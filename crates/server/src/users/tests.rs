//! Users, what they may, and how long it takes to find out.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

const HERE: Place = Place::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned().into())
}

async fn check(users: &Arc<Users>, name: &str, password: &str) -> Result<Arc<User>, Refused> {
    users.check(HERE, name, &secret(password), || false).await
}

/// The cheapest hash that the algorithm has: these tests are about what comes of it.
fn cheap(password: &str) -> String {
    let params = argon2::Params::new(8, 1, 1, None).expect("allowed");
    let argon = Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let salt = SaltString::generate(&mut System);
    argon.hash_password(password.as_bytes(), &salt).expect("hashed").to_string()
}

fn some() -> Arc<Users> {
    let (ann, bob) = (cheap("apple"), cheap("banana"));
    let text = format!(
        "[users.ann]\npassword = {ann:?}\nread = [\"*\"]\nwrite = [\"invoice\", \"order*\"]\n\
         [users.bob]\npassword = {bob:?}\ninspect = [\"*\"]\nadmin = [\"invoice\"]\n"
    );
    Arc::new(Users::parse(&text).expect("a good file"))
}

#[tokio::test]
async fn a_user_is_who_knows_the_password() {
    let users = some();
    let ann = check(&users, "ann", "apple").await.expect("it is ann");
    assert_eq!(&**ann.name(), "ann");
    for (name, password) in [("ann", "banana"), ("ann", ""), ("", ""), ("carol", "apple")] {
        let refused = check(&users, name, password).await;
        assert_eq!(refused.expect_err(name), Refused::Wrong, "{name}");
    }
    let long = "x".repeat(PASSWORD + 1);
    let refused = check(&users, "ann", &long).await;
    assert_eq!(refused.expect_err("too long"), Refused::Wrong);
}

#[tokio::test]
async fn guesses_are_slowed_down_however_many_come_at_once() {
    let users = some();
    let guess = |number: u32| {
        let users = Arc::clone(&users);
        tokio::spawn(async move {
            check(&users, "ann", &number.to_string()).await.expect_err("a guess")
        })
    };
    let guesses: Vec<_> = (0..50).map(guess).collect();
    let mut looked_at = 0;
    for guess in guesses {
        looked_at += u32::from(guess.await.expect("it ends") == Refused::Wrong);
    }
    // Those that are compared at the same time don't know of each other.
    assert!((4..=8).contains(&looked_at), "{looked_at} of 50 were looked at");
    let right = check(&users, "ann", "apple").await;
    assert!(matches!(right, Err(Refused::TooMany { .. })), "{right:?}");
    check(&users, "bob", "banana").await.expect("another user is let in");
}

/// Nobody has a turn to spare, as after a restart with many nodes.
#[tokio::test]
async fn who_has_shown_the_password_needs_no_turn() {
    let users = some();
    check(&users, "ann", "apple").await.expect("it is ann");
    let turns = users.turns.available_permits() as u32;
    let _busy = users.turns.acquire_many(turns).await.expect("all turns");
    for _ in 0..400 {
        check(&users, "ann", "apple").await.expect("it is ann again");
    }
    // Another password is not that one, for her or for others.
    let names = ["bob", "ann", "ann", "ann", "ann", "carol", "carol", "carol", "carol"];
    let tries = names.map(|name| {
        let users = Arc::clone(&users);
        tokio::spawn(async move { check(&users, name, "banana").await.expect_err(name) })
    });
    for one in tries {
        assert_eq!(one.await.expect("it ends"), Refused::Busy);
    }
    for name in ["ann", "carol"] {
        let last = check(&users, name, "pear").await.expect_err(name);
        assert!(matches!(last, Refused::TooMany { .. }), "who gives up has tried: {last:?}");
    }
}

#[tokio::test]
async fn who_is_gone_when_their_turn_comes_is_not_compared() {
    let users = some();
    let turns = users.turns.available_permits() as u32;
    let busy = Arc::clone(&users.turns).acquire_many_owned(turns).await.expect("all turns");
    let gone = secret("apple");
    let (gone, ()) = tokio::join!(users.check(HERE, "ann", &gone, || true), async {
        assert_eq!(users.line.load(Ordering::Relaxed), 1, "it stands in line");
        drop(busy);
    });
    assert_eq!(gone.expect_err("nobody hears it"), Refused::Busy);
    assert!(users.all["ann"].tag.get().is_none());
}

/// Who has been here gets in during a pause of the place; a wrong password is told nothing.
#[tokio::test]
async fn in_a_pause_of_the_place_only_the_right_password_is_answered() {
    let users = some();
    check(&users, "ann", "apple").await.expect("it is ann");
    for name in 0..20 {
        crate::lock(&users.attempts).failed(Instant::now(), HERE, &name.to_string());
    }
    for name in ["ann", "bob", "carol"] {
        let refused = check(&users, name, "pear").await.expect_err(name);
        assert!(matches!(refused, Refused::TooMany { .. }), "{name}: {refused:?}");
    }
    check(&users, "ann", "apple").await.expect("she has been here");
    check(&users, "bob", "banana").await.expect_err("he has not");
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
    let mut prices: Vec<_> = users.decoys.keys().map(ToString::to_string).collect();
    prices.sort();
    assert_eq!(prices, ["m=19456,t=2,p=1", "m=8,t=1,p=1"]);
}

#[test]
fn verbs_are_allowed_by_datatype() {
    let users = some();
    let (ann, bob) = (&users.all["ann"].user, &users.all["bob"].user);
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
    assert!(users.all["a"].user.may(Verb::Read, b"x"), "who may write may read");
}

#[test]
fn a_bad_file_is_told_what_and_where_without_secrets() {
    let hash = cheap("a");
    let good = format!("[users.a]\npassword = {hash:?}\n");
    for (text, why) in [
        (String::new(), "there is no user in it; one is [users.NAME] with a password".to_owned()),
        ("[users.a]\nread = []".to_owned(), "1: user \"a\": the password is missing".to_owned()),
        (
            "[users.a]\npassword = \"hunter2\"".to_owned(),
            "2: user \"a\": password takes a hash that `lockspan passwd` has made, $argon2id$..., \
             not the password"
                .to_owned(),
        ),
        (
            format!("{good}reed = []"),
            "3: user \"a\": \"reed\" is not one of password, read, write, inspect, admin"
                .to_owned(),
        ),
        (
            format!("{good}read = \"*\""),
            "3: user \"a\": read takes a list of datatypes, such as [\"invoice\", \"order*\"]"
                .to_owned(),
        ),
        (
            format!("{good}read = [\"a*b\"]"),
            "3: user \"a\": read has \"a*b\", which is no datatype: it has no colon, and * stands \
             at its end alone"
                .to_owned(),
        ),
        (
            format!("{good}read = [\"\"]"),
            "3: user \"a\": read has \"\", which is no datatype: write * for all of them"
                .to_owned(),
        ),
        ("[user.a]".to_owned(), "1: \"user\" is not known here; a user is [users.NAME]".to_owned()),
        (
            "[users.\"a b\"]".to_owned(),
            "1: \"a b\" is no name of a user: it has from 1 to 64 letters, digits and any of - _ . \
             @"
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
