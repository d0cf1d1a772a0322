//! The client's errors as exceptions of the module `lockspan._errors`.

use lockspan::{BadName, CloseUnknown, ConnectError, LockError, Mode, TimedOut};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

use crate::convert::shown;
use crate::holders::Own;

const MODULE: &str = "lockspan._errors";

/// The exception of this name, with a message and attributes.
fn exception(py: Python<'_>, class: &str, said: String, attributes: &Bound<'_, PyDict>) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let module = ERRORS.get_or_try_init(py, || PyModule::import(py, MODULE).map(Bound::unbind));
        let class = module?.bind(py).getattr(class)?;
        let made = class.call1((said,))?;
        for (name, value) in attributes {
            made.setattr(name.cast::<pyo3::types::PyString>()?, value)?;
        }
        Ok(PyErr::from_value(made))
    };
    make().unwrap_or_else(|why| why)
}

fn simple(py: Python<'_>, class: &str, said: String) -> PyErr {
    exception(py, class, said, &PyDict::new(py))
}

/// The exception for an error of an acquire, an upgrade or a hold.
pub(crate) fn lock(py: Python<'_>, why: &LockError) -> PyErr {
    let fill = || -> PyResult<PyErr> {
        let attributes = PyDict::new(py);
        let class = match why {
            LockError::Timeout(late) => {
                timeout(py, late, &attributes)?;
                "Timeout"
            }
            LockError::Deadlock { cycle } => {
                let cycle: Vec<u64> = cycle.iter().map(|owner| owner.0).collect();
                attributes.set_item("cycle", cycle)?;
                "Deadlock"
            }
            LockError::UpgradeConflict => "UpgradeConflict",
            LockError::Lost => "Lost",
            LockError::Refused(_) => "Refused",
            LockError::NoSession(_) => "NoSession",
            LockError::Trouble(trouble) => {
                attributes.set_item("kind", format!("{:?}", trouble.kind))?;
                "Trouble"
            }
            LockError::TooManyRecords(_) => "TooManyRecords",
            LockError::BadNote(_) => "BadNote",
            LockError::BadSet(_) => "BadSet",
            LockError::Closed => "Closed",
            LockError::Forked => "Forked",
            _ => "LockError",
        };
        attributes.set_item("is_retryable", why.is_retryable())?;
        attributes.set_item("may_still_hold", why.may_still_hold())?;
        Ok(exception(py, class, why.to_string(), &attributes))
    };
    fill().unwrap_or_else(|why| why)
}

fn timeout(py: Python<'_>, late: &TimedOut, attributes: &Bound<'_, PyDict>) -> PyResult<()> {
    let holder = PyModule::import(py, MODULE)?.getattr("Holder")?;
    let mut holders = Vec::new();
    for one in &late.holders {
        let mode = if one.mode == Mode::Write { "write" } else { "read" };
        let note = one.note.as_ref().map(ToString::to_string);
        let held = one.held.as_secs_f64();
        holders.push(holder.call1((one.label.to_string(), note, mode, held))?);
    }
    attributes.set_item("record", shown(late.record.as_bytes()))?;
    attributes.set_item("waited", late.waited.as_secs_f64())?;
    attributes.set_item("holders", holders)?;
    attributes.set_item("place", late.place)?;
    attributes.set_item("connected", late.connected)
}

/// This thread or task holds the record that it would wait for.
pub(crate) fn waits_for_itself(py: Python<'_>, record: &str, own: Own) -> PyErr {
    let Some(holder) = holder(own) else { return blocks_the_loop(py, record, own) };
    let said = format!(
        "deadlock: this {holder} holds {record} itself. Release it first, use upgrade() to turn a \
         read into a write, or call detach() on a hold that another thread or task releases"
    );
    own_deadlock(py, said)
}

/// This thread or task has another hold of the record that it would upgrade.
pub(crate) fn upgrade_waits_for_itself(py: Python<'_>, record: &str, own: Own) -> PyErr {
    let Some(holder) = holder(own) else { return blocks_the_loop(py, record, own) };
    let said = format!(
        "deadlock: this {holder} has another hold of {record}, which the upgrade would wait for. \
         Release that one first, or call detach() on it if another thread or task releases it"
    );
    own_deadlock(py, said)
}

/// What holds the record; `None` if it waits for the record, or for the end of an upgrade.
fn holder(own: Own) -> Option<&'static str> {
    match own {
        Own::Thread => Some("thread"),
        Own::Task => Some("task"),
        Own::Loop => Some("thread's event loop"),
        Own::LoopWaits | Own::Upgrade => None,
    }
}

fn blocks_the_loop(py: Python<'_>, record: &str, own: Own) -> PyErr {
    let what = match own {
        Own::Upgrade => "still upgrades a released hold of",
        _ => "waits for",
    };
    let said = format!(
        "deadlock: a task of this thread's event loop {what} {record}, and could not go on while \
         the thread is blocked. Use `async with` or `await` in coroutines"
    );
    own_deadlock(py, said)
}

fn own_deadlock(py: Python<'_>, said: String) -> PyErr {
    let attributes = PyDict::new(py);
    let none: [u64; 0] = [];
    let filled = attributes.set_item("cycle", none).and_then(|()| {
        attributes.set_item("is_retryable", false)?;
        attributes.set_item("may_still_hold", true)
    });
    match filled {
        Ok(()) => exception(py, "Deadlock", said, &attributes),
        Err(why) => why,
    }
}

/// The exception for a failed `connect`.
pub(crate) fn connect(py: Python<'_>, why: &ConnectError) -> PyErr {
    let class = match why {
        ConnectError::BadUrl { .. } => "BadUrl",
        ConnectError::BadOption { .. } => "BadOption",
        ConnectError::Unreachable { .. } => "Unreachable",
        ConnectError::NotLockspan { .. } => "NotLockspan",
        ConnectError::Tls { .. } => "TlsError",
        ConnectError::Login { .. } => "LoginError",
        ConnectError::Refused { .. } => "ConnectionRefused",
        _ => "ConnectError",
    };
    simple(py, class, why.to_string())
}

pub(crate) fn bad_name(py: Python<'_>, why: &BadName) -> PyErr {
    simple(py, "BadName", why.to_string())
}

pub(crate) fn close_unknown(py: Python<'_>, why: CloseUnknown) -> PyErr {
    simple(py, "CloseUnknown", why.to_string())
}

/// The interpreter is about to end, and so is what this thread waits for.
pub(crate) fn is_over(py: Python<'_>) -> PyErr {
    lock(py, &LockError::Closed)
}

/// A hold is used in a way that its state does not allow.
pub(crate) fn not_held(py: Python<'_>, said: &str) -> PyErr {
    simple(py, "NotHeld", said.to_owned())
}
