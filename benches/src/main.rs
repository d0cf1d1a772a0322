//! `lockspan-bench`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockspan_benches::main()
}
