//! The text of `summary.md`: verdict, README's table, and every table in medians.

use super::tables::{self, PARKING_LOTS};
use super::{contended, memory, starvation, targets, uncontended};
use crate::load::LIMIT;
use crate::report::format::{number, ratio, time_or_dash as time};
use crate::report::table::Table;
use crate::results::Results;
use crate::stats::median;

/// The locks of README's table.
const SHOWN: [&str; 6] =
    ["lockspan", "lockspan-strict", "parking_lot-0.12", "parking_lot-0.13", "std::RwLock", "tokio"];

/// The whole summary.
pub(crate) fn summary(results: &Results) -> String {
    let mut text = String::from("# Summary\n\n");
    text += "Medians over the rounds; a ratio is taken inside each round before the median.\n\n";
    if let Some(disturbance) = disturbance(results) {
        text += &format!("{disturbance}\n");
    }
    if let Some(verdict) = verdict(results) {
        text += &format!("{verdict}\n");
    }
    if let Some(table) = readme_table(results) {
        text += &format!("## For the README\n\n<!-- results -->\n{table}<!-- /results -->\n\n");
    }
    if !results.cells(uncontended::FAMILY).is_empty() {
        text += "## Uncontended\n\nOne thread, lock and unlock. The ratio is to the best of \
                 std::RwLock and both parking_lots, by medians.\n\n";
        text += &format!("{}\n", tables::uncontended(results));
    }
    if !results.cells(contended::FAMILY).is_empty() {
        text += "## Contended\n\nA cell is threads / writes in a hundred operations. `others` \
                 is the share of the CPU that other processes took.\n\n";
        text += "![throughput](throughput.svg)\n![longest waits](waits.svg)\n\
                 ![fairness](fairness.svg)\n\n";
        text += &format!("### Throughput, x parking_lot-0.12\n\n{}\n", throughput_matrix(results));
        for cell in results.cells(contended::FAMILY) {
            text += &format!("### {cell}\n\n{}\n", tables::contended_cell(results, cell));
        }
    }
    if !results.cells(starvation::FAMILY).is_empty() {
        text += "## Starvation\n\nEight threads of one kind hold the lock for 2 µs back to back; \
                 one of the other kind asks about every 200 µs.\n\n";
        for cell in results.cells(starvation::FAMILY) {
            text += &format!("{}\n", tables::starvation_cell(results, cell));
        }
    }
    if !results.cells(memory::FAMILY).is_empty() {
        text += &format!("## Memory\n\n{}", tables::memory(results));
    }
    text.trim_end().to_owned() + "\n"
}

/// How much of the machine others took, and whether that was too much.
pub(crate) fn disturbance(results: &Results) -> Option<String> {
    let shares = results.every("others");
    let most = shares.iter().copied().max_by(f64::total_cmp)? * 100.0;
    let middle = median(shares)? * 100.0;
    let mut text = format!("Other processes took {middle:.0} % of the CPU in the median sample, ");
    text += &format!("{most:.0} % in the worst.\n");
    if middle > LIMIT * 100.0 {
        text += "**The machine was busy: these numbers must not be quoted.**\n";
    }
    Some(text)
}

/// The sections on targets and losses; none if our lock was not in the run.
pub(crate) fn verdict(results: &Results) -> Option<String> {
    let targets = targets::targets(results);
    if targets.is_empty() {
        return None;
    }
    let met = targets.iter().filter(|target| target.met).count();
    let mut text = format!("## Targets\n\n{met} of {} met.\n\n", targets.len());
    let mut table = Table::text(["target", "measured", "met"]);
    for target in targets {
        let met = if target.met { "yes" } else { "**no**" };
        table.row(vec![target.what, target.measured, met.to_owned()]);
    }
    text += &format!("{}\n", table.markdown());
    let rivals = targets::strict_rivals(results);
    if !rivals.is_empty() {
        text +=
            "Faster than lockspan-strict and as fair, with its throughput relative to them:\n\n";
        for (cell, rivals) in rivals {
            text += &format!("- {cell}: {rivals}\n");
        }
        text.push('\n');
    }
    text += "## Rows we lose\n\n";
    let mut table = Table::text(["where", "what", "lockspan", "theirs, or the target"]);
    targets::losses(results).into_iter().for_each(|loss| table.row(loss.into()));
    text += &if table.is_empty() { "None in this run.\n".to_owned() } else { table.markdown() };
    Some(text)
}

/// README's table; none if nothing of it was measured.
fn readme_table(results: &Results) -> Option<String> {
    let measured = |lock: &&str| {
        [uncontended::FAMILY, contended::FAMILY, starvation::FAMILY]
            .iter()
            .any(|family| results.contestants(family).contains(lock))
    };
    let locks: Vec<&str> = SHOWN.into_iter().filter(measured).collect();
    let mut table = Table::new([""].into_iter().chain(locks.iter().copied()));
    let mut row = |what: String, value: &dyn Fn(&str) -> String| {
        let values: Vec<String> = locks.iter().map(|lock| value(lock)).collect();
        if values.iter().any(|value| value != "–") {
            table.row([what].into_iter().chain(values).collect());
        }
    };
    for cell in uncontended::CELLS {
        row(format!("uncontended {cell}, ns"), &|lock| {
            number(results.median(uncontended::FAMILY, cell, lock, "p50_ns"), 1)
        });
    }
    for (threads, writes) in
        contended::cells().filter(|(threads, writes)| *threads > 2 && *writes > 0)
    {
        let cell = contended::cell(threads, writes);
        let base = [PARKING_LOTS[0]];
        row(format!("{threads} threads, {writes} % writes: throughput"), &|lock| {
            ratio(results.ratio(contended::FAMILY, &cell, lock, &base, "ops_per_s"))
        });
    }
    for cell in starvation::CELLS {
        row(format!("{}: longest wait", cell.replace('-', " ")), &|lock| {
            time(results.median(starvation::FAMILY, cell, lock, "longest_ns"))
        });
    }
    row("64 threads, ≥ 10 % writes: least Jain index".to_owned(), &|lock| {
        let least = targets::least_jain(results, lock, &targets::fair_cells());
        number(least.map(|(_, jain)| jain), 2)
    });
    let note = "Throughput is relative to parking_lot-0.12 in the same round.\n";
    (!table.is_empty()).then(|| format!("{}\n{note}", table.markdown()))
}

/// Ratios of all locks in all cells at a glance.
fn throughput_matrix(results: &Results) -> String {
    let cells = results.cells(contended::FAMILY);
    let mut table = Table::new(["lock"].into_iter().chain(cells.iter().copied()));
    for lock in results.contestants(contended::FAMILY) {
        let base = [PARKING_LOTS[0]];
        let ratios = cells
            .iter()
            .map(|cell| ratio(results.ratio(contended::FAMILY, cell, lock, &base, "ops_per_s")));
        table.row([lock.to_owned()].into_iter().chain(ratios).collect());
    }
    table.markdown()
}
