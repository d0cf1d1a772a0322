//! Values of Python as the client needs them: ids of records, names, lengths of time.

use std::time::Duration;

use lockspan::Name;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDelta, PyInt, PyString, PyTuple, PyType};

use crate::errors;

/// A length of time: a number of seconds, or a `timedelta`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub(crate) Duration);

impl<'a, 'py> FromPyObject<'a, 'py> for Seconds {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if value.is_instance_of::<PyDelta>() {
            return Ok(Self(value.extract::<Duration>()?));
        }
        if value.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("a time is a number of seconds or a timedelta"));
        }
        let seconds: f64 = value
            .extract()
            .map_err(|_| PyTypeError::new_err("a time is a number of seconds or a timedelta"))?;
        if seconds.is_nan() || seconds < 0.0 {
            let shown = format!("a time of {seconds} s is not possible: it must not be negative");
            return Err(PyValueError::new_err(shown));
        }
        // A time that no clock can show is forever.
        Ok(Self(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
    }
}

/// The half of a name: text or bytes.
fn text(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<u8>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_cow()?.as_bytes().to_vec());
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let found = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("{what} must be str or bytes, not {found}")))
}

/// The id of a record: str, bytes, int or `uuid.UUID`.
fn id(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let is_number = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    if is_number || value.is_instance(uuid(value.py())?)? {
        return Ok(value.str()?.to_cow()?.as_bytes().to_vec());
    }
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return text(value, "");
    }
    let found = value.get_type().name()?;
    let said = format!("the id of a record must be str, bytes, int or uuid.UUID, not {found}");
    Err(PyTypeError::new_err(said))
}

fn uuid(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    UUID.import(py, "uuid", "UUID")
}

/// The name of a record, of its two halves, or of one text with a colon.
pub(crate) fn name(datatype: &Bound<'_, PyAny>, id: Option<&Bound<'_, PyAny>>) -> PyResult<Name> {
    let py = datatype.py();
    let named = match id {
        Some(given) => Name::new(text(datatype, "the datatype of a record")?, self::id(given)?),
        None => Name::parse(&text(datatype, "the name of a record")?),
    };
    named.map_err(|why| errors::bad_name(py, &why))
}

/// A record among several: `("invoice", 42)` or `"invoice:42"`.
pub(crate) fn one_of_several(value: &Bound<'_, PyAny>) -> PyResult<Name> {
    let Ok(pair) = value.cast::<PyTuple>() else { return name(value, None) };
    if pair.len() != 2 {
        let said = "a record is (datatype, id) or \"datatype:id\"";
        return Err(PyValueError::new_err(said));
    }
    name(&pair.get_item(0)?, Some(&pair.get_item(1)?))
}

/// Bytes as text, with what is not UTF-8 escaped.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
