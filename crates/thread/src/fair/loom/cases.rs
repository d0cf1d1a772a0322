//! The failures of a lock of this kind, each as a model: see `docs/failures.md`.

use super::*;

#[test]
fn fair_s1_a_scheduler_that_leaves_does_not_lose_an_arrival() {
    together::<Strict>(&[reads, writes]);
}

#[test]
fn fair_s2_a_writer_that_leaves_wakes_the_next_writer() {
    // `search` allows one preemption more. The suite does not: that takes at least ten minutes. A
    // run beside other work was stopped after 28 minutes; until then it had found nothing.
    deeply::<Strict>(&[writes, writes, writes]);
}

#[test]
fn fair_s2_a_writer_that_leaves_wakes_the_next_writer_when_passing() {
    together::<Passing>(&[writes, writes, writes]);
}

#[test]
fn fair_s3_a_reader_is_not_left_behind_by_the_last_writer() {
    together::<Passing>(&[writes, reads]);
}

#[test]
fn fair_s4_two_writers_and_a_reader_exclude_each_other() {
    together::<Strict>(&[writes, writes, reads]);
}

#[test]
fn fair_s4_two_writers_and_a_reader_exclude_each_other_when_passing() {
    together::<Passing>(&[writes, writes, reads]);
}

#[test]
fn fair_s5_a_thread_that_has_gone_is_not_woken() {
    // A node's end is a write in the model; a late touch by the scheduler fails it.
    together::<Strict>(&[
        |lock| {
            lock.write();
            lock.read();
        },
        writes,
    ]);
}

#[test]
fn fair_s6_the_last_reader_does_not_wake_a_writer_that_has_gone() {
    together::<Strict>(&[reads, |lock| {
        lock.write();
        lock.write();
    }]);
}

#[test]
fn fair_s7_a_grant_before_the_sleep_is_not_lost() {
    together::<Strict>(&[writes, writes]);
}

#[test]
fn fair_s8_acquire_and_release_are_enough() {
    // `search` allows one preemption more. The suite does not: that takes minutes, and has found
    // nothing that this model misses.
    deeply::<Strict>(&[reads, reads, writes]);
}

#[test]
fn fair_s8_acquire_and_release_are_enough_when_passing() {
    together::<Passing>(&[reads, reads, writes]);
}

#[test]
fn loom_fair_readers_come_in_one_by_one_or_together_while_a_writer_waits() {
    together::<OneByOne>(&[reads, reads, writes]);
    together::<Together<OneByOne>>(&[reads, reads, writes]);
}

#[test]
fn fair_s9_readers_let_in_together_may_leave_and_come_back() {
    model(1, || {
        let lock = Strictly::new();
        lock.raw.write();
        side_by_side((0..3).map(|number| {
            let lock = lock.clone();
            move || {
                if number == 0 {
                    lock.add();
                    lock.raw.write_done();
                } else {
                    assert_eq!((lock.read(), lock.read()), (1, 1));
                }
            }
        }));
        lock.assert_at_rest();
    });
}

#[test]
fn fair_s10_a_thread_waits_on_one_lock_while_it_holds_another() {
    model(2, || {
        let (outer, inner) = (Strictly::new(), Strictly::new());
        side_by_side((0..2).map(|_| {
            let (outer, inner) = (outer.clone(), inner.clone());
            move || {
                outer.raw.read();
                inner.write();
                outer.raw.read_done();
            }
        }));
        assert_eq!(inner.read(), 2);
        outer.assert_at_rest();
    });
}

#[test]
fn fair_s11_a_tired_scheduler_leaves_the_rest_to_the_next_release() {
    together::<ShortOffice>(&[writes, reads, writes]);
}

#[test]
fn fair_s11_a_tired_scheduler_hands_its_office_to_a_thread_that_leaves() {
    together::<ShortOffice>(&[
        |lock| {
            lock.write_timed();
        },
        |lock| {
            lock.read_timed();
        },
        writes,
    ]);
}

#[test]
fn fair_s14_a_timed_writer_leaves_the_line_or_has_the_lock() {
    together::<Strict>(&[writes, |lock| {
        lock.write_timed();
    }]);
}
