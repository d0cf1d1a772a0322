//! From a line of a table to a function for C.

use std::time::Instant;

use libc::{EBUSY, EINPROGRESS, EINVAL, ETIMEDOUT, c_int, timespec};
use lockspan_thread::progressive::base::RawLock;
use lockspan_thread::progressive::claim::{RawClaimLock, Unfinished};
use lockspan_thread::progressive::upgrade::RawUpgradeLock;
use lockspan_thread::progressive::{base, claim};

use crate::misuse::misuse;
use crate::{descriptor, time};

/// A raw lock that C can have.
pub(super) trait Plock {
    /// Who is inside, at one moment.
    type Holders;
    /// What to pass where null was passed.
    const INSTEAD: &str;

    fn holders(&self) -> Self::Holders;
    fn is_idle(&self) -> bool;
}

/// A hold that a call gives up or converts.
pub(super) struct Hold<H> {
    /// Whether somebody has it. The caller, if it has, is among them: a thread sees its own hold.
    pub(super) is_there: fn(&H) -> bool,
    /// What to say if nobody has.
    pub(super) missing: &'static str,
    /// What the caller should have done.
    pub(super) instead: &'static str,
}

/// The lock of a descriptor, which must not be null.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, and stays one while the reference is used.
pub(super) unsafe fn open<'a, L: Plock>(lock: *const L, call: &str) -> &'a L {
    // SAFETY: the same contract.
    unsafe { descriptor::open(lock, call, L::INSTEAD) }
}

/// Ends the program unless somebody has the hold.
#[inline]
pub(super) fn need<L: Plock>(lock: &L, call: &str, hold: &Hold<L::Holders>) {
    if !(hold.is_there)(&lock.holders()) {
        misuse(call, hold.missing, hold.instead);
    }
}

/// Ends the program: nobody can say when a caller that must not fail would come in.
#[cold]
pub(super) fn full(call: &str) -> ! {
    misuse(call, "the lock counts no more holders", "end a hold for each that is begun");
}

/// Destroys a lock.
///
/// # Safety
///
/// `lock` is null or a valid descriptor, and no other call on it runs or follows.
pub(super) unsafe fn free<L: Plock>(lock: *mut L, call: &str) {
    // SAFETY: the same contract.
    if !unsafe { open(lock, call) }.is_idle() {
        misuse(call, "the lock is held or waited for", "end every hold first");
    }
    // SAFETY: a descriptor is from `create`, and nobody else uses it.
    unsafe { descriptor::destroy(lock) };
}

/// 0, or `EBUSY` if others were in the way.
#[inline]
pub(super) fn busy_unless(done: bool) -> c_int {
    if done { 0 } else { EBUSY }
}

/// Calls with the time in `until`: 0, `ETIMEDOUT`, `EINVAL`, or `EBUSY` if it was refused before.
///
/// # Safety
///
/// `until` is null or points to a `timespec`.
pub(super) unsafe fn within(until: *const timespec, call: impl FnOnce(Instant) -> bool) -> c_int {
    // SAFETY: the same contract.
    let Some(deadline) = (unsafe { time::instant(until) }) else { return EINVAL };
    if call(deadline) {
        0
    } else if Instant::now() < deadline {
        EBUSY
    } else {
        ETIMEDOUT
    }
}

/// As [`within`] for a call that can need two steps: `EINPROGRESS` if its time was over between
/// them.
///
/// # Safety
///
/// `until` is null or points to a `timespec`.
pub(super) unsafe fn steps_within(
    until: *const timespec,
    call: impl FnOnce(Instant) -> Result<(), Unfinished>,
) -> c_int {
    // SAFETY: the same contract.
    let Some(deadline) = (unsafe { time::instant(until) }) else { return EINVAL };
    match call(deadline) {
        Ok(()) => 0,
        Err(Unfinished::Back(())) => ETIMEDOUT,
        Err(Unfinished::HalfWay(())) => EINPROGRESS,
    }
}

