//! Counts panics, on whatever thread they are.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static HOOK: Once = Once::new();

/// From now on; tests of this process share the count, and none of them is to panic.
pub(crate) struct Panics(usize);

impl Panics {
    pub(crate) fn count() -> Self {
        HOOK.call_once(|| {
            let say = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                COUNT.fetch_add(1, Ordering::Relaxed);
                say(panic);
            }));
        });
        Self(COUNT.load(Ordering::Relaxed))
    }

    pub(crate) fn so_far(&self) -> usize {
        COUNT.load(Ordering::Relaxed) - self.0
    }
}
