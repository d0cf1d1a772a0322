//! Turns that change: upgrade, downgrade, fair release, recursive reads.

use super::*;

fn upgrades(lock: &Strictly) {
    if !lock.raw.try_acquire(Kind::Upgradable) {
        lock.raw.acquire(Kind::Upgradable, None);
    }
    lock.look();
    lock.raw.upgrade(None);
    lock.add();
    lock.raw.write_done();
}

#[test]
fn loom_an_upgrade_waits_for_the_readers() {
    together::<Strict>(&[reads, upgrades]);
}

#[test]
fn loom_two_upgraders_do_not_deadlock() {
    together::<Strict>(&[upgrades, upgrades]);
}

#[test]
fn loom_an_upgrade_and_a_writer() {
    together::<Strict>(&[writes, upgrades, reads]);
}

#[test]
fn loom_an_upgrade_may_time_out_and_keeps_its_read() {
    together::<Strict>(&[
        reads,
        |lock| {
            if lock.raw.try_acquire(Kind::Upgradable) {
                if lock.raw.upgrade(soon()) {
                    lock.add();
                    lock.raw.write_done();
                } else {
                    lock.look();
                    lock.raw.upgradable_done();
                }
            }
        },
        reads,
    ]);
}

fn downgrades(lock: &Strictly) {
    lock.raw.write();
    lock.add();
    lock.raw.downgrade(Kind::Read);
    lock.look();
    lock.raw.read_done();
}

#[test]
fn loom_a_reader_beside_a_downgraded_writer_sees_what_it_wrote() {
    together::<Strict>(&[reads, downgrades]);
}

#[test]
fn loom_a_downgrade_lets_readers_in_and_writers_later() {
    together::<Strict>(&[reads, writes, downgrades]);
}

#[test]
fn loom_a_downgrade_to_upgradable_and_back() {
    together::<Strict>(&[
        |lock| {
            lock.raw.write();
            lock.add();
            lock.raw.downgrade(Kind::Upgradable);
            lock.look();
            lock.raw.downgrade_upgradable();
            lock.look();
            lock.raw.read_done();
        },
        upgrades,
    ]);
}

#[test]
fn loom_a_fair_release_hands_over() {
    together::<Passing>(&[
        |lock| {
            lock.raw.write();
            lock.add();
            lock.raw.done_fairly(Kind::Write);
        },
        |lock| {
            lock.raw.read();
            lock.look();
            lock.raw.done_fairly(Kind::Read);
        },
        writes,
    ]);
}

#[test]
fn loom_a_recursive_read_passes_a_waiting_writer() {
    together::<Strict>(&[writes, |lock| {
        lock.raw.read();
        assert!(lock.raw.try_read_recursive(), "no writer can be inside");
        lock.look();
        lock.raw.read_done();
        lock.raw.read_done();
    }]);
}
