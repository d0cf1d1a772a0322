//! A thread's area: the C library's, or our own where that has none.
//!
//! glibc registers an area for each thread, at the same distance from each thread pointer, and says
//! so in `__rseq_offset` and `__rseq_size`. The kernel takes one registration a thread, so that one
//! must be used; only if the size is 0, or the library does not know the names, a thread registers
//! an area of its own when it first asks for it, and takes it back when it ends.

use std::cell::{Cell, UnsafeCell};
use std::io::Error;
use std::ptr::{self, NonNull};

use core::arch::asm;

use super::super::{Backend, backend};
use super::section::SIGNATURE;
use crate::sync::machine::{AtomicU64, Ordering};

/// The part of the area that every kernel knows. `node` and `concurrency` are there for its size.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct Shared {
    cpu_start: u32,
    cpu: u32,
    section: u64,
    flags: u32,
    node: u32,
    concurrency: u32,
    reserved: u32,
}

pub(super) const CPU: usize = std::mem::offset_of!(Shared, cpu);
pub(super) const SECTION: usize = std::mem::offset_of!(Shared, section);

/// What the kernel's header says: the layout is part of its interface.
const _: () = assert!(CPU == 4 && SECTION == 8 && size_of::<Shared>() == 32);

/// In `cpu`: the thread is not registered.
const NO_CPU: u32 = u32::MAX;
const LENGTH: libc::c_ulong = size_of::<Shared>() as libc::c_ulong;
const UNREGISTER: libc::c_int = 1;

/// The area of the thread that asked for it. It stays with that thread: it is not `Send`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area(NonNull<Shared>);

/// The distance of glibc's areas from the thread pointer; 0 if it is not known or not to be used.
/// At 0 itself is the thread pointer's copy, so no area can be there.
static OFFSET: AtomicU64 = AtomicU64::new(0);

/// Where areas are, once that is known.
#[derive(Clone, Copy, Debug)]
enum Source {
    Glibc(u64),
    Own,
}

/// A word for the source, so that nobody ever waits for it: 0 if it is not known yet, 1 for areas
/// of our own, else glibc's distance, which is a multiple of 32.
static SOURCE: AtomicU64 = AtomicU64::new(0);

impl Source {
    fn known() -> Option<Self> {
        match SOURCE.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Self::Own),
            distance => Some(Self::Glibc(distance)),
        }
    }

    /// It is the same whoever finds it out.
    fn remember(self) {
        let word = match self {
            Self::Own => 1,
            Self::Glibc(distance) => distance,
        };
        SOURCE.store(word, Ordering::Release);
    }
}

impl Area {
    /// How far from its thread pointer each thread has its area; 0 if that is not so, or if the
    /// backend is not `rseq`.
    pub(crate) fn distance() -> u64 {
        backend();
        OFFSET.load(Ordering::Relaxed)
    }

    /// The calling thread's, at the distance that [`distance`](Self::distance) gave, if it gave
    /// one, else as [`current`](Self::current).
    #[inline]
    pub(crate) fn at_distance(distance: u64) -> Option<Self> {
        if distance == 0 { Self::current_slow() } else { Some(Self::at(distance)) }
    }

    /// The calling thread's, if the backend is `rseq` and the thread could be registered.
    #[inline]
    pub(crate) fn current() -> Option<Self> {
        match OFFSET.load(Ordering::Relaxed) {
            0 => Self::current_slow(),
            offset => Some(Self::at(offset)),
        }
    }

    #[cold]
    fn current_slow() -> Option<Self> {
        if backend().backend() != Backend::Rseq {
            return None;
        }
        // A thread that asked while another one was about to publish may come here as well.
        Self::from_source()
    }

    /// The same before the backend is chosen.
    pub(super) fn from_source() -> Option<Self> {
        match Source::known()? {
            Source::Glibc(offset) => Some(Self::at(offset)),
            Source::Own => OWN.try_with(Own::area).ok()?,
        }
    }

    #[inline]
    fn at(offset: u64) -> Self {
        let thread: u64;
        // SAFETY:
        // - memory: reads the thread control block's first word, which the ABI makes its address;
        //   no memory that the program changes, so the compiler may do it once for many calls;
        // - ordering: it never changes while the thread lives;
        // - registers: one output, no flags;
        // - stack: not used;
        // - control: falls through.
        unsafe {
            asm!("mov {}, qword ptr fs:[0]", out(reg) thread,
                options(nostack, preserves_flags, pure, nomem));
        }
        let at = thread.wrapping_add(offset) as usize;
        // SAFETY: the C library's area lies beside the thread control block, never at 0.
        unsafe { std::hint::assert_unchecked(at != 0) };
        let area = ptr::with_exposed_provenance_mut(at);
        // SAFETY: it is not at 0, as before.
        Self(unsafe { NonNull::new_unchecked(area) })
    }

