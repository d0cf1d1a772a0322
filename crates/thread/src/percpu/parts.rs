//! The memory of something that has a part for each processor, and one for all who have none.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;

use crate::backend::{APART, Area, Regions, possible_cpus};
use crate::sync::machine::{AtomicUsize, Ordering};

/// Zeroed memory for as many parts as there can be processors, plus one, the *common* part: its
/// lock lets threads work that are on no processor that the kernel knows.
#[derive(Debug)]
pub(super) struct Parts {
    regions: Regions,
    layout: Layout,
}

// SAFETY: the memory is the owner's alone, and is given back once; what is in it is the owner's
// concern.
unsafe impl Send for Parts {}
// SAFETY: the fields never change; what they point to is the owner's concern.
unsafe impl Sync for Parts {}

impl Parts {
    /// # Panics
    /// If so much memory cannot be named.
    pub(super) fn new(bytes: usize, capacity: usize) -> Self {
        let cpus = possible_cpus();
        let layout = bytes.checked_next_multiple_of(APART).and_then(|stride| {
            let size = stride.checked_mul(cpus + 1)?;
            Some((stride, Layout::from_size_align(size, APART).ok()?))
        });
        let (stride, layout) = layout.expect("the capacity is too large for any memory");
        assert!(layout.size() > 0, "a part has at least one word");
        // SAFETY: the layout's size is not 0.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        let distance = Area::distance();
        Self { regions: Regions { base, cpus, stride, capacity, distance }, layout }
    }

    #[inline]
    pub(super) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The calling thread's area, if it can run sections.
    #[inline]
    pub(super) fn area(&self) -> Option<Area> {
        Area::at_distance(self.regions.distance)
    }

    /// How many processors there can be. The number of the common part as well.
    pub(super) fn cpus(&self) -> usize {
        self.regions.cpus
    }

    /// Where a part begins.
    ///
    /// # Panics
    /// If there is no such part.
    pub(super) fn part(&self, number: usize) -> *mut u8 {
        assert!(number <= self.cpus(), "there is no part {number}");
        // SAFETY: the part lies in the memory that was allocated for `cpus + 1` of them.
        unsafe { self.regions.base.add(number * self.regions.stride) }
    }

    /// A part for the calling thread, where threads do not know their processor.
    pub(super) fn of_this_thread(&self) -> usize {
        number_of_this_thread() % self.cpus()
    }
}

/// A number of the calling thread's own, in the order in which threads first came.
pub(crate) fn number_of_this_thread() -> usize {
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.try_with(|number| {
        number.get().unwrap_or_else(|| {
            let new = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(new));
            new
        })
    });
    number.unwrap_or(0)
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody has it but us.
        unsafe { dealloc(self.regions.base, self.layout) };
    }
}
