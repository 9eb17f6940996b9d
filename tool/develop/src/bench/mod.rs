//! `./chitin bench`: Chitin side by side with a stock Debian kernel on the
//! same machine. Costs are counted in instructions; wall time is reported, too.

mod accepted;
mod boot;
mod catalogue;
mod compare;
mod cost;
mod events;
mod page;
pub mod peer;
mod picture;
mod profile;
mod record;
mod report;
mod results;
mod served;
mod sheet;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use chitin::developer::BenchOptions;

use chitin::answer;
use chitin::build::{self, Images};
use chitin::failure::{Failure, Result};
use chitin::interrupt::Interruption;
use chitin::progress::Progress;
use chitin::scratch;
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use accepted::Accepted;
use boot::{Ground, System};
use catalogue::{Catalogue, Program, Side, Table};
use page::Run;
use report::Clock;
use results::{Measured, Results};
use sheet::Sheet;

/// Measures what `options` choose; success means that every program came to its end, and that no compared row got
/// worse.
///
/// # Errors
/// When it cannot be begun, or the counting clock is off.
pub fn run(workspace: &Workspace, options: &BenchOptions) -> Result<ExitCode> {
    let catalogue = Catalogue::read(workspace)?;
    let tables = catalogue.chosen(&options.names, options.quick)?;
    let origin = record::origin(workspace)?;
    let folder = scratch::folder()?;
    let ground = ground(workspace, folder.path(), options)?;
    let results = measure(&ground, &catalogue, &tables, options);
    let wrong = results.miscalibrations();
    if !wrong.is_empty() {
        return Err(Failure::new(wrong.join("; ")));
    }
    let run =
        Run { catalogue: &catalogue, results: &results, origin: &origin, symbols: &|program| ground.symbols(program) };
    let interrupted = ground.interruption.signal();
    let keep = options.keep && interrupted.is_none();
    let worse = show(workspace, &BenchOptions { keep, ..options.clone() }, &tables, &run)?;
    if let Some(signal) = interrupted {
        const TOLD: &str = "interrupted: only what was measured until then is told, and nothing kept";
        return Err(Failure::with_status(128 + signal as u8, TOLD));
    }
    let broken: BTreeSet<String> = results.measured.iter().filter_map(complaint).collect();
    broken.iter().chain(&worse).for_each(|line| answer::remark(format_args!("chitin: {line}\n")));
    Ok(if broken.is_empty() && worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn complaint(measured: &Measured) -> Option<String> {
    let (report, system) = (&measured.report, measured.system);
    report.broken.as_ref().map(|why| format!("{} on {system:?} is partial: {why}", report.program))
}

/// Shows and keeps what was measured. The result is the rows that got worse, where they were to be compared.
fn show(workspace: &Workspace, options: &BenchOptions, tables: &[&Table], run: &Run<'_>) -> Result<Vec<String>> {
    let lines = record::lines(run.results, run.origin);
    if options.json {
        answer::print(&record::render(&lines)?)?;
    } else {
        let sheet = |table: &&Table| Sheet::of(table, run.catalogue, run.results).for_terminal() + "\n";
        answer::print(&tables.iter().map(sheet).collect::<String>())?;
    }
    if let Some(lines) = options.profile {
        let rows = tables.iter().flat_map(|table| &table.row);
        answer::print(&rows.map(|row| page::profile(row, run, lines)).collect::<String>())?;
    }
    let worse = if options.compare { compare(workspace, &lines)? } else { Vec::new() };
    if options.keep {
        let file = record::keep(workspace, &lines, run.origin)?;
        page::write(workspace, run)?;
        answer::remark(format_args!(
            "chitin: kept in {}\n",
            file.strip_prefix(workspace.root()).unwrap_or(&file).display()
        ));
    }
    Ok(worse)
}

/// Tells what moved since the last kept run. The result is the rows that got worse.
fn compare(workspace: &Workspace, now: &[record::Line]) -> Result<Vec<String>> {
    let accepted = Accepted::read(workspace)?;
    let Some(before) = record::last(workspace)? else {
        answer::print("no run was kept yet: ./chitin bench --keep\n")?;
        return Ok(Vec::new());
    };
    answer::print(&format!("{}\n", compare::told(&before, now)))?;
    Ok(accepted.regressions(&before, now))
}

/// Builds and fetches what is measured. A peer that cannot be fetched is reported in its columns; the others are still
/// measured.
fn ground<'a>(workspace: &'a Workspace, folder: &'a Path, options: &BenchOptions) -> Result<Ground<'a>> {
    let plugin = events::compile(workspace, folder)?;
    let plugin = match boot::try_plugin(&plugin, folder)? {
        Ok(()) => Some(plugin),
        Err(why) => {
            let told =
                format_args!("chitin: this QEMU takes no plugin, so that there is no estimate for silicon: {why}\n");
            answer::remark(told);
            None
        }
    };
    let images = Images::build(Toolchain::detect(), workspace, build::MEASURED)?;
    let peer = if options.alone { Err(Failure::new("--alone leaves Linux out")) } else { peer::kernel(workspace) };
    let limit = options.limit.map(Duration::from_secs);
    let (interruption, root) = (Interruption::watch(), OnceCell::new());
    Ok(Ground { workspace, images, peer, folder, plugin, limit, interruption, root })
}

/// Runs all programs that `tables` refer to, on both systems and by both clocks. What goes wrong costs one boot.
fn measure(ground: &Ground<'_>, catalogue: &Catalogue, tables: &[&Table], options: &BenchOptions) -> Results {
    let mut results = Results::default();
    let mut progress = Progress::step("measuring");
    let on_linux = programs(catalogue, tables, Side::Linux);
    let systems: &[System] = match options {
        BenchOptions { alone: true, .. } => &[],
        BenchOptions { quick: true, .. } => &[System::LinuxTuned],
        _ => &[System::LinuxTuned, System::LinuxStock],
    };
    let clocks: &[Clock] = match options {
        BenchOptions { alone: true, .. } => &[Clock::Instructions],
        BenchOptions { quick: true, .. } => &Clock::ALL[..2],
        _ => &Clock::ALL,
    };
    for clock in clocks.iter().copied() {
        // Stock Linux is measured in the first two only.
        let some = if clock == Clock::PlainNanoseconds { &systems[..systems.len().min(1)] } else { systems };
        for system in some {
            progress.busy_with(&format!("{system:?}, {clock:?}"));
            let alike = on_linux.chunk_by(|one, next| {
                let are_plain = one.serves.is_empty() && next.serves.is_empty();
                are_plain && (one.cpus, one.disk) == (next.cpus, next.disk)
            });
            let reports = alike
                .filter(|programs| peer::comes_up(clock, programs[0].cpus) && is_measured(clock, programs[0]))
                .flat_map(|programs| ground.linux(*system, clock, programs));
            results.measured.extend(reports.map(|report| Measured { system: *system, clock, report }));
        }
        for program in programs(catalogue, tables, Side::Chitin).into_iter().filter(|one| is_measured(clock, one)) {
            progress.busy_with(&format!("Chitin, {clock:?}: {}", program.name));
            let reports = ground.chitin(clock, program);
            let measured = |report| Measured { system: System::Chitin, clock, report };
            results.measured.extend(reports.into_iter().map(measured));
        }
    }
    results
}

/// Whether a program is measured by a clock: a server by instructions alone.
fn is_measured(clock: Clock, program: &Program) -> bool {
    program.serves.is_empty() || clock == Clock::Instructions
}

/// The programs that `tables` want on one side, each once, in the order of the catalogue.
fn programs<'a>(catalogue: &'a Catalogue, tables: &[&Table], side: Side) -> Vec<&'a Program> {
    let wanted: BTreeSet<&str> =
        tables.iter().flat_map(|table| table.programs()).filter(|(_, on)| *on == side).map(|(name, _)| name).collect();
    catalogue.program.iter().filter(|program| wanted.contains(program.name.as_str())).collect()
}
