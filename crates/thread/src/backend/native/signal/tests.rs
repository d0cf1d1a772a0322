//! The handler alone.

use super::section::{self, Place};
use super::{prepare, store_if};

#[test]
fn signal_and_barrier_work_here() {
    assert_eq!(prepare(), Ok("SIGSTKFLT and membarrier work".to_owned()));
    assert_eq!(prepare(), Ok("SIGSTKFLT and membarrier work".to_owned()), "a second time");
}

#[test]
fn a_store_happens_if_the_name_is_right() {
    let (mut flag, owner, mut word) = (0, 7, 1);
    // SAFETY: the words are this function's own.
    assert!(unsafe { store_if(&mut flag, &owner, 7, &mut word, 2) });
    assert_eq!((flag, word), (0, 2));
    // SAFETY: the words are this function's own.
    assert!(!unsafe { store_if(&mut flag, &owner, 8, &mut word, 3) });
    assert_eq!((flag, word), (0, 2));
}

#[test]
fn ordinary_code_is_outside_of_sections() {
    let function = ordinary_code_is_outside_of_sections as fn();
    assert_eq!(section::find(function as usize), Place::Outside);
    assert_eq!(section::find(0), Place::Outside);
}
