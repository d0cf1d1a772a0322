//! Detects that the process is a forked copy, without a system call.
//!
//! After `fork` the child has a copy of all memory and of one thread. What that memory says about
//! the world outside the process (a lease, a connection, a thread that will wake another) is true
//! only in the parent. The types of this module notice it:
//!
//! | type | in the child of a fork |
//! |---|---|
//! | [`generation`], [`Process`] | another number: "is this still the process that made it?" |
//! | [`WipedWord`] | reads 0 |
//! | [`ProcessBound`] | its value is never dropped |
//! | [`BoundFuture`] | its future is neither polled nor dropped |
//! | [`ProcessMutex`] | it can't be locked, so nobody waits for a thread of the parent |
//! | [`ProcessLocal`] | empty again: it is made anew at the next use |
//!
//! [`without_forks`] keeps forks waiting while a thread makes something that a child needs whole.
//!
//! # How a child is noticed
//!
//! By pages that the kernel replaces by zeros in every child (`MADV_WIPEONFORK`, Linux 4.14). That
//! happens before the child's first instruction, whichever call made the child: `fork`, or a
//! `clone` that no library sees. Children that share their parent's memory, as those of `vfork` and
//! `posix_spawn` do, are not wiped, and must not be: a store there would be one in the parent.
//!
//! Where the kernel does not know that advice, a handler of `pthread_atfork` stores the zeros. It
//! runs before `fork` returns; a child of a bare `clone` is not noticed then. Where there is no
//! `fork` nothing is done.
//!
//! # Invariants
//!
//! - **I1** Nothing here waits for another thread, which may not be in this process; only a fork
//!   waits, before it is made. All lists grow by compare-and-swap, and two threads that make the
//!   same thing at once both go on with the first.
//! - **I2** A page is never given back, so a pointer into one is good forever, in children too.
//! - **I3** The generation of a child is higher than those of all its ancestors that had asked for
//!   theirs before the fork. Two children of one process may have the same: they share no memory.

mod hold_off;

use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::pin::Pin;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::sync::machine::{AtomicPtr, AtomicU64, Ordering};

pub use hold_off::without_forks;

/// Words of a page that are given out. Each has a cache line: many threads read one that seldom
/// changes, and must not meet the stores to another.
const LINES: usize = 64;

#[repr(C, align(64))]
struct Line {
    word: AtomicU64,
}

const _: () = assert!(size_of::<Line>() == 64);

/// A page that is wiped in a child, and which words of it are taken. This description is ordinary
/// memory, and the same in a child.
struct Page {
    lines: &'static [Line; LINES],
    /// Bit i: `lines[i]` is taken.
    taken: AtomicU64,
    next: Option<&'static Self>,
}

/// The page that was made last.
static PAGES: AtomicPtr<Page> = AtomicPtr::new(ptr::null_mut());

impl Page {
    /// A page that is wiped in children, by the kernel if it can.
    fn make() -> Self {
        let lines = system::wiped_page().unwrap_or_else(|| {
            system::zero_in_children();
            let lines = [const { Line { word: AtomicU64::new(0) } }; LINES];
            Box::leak(Box::new(lines))
        });
        Self { lines, taken: AtomicU64::new(0), next: None }
    }

    /// All there are.
    fn all() -> impl Iterator<Item = &'static Self> {
        std::iter::successors(Self::first(), |page| page.next)
    }

    /// The one that was made last.
    fn first() -> Option<&'static Self> {
        // Acquire: the page is complete, and so are those behind it.
        let page = PAGES.load(Ordering::Acquire);
        // SAFETY: the pointer is null or from `Box::leak` (I2).
        unsafe { page.as_ref() }
    }

    /// Puts a page before the others.
    fn add(self) -> &'static Self {
        let page = Box::into_raw(Box::new(self));
        loop {
            let next = Self::first();
            // SAFETY: nobody else has seen the page yet.
            unsafe { (*page).next = next };
            let first = next.map_or(ptr::null_mut(), |next| ptr::from_ref(next).cast_mut());
            // Release: the page is complete before anybody finds it.
            if PAGES.compare_exchange(first, page, Ordering::Release, Ordering::Relaxed).is_ok() {
                // SAFETY: it is from a box, complete, and never freed.
                return unsafe { &*page };
            }
        }
    }

    /// Takes a word, if one is free.
    fn take(&'static self) -> Option<WipedWord> {
        loop {
            let taken = self.taken.load(Ordering::Relaxed);
            let at = taken.trailing_ones();
            if at as usize >= LINES {
                return None;
            }
            let bit = 1 << at;
            // Acquire: the last owner's store of zero comes first.
            if self.taken.fetch_or(bit, Ordering::Acquire) & bit == 0 {
                return Some(WipedWord { word: &self.lines[at as usize].word, page: self, bit });
            }
        }
    }
}

