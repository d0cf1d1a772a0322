//! What `docs/api-guidelines.md` says of the public types, as far as a test can tell.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Debug;
use std::path::Path;

use lockspan::thread::{biased, fair, percpu, progressive, revocable};
use lockspan::{
    AcquireRefusal, BadName, BadToken, CloseUnknown, ConnectError, LockError, Locks, Name, Options,
    OwnedReadGuard, OwnedWriteGuard, ReadGuard, Record, SessionRefusal, Stats, Token, Trouble,
    UpgradeError, WantRefusal, WriteGuard,
};

fn is_shared<T: Send + Sync>() {}
fn is_sent<T: Send>(_: T) {}
fn is_error<T: Error + Send + Sync + 'static>() {}
fn is_shown<T: Debug>(value: &T) {
    assert!(!format!("{value:?}").is_empty());
}

#[test]
fn c_send_sync_and_c_good_err_hold() {
    is_shared::<Locks>();
    is_shared::<Record>();
    is_shared::<Options>();
    is_shared::<ReadGuard<'_>>();
    is_shared::<WriteGuard<'_>>();
    is_shared::<OwnedReadGuard>();
    is_shared::<OwnedWriteGuard>();
    is_shared::<fair::RwLock<u32>>();
    is_shared::<fair::RwLockWriteGuard<'_, u32>>();
    is_shared::<biased::Mutex<u32>>();
    is_shared::<progressive::Lock<u32>>();
    is_shared::<progressive::base::WriteGuard<'_, u32>>();
    is_shared::<revocable::Lock<revocable::Word>>();
    is_shared::<percpu::Counter>();

    is_error::<LockError>();
    is_error::<UpgradeError>();
    is_error::<ConnectError>();
    is_error::<CloseUnknown>();
    is_error::<Trouble>();
    is_error::<AcquireRefusal>();
    is_error::<SessionRefusal>();
    is_error::<WantRefusal>();
    is_error::<BadName>();
    is_error::<BadToken>();
    is_error::<revocable::Revoked>();
    is_error::<revocable::Refused>();
}

#[test]
fn futures_are_send_and_everything_is_debug() {
    let locks = lockspan::blocking_connect("memory:guidelines").unwrap();
    let record = locks.record("invoice", 42).unwrap();
    is_shown(&locks);
    is_shown(&record);
    is_shown(record.name());
    is_shown(&Options::new());
    is_shown(&Stats::default());
    is_sent(record.read());
    is_sent(record.clone().write_owned());
    is_sent(record.write_timeout(std::time::Duration::ZERO));
    is_sent(lockspan::connect("memory:guidelines"));
    let reading = record.blocking_read().unwrap();
    is_shown(&reading);
    is_sent(reading.lost());
    is_sent(reading.upgrade());
    let lock = fair::RwLock::new(1);
    is_sent(fair::RwLockExt::read_async(&lock));
}

#[test]
fn names_and_tokens_are_ordered_hashed_shown_and_parsed() {
    fn is_key<T: Clone + Ord + std::hash::Hash + std::fmt::Display>(_: &T) {}
    let name = Name::new("invoice", 42).unwrap();
    is_key(&name);
    assert_eq!(Name::parse(name.to_string().as_bytes()), Ok(name));
    let token = Token::try_from(7_i64).unwrap();
    is_key(&token);
    assert_eq!(token.to_string().parse(), Ok(token));
    assert_eq!((i64::from(token), u64::from(token)), (7, 7));
}

#[test]
fn a_user_can_name_what_is_inside_a_refusal() {
    fn why(error: &LockError) -> &'static str {
        match error {
            LockError::Refused(why) => match **why {
                AcquireRefusal::Denied { .. } => "denied",
                _ => "refused",
            },
            LockError::NoSession(why) if matches!(**why, SessionRefusal::TooMany { .. }) => "full",
            LockError::TooManyRecords(why) => match **why {
                WantRefusal::TooManyRecords { .. } => "too many",
                _ => "not wanted",
            },
            _ => "other",
        }
    }
    assert_eq!(why(&LockError::Lost), "other");
}

/// Every method that changes an option, in both types of options, says what its default is.
#[test]
fn every_option_says_its_default() {
    for file in ["../client/src/options.rs", "../redis/src/options.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let (mut docs, mut options) = (String::new(), 0);
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("///") {
                Some(words) => docs += words,
                None if line.starts_with("pub fn ") && line.contains("-> Self") => {
                    let is_option = line.contains("(self") || line.contains("(mut self");
                    options += usize::from(is_option);
                    assert!(!is_option || docs.contains("efaults to"), "{file}: {line}");
                    docs.clear();
                }
                None if line.starts_with("#[") => {}
                None => docs.clear(),
            }
        }
        assert!(options >= 17, "{file}: {options} options were found");
    }
}
