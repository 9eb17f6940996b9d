//! Results as lines of JSON, one a figure, each of which says all about where
//! it is from; and the runs that were kept in `bench/results/history`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use chitin::failure::{Context, Result};
use chitin::qemu::{self, PROGRAM};
use chitin::workspace::Workspace;

use super::boot::{self, System};
use super::cost;
use super::report::{Clock, Report};
use super::results::{Measured, Results};

/// Where kept runs are, from the root of the checkout; a file each, named by date and commit.
const HISTORY: &str = "bench/results/history";

/// Where a run was made, and of what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Origin {
    /// Of the beginning, in UTC.
    pub date: String,
    pub commit: String,
    /// Whether files differed from that commit.
    pub changed: bool,
    pub command: String,
    /// The host's CPU and kernel.
    pub machine: String,
    pub qemu: String,
    pub compiler: String,
    /// Flags of the machine that both systems have, by the counting clock; by the other `-icount` and its value are
    /// missing.
    pub flags: String,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Line {
    pub system: System,
    pub clock: Clock,
    pub program: String,
    pub figure: String,
    pub operations: u64,
    pub samples: Vec<u64>,
    /// What measuring nothing took; not subtracted from the samples.
    pub overhead: f64,
    pub calibration: Option<u64>,
    /// Of one operation, without the overhead.
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// The estimate for silicon, in cycles.
    pub silicon: Option<f64>,
    /// Of a curve, which has no samples: its points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<(u64, u64)>,
    /// The program did not come to its end, for this reason.
    pub partial: Option<String>,
    /// The system's version where it tells one; Chitin's is the commit.
    pub version: Option<String>,
    /// The kernel's command line.
    pub command_line: String,
    #[serde(flatten)]
    pub origin: Origin,
}

/// All figures of a run, and all curves.
pub fn lines(results: &Results, origin: &Origin) -> Vec<Line> {
    let mut lines = Vec::new();
    for Measured { system, clock, report } in &results.measured {
        let line = |figure: &str| blank(*system, *clock, report, figure, origin);
        lines.extend(report.figures.iter().filter_map(|figure| {
            let cost = cost::cost(report, &figure.name, None)?;
            Some(Line {
                operations: figure.operations,
                samples: figure.samples.clone(),
                median: cost.median,
                least: cost.least,
                most: cost.most,
                silicon: cost::silicon(report, &figure.name, None).filter(|_| *clock == Clock::Instructions),
                ..line(&figure.name)
            })
        }));
        lines.extend(report.curves().into_iter().map(|(name, points)| Line { points, ..line(&name) }));
    }
    lines
}

/// A line that says where it is from, and nothing yet of what was measured.
fn blank(system: System, clock: Clock, report: &Report, figure: &str, origin: &Origin) -> Line {
    Line {
        system,
        clock,
        program: report.program.clone(),
        figure: figure.to_owned(),
        operations: 1,
        samples: Vec::new(),
        overhead: cost::overhead(report),
        calibration: report.calibration,
        median: 0.0,
        least: 0.0,
        most: 0.0,
        silicon: None,
        points: Vec::new(),
        partial: report.broken.clone(),
        version: report.version.clone(),
        command_line: system.command_line(),
        origin: origin.clone(),
    }
}

/// # Errors
/// When a number cannot be written as JSON.
pub fn render(lines: &[Line]) -> Result<String> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&serde_json::to_string(line).context("results")?);
        text.push('\n');
    }
    Ok(text)
}

/// # Errors
/// When a line is not of [`render`].
pub fn parse(text: &str) -> Result<Vec<Line>> {
    text.lines().map(|line| serde_json::from_str(line).context("a kept result")).collect()
}

