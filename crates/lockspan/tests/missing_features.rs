//! A URL that needs a feature which is off is refused, and the error names the feature. This runs
//! with every feature on and, in `cargo xtask test features`, with some of them off.

#![forbid(unsafe_code)]

const HAS_REDIS: bool = cfg!(feature = "redis");
const HAS_TLS: bool = cfg!(feature = "tls");

/// What a call of `connect` says, where nobody listens.
fn refused(url: &str) -> String {
    lockspan::blocking_connect(url).expect_err(url).to_string()
}

#[test]
fn a_url_names_the_feature_that_it_lacks() {
    let needs_redis_and_tls =
        "rediss:// needs the features `redis` and `tls` of the crate lockspan";
    let needs_tls = "rediss:// needs the feature `tls` of the crate lockspan";
    for (url, is_on, says) in [
        (
            "lockspans://127.0.0.1:1?ca=/nowhere/ca.pem",
            HAS_TLS,
            "lockspans:// needs the feature `tls` of the crate lockspan",
        ),
        (
            "redis://127.0.0.1:1",
            HAS_REDIS,
            "redis:// needs the feature `redis` of the crate lockspan",
        ),
        (
            "rediss://127.0.0.1:1",
            HAS_REDIS && HAS_TLS,
            if HAS_REDIS { needs_tls } else { needs_redis_and_tls },
        ),
        ("lockspan://127.0.0.1:1", true, ""),
    ] {
        let said = refused(url);
        match is_on {
            true => assert!(!said.contains("feature"), "{url}: {said}"),
            false => assert!(said.ends_with(says), "{url}: {said}"),
        }
    }
}

#[test]
fn a_password_in_such_a_url_is_not_shown() {
    for url in ["lockspans://ann:hunter2@127.0.0.1:1", "rediss://ann:hunter2@127.0.0.1:1"] {
        let said = refused(url);
        assert!(!said.contains("hunter2"), "{said}");
    }
}