/// A word that is 0 in every child of the process that stored something else there.
///
/// It costs what an `AtomicU64` behind a reference costs. Who stores to it must be sure that it is
/// the process that made it: a child's store is kept like any other.
pub struct WipedWord {
    word: &'static AtomicU64,
    page: &'static Page,
    bit: u64,
}

impl WipedWord {
    /// A word with 0 in it.
    #[must_use]
    pub fn new() -> Self {
        Page::all().find_map(Page::take).unwrap_or_else(|| {
            loop {
                // Others may take all of a new page before this thread takes one.
                if let Some(word) = Page::make().add().take() {
                    return word;
                }
            }
        })
    }

    /// Its value; 0 in a child.
    #[inline]
    #[must_use]
    pub fn load(&self, ordering: Ordering) -> u64 {
        self.word.load(ordering)
    }

    /// Stores a value.
    #[inline]
    pub fn store(&self, value: u64, ordering: Ordering) {
        self.word.store(value, ordering);
    }
}

impl Default for WipedWord {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WipedWord {
    fn drop(&mut self) {
        self.word.store(0, Ordering::Relaxed);
        // Release: whoever takes the word next finds the zero.
        self.page.taken.fetch_and(!self.bit, Ordering::Release);
    }
}

impl fmt::Debug for WipedWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WipedWord").field(&self.load(Ordering::Relaxed)).finish()
    }
}

/// The word that has the generation; null until somebody asks.
static GENERATION: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The highest generation of this process or an ancestor. Not wiped.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A number that is another one in each child of a fork: higher than that of its parent. Never 0.
///
/// Two loads, once somebody has asked before.
#[inline]
#[must_use]
pub fn generation() -> u64 {
    // Acquire: the word is there. Its own value needs no order: nothing is published by it.
    let word = GENERATION.load(Ordering::Acquire);
    // SAFETY: the pointer is null or one into a page (I2).
    match unsafe { word.as_ref() }.map(|word| word.load(Ordering::Relaxed)) {
        None | Some(0) => first_look(),
        Some(generation) => generation,
    }
}

#[cold]
fn first_look() -> u64 {
    let mut word = GENERATION.load(Ordering::Acquire);
    if word.is_null() {
        // A page of its own where there can be one, which needs no heap: locks ask for this in the
        // midst of a call. It is never given back, nor is that of a thread that was too late.
        let made = match system::wiped_page() {
            Some(lines) => &lines[0].word,
            None => std::mem::ManuallyDrop::new(WipedWord::new()).word,
        };
        let made = ptr::from_ref(made).cast_mut();
        match GENERATION.compare_exchange(word, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => word = made,
            Err(first) => word = first,
        }
    }
    // SAFETY: it is one into a page (I2).
    let word = unsafe { &*word };
    let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        Err(generation) => generation,
    }
}

/// A process, to be compared with the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// This one.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        Self(generation())
    }

    /// Whether the caller runs in this process, and not in a child of it.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0 == generation()
    }
}

/// A value that belongs to the process that made it: in a child it is never dropped.
///
/// For what would touch the world beyond the process when it is dropped, such as a socket that is
/// registered in an `epoll` which parent and child share; or what would wait for a thread or a
/// mutex of the parent.
pub struct ProcessBound<T> {
    value: ManuallyDrop<T>,
    process: Process,
}

impl<T> ProcessBound<T> {
    /// Belongs to the calling process.
    pub fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: Process::current() }
    }

    /// Whether the caller runs in the process that made it.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.process.is_current()
    }

    /// The value, if the caller runs in the process that made it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.process.is_current().then(|| &mut *self.value)
    }
}

/// Looking at it is allowed in a child too.
impl<T> Deref for ProcessBound<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for ProcessBound<T> {
    fn drop(&mut self) {
        if self.process.is_current() {
            // SAFETY: this is the only place that drops it, and it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for ProcessBound<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A future that only the process that made it polls or drops. In a child, polling it gives what
/// `in_child` says.
///
/// Its inside is on the heap, and stays there in a child: lists of the parent's runtime may point
/// to it.
pub struct BoundFuture<F, C> {
    future: ProcessBound<Pin<Box<F>>>,
    in_child: C,
}

impl<F: Future, C: FnMut() -> Poll<F::Output> + Unpin> BoundFuture<F, C> {
    /// Belongs to the calling process.
    pub fn new(future: F, in_child: C) -> Self {
        Self { future: ProcessBound::new(Box::pin(future)), in_child }
    }
}

impl<F: Future, C: FnMut() -> Poll<F::Output> + Unpin> Future for BoundFuture<F, C> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.future.get_mut() {
            Some(future) => future.as_mut().poll(context),
            None => (self.in_child)(),
        }
    }
}

impl<F, C> fmt::Debug for BoundFuture<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundFuture").finish_non_exhaustive()
    }
}

/// A mutex that only the process that made it locks. In a child it may look locked for ever, by a
/// thread that is not there: [`lock`](Self::lock) returns `None` without looking at it. Nor is the
/// value dropped there, which that thread may have left half changed.
pub struct ProcessMutex<T>(ProcessBound<Mutex<T>>);

