//! What is seen before a fork and after it, in parent and child.

use std::future::{pending, ready};
use std::pin::pin;
use std::task::Waker;

use super::*;

/// Runs this in a child; true if it returned true there.
#[cfg(all(unix, not(miri)))]
pub(super) fn in_a_child(look: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only looks at memory, and ends.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let is_so = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
            // SAFETY: _exit has no preconditions.
            unsafe { libc::_exit(i32::from(!is_so.unwrap_or(false))) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is ours, and so is `status`.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child);
            status == 0
        }
    }
}

#[test]
fn a_generation_stays_the_same_in_its_process() {
    let ours = generation();
    assert_ne!(ours, 0);
    let theirs = std::thread::spawn(generation).join().unwrap();
    assert_eq!((theirs, generation()), (ours, ours));
    assert!(Process::current().is_current());
}

#[test]
fn words_are_given_out_once_and_again_after_they_were_dropped() {
    let words: Vec<WipedWord> = (0..3 * LINES).map(|_| WipedWord::new()).collect();
    for (at, word) in words.iter().enumerate() {
        assert_eq!(word.load(Ordering::Relaxed), 0);
        word.store(at as u64 + 1, Ordering::Relaxed);
    }
    for (at, word) in words.iter().enumerate() {
        assert_eq!(word.load(Ordering::Relaxed), at as u64 + 1);
    }
    drop(words);
    assert_eq!(WipedWord::new().load(Ordering::Relaxed), 0);
}

#[test]
fn in_its_own_process_a_bound_value_is_dropped_and_a_bound_future_runs() {
    let counted = std::sync::Arc::new(());
    let bound = ProcessBound::new(std::sync::Arc::clone(&counted));
    assert_eq!(std::sync::Arc::strong_count(&bound), 2);
    drop(bound);
    assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    let mut context = Context::from_waker(Waker::noop());
    let future = pin!(BoundFuture::new(ready(7), || Poll::Ready(8)));
    assert_eq!(future.poll(&mut context), Poll::Ready(7));
}

#[test]
fn a_local_value_is_made_once_or_not_at_all() {
    static LOCAL: ProcessLocal<u32> = ProcessLocal::new();
    assert_eq!(LOCAL.get_or_try_init(|| Err("no")), Err("no"));
    assert_eq!(LOCAL.get(), None);
    assert_eq!(*LOCAL.get_or_init(|| 1), 1);
    assert_eq!(*LOCAL.get_or_init(|| 2), 1);
}

#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_has_a_later_generation_and_so_has_its_child() {
    let ours = generation();
    assert!(in_a_child(|| {
        let theirs = generation();
        theirs > ours && generation() == theirs && in_a_child(|| generation() > theirs)
    }));
    assert_eq!(generation(), ours);
}

#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_finds_words_wiped_and_its_parent_keeps_them() {
    let word = WipedWord::new();
    word.store(7, Ordering::Relaxed);
    assert!(in_a_child(|| word.load(Ordering::Relaxed) == 0));
    assert_eq!(word.load(Ordering::Relaxed), 7);
}

/// The way for kernels that do not wipe.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_handler_wipes_what_the_kernel_does_not() {
    system::zero_in_children();
    let lines = Box::leak(Box::new([const { Line { word: AtomicU64::new(0) } }; LINES]));
    let page = Page { lines, taken: AtomicU64::new(0), next: None }.add();
    let word = page.take().expect("it is new");
    word.store(7, Ordering::Relaxed);
    assert!(in_a_child(|| word.load(Ordering::Relaxed) == 0));
    assert_eq!(word.load(Ordering::Relaxed), 7);
}

/// A child of a bare clone has run no handler: the kernel has wiped.
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore)]
#[test]
fn a_child_of_a_bare_clone_is_noticed_too() {
    let ours = generation();
    let none = 0_usize;
    let flags = libc::c_long::from(libc::SIGCHLD);
    // SAFETY: without CLONE_VM the child has a copy of everything; it only looks, and ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    if child == 0 {
        // SAFETY: _exit has no preconditions.
        unsafe { libc::_exit(i32::from(generation() <= ours)) }
    }
    let mut status = 0;
    let child = libc::pid_t::try_from(child).expect("a process id");
    // SAFETY: the child is ours, and so is `status`.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_drops_nothing_that_is_bound_and_polls_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped in the child");
        }
    }
    let bomb = ProcessBound::new(Bomb);
    let future = BoundFuture::new(pending::<u32>(), || Poll::Ready(8));
    let mut future = Some((bomb, Box::pin(future)));
    assert!(in_a_child(|| {
        let (mut bomb, mut future) = future.take().expect("it is there");
        let is_refused = bomb.get_mut().is_none() && !bomb.is_current();
        drop(bomb);
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        is_refused && polled == Poll::Ready(8)
    }));
    std::mem::forget(future);
}

#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_makes_a_local_value_anew() {
    static LOCAL: ProcessLocal<u32> = ProcessLocal::new();
    assert_eq!(*LOCAL.get_or_init(|| 1), 1);
    assert!(in_a_child(|| LOCAL.get().is_none() && *LOCAL.get_or_init(|| 2) == 2));
    assert_eq!(LOCAL.get(), Some(&1));
}

#[test]
fn in_its_own_process_a_mutex_is_locked_although_a_thread_panicked_with_it() {
    let mutex = std::sync::Arc::new(ProcessMutex::new(1));
    let theirs = std::sync::Arc::clone(&mutex);
    let ended = std::thread::spawn(move || {
        *theirs.lock().unwrap() = 2;
        let _guard = theirs.lock();
        panic!("on purpose");
    });
    assert!(ended.join().is_err());
    assert_eq!(*mutex.lock().unwrap(), 2);
}

#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_does_not_wait_for_a_mutex_that_a_thread_of_its_parent_has_locked() {
    let value = std::sync::Arc::new(());
    let counted = std::sync::Arc::clone(&value);
    let mutex = ProcessMutex::new(value);
    let locked = mutex.lock();
    assert!(locked.is_some());
    assert!(in_a_child(|| mutex.lock().is_none()));
    drop(locked);
    assert!(in_a_child(move || {
        drop(mutex);
        std::sync::Arc::strong_count(&counted) == 2
    }));
}
