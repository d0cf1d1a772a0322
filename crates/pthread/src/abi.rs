//! Where our lock lies inside glibc's `pthread_rwlock_t`, and which of the two it is.
//!
//! ```text
//!  0                                                  48        52      56
//! ┌──────────────────────────────────────────────────┬─────────┬───────┐
//! │ the lock: private, or shared in the first 16     │  label  │ never │
//! └──────────────────────────────────────────────────┴─────────┴───────┘
//! label:  31            8 7      0
//!        ┌───────────────┬────────┐
//!        │     mark      │  kind  │
//!        └───────────────┴────────┘
//! ```
//!
//! A static initialiser writes zeros and, at 48, the kind as a 32-bit number. The last four bytes
//! are padding that an initialiser of a local or heap object may leave as they were, so nothing of
//! ours can stand there; the marks share the label with the kind, which needs two bits of it.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;
use lockspan_thread::fair::{Bounded, RawRwLock};

use crate::shared::SharedRwLock;

/// Who may pass whom in a private lock.
pub(crate) type PrivatePolicy = Bounded;

/// The lock inside one process.
pub(crate) type PrivateRwLock = RawRwLock<PrivatePolicy>;

/// Our view of a `pthread_rwlock_t`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CLock {
    core: [u64; 6],
    label: AtomicU32,
    padding: u32,
}

/// glibc's `pthread_rwlockattr_t`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CAttr {
    pub(crate) kind: c_int,
    pub(crate) pshared: c_int,
}

const _: () = assert!(size_of::<CLock>() == size_of::<libc::pthread_rwlock_t>());
const _: () = assert!(align_of::<CLock>() == align_of::<libc::pthread_rwlock_t>());
const _: () = assert!(size_of::<CAttr>() == size_of::<libc::pthread_rwlockattr_t>());
const _: () = assert!(std::mem::offset_of!(CLock, label) == 48);
const _: () = assert!(size_of::<PrivateRwLock>() <= 48 && align_of::<PrivateRwLock>() <= 8);
const _: () = assert!(size_of::<SharedRwLock>() <= 48 && align_of::<SharedRwLock>() <= 8);

/// The highest kind: `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
pub(crate) const LAST_KIND: c_int = 2;

const KIND: u32 = 0xff;
/// No mark: private, be it from a static initialiser or from `init`.
const PRIVATE: u32 = 0;
const SHARED: u32 = 0x4c_53_01 << 8;
const DESTROYED: u32 = 0x4c_53_ff << 8;

const _: () = assert!((PRIVATE | SHARED | DESTROYED) & KIND == 0);

/// The lock in a `pthread_rwlock_t`. Pointers, as an unlock outlives the memory it unlocked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Core {
    Private(*const PrivateRwLock),
    Shared(*const SharedRwLock),
}

impl CLock {
    /// The lock at `at`; `None` if that is null, out of line, destroyed, or not a lock at all.
    ///
    /// # Safety
    ///
    /// `at` is null or points to the memory of a `pthread_rwlock_t`.
    pub(crate) unsafe fn open(at: *const Self) -> Option<Core> {
        if at.is_null() || !at.is_aligned() {
            return None;
        }
        // SAFETY: not null, so live by the caller's word; aligned as just seen.
        let label = unsafe { &(*at).label }.load(Ordering::Relaxed);
        if label & KIND > LAST_KIND as u32 {
            return None;
        }
        match label & !KIND {
            PRIVATE => Some(Core::Private(at.cast())),
            SHARED => Some(Core::Shared(at.cast())),
            _ => None,
        }
    }

    /// The lock at `at`, if it is one inside this process: what [`open`](Self::open) mostly finds.
    ///
    /// # Safety
    ///
    /// As of [`open`](Self::open).
    #[inline(always)]
    pub(crate) unsafe fn private(at: *const Self) -> Option<*const PrivateRwLock> {
        if at.is_null() || !at.is_aligned() {
            return None;
        }
        // SAFETY: not null, so live by the caller's word; aligned as just seen.
        let label = unsafe { &(*at).label }.load(Ordering::Relaxed);
        // No mark, and a kind that there is.
        (label <= LAST_KIND as u32).then_some(at.cast())
    }

    /// Makes a free lock of the memory at `at`.
    ///
    /// # Safety
    ///
    /// `at` points to the memory of a `pthread_rwlock_t` that nobody uses, and is aligned.
    pub(crate) unsafe fn init(at: *mut Self, kind: c_int, shared: bool) {
        let mark = if shared { SHARED } else { PRIVATE };
        let label = AtomicU32::new(kind as u32 | mark);
        // SAFETY: writable and ours alone, by the caller's word.
        unsafe { at.write(Self { core: [0; 6], label, padding: 0 }) };
        if shared {
            // SAFETY: as above; the lock fits, as asserted.
            unsafe { at.cast::<SharedRwLock>().write(SharedRwLock::new()) };
        } else {
            // SAFETY: as above; the lock fits, as asserted.
            unsafe { at.cast::<PrivateRwLock>().write(PrivateRwLock::new()) };
        }
    }

    /// Marks the lock at `at` as destroyed, so that later calls say so.
    ///
    /// # Safety
    ///
    /// `at` points to a live lock that nobody uses any more.
    pub(crate) unsafe fn bury(at: *const Self) {
        // SAFETY: live by the caller's word.
        unsafe { &(*at).label }.store(DESTROYED, Ordering::Relaxed);
    }
}
