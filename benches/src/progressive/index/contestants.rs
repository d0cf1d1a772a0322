//! The index behind each lock: look a key up and, if its record has to change, upgrade and change
//! it.
//!
//! A contestant that releases the lock in between looks again, since the index may have changed.

use std::hint::black_box;

use lockspan::thread::fair;
use lockspan::thread::progressive::base::{self, Lock};
use lockspan::thread::progressive::upgrade::{self, UpgradeLock};

use super::super::crowd::timed;
use super::super::spinning::Spinning;
use super::tree::Index;

/// An index that many threads use.
pub(crate) trait Shared: Sized + Sync {
    const NAME: &'static str;

    fn new(index: Index) -> Self;
    /// Looks `key` up, and changes its record if it `has_to`; the longer of the waits for that.
    fn visit(&self, key: u32, has_to: bool) -> u64;
    fn into_inner(self) -> Index;
}

/// Read, then seek if that can be without letting go, then write.
pub(crate) struct BySeek(Lock<Index>);

impl Shared for BySeek {
    const NAME: &'static str = "R→S→W";

    fn new(index: Index) -> Self {
        Self(Lock::new(index))
    }

    fn visit(&self, key: u32, has_to: bool) -> u64 {
        let (read, wait) = timed(|| self.0.read());
        black_box(read.look(key));
        if !has_to {
            return wait;
        }
        let (mut write, more) = timed(|| {
            let seek = base::ReadGuard::try_seek(read).unwrap_or_else(|read| {
                drop(read);
                let seek = self.0.seek();
                black_box(seek.look(key));
                seek
            });
            base::SeekGuard::write(seek)
        });
        write.change_alone(key);
        wait.max(more)
    }

    fn into_inner(self) -> Index {
        self.0.into_inner()
    }
}

/// Read, then change while other threads change records too.
pub(crate) struct ByAtomic(UpgradeLock<Index>);

impl Shared for ByAtomic {
    const NAME: &'static str = "R→A";

    fn new(index: Index) -> Self {
        Self(UpgradeLock::new(index))
    }

    fn visit(&self, key: u32, has_to: bool) -> u64 {
        let (read, wait) = timed(|| self.0.read());
        black_box(read.look(key));
        if !has_to {
            return wait;
        }
        let (atomic, more) = timed(|| upgrade::ReadGuard::atomic(read));
        atomic.change(key);
        wait.max(more)
    }

    fn into_inner(self) -> Index {
        self.0.into_inner()
    }
}

/// A lock with an upgradable read: read, let go, read upgradably, upgrade.
macro_rules! upgradable {
    ($(#[$doc:meta])* $peer:ident($lock:ty, $upgrade:path) = $name:literal) => {
        $(#[$doc])*
        pub(crate) struct $peer($lock);

        impl Shared for $peer {
            const NAME: &'static str = $name;

            fn new(index: Index) -> Self {
                Self(<$lock>::new(index))
            }

            fn visit(&self, key: u32, has_to: bool) -> u64 {
                let (read, wait) = timed(|| self.0.read());
                black_box(read.look(key));
                if !has_to {
                    return wait;
                }
                let (mut write, more) = timed(|| {
                    drop(read);
                    let upgradable = self.0.upgradable_read();
                    black_box(upgradable.look(key));
                    $upgrade(upgradable)
                });
                write.change_alone(key);
                wait.max(more)
            }

            fn into_inner(self) -> Index {
                self.0.into_inner()
            }
        }
    };
}

upgradable! {
    /// parking_lot.
    ParkingLot(
        parking_lot_013::RwLock<Index>,
        parking_lot_013::RwLockUpgradableReadGuard::upgrade
    ) = "parking_lot"
}

upgradable! {
    /// Our fair lock.
    Fair(fair::RwLock<Index>, fair::RwLockUpgradableReadGuard::upgrade) = "our fair lock"
}

/// parking_lot once more: its ratio to itself shows how much the machine varies.
pub(crate) struct Again(ParkingLot);

impl Shared for Again {
    const NAME: &'static str = "parking_lot, again";

    fn new(index: Index) -> Self {
        Self(ParkingLot::new(index))
    }

    fn visit(&self, key: u32, has_to: bool) -> u64 {
        self.0.visit(key, has_to)
    }

    fn into_inner(self) -> Index {
        self.0.into_inner()
    }
}

/// std: read, let go, write.
pub(crate) struct Std(std::sync::RwLock<Index>);

impl Shared for Std {
    const NAME: &'static str = "std";

    fn new(index: Index) -> Self {
        Self(std::sync::RwLock::new(index))
    }

    fn visit(&self, key: u32, has_to: bool) -> u64 {
        let (read, wait) = timed(|| self.0.read().unwrap());
        black_box(read.look(key));
        if !has_to {
            return wait;
        }
        let (mut write, more) = timed(|| {
            drop(read);
            self.0.write().unwrap()
        });
        black_box(write.look(key));
        write.change_alone(key);
        wait.max(more)
    }

    fn into_inner(self) -> Index {
        self.0.into_inner().unwrap()
    }
}

/// Nothing but spinning: read, let go, write.
pub(crate) struct Spin(Spinning<Index>);

impl Shared for Spin {
    const NAME: &'static str = "a spinning lock";

    fn new(index: Index) -> Self {
        Self(Spinning::new(index))
    }

    fn visit(&self, key: u32, has_to: bool) -> u64 {
        let (read, wait) = timed(|| self.0.read());
        black_box(read.look(key));
        if !has_to {
            return wait;
        }
        let (mut write, more) = timed(|| {
            drop(read);
            self.0.write()
        });
        black_box(write.look(key));
        write.change_alone(key);
        wait.max(more)
    }

    fn into_inner(self) -> Index {
        self.0.into_inner()
    }
}
