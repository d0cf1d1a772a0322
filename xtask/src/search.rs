//! `cargo xtask search`: what takes too long for every test run, of the lock protocol and of two
//! models of the fair lock.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Args;
use crate::command::Cmd;
use crate::cpu::Took;
use crate::models::LOOM;
use crate::table;
use crate::workspace::Workspace;

/// Seeds of the fuzzer.
const FUZZ_SEEDS: &str = "20000";

/// The models of the fair lock that have a deeper form, with one preemption more. The suite runs
/// the others: the deeper form takes many minutes, and has found nothing more so far.
const DEEPER: [&str; 2] = ["fair_s2_", "fair_s8_"];

pub(crate) fn main(workspace: &Workspace, args: Args) -> Result<ExitCode> {
    let worlds = args.at_most_one()?.unwrap_or_else(|| "0..1000000".to_owned());
    std::env::set_current_dir(&workspace.root)?;
    let mut rows = Vec::new();
    let mut failed = 0;
    for (what, command) in searches(workspace, &worlds) {
        println!("\n=== {what}");
        // One that fails does not keep the others from searching.
        let (result, took) = Took::of(|| command.run());
        let result = result.map_or_else(|why| format!("FAILED: {why:#}"), |()| "passed".to_owned());
        failed += usize::from(result != "passed");
        let [wall, cpu] = took.cells();
        rows.push(vec![what, wall, cpu, result]);
    }
    println!();
    table::print(&["searched", "seconds", "CPU s", "result"], &rows);
    println!("\n{} passed, {failed} failed", rows.len() - failed);
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// What is searched, and the command that does it.
fn searches(workspace: &Workspace, worlds: &str) -> Vec<(String, Cmd)> {
    let sim = || Cmd::new("cargo run --release -p sim --");
    let thread = "cargo test --profile model --lib -p lockspan-thread --target-dir";
    let stress = "cargo test --release -p lockspan-thread --features signals --lib stress";
    vec![
        (
            format!("worlds {worlds} of the simulator"),
            sim().args(["--require-coverage", "--keep-going", "--seeds", worlds]),
        ),
        (
            "every bug put back, in the simulator".to_owned(),
            sim().args(["--bugs", "--seeds", "0..20000"]),
        ),
        (
            "the whole small worlds of the protocol, in every order".to_owned(),
            Cmd::new("cargo test --release -p lockspan-protocol --features mutants --test model")
                .env("LOCKSPAN_MODEL", "full")
                .args(["--", "--nocapture"]),
        ),
        (
            format!("{FUZZ_SEEDS} seeds of the protocol's fuzzer"),
            Cmd::new("cargo test --release -p lockspan-protocol --test fuzz")
                .env("LOCKSPAN_FUZZ_SEEDS", FUZZ_SEEDS)
                .args(["--", "--nocapture"]),
        ),
        (
            format!("loom: {} with one preemption more", DEEPER.join(", ")),
            Cmd::new(thread)
                .arg(workspace.target.join(LOOM.target_name()))
                .rustc_cfg(LOOM.cfg)
                .env("LOCKSPAN_MODEL", "full")
                .args(["--", "--nocapture"])
                .args(DEEPER),
        ),
        (
            "a billion stores under revocable locks with each backend, of which none may be lost"
                .to_owned(),
            Cmd::new(stress).env("LOCKSPAN_STRESS_BILLIONS", "1").args(["--", "--nocapture"]),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_search_is_named_and_the_worlds_are_those_asked_for() {
        let nowhere = Workspace { root: "/".into(), target: "/".into(), packages: Vec::new() };
        let searches = searches(&nowhere, "5..9");
        assert!(searches[0].0.contains("5..9") && searches[0].1.to_string().ends_with("5..9"));
        assert!(searches.iter().all(|(what, _)| !what.is_empty()));
        assert_eq!(searches.len(), 6);
    }

    #[test]
    fn the_deeper_models_are_those_that_are_searched() {
        let cases = include_str!("../../crates/thread/src/fair/loom/cases.rs");
        let models = cases.split("\nfn ").filter(|model| model.contains(" deeply::<"));
        let names: Vec<_> = models.map(|model| model.split_once('(').unwrap().0).collect();
        assert_eq!(names.len(), DEEPER.len(), "{names:?}");
        for (name, deeper) in names.iter().zip(DEEPER) {
            assert!(name.starts_with(deeper), "{name}");
        }
        let nowhere = Workspace { root: "/".into(), target: "/".into(), packages: Vec::new() };
        let searches = searches(&nowhere, "0..1");
        let (_, loom) = searches.iter().find(|(what, _)| what.starts_with("loom")).unwrap();
        let command = loom.to_string();
        assert!(command.contains("LOCKSPAN_MODEL=full"), "{command}");
        assert!(command.ends_with("-- --nocapture fair_s2_ fair_s8_"), "{command}");
    }
}
