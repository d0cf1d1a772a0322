//! Lockspan's locks compared with other locks: the program `lockspan-bench`.
//!
//! Each comparison is a module with a `comparison` that lists its cells. [`comparison`] measures
//! them and shows progress, [`report`] makes the tables, [`plot`] the plots, and [`recorder`]
//! writes all of it to a folder. `benches/README.md` says how to run and to read them.
//!
//! [`comparison`]: mod@comparison
#![allow(rustdoc::private_intra_doc_links, reason = "the library has one public function")]

mod abuse;
mod allocations;
mod args;
mod cli;
mod clock;
mod comparison;
mod contest;
mod dice;
mod gathered;
mod histogram;
mod interpreter;
mod load;
mod machine;
mod padded;
mod plot;
mod preload;
mod process;
mod progressive;
mod protocol;
mod python;
mod recorder;
mod redis;
mod report;
mod results;
mod revocable;
mod service;
mod set_nx;
mod smoke;
mod stats;
mod threads;
mod timing;

use std::fmt::Display;
use std::path::PathBuf;

pub use cli::main;

/// An error as text, for people.
fn say(why: impl Display) -> String {
    why.to_string()
}

/// The folder of built programs that this one is in: `target/release` or `target/debug`.
fn built_folder() -> Result<PathBuf, String> {
    let mut folder = std::env::current_exe().map_err(say)?;
    folder.pop();
    Ok(folder)
}

/// Cargo's `target` folder.
fn target_folder() -> Result<PathBuf, String> {
    let mut folder = built_folder()?;
    folder.pop();
    Ok(folder)
}
