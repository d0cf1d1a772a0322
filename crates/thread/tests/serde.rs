//! With the feature `serde` a lock is written and read as its data.

use lockspan_thread::biased::Mutex;
use lockspan_thread::fair::{RwLock, StrictRwLock};

#[test]
fn a_lock_is_serialised_as_its_data() {
    let lock = RwLock::new(vec![1, 2, 3]);
    let text = serde_json::to_string(&lock).unwrap();
    assert_eq!(text, "[1,2,3]");
    let again: StrictRwLock<Vec<u32>> = serde_json::from_str(&text).unwrap();
    assert_eq!(*again.read(), [1, 2, 3]);
    let mutex: Mutex<Vec<u32>> = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&mutex).unwrap(), text);
}
