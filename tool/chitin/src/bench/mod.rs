//! `./chitin bench`: Chitin side by side with a stock Debian kernel on the
//! same machine. Costs are counted in instructions; wall time stands beside.

mod boot;
mod catalogue;
mod compare;
mod cost;
mod events;
mod peer;
mod record;
mod report;
mod results;
mod sheet;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;

use crate::build::{self, Images};
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::scratch;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

use boot::{Ground, System};
use catalogue::{Catalogue, Program, Side, Table};
use record::Origin;
use report::Clock;
use results::{Measured, Results};
use sheet::Sheet;

/// The flags that both systems' machines have, for the record.
const FLAGS: &str = "-machine q35 -accel tcg -cpu max,-smap,-erms -smp 1 -m 512M; counting: -icount shift=0,sleep=off";

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Only what takes three minutes together: no stock Linux, no long tables
    #[arg(long)]
    quick: bool,
    /// One line of JSON for each figure instead of tables
    #[arg(long)]
    json: bool,
    /// Tell what moved since the run that was kept last
    #[arg(long)]
    compare: bool,
    /// Keep this run in bench/results, and bring pictures and doc/benchmarks.md up to date
    #[arg(long, conflicts_with_all = ["quick", "names"])]
    keep: bool,
    /// Only tables whose names begin like this (default: all)
    names: Vec<String>,
}

/// Measures what `options` choose; success means that every program came to its end.
///
/// # Errors
/// When it cannot be begun, or the counting clock is off.
pub fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let catalogue = Catalogue::read(workspace)?;
    let tables = catalogue.chosen(&options.names, options.quick)?;
    let origin = record::origin(workspace, FLAGS.to_owned())?;
    let results = measure(workspace, &catalogue, &tables, options.quick)?;
    let wrong = results.miscalibrations();
    if !wrong.is_empty() {
        return Err(Failure::new(wrong.join("; ")));
    }
    show(workspace, options, &catalogue, &tables, &results, &origin)?;
    let broken: BTreeSet<String> = results.measured.iter().filter_map(complaint).collect();
    broken.iter().for_each(|line| eprintln!("chitin: {line}"));
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn complaint(measured: &Measured) -> Option<String> {
    let (report, system) = (&measured.report, measured.system);
    report.broken.as_ref().map(|why| format!("{} on {system:?} is partial: {why}", report.program))
}

fn show(
    workspace: &Workspace,
    options: &Options,
    catalogue: &Catalogue,
    tables: &[&Table],
    results: &Results,
    origin: &Origin,
) -> Result<()> {
    let lines = record::lines(results, origin);
    if options.json {
        print!("{}", record::render(&lines)?);
    } else {
        tables.iter().for_each(|table| println!("{}", Sheet::of(table, catalogue, results).for_terminal()));
    }
    if options.compare {
        match record::last(workspace)? {
            None => println!("no run was kept yet: ./chitin bench --keep"),
            Some(before) => compare::changes(&before, &lines).iter().for_each(|line| println!("{line}")),
        }
    }
    if options.keep {
        let file = record::keep(workspace, &lines, origin)?;
        eprintln!("chitin: kept in {}", file.strip_prefix(workspace.root()).unwrap_or(&file).display());
    }
    Ok(())
}

/// Runs all programs that `tables` refer to, on both systems and by both clocks.
fn measure(workspace: &Workspace, catalogue: &Catalogue, tables: &[&Table], quick: bool) -> Result<Results> {
    let folder = scratch::folder()?;
    let plugin = events::compile(workspace, folder.path())?;
    let plugin = match boot::try_plugin(&plugin, folder.path())? {
        Ok(()) => Some(plugin),
        Err(why) => {
            eprintln!("chitin: this QEMU takes no plugin, so that there is no estimate for silicon: {why}");
            None
        }
    };
    let ground = Ground {
        workspace,
        images: Images::build(Toolchain::detect(), workspace, build::MEASURED)?,
        peer: peer::kernel(workspace),
        folder: folder.path(),
        plugin,
    };
    let mut results = Results::default();
    let mut progress = Progress::step("measuring");
    for clock in [Clock::Instructions, Clock::Nanoseconds] {
        let on_linux = programs(catalogue, tables, Side::Linux);
        let systems: &[System] = if quick { &[System::LinuxTuned] } else { &[System::LinuxTuned, System::LinuxStock] };
        for system in systems {
            progress.busy_with(&format!("{system:?}, {clock:?}"));
            if on_linux.is_empty() {
                continue;
            }
            let reports = ground.linux(*system, clock, &on_linux)?;
            results.measured.extend(reports.into_iter().map(|report| Measured { system: *system, clock, report }));
        }
        for program in programs(catalogue, tables, Side::Chitin) {
            progress.busy_with(&format!("Chitin, {clock:?}: {}", program.name));
            let report = ground.chitin(clock, program)?;
            results.measured.push(Measured { system: System::Chitin, clock, report });
        }
    }
    Ok(results)
}

/// The programs that `tables` want on one side, each once, in the order of the catalogue.
fn programs<'a>(catalogue: &'a Catalogue, tables: &[&Table], side: Side) -> Vec<&'a Program> {
    let wanted: BTreeSet<&str> =
        tables.iter().flat_map(|table| table.programs()).filter(|(_, on)| *on == side).map(|(name, _)| name).collect();
    catalogue.program.iter().filter(|program| wanted.contains(program.name.as_str())).collect()
}
