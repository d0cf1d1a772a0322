//! One trait over all read-write locks, and the locks that implement it.
//!
//! Every lock guards four words that writers keep equal. If a reader sees two different words, the
//! lock let in a writer at the same time; if the count at the end is not the number of writes, a
//! write was lost. Both end the run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What each lock guards: all words equal, each the number of writes so far.
pub(crate) type Data = [u64; 4];

/// A read-write lock over [`Data`], taken for the length of a closure.
pub(crate) trait Lock: Sized + Send + Sync + 'static {
    /// Its name in tables, and on the command line.
    const NAME: &'static str;
    /// Whether it keeps readers and writers apart at all.
    const EXCLUDES: bool = true;
    /// Bytes of the lock and its data.
    const SIZE: usize = size_of::<Self>();

    fn new() -> Self;
    fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R;
    fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R;
}

/// What a reader does inside: it looks at every word.
#[inline]
pub(crate) fn look<L: Lock>(data: &Data) {
    let [a, b, c, d] = std::hint::black_box(*data);
    if L::EXCLUDES && (a != b || a != c || a != d) {
        violation(L::NAME, data);
    }
}

/// What a writer does inside: it looks, and counts itself in every word.
#[inline]
pub(crate) fn bump<L: Lock>(data: &mut Data) {
    look::<L>(data);
    for word in data {
        *word = std::hint::black_box(*word + 1);
    }
}

/// Ends the run unless the lock saw exactly `writes` writers.
pub(crate) fn settle<L: Lock>(lock: &L, writes: u64) {
    lock.read(|data| {
        look::<L>(data);
        if L::EXCLUDES && data[0] != writes {
            eprintln!("{}: {writes} writes were made but {} are left", L::NAME, data[0]);
            std::process::abort();
        }
    });
}

#[cold]
#[inline(never)]
fn violation(name: &str, data: &Data) -> ! {
    eprintln!("{name}: does not exclude, a section saw {data:?}");
    std::process::abort();
}

/// No lock at all: what the threads, the clock and the scheduler cost alone.
pub(crate) struct Nothing([AtomicU64; 4]);

impl Lock for Nothing {
    const NAME: &'static str = "none";
    const EXCLUDES: bool = false;

    fn new() -> Self {
        Self(Default::default())
    }

    #[inline]
    fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
        f(&self.0.each_ref().map(|word| word.load(Relaxed)))
    }

    #[inline]
    fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R {
        let mut data = self.0.each_ref().map(|word| word.load(Relaxed));
        let result = f(&mut data);
        for (word, value) in self.0.iter().zip(data) {
            word.store(value, Relaxed);
        }
        result
    }
}

/// `std::sync::RwLock`.
pub(crate) struct StdRwLock(std::sync::RwLock<Data>);

impl Lock for StdRwLock {
    const NAME: &'static str = "std::RwLock";

    fn new() -> Self {
        Self(std::sync::RwLock::new([0; 4]))
    }

    #[inline]
    fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
        f(&self.0.read().unwrap())
    }

    #[inline]
    fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R {
        f(&mut self.0.write().unwrap())
    }
}

/// `std::sync::Mutex`: readers exclude each other too.
pub(crate) struct StdMutex(std::sync::Mutex<Data>);

impl Lock for StdMutex {
    const NAME: &'static str = "std::Mutex";

    fn new() -> Self {
        Self(std::sync::Mutex::new([0; 4]))
    }

    #[inline]
    fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
        f(&self.0.lock().unwrap())
    }

    #[inline]
    fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R {
        f(&mut self.0.lock().unwrap())
    }
}

/// `tokio::sync::RwLock` as threads use it.
pub(crate) struct Tokio(tokio::sync::RwLock<Data>);

impl Lock for Tokio {
    const NAME: &'static str = "tokio";

    fn new() -> Self {
        Self(tokio::sync::RwLock::new([0; 4]))
    }

    #[inline]
    fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
        f(&self.0.blocking_read())
    }

    #[inline]
    fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R {
        f(&mut self.0.blocking_write())
    }
}

/// A newtype over an alias of `lock_api::RwLock`, released as its guards release by default.
macro_rules! lock_api_peer {
    ($(#[$doc:meta])* $peer:ident($inner:ty) = $name:literal) => {
        $(#[$doc])*
        pub(crate) struct $peer($inner);

        impl Lock for $peer {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self(<$inner>::new([0; 4]))
            }

            #[inline]
            fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
                f(&self.0.read())
            }

            #[inline]
            fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R {
                f(&mut self.0.write())
            }
        }
    };
}

/// The same, released by `unlock_fair`.
macro_rules! lock_api_fair_peer {
    ($(#[$doc:meta])* $peer:ident($inner:ty, $read:path, $write:path) = $name:literal) => {
        $(#[$doc])*
        pub(crate) struct $peer($inner);

        impl Lock for $peer {
            const NAME: &'static str = $name;

            fn new() -> Self {
                Self(<$inner>::new([0; 4]))
            }

            #[inline]
            fn read<R>(&self, f: impl FnOnce(&Data) -> R) -> R {
                let guard = self.0.read();
                let result = f(&guard);
                $read(guard);
                result
            }

            #[inline]
            fn write<R>(&self, f: impl FnOnce(&mut Data) -> R) -> R {
                let mut guard = self.0.write();
                let result = f(&mut guard);
                $write(guard);
                result
            }
        }
    };
}

lock_api_peer! {
    /// `parking_lot` before 0.13, with eventual fairness.
    ParkingLot012(parking_lot_012::RwLock<Data>) = "parking_lot-0.12"
}

lock_api_peer! {
    /// `parking_lot` 0.13.
    ParkingLot013(parking_lot_013::RwLock<Data>) = "parking_lot-0.13"
}

lock_api_fair_peer! {
    /// `parking_lot` before 0.13, always handing over.
    ParkingLot012Fair(
        parking_lot_012::RwLock<Data>,
        parking_lot_012::RwLockReadGuard::unlock_fair,
        parking_lot_012::RwLockWriteGuard::unlock_fair
    ) = "parking_lot-0.12-fair"
}

lock_api_fair_peer! {
    /// `parking_lot` 0.13, always handing over.
    ParkingLot013Fair(
        parking_lot_013::RwLock<Data>,
        parking_lot_013::RwLockReadGuard::unlock_fair,
        parking_lot_013::RwLockWriteGuard::unlock_fair
    ) = "parking_lot-0.13-fair"
}

lock_api_peer! {
    /// Ours, as it comes: a waiter is passed only for a bounded time.
    Lockspan(lockspan::thread::fair::RwLock<Data>) = "lockspan"
}

lock_api_peer! {
    /// Ours, in strict order.
    LockspanStrict(
        lockspan::thread::fair::StrictRwLock<Data>
    ) = "lockspan-strict"
}
