//! Models of the base lock that ships: every pair of ways through it.

use std::time::{Duration, Instant};

use super::super::loom::{Watched, side_by_side};
use super::RawLock;
use Do::{
    Atomic, AtomicInTime, AtomicToRead, AtomicToReadInTime, Read, ReadInTime, ReadToAtomic,
    ReadToAtomicInTime, ReadToSeek, Seek, SeekInTime, SeekToRead, SeekToWrite, SeekToWriteInTime,
    TryAtomic, TryAtomicToRead, TryRead, TryReadToAtomic, TrySeek, TrySeekToWrite, TryWrite, Write,
    WriteInTime, WriteToRead, WriteToSeek,
};

/// One transition; the thread uses what it then holds.
#[derive(Clone, Copy, Debug)]
enum Do {
    Read,
    TryRead,
    ReadInTime,
    Seek,
    TrySeek,
    SeekInTime,
    Write,
    TryWrite,
    WriteInTime,
    Atomic,
    TryAtomic,
    AtomicInTime,
    ReadToSeek,
    ReadToAtomic,
    TryReadToAtomic,
    ReadToAtomicInTime,
    SeekToWrite,
    TrySeekToWrite,
    SeekToWriteInTime,
    SeekToRead,
    WriteToSeek,
    WriteToRead,
    AtomicToRead,
    TryAtomicToRead,
    AtomicToReadInTime,
}

/// What the thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Nothing,
    Read,
    Seek,
    Write,
    Atomic,
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// Follows a script. A step that is refused, or that a model lets fail for the time, ends it.
fn follow(watched: &Watched<RawLock>, me: usize, script: &[Do]) {
    let raw = &watched.raw;
    let mut hold = Hold::Nothing;
    for step in script {
        let Some(next) = go(raw, *step) else { break };
        hold = next;
        match hold {
            Hold::Nothing => {}
            Hold::Read | Hold::Seek => _ = watched.look(),
            Hold::Write => watched.change_all(),
            Hold::Atomic => watched.change(me),
        }
    }
    match hold {
        Hold::Nothing => {}
        Hold::Read => raw.read_done(),
        Hold::Seek => raw.seek_done(),
        Hold::Write => raw.write_done(),
        Hold::Atomic => raw.atomic_done(),
    }
}

fn go(raw: &RawLock, step: Do) -> Option<Hold> {
    let (next, has_moved) = match step {
        Read => (Hold::Read, {
            raw.read();
            true
        }),
        TryRead => (Hold::Read, raw.try_read()),
        ReadInTime => (Hold::Read, raw.read_until(soon())),
        Seek => (Hold::Seek, {
            raw.seek();
            true
        }),
        TrySeek => (Hold::Seek, raw.try_seek()),
        SeekInTime => (Hold::Seek, raw.seek_until(soon())),
        Write => (Hold::Write, {
            raw.write();
            true
        }),
        TryWrite => (Hold::Write, raw.try_write()),
        WriteInTime => (Hold::Write, raw.write_until(soon())),
        Atomic => (Hold::Atomic, {
            raw.atomic();
            true
        }),
        TryAtomic => (Hold::Atomic, raw.try_atomic()),
        AtomicInTime => (Hold::Atomic, raw.atomic_until(soon())),
        ReadToSeek => (Hold::Seek, raw.try_read_to_seek()),
        ReadToAtomic => (Hold::Atomic, raw.read_to_atomic()),
        TryReadToAtomic => (Hold::Atomic, raw.try_read_to_atomic()),
        ReadToAtomicInTime => (Hold::Atomic, raw.read_to_atomic_until(soon())),
        SeekToWrite => (Hold::Write, {
            raw.seek_to_write();
            true
        }),
        TrySeekToWrite => (Hold::Write, raw.try_seek_to_write()),
        SeekToWriteInTime => (Hold::Write, raw.seek_to_write_until(soon())),
        SeekToRead => (Hold::Read, {
            raw.seek_to_read();
            true
        }),
        WriteToSeek => (Hold::Seek, {
            raw.write_to_seek();
            true
        }),
        WriteToRead => (Hold::Read, {
            raw.write_to_read();
            true
        }),
        AtomicToRead => (Hold::Read, {
            raw.atomic_to_read();
            true
        }),
        TryAtomicToRead => (Hold::Read, raw.try_atomic_to_read()),
        AtomicToReadInTime => (Hold::Read, raw.atomic_to_read_until(soon())),
    };
    has_moved.then_some(next)
}

