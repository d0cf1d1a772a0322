//! The Python package `lockspan`: a binding of the Rust client. All decisions about locks are made
//! there; this crate translates calls, waits and errors.
//!
//! | module | job |
//! |---|---|
//! | `locks`, `options` | a connection, and the options that it is made with |
//! | `record`, `hold`, `grip`, `attempt` | what users acquire and hold |
//! | `sets` | several records at once |
//! | `holders` | which thread or task holds a record, so that it does not wait for itself |
//! | `park` | a thread waits: detached from the interpreter, and Ctrl-C ends it |
//! | `bell`, `task`, `wait` | an asyncio task waits: its event loop is woken by a file descriptor |
//! | `lost` | the event of a hold that was lost |
//! | `convert`, `errors` | Python's values and exceptions |
//! | `exit` | what is open when the interpreter ends |
//!
//! **Invariant:** an acquire of a cached record polls the client's future once, attached to the
//! interpreter, and allocates nothing but the Python objects that the caller sees.
//!
//! **Invariant:** in a child of a fork nobody waits for a mutex of its parent. The mutexes of this
//! crate are locked by attached threads, and not while a thread detaches, so `os.fork` finds them
//! free. The two that threads of the client lock, to wake a waiter, are a
//! [`ProcessMutex`](lockspan_park::fork::ProcessMutex), which a child does not lock.
//!
//! **Invariant:** no thread of the client ever attaches to the interpreter. Neither a program that
//! keeps the interpreter busy nor one that ends can stop the renewal of leases or hang on it.

#![forbid(unsafe_code)]

mod attempt;
mod bell;
mod convert;
mod errors;
mod exit;
mod grip;
mod hold;
mod holders;
mod locks;
mod lost;
mod options;
mod park;
mod record;
mod sets;
mod task;
mod wait;

use pyo3::prelude::*;

/// What the Python modules of the package are made of.
#[pymodule]
mod _lockspan {
    #[pymodule_export]
    use crate::attempt::Attempt;
    #[pymodule_export]
    use crate::bell::Bell;
    #[pymodule_export]
    use crate::exit::close_all;
    #[pymodule_export]
    use crate::hold::Hold;
    #[pymodule_export]
    use crate::locks::Locks;
    #[pymodule_export]
    use crate::lost::LostEvent;
    #[pymodule_export]
    use crate::options::connect;
    #[pymodule_export]
    use crate::record::Record;
    #[pymodule_export]
    use crate::sets::{All, HoldAll};
    #[pymodule_export]
    use crate::task::Task;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