/// Keeps a run.
///
/// # Errors
/// When it cannot be written.
pub fn keep(workspace: &Workspace, lines: &[Line], origin: &Origin) -> Result<PathBuf> {
    let folder = workspace.root().join(HISTORY);
    fs::create_dir_all(&folder).context(HISTORY)?;
    let commit: String = origin.commit.chars().take(12).collect();
    let file = folder.join(format!("{}-{commit}.jsonl", origin.date.replace(':', "")));
    // Under another name first: what a full disk cuts short is never taken for a run.
    let partial = file.with_extension("partial");
    let written = fs::write(&partial, render(lines)?).and_then(|()| fs::rename(&partial, &file));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written.context(file.display())?;
    Ok(file)
}

/// The run that was kept last.
///
/// # Errors
/// When it is damaged.
pub fn last(workspace: &Workspace) -> Result<Option<Vec<Line>>> {
    let Some(file) = newest(&workspace.root().join(HISTORY)) else { return Ok(None) };
    parse(&fs::read_to_string(&file).context(file.display())?).map(Some)
}

/// Names begin with the date, so that the greatest is the newest.
fn newest(folder: &Path) -> Option<PathBuf> {
    let runs = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    runs.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).max()
}

/// Says where this run is made.
///
/// # Errors
/// When QEMU is missing.
pub fn origin(workspace: &Workspace) -> Result<Origin> {
    let root = workspace.root();
    let git = |arguments: &[&str]| answer(Command::new("git").args(arguments).current_dir(root)).unwrap_or_default();
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |(_, name)| name);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let qemu = answer(Command::new(PROGRAM).arg("--version"));
    Ok(Origin {
        date: answer(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M"])).unwrap_or_default(),
        commit: git(&["rev-parse", "HEAD"]),
        changed: !git(&["status", "--porcelain", "--", ".", ":!bench/results", ":!doc/benchmarks.md"]).is_empty(),
        command: format!("./chitin {arguments}"),
        machine: format!("{model}, Linux {}", kernel.trim().split('-').next().unwrap_or_default()),
        qemu: qemu
            .ok_or_else(|| chitin::failure::Failure::new("QEMU is missing: install the package qemu-system-x86"))?,
        compiler: answer(Command::new("cc").arg("--version")).unwrap_or_default(),
        flags: qemu::flags(&boot::machine(System::Chitin, Clock::Instructions, 1)).join(" "),
    })
}

/// The first line that a command says.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let origin = Origin { date: "2026-11-22T03:00".into(), commit: "abc".into(), ..Origin::default() };
        let mut results = results();
        results.measured[0].report.broken = Some("the time limit passed".into());
        let lines = lines(&results, &origin);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0].partial.as_deref(), Some("the time limit passed"));
        assert_eq!((lines[0].median, lines[0].silicon, lines[1].silicon), (300.0, Some(400.0), None));
        assert!(lines.iter().all(|line| line.origin == origin));
        let text = render(&lines).unwrap();
        assert_eq!(text.lines().count(), 4);
        assert_eq!(parse(&text).unwrap(), lines);
        assert!(parse("{}").is_err());
    }

    #[test]
    fn a_run_that_a_full_disk_cuts_short_is_not_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path());
        let origin = |date: &str| Origin { date: date.into(), commit: "abc".into(), ..Origin::default() };
        let keep_at = |date| keep(&workspace, &lines(&results(), &origin(date)), &origin(date));
        keep_at("2026-11-22T10:00").unwrap();
        let full = folder.path().join(HISTORY).join("2026-11-23T0900-abc.partial");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        assert!(keep_at("2026-11-23T09:00").unwrap_err().to_string().contains("No space left"));
        assert!(fs::symlink_metadata(full).is_err());
        assert_eq!(last(&workspace).unwrap().unwrap()[0].origin.date, "2026-11-22T10:00");
    }

    #[test]
    fn the_last_kept_run_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path());
        assert!(last(&workspace).unwrap().is_none());
        for date in ["2026-11-23T09:00", "2026-11-22T10:00"] {
            let origin = Origin { date: date.into(), commit: "abc".into(), ..Origin::default() };
            keep(&workspace, &lines(&results(), &origin), &origin).unwrap();
        }
        assert_eq!(last(&workspace).unwrap().unwrap()[0].origin.date, "2026-11-23T09:00");
    }
}
