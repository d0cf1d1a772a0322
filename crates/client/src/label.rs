//! What a node is called where people see it.

use std::ffi::OsStr;
use std::path::Path;

use lockspan_protocol::Annotation;

/// `program@host[pid]`, as far as that is known.
#[must_use]
pub fn usual() -> Option<Annotation> {
    named(&program()?)
}

/// The same with another name in the place of the program's.
#[must_use]
pub fn named(program: &str) -> Option<Annotation> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let pid = std::process::id();
    // The host and the number tell sessions apart: they stay if the name is long.
    let end = format!("@{host}[{pid}]");
    let room = Annotation::LEN_MAX.saturating_sub(end.len());
    let program = &program[..program.floor_char_boundary(room)];
    Annotation::fitted(&format!("{program}{end}"))
}

/// What a Python program is called, given its `sys.argv[0]`: the script's file name, the name of a
/// package or module that runs with `-m`, or `python` where there is no script.
#[doc(hidden)]
#[must_use]
pub fn of_python<'a>(first_argument: &'a str) -> &'a str {
    let script = Path::new(first_argument);
    let name = |path: &'a Path| path.file_name().and_then(OsStr::to_str);
    let found = match name(script) {
        Some("__main__.py") => script.parent().and_then(name),
        Some("-c" | "-m" | "-") => None,
        other => other,
    };
    found.unwrap_or("python")
}

/// The file name of this program.
fn program() -> Option<String> {
    let path = std::env::args_os().next()?;
    let name = Path::new(&path).file_name()?.to_string_lossy().into_owned();
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_label_is_program_host_and_pid() {
        let label = usual().expect("a test has a name").to_string();
        let pid = format!("[{}]", std::process::id());
        assert!(label.contains('@') && label.ends_with(&pid), "{label}");
    }

    #[test]
    fn a_python_program_is_called_as_its_script() {
        for (first, called) in [
            ("/srv/jobs/nightly.py", "nightly.py"),
            ("nightly", "nightly"),
            ("/usr/lib/python3/site-packages/pytest/__main__.py", "pytest"),
            ("__main__.py", "python"),
            ("", "python"),
            ("-c", "python"),
            ("-m", "python"),
            ("-", "python"),
        ] {
            assert_eq!(of_python(first), called, "{first}");
        }
    }

    #[test]
    fn of_a_long_name_the_end_stays() {
        let label = named(&"é".repeat(300)).expect("it is not empty");
        assert!(label.as_str().len() <= Annotation::LEN_MAX);
        assert!(label.as_str().ends_with(&format!("[{}]", std::process::id())), "{label}");
    }
}