    #[inline]
    pub(super) fn pointer(self) -> *mut Shared {
        self.0.as_ptr()
    }

    /// The processor that the thread is on at this moment; a number too high for any if the thread
    /// is not registered.
    #[inline]
    pub(crate) fn cpu(self) -> usize {
        // SAFETY: the area lives as long as its thread, which this is.
        let cpu = unsafe { &raw const (*self.pointer()).cpu };
        // SAFETY: as before; volatile, as the kernel writes it between two instructions.
        let cpu = unsafe { cpu.read_volatile() };
        cpu as usize
    }
}

/// Finds out where areas are and whether this thread has one.
pub(super) fn find() -> Result<&'static str, String> {
    let (source, how) = match glibc_offset() {
        Some(offset) => (Source::Glibc(offset), "glibc has registered restartable sequences"),
        None => {
            OWN.try_with(Own::try_area)
                .unwrap_or_else(|_| Err("the thread is ending".to_owned()))?;
            (Source::Own, "restartable sequences are registered by this library")
        }
    };
    source.remember();
    let area = Area::from_source().ok_or("the thread has no area")?;
    if area.cpu() >= NO_CPU as usize - 1 {
        return Err("the C library could not register its area".to_owned());
    }
    Ok(how)
}

/// From now on sections are run by whoever wants to.
pub(super) fn publish() {
    if let Some(Source::Glibc(offset)) = Source::known() {
        OFFSET.store(offset, Ordering::Relaxed);
    }
}

/// The value of `__rseq_offset`, if `__rseq_size` says that areas are registered.
fn glibc_offset() -> Option<u64> {
    let (offset, size): (*const isize, *const u32);
    // SAFETY:
    // - memory: reads two words of the global offset table; a weak symbol that is missing is 0;
    // - ordering: the table does not change after the program was loaded;
    // - registers: two outputs, no flags;
    // - stack: not used;
    // - control: falls through.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset, size = out(reg) size,
            options(nostack, preserves_flags, pure, readonly)
        );
    }
    let or_loaded = |weak: *const libc::c_void, name: &std::ffi::CStr| {
        if !weak.is_null() {
            return weak;
        }
        // A linker may have settled the weak name as missing although the loader knows it.
        // SAFETY: the name ends with a zero; the handle means all that is loaded.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast_const()
    };
    let offset: *const isize = or_loaded(offset.cast(), c"__rseq_offset").cast();
    let size: *const u32 = or_loaded(size.cast(), c"__rseq_size").cast();
    // SAFETY: if it is there, it is glibc's constant `unsigned int`.
    let size = unsafe { size.as_ref() }?;
    // SAFETY: if it is there, it is glibc's constant `ptrdiff_t`.
    let offset = unsafe { offset.as_ref() }?;
    (*size != 0 && *offset != 0).then_some(*offset as u64)
}

/// An area of our own.
#[derive(Debug)]
struct Own {
    shared: UnsafeCell<Shared>,
    /// Whether it is registered, once that was tried.
    state: Cell<Option<bool>>,
}

thread_local! {
    static OWN: Own = const { Own::new() };
}

impl Own {
    const fn new() -> Self {
        let shared = Shared {
            cpu_start: 0,
            cpu: NO_CPU,
            section: 0,
            flags: 0,
            node: 0,
            concurrency: 0,
            reserved: 0,
        };
        Self { shared: UnsafeCell::new(shared), state: Cell::new(None) }
    }

    fn area(&self) -> Option<Area> {
        match self.state.get() {
            Some(true) => NonNull::new(self.shared.get()).map(Area),
            Some(false) => None,
            None => self.try_area().ok(),
        }
    }

    /// Registers the area, if that was not yet tried.
    fn try_area(&self) -> Result<Area, String> {
        if self.state.get().is_none() {
            let result = self.call(0);
            self.state.set(Some(result.is_ok()));
            result.map_err(|error| format!("rseq cannot be registered: {error}"))?;
        }
        self.area().ok_or_else(|| "rseq could not be registered for this thread".to_owned())
    }

    fn call(&self, flags: libc::c_int) -> Result<(), Error> {
        let at = self.shared.get();
        // SAFETY: the area stays where it is until its thread ends, and is taken back before.
        let result = unsafe { libc::syscall(libc::SYS_rseq, at, LENGTH, flags, SIGNATURE) };
        if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.state.get() == Some(true)
            && let Err(error) = self.call(UNREGISTER)
        {
            // The kernel would write to memory that is about to be somebody else's.
            lockspan_park::stop(format_args!("rseq cannot be taken back: {error}; aborting"));
        }
    }
}
