//! What happens when the signal comes, and what the handler knows of its thread.

use std::cell::Cell;
use std::io::Error;
use std::ptr;

use super::SIGNAL;
use super::section::{self, Place};
use crate::sync::machine::{AtomicU32, AtomicU64, Ordering};

/// What a thread has told of itself. The cell needs no making and no end: a handler may look.
#[derive(Clone, Copy, Debug)]
struct Known {
    thread: &'static AtomicU32,
    flag: &'static AtomicU64,
    comes_again: &'static AtomicU32,
}

thread_local! {
    static KNOWN: Cell<Option<Known>> = const { Cell::new(None) };
}

/// The calling thread's flag is `flag` from now on; `thread` is the number that it is sent signals
/// by, in children of a fork too; and `comes_again` is 1 while the signal is blocked by ourselves,
/// and pending, so that it comes before the section goes on.
pub(crate) fn follow_thread(
    thread: &'static AtomicU32,
    flag: &'static AtomicU64,
    comes_again: &'static AtomicU32,
) {
    flag.store(0, Ordering::Relaxed);
    comes_again.store(0, Ordering::Relaxed);
    thread.store(number(), Ordering::Release);
    KNOWN.set(Some(Known { thread, flag, comes_again }));
}

/// The calling thread has no flag any more.
pub(crate) fn forget_thread() {
    KNOWN.set(None);
}

/// The kernel's number of the calling thread.
fn number() -> u32 {
    // SAFETY: a query without side effects.
    let number = unsafe { libc::gettid() };
    number.cast_unsigned()
}

/// Sends the signal to a thread of this process.
pub(super) fn send(thread: u32) -> Result<(), Error> {
    let process = std::process::id();
    // SAFETY: the call takes three numbers; the signal has a handler, as all callers make sure.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, SIGNAL) };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Whether there is no such thread in this process any more.
pub(super) fn has_ended(thread: u32) -> bool {
    let process = std::process::id();
    // SAFETY: the call takes three numbers, and sends nothing.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) };
    result != 0 && Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Called by the kernel, at any moment: uses nothing that another moment may have left half done.
extern "C" fn leave_section(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel gives a handler with `SA_SIGINFO` the interrupted frame's context.
    let at = unsafe { &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    // SAFETY: as before; nobody else has the context.
    let place = section::find(unsafe { *at } as usize);
    if let Place::Inside { start } = place {
        // SAFETY: as before. A section may begin anew at any time: it changes none of its inputs.
        unsafe { *at = start as libc::greg_t };
    }
    let Some(known) = KNOWN.get() else { return };
    let is_below = place == Place::Outside && known.flag.load(Ordering::Relaxed) != 0;
    if is_below {
        come_again(context);
    }
    // Overwrites the old value: this delivery is the signal that it announced.
    known.comes_again.store(u32::from(is_below), Ordering::Release);
}

/// A section lies below the interrupted frame, which is another signal's handler: the signal is
/// blocked until that returns, and sent again.
fn come_again(context: *mut libc::ucontext_t) {
    // SAFETY: as the caller has it from the kernel. Of the mask the kernel has the first 8 bytes.
    let mask: *mut u64 = unsafe { &raw mut (*context).uc_sigmask }.cast();
    // SAFETY: as before; what is written here is the frame's mask when we return to it.
    unsafe { *mask |= 1 << (SIGNAL - 1) };
    // While this handler runs, the signal is blocked in any case.
    if let Err(error) = send(number()) {
        stop("a thread cannot send itself a signal", &error);
    }
}

/// After this nobody knows which stores are still to come. A handler may call it.
pub(super) fn stop(what: &str, error: &Error) -> ! {
    let code = error.raw_os_error().unwrap_or_default();
    // Neither the formatting of a number nor the write uses the heap.
    lockspan_park::stop(format_args!("{what}: error {code}; aborting"))
}

/// What the kernel does with the signal.
fn action() -> Result<libc::sigaction, Error> {
    // SAFETY: zeros are a value of the structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills in the structure and changes nothing.
    let result = unsafe { libc::sigaction(SIGNAL, ptr::null(), &mut action) };
    if result == 0 { Ok(action) } else { Err(Error::last_os_error()) }
}

/// Whether the signal comes to our handler.
pub(super) fn is_ours() -> bool {
    let ours: Handler = leave_section;
    action().is_ok_and(|action| action.sa_sigaction == ours as usize)
}

/// In the child of a fork: no signal is pending there, so none comes again.
extern "C" fn in_the_child() {
    if let Some(known) = KNOWN.get() {
        known.comes_again.store(0, Ordering::Relaxed);
        known.thread.store(number(), Ordering::Release);
    }
}

/// Installs the handler, unless the program uses the signal for something else. Two threads may
/// call this at once, and a fork may leave one behind in the middle: each step may be done twice.
///
/// The decision rests on one reading of the action. With two readings, the other thread's handler
/// could appear between "is it ours?" and "is it free?", and count as a foreign one.
pub(super) fn install() -> Result<(), String> {
    let failed = |error: Error| format!("SIGSTKFLT cannot be used: {error}");
    let ours: Handler = leave_section;
    let present = action().map_err(failed)?.sa_sigaction;
    if present == ours as usize {
        return Ok(());
    }
    if present != libc::SIG_DFL {
        return Err("SIGSTKFLT is in use by somebody else".to_owned());
    }
    // SAFETY: the handler writes atomics, which is allowed in a child at any moment.
    let error = unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
    if error != 0 {
        return Err(failed(Error::from_raw_os_error(error)));
    }
    // SAFETY: zeros are a value of the structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ours as usize;
    // On the alternate stack, because there are programs whose threads have small stacks. That one
    // may be small too (Rust's has 8 KB), so every other signal is blocked until this handler,
    // which is short, returns: a foreign handler that came meanwhile would be called on it.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the set is a part of the structure above.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the handler is one for `SA_SIGINFO`, and touches only its context, cells that need
    // no making, atomics, and calls that handlers may make.
    let result = unsafe { libc::sigaction(SIGNAL, &action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(failed(Error::last_os_error())) }
}
