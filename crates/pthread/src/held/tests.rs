//! The holds of a thread, beside a plain map of what they should be.

use super::table::{FAR, NEAR};
use super::*;

fn take(lock: usize, mode: Mode) {
    assert!(reserve());
    add(lock, mode, lock.is_multiple_of(3));
}

#[test]
fn many_holds_are_all_found_and_their_pages_go_back() {
    let many = if cfg!(miri) { FAR + 9 } else { 20_000 };
    // Neighbours, multiples of a page, and in no order: each has its own slot.
    for stride in [1, 56, 4096] {
        let lock = |number: usize| (number * 7919 % (many + 1) + 1) * stride;
        for number in 0..many {
            take(lock(number), Mode::Read(number as u32 + 1));
        }
        for number in 0..many {
            assert_eq!(mode(lock(number)), Some(Mode::Read(number as u32 + 1)));
        }
        assert_eq!(mode((many + 9) * stride), None);
        for number in (0..many).step_by(2).chain((1..many).step_by(2)) {
            forget(lock(number));
            assert_eq!(mode(lock(number)), None);
        }
        near::with(|holds| assert_eq!(holds.table.room(), NEAR));
    }
}

#[test]
fn whatever_is_taken_and_left_the_table_says_what_is_held() {
    let mut held = std::collections::BTreeMap::new();
    let mut state = 1_u64;
    for _ in 0..if cfg!(miri) { 500 } else { 200_000 } {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lock = ((state >> 33) % 50 + 1) as usize * 64;
        let how = if state & (1 << 20) == 0 { Mode::Write } else { Mode::Read(3) };
        assert_eq!(mode(lock), held.get(&lock).copied());
        // The short way where it is open, the long one otherwise and now and then.
        let short = state & (1 << 21) == 0;
        if let Some(how) = held.remove(&lock) {
            match top_of(lock) {
                Some((top, mode)) if short => {
                    assert_eq!(mode, how);
                    forget_top(top);
                }
                _ => match recent_of(lock) {
                    Some((at, mode)) if short => {
                        assert_eq!(mode, how);
                        forget_recent(at, lock);
                    }
                    _ => forget(lock),
                },
            }
        } else {
            assert!((short && has_room()) || reserve());
            add(lock, how, false);
            held.insert(lock, how);
        }
    }
    held.into_keys().for_each(forget);
    assert_eq!((1..=50).find_map(|lock| mode(lock * 64)), None);
}

/// What a lock call does, with a signal handler between each two of its steps that takes and
/// releases locks of its own: nothing of the handler is left, nothing of the call is lost.
#[test]
fn pthread_p2_a_signal_handler_that_takes_locks_leaves_nothing_behind() {
    let handler = |locks: usize| {
        for lock in 1..=locks {
            take(1_000_000 + lock, Mode::Write);
        }
        for lock in (1..=locks).rev() {
            match top_of(1_000_000 + lock) {
                Some((top, _)) if lock.is_multiple_of(2) => forget_top(top),
                _ => forget(1_000_000 + lock),
            }
        }
    };
    for held in 0..40 {
        for own in 0..8 {
            for lock in 1..=held {
                take(lock, Mode::Write);
            }
            // Taking a lock: room is looked for, the lock is taken, the hold is noted.
            assert!(reserve());
            handler(own);
            assert!(has_room(), "{held} held, {own} by a handler");
            add(500, Mode::Read(1), false);
            handler(own);
            // Releasing it: the hold is looked for, the lock is released, the hold is struck out.
            let (top, mode_of_top) = top_of(500).expect("the last one");
            assert_eq!(mode_of_top, Mode::Read(1));
            handler(own);
            // The lock is free by now, so a handler may take it and strike out the old hold.
            if own == 3 {
                forget(500);
                take(500, Mode::Write);
                forget(500);
            }
            forget_top(top);
            assert_eq!(mode(500), None);
            // The same for a lock that was taken before others.
            take(500, Mode::Write);
            take(501, Mode::Write);
            let (position, _) = recent_of(500).expect("one of the last two");
            handler(own);
            if own == 3 {
                forget(500);
            }
            forget_recent(position, 500);
            assert_eq!((mode(500), mode(501)), (None, Some(Mode::Write)));
            forget(501);
            for lock in 1..=held {
                assert_eq!(mode(lock), Some(Mode::Write), "{held} held, {own} by a handler");
                forget(lock);
            }
            let (own_locks, left) = (1_000_001..1_000_010, (1..50).find_map(mode));
            assert_eq!((left, own_locks.into_iter().find_map(mode)), (None, None));
        }
    }
}

#[test]
fn after_a_fork_only_private_locks_are_held() {
    for lock in 1..=40 {
        take(lock, Mode::Write);
    }
    assert!(!forget_shared(), "none was held for reading");
    for lock in 1..=40_usize {
        let held = (!lock.is_multiple_of(3)).then_some(Mode::Write);
        assert_eq!(mode(lock), held, "lock {lock}");
        forget(lock);
    }
    take(3, Mode::Read(1));
    assert!(forget_shared(), "one was");
    assert_eq!(mode(3), None);
}

#[test]
fn holds_of_earlier_locks_at_an_address_are_struck_out_with_the_last() {
    take(7, Mode::Write);
    for lock in 8..40 {
        take(lock, Mode::Write);
    }
    // The memory of lock 7 went without an unlock, and another lock lies there now.
    take(7, Mode::Read(1));
    forget_all(7);
    assert_eq!(mode(7), None);
    (8..40).for_each(forget);
}

#[test]
fn a_change_of_mode_is_seen_and_an_unknown_lock_ignored() {
    for lock in 1..=30 {
        take(lock, Mode::Read(1));
    }
    for lock in 1..=30 {
        change(lock, Mode::Read(2));
        assert_eq!(mode(lock), Some(Mode::Read(2)));
        forget(lock);
    }
    assert_eq!(mode(6), None);
    forget(6);
}
