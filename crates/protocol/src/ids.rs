//! Numbers that name things, each a type of its own so that they don't mix.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number! {
    /// One lease of one node with one server. The node draws it at random; it is never used again
    /// once the lease has lapsed, so an id that the service does not list holds nothing.
    SessionId(u64), "session "
}
number! {
    /// A node's own number for a server that it talks to.
    ServerId(u32), "server "
}
number! {
    /// Number of an acquire or a conversion. One counter per node, over all records; it names the
    /// acquire in every later message about it.
    Seq(u64), "#"
}
number! {
    /// The owner of locks, for deadlock detection: a number that the caller chooses, for example
    /// that of a transaction. One owner may hold and wait in several processes, so the number must
    /// be unique in the service.
    Owner(u64), "owner "
}
number! {
    /// Names a write to storage until the driver says what became of it.
    StoreId(u64), "store "
}

impl From<u64> for Owner {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl Seq {
    /// Before the first.
    pub const NONE: Self = Self(0);

    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one before this; nothing comes before [`Seq::NONE`].
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}
