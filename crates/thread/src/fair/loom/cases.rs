//! The failures of a lock of this kind, each as a model: see `docs/failures.md`.

use super::*;

#[test]
fn fair_s1_a_scheduler_that_leaves_does_not_lose_an_arrival() {
    together::<Strict>(3, &[reads, writes]);
}

#[test]
fn fair_s2_a_writer_that_leaves_wakes_the_next_writer() {
    together::<Strict>(2, &[writes, writes, writes]);
}

#[test]
fn fair_s2_a_writer_that_leaves_wakes_the_next_writer_when_passing() {
    together::<Passing>(2, &[writes, writes, writes]);
}

#[test]
fn fair_s3_a_reader_is_not_left_behind_by_the_last_writer() {
    together::<Passing>(3, &[writes, reads]);
}

#[test]
fn fair_s4_two_writers_and_a_reader_exclude_each_other() {
    together::<Strict>(2, &[writes, writes, reads]);
}

#[test]
fn fair_s4_two_writers_and_a_reader_exclude_each_other_when_passing() {
    together::<Passing>(2, &[writes, writes, reads]);
}

#[test]
fn fair_s5_a_thread_that_has_gone_is_not_woken() {
    // A node's end is a write in the model; a late touch by the scheduler fails it.
    together::<Strict>(
        2,
        &[
            |lock| {
                lock.write();
                lock.read();
            },
            writes,
        ],
    );
}

#[test]
fn fair_s6_the_last_reader_does_not_wake_a_writer_that_has_gone() {
    together::<Strict>(
        2,
        &[reads, |lock| {
            lock.write();
            lock.write();
        }],
    );
}

#[test]
fn fair_s7_a_grant_before_the_sleep_is_not_lost() {
    together::<Strict>(3, &[writes, writes]);
}

#[test]
fn fair_s8_acquire_and_release_are_enough() {
    together::<Strict>(2, &[reads, reads, writes]);
}

#[test]
fn fair_s8_acquire_and_release_are_enough_when_passing() {
    together::<Passing>(2, &[reads, reads, writes]);
}

#[test]
fn fair_s9_readers_let_in_together_may_leave_and_come_back() {
    model(2, || {
        let lock = Strictly::new();
        lock.raw.write();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || {
                    assert_eq!(lock.read(), 1);
                    assert_eq!(lock.read(), 1);
                })
            })
            .collect();
        lock.add();
        lock.raw.write_done();
        for reader in readers {
            reader.join().unwrap();
        }
        lock.assert_at_rest();
    });
}

#[test]
fn fair_s10_a_thread_waits_on_one_lock_while_it_holds_another() {
    model(2, || {
        let (outer, inner) = (Strictly::new(), Strictly::new());
        let other = {
            let (outer, inner) = (outer.clone(), inner.clone());
            thread::spawn(move || {
                outer.raw.read();
                inner.write();
                outer.raw.read_done();
            })
        };
        outer.raw.read();
        inner.write();
        outer.raw.read_done();
        other.join().unwrap();
        assert_eq!(inner.read(), 2);
        outer.assert_at_rest();
    });
}

#[test]
fn fair_s11_a_tired_scheduler_leaves_the_rest_to_the_next_release() {
    together::<ShortOffice>(2, &[writes, reads, writes]);
}

#[test]
fn fair_s11_a_tired_scheduler_hands_its_office_to_a_thread_that_leaves() {
    together::<ShortOffice>(
        2,
        &[
            |lock| {
                lock.write_timed();
            },
            |lock| {
                lock.read_timed();
            },
            writes,
        ],
    );
}

#[test]
fn fair_s14_a_timed_writer_leaves_the_line_or_has_the_lock() {
    together::<Strict>(
        2,
        &[writes, |lock| {
            lock.write_timed();
        }],
    );
}