fn check(preemptions: usize, scripts: &[&'static [Do]]) {
    side_by_side(preemptions, RawLock::new, scripts, follow, RawLock::assert_at_rest);
}

/// Every transition, in the shortest way to it.
const WAYS: &[&[Do]] = &[
    &[Read],
    &[Read, ReadToSeek],
    &[Read, ReadToSeek, SeekToWrite],
    &[Read, ReadToAtomic],
    &[Seek],
    &[Seek, SeekToWrite],
    &[Seek, TrySeekToWrite],
    &[Seek, SeekToRead],
    &[Write],
    &[Write, WriteToSeek],
    &[Write, WriteToRead],
    &[Atomic],
    &[Atomic, AtomicToRead],
    &[TryRead],
    &[TrySeek],
    &[TryWrite],
    &[TryAtomic, TryAtomicToRead],
    &[Read, TryReadToAtomic],
    &[ReadInTime],
    &[SeekInTime, SeekToWriteInTime],
    &[WriteInTime],
    &[AtomicInTime, AtomicToReadInTime],
    &[Read, ReadToAtomicInTime],
];

/// `way` beside every other.
fn beside_all(way: &'static [Do]) {
    for other in WAYS {
        check(3, &[way, other]);
    }
}

#[test]
fn loom_base_a_reader_beside_every_way() {
    beside_all(&[Read]);
}

#[test]
fn loom_base_a_reader_that_seeks_and_writes_beside_every_way() {
    beside_all(&[Read, ReadToSeek, SeekToWrite]);
}

#[test]
fn loom_base_a_reader_that_becomes_an_atomic_beside_every_way() {
    beside_all(&[Read, ReadToAtomic]);
}

#[test]
fn loom_base_a_seeker_beside_every_way() {
    beside_all(&[Seek]);
}

#[test]
fn loom_base_a_seeker_that_writes_beside_every_way() {
    beside_all(&[Seek, SeekToWrite]);
}

#[test]
fn loom_base_a_seeker_that_tries_to_write_beside_every_way() {
    beside_all(&[Seek, TrySeekToWrite]);
}

#[test]
fn loom_base_a_writer_beside_every_way() {
    beside_all(&[Write]);
}

#[test]
fn loom_base_a_writer_that_seeks_beside_every_way() {
    beside_all(&[Write, WriteToSeek]);
}

#[test]
fn loom_base_a_writer_that_reads_beside_every_way() {
    beside_all(&[Write, WriteToRead]);
}

#[test]
fn loom_base_an_atomic_that_reads_again_beside_every_way() {
    beside_all(&[Atomic, AtomicToRead]);
}

#[test]
fn loom_base_a_reader_that_tries_to_become_an_atomic_beside_every_way() {
    beside_all(&[Read, TryReadToAtomic]);
}

#[test]
fn loom_base_an_atomic_that_tries_to_read_again_beside_every_way() {
    beside_all(&[Atomic, TryAtomicToRead]);
}

#[test]
fn loom_base_timed_steps_that_fail_leave_nothing() {
    for way in [&[SeekInTime, SeekToWriteInTime][..], &[AtomicInTime, AtomicToReadInTime]] {
        beside_all(way);
    }
    beside_all(&[WriteInTime]);
    beside_all(&[Read, ReadToAtomicInTime]);
}

#[test]
fn loom_base_a_writer_waits_for_a_single_reader() {
    check(2, &[&[Read], &[Write], &[Write]]);
}

#[test]
fn loom_base_two_atomics_a_returner_and_a_reader() {
    check(2, &[&[Atomic, AtomicToRead], &[Atomic], &[Read]]);
}

#[test]
fn loom_base_two_upgraders_and_a_seeker() {
    check(2, &[&[Read, ReadToAtomic], &[Read, ReadToAtomic], &[Seek, SeekToWrite]]);
}

#[test]
fn loom_base_a_line_of_two_behind_a_writer() {
    check(2, &[&[Write], &[Read], &[Seek]]);
}

#[test]
fn loom_base_the_first_in_line_gives_up_and_the_next_goes_on() {
    check(2, &[&[Write], &[WriteInTime], &[Read]]);
}
