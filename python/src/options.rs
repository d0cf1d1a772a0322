//! `connect`, and its options.

use lockspan::{Options, label};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::Seconds;
use crate::errors;
use crate::exit;
use crate::locks::Locks;

/// Connects to the service at `url`; `lockspan.connect` describes the options.
#[pyfunction]
#[pyo3(signature = (url, **options))]
pub(crate) fn connect(
    py: Python<'_>,
    url: &str,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Locks> {
    let mut chosen = Options::new();
    if let Some(label) = usual_label(py) {
        chosen = chosen.label(label);
    }
    for (name, value) in options.into_iter().flatten() {
        if !value.is_none() {
            chosen = with(chosen, &name.extract::<String>()?, &value)?;
        }
    }
    let connected = py.detach(|| chosen.blocking_connect(url));
    if exit::is_over() {
        // Dropped, the connection is closed. Nobody would close it later.
        return Err(errors::is_over(py));
    }
    let locks = connected.map_err(|why| errors::connect(py, &why))?;
    Ok(Locks::new(locks, without_password(url)))
}

fn with(options: Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Options> {
    let time = || value.extract::<Seconds>().map(|time| time.0);
    let flag = || value.extract::<bool>();
    let text = || value.extract::<String>();
    let path = || value.extract::<std::path::PathBuf>();
    let set = || -> PyResult<Options> {
        Ok(match name {
            "lease" => options.lease(time()?),
            "margin" => options.margin(time()?),
            "stay" => {
                let (turns, time) = value.extract::<(u32, Seconds)>()?;
                options.stay(turns, time.0)
            }
            "caching" => options.caching(flag()?),
            "idle" => options.idle(time()?),
            "max_cached" => options.max_cached(value.extract()?),
            "try_for" => options.try_for(time()?),
            "name" => options.name(text()?),
            "label" => options.label(text()?),
            "user" => options.user(text()?),
            "password" => options.password(text()?),
            "password_file" => options.password_file(path()?),
            "ca" => options.ca(path()?),
            "cert" => options.cert(path()?),
            "key" => options.key(path()?),
            "hash_tag" => options.hash_tag(flag()?),
            "plain" => options.plain(flag()?),
            "recheck" => options.recheck(time()?),
            "poll" => options.poll(time()?),
            "patience" => options.patience(time()?),
            _ => {
                let said = format!("connect() has no option '{name}'");
                return Err(PyTypeError::new_err(said));
            }
        })
    };
    set().map_err(|why| {
        let py = value.py();
        if !why.is_instance_of::<PyTypeError>(py) || why.to_string().contains("no option") {
            return why;
        }
        PyTypeError::new_err(format!("connect(): option '{name}': {}", why.value(py)))
    })
}

/// The label of a program that has chosen none: the program is the script, not the interpreter.
fn usual_label(py: Python<'_>) -> Option<String> {
    let arguments = py.import("sys").ok()?.getattr("argv").ok()?;
    let first: String = arguments.get_item(0).ok()?.extract().ok()?;
    label::named(label::of_python(&first)).map(|label| label.to_string())
}

/// The URL, for people: a password is left out.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        None => url.to_owned(),
        Some((login, host)) => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}")
        }
    }
}
