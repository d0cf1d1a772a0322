//! Mistakes that the tests put back on purpose, to see that they find them. Only in tests.

use std::cell::Cell;

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Records are locked in the order in which they were given.
    Unsorted,
    /// What was fetched behind a record stays when the server says that the record has to be waited
    /// for.
    KeptWhenQueued,
    /// What was fetched stays when somebody of this node has to be waited for.
    KeptForLocal,
    /// A set that is dropped stays in line.
    StaysInLine,
    /// A set that is dropped does not take back what it has asked for.
    StaysFetched,
    /// A set is given to its caller although one of its records was lost during the wait.
    KeepsLost,
}

thread_local! {
    static PRESENT: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Whether this thread does it wrong.
pub(crate) fn has(bug: Bug) -> bool {
    PRESENT.get() == Some(bug)
}

/// Does something, with a mistake or without one.
pub(crate) fn with<T>(bug: Option<Bug>, act: impl FnOnce() -> T) -> T {
    PRESENT.set(bug);
    let done = act();
    PRESENT.set(None);
    done
}
