//! The asymmetric fence: light for owners, heavy for thieves.

#[cfg(not(any(miri, lockspan_loom)))]
pub(super) use self::kernel::{are_usable, heavy, light};
#[cfg(all(miri, not(lockspan_loom)))]
pub(super) use self::symmetric::are_usable;
#[cfg(any(miri, lockspan_loom))]
pub(super) use self::symmetric::{heavy, light};

#[cfg(not(any(miri, lockspan_loom)))]
mod kernel {
    use crate::backend::{Backend, backend, barrier, stop_sections};
    use crate::sync::machine::{Ordering, compiler_fence};

    /// Whether there are heavy fences in this process.
    #[inline]
    pub(in super::super) fn are_usable() -> bool {
        backend().backend() != Backend::Plain
    }

    /// Keeps the compiler from moving loads and stores across.
    #[inline]
    pub(in super::super) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// A full barrier here and in every thread of the process. The one that stops sections is one
    /// as well, and the only one that is registered where there are sections.
    pub(in super::super) fn heavy() {
        match backend().backend() {
            Backend::Rseq => stop_sections(),
            _ => barrier(),
        }
    }
}

#[cfg(any(miri, lockspan_loom))]
mod symmetric {
    use crate::sync::{Ordering, fence};

    #[cfg(not(lockspan_loom))]
    pub(in super::super) fn are_usable() -> bool {
        true
    }

    pub(in super::super) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(in super::super) fn heavy() {
        fence(Ordering::SeqCst);
    }
}