/// Makes the functions of a table; each line is `kind name = method from STATE;`.
///
/// | kind    | the function returns | the method returns |
/// |---------|----------------------|--------------------|
/// | `void`  | nothing              | nothing            |
/// | `enter` | nothing              | false if the lock counts no more holders: misuse |
/// | `busy`  | 0 or `EBUSY`         | whether it is done |
/// | `timed` | see [`within`]       | whether it is done |
/// | `steps` | see [`steps_within`] | where it ended     |
///
/// `new` and `free` have a name only.
macro_rules! calls {
    ($lock:ty: $($kind:ident $name:ident $(= $method:ident $(from $hold:ident)?)?;)*) => {
        $($crate::plock::calls::calls! { @$kind $lock, $name $(, $method $(, $hold)?)? })*
    };
    (@new $lock:ty, $name:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> *mut $lock {
            $crate::descriptor::create(<$lock>::new())
        }
    };
    (@free $lock:ty, $name:ident) => {
        /// # Safety
        ///
        /// `lock` is null or a valid descriptor, and no other call on it runs or follows.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(lock: *mut $lock) {
            // SAFETY: the same contract.
            unsafe { $crate::plock::calls::free(lock, stringify!($name)) }
        }
    };
    (@void $lock:ty, $name:ident, $method:ident $(, $hold:ident)?) => {
        /// # Safety
        ///
        /// `lock` is null or a valid descriptor.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(lock: *const $lock) {
            // SAFETY: the same contract.
            let lock = unsafe { $crate::plock::calls::open(lock, stringify!($name)) };
            $($crate::plock::calls::need(lock, stringify!($name), &$hold);)?
            lock.$method();
        }
    };
    (@enter $lock:ty, $name:ident, $method:ident) => {
        /// # Safety
        ///
        /// `lock` is null or a valid descriptor.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(lock: *const $lock) {
            // SAFETY: the same contract.
            let lock = unsafe { $crate::plock::calls::open(lock, stringify!($name)) };
            if !lock.$method() {
                $crate::plock::calls::full(stringify!($name));
            }
        }
    };
    (@busy $lock:ty, $name:ident, $method:ident $(, $hold:ident)?) => {
        /// # Safety
        ///
        /// `lock` is null or a valid descriptor.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(lock: *const $lock) -> libc::c_int {
            // SAFETY: the same contract.
            let lock = unsafe { $crate::plock::calls::open(lock, stringify!($name)) };
            $($crate::plock::calls::need(lock, stringify!($name), &$hold);)?
            $crate::plock::calls::busy_unless(lock.$method())
        }
    };
    (@timed $lock:ty, $name:ident, $method:ident $(, $hold:ident)?) => {
        $crate::plock::calls::calls! { @until within, $lock, $name, $method $(, $hold)? }
    };
    (@steps $lock:ty, $name:ident, $method:ident, $hold:ident) => {
        $crate::plock::calls::calls! { @until steps_within, $lock, $name, $method, $hold }
    };
    (@until $within:ident, $lock:ty, $name:ident, $method:ident $(, $hold:ident)?) => {
        /// # Safety
        ///
        /// `lock` is null or a valid descriptor, `until` null or a pointer to a `timespec`.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            lock: *const $lock,
            until: *const libc::timespec,
        ) -> libc::c_int {
            // SAFETY: the same contract.
            let lock = unsafe { $crate::plock::calls::open(lock, stringify!($name)) };
            let call = |deadline| {
                $($crate::plock::calls::need(lock, stringify!($name), &$hold);)?
                lock.$method(deadline)
            };
            // SAFETY: the same contract.
            unsafe { $crate::plock::calls::$within(until, call) }
        }
    };
}
pub(super) use calls;

/// What the three raw locks have in common, by their own methods.
macro_rules! plock {
    ($lock:ty, $holders:ty, $new:literal) => {
        impl Plock for $lock {
            type Holders = $holders;
            const INSTEAD: &str = concat!("pass one that ", $new, "() returned");

            #[inline]
            fn holders(&self) -> $holders {
                self.holders()
            }

            fn is_idle(&self) -> bool {
                self.is_idle()
            }
        }
    };
}

plock!(RawLock, base::Holders, "lockspan_plock_new");
plock!(RawUpgradeLock, base::Holders, "lockspan_plock_upgrade_new");
plock!(RawClaimLock, claim::Holders, "lockspan_plock_claim_new");