impl<T> ProcessMutex<T> {
    /// Belongs to the calling process.
    pub fn new(value: T) -> Self {
        Self(ProcessBound::new(Mutex::new(value)))
    }

    /// Waits for the mutex; `None` in a child. That a thread panicked while it had locked the mutex
    /// is ignored.
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.is_current().then(|| self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Default> Default for ProcessMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for ProcessMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessMutex").finish_non_exhaustive()
    }
}

/// A static that each process makes for itself. A child finds it empty, and what its parent had
/// made is not dropped there.
///
/// Nobody waits for another thread that makes it, which could be one that the child has not: if two
/// make it at once, the second is dropped.
pub struct ProcessLocal<T: 'static>(AtomicPtr<Made<T>>);

struct Made<T> {
    process: Process,
    value: T,
}

impl<T: 'static> ProcessLocal<T> {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

/// Any thread may be handed the value that another has made.
impl<T: Send + Sync + 'static> ProcessLocal<T> {
    /// What this process has made, if it has.
    pub fn get(&self) -> Option<&'static T> {
        Self::of_this_process(self.0.load(Ordering::Acquire))
    }

    fn of_this_process(made: *const Made<T>) -> Option<&'static T> {
        // SAFETY: the pointer is null or from `Box::leak`, and never freed.
        let made = unsafe { made.as_ref() }?;
        made.process.is_current().then_some(&made.value)
    }

    /// What this process has made; it makes it if it has not.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        let before = self.0.load(Ordering::Acquire);
        if let Some(value) = Self::of_this_process(before) {
            return Ok(value);
        }
        let ours = Box::new(Made { process: Process::current(), value: make()? });
        let ours = Box::into_raw(ours);
        // Release: the value is complete before anybody finds it.
        match self.0.compare_exchange(before, ours, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it is ours, complete, and from now on never freed.
            Ok(_) => Ok(unsafe { &(*ours).value }),
            Err(first) => {
                // SAFETY: it was made a moment ago and nobody else has seen it.
                drop(unsafe { Box::from_raw(ours) });
                Ok(Self::of_this_process(first).expect("a value changes only for this process's"))
            }
        }
    }

    /// The same, where making it does not fail.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        match self.get_or_try_init(|| Ok::<T, std::convert::Infallible>(make())) {
            Ok(value) => value,
        }
    }
}

impl<T: 'static> Default for ProcessLocal<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug + Send + Sync> fmt::Debug for ProcessLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProcessLocal").field(&self.get()).finish()
    }
}

#[cfg(all(unix, not(miri)))]
mod system {
    //! Wiping by the kernel, and by a handler where it can't.

    use super::{LINES, Line, Page};
    use crate::sync::machine::{AtomicU64, Ordering};

    /// A page that the kernel wipes in children; none if it does not do that.
    #[cfg(target_os = "linux")]
    pub(super) fn wiped_page() -> Option<&'static [Line; LINES]> {
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let length = usize::try_from(page).ok()?.max(size_of::<[Line; LINES]>());
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice; nothing else is changed.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping is ours, and of this length.
        if unsafe { libc::madvise(place, length, libc::MADV_WIPEONFORK) } != 0 {
            // SAFETY: nobody knows of the mapping yet.
            unsafe { libc::munmap(place, length) };
            return None;
        }
        // SAFETY: it is large enough and aligned as a page is, zeros are valid lines, and it is
        // never unmapped. The kernel changes it only in a child, before that has run.
        Some(unsafe { &*place.cast::<[Line; LINES]>() })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn wiped_page() -> Option<&'static [Line; LINES]> {
        None
    }

    /// From now on children store the zeros themselves. Twice does no harm, and waiting for another
    /// thread could.
    pub(super) fn zero_in_children() {
        static IS_REGISTERED: AtomicU64 = AtomicU64::new(0);
        extern "C" fn in_the_child() {
            for line in Page::all().flat_map(|page| page.lines) {
                line.word.store(0, Ordering::Relaxed);
            }
        }
        if IS_REGISTERED.load(Ordering::Relaxed) != 0 {
            return;
        }
        // SAFETY: the handler only reads a list that is sound at each moment and stores to atomics,
        // which is allowed in a child at any moment.
        let error = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
        assert!(error == 0, "pthread_atfork: {}", std::io::Error::from_raw_os_error(error));
        IS_REGISTERED.store(1, Ordering::Relaxed);
    }
}

#[cfg(not(all(unix, not(miri))))]
mod system {
    //! Nothing forks here.

    use super::{LINES, Line};

    pub(super) fn wiped_page() -> Option<&'static [Line; LINES]> {
        None
    }

    pub(super) fn zero_in_children() {}
}

#[cfg(all(test, not(any(lockspan_loom, lockspan_shuttle))))]
mod tests;
