//! `./chitin test`: every test is a process of its own with a name, a time
//! limit and a transcript. Seven kinds run through one pool: the checks of tidy, the tests of the host crates, and
//! guests in the machine. Scripts must say the same there as on the host, and so must the same scripts with a wrong
//! call. The bench runs, well and in trouble, and so does the front door as strangers try it.

mod bench_trouble;
mod case;
mod configuration;
mod cover;
mod dialogue;
mod front_door;
mod full;
mod guest;
mod host;
mod interrupts;
mod kernel_tables;
mod linux_program;
mod name_space;
mod parity;
mod peer;
mod pool;
mod registry;
mod report;
mod style;
mod times;
mod wire;
mod wrong_call;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use chitin::developer::TestOptions;

use chitin::answer;
use chitin::build;
use chitin::failure::{Context, Result};
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use full::FullRun;
use report::Report;

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    Quick,
    Default,
    Full,
}

impl Depth {
    fn chosen(options: &TestOptions) -> Self {
        match (options.quick, options.full) {
            (true, _) => Self::Quick,
            (_, true) => Self::Full,
            _ => Self::Default,
        }
    }

    /// How long one test of a host crate may take.
    fn host_limit(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(120),
            Self::Default => Duration::from_secs(600),
            Self::Full => Duration::from_hours(6),
        }
    }
}

/// The program that runs things; it has the folder of this one.
fn host_command() -> Result<PathBuf> {
    Ok(std::env::current_exe().context("cannot find this program")?.with_file_name("chitin"))
}

/// Runs what `options` choose; success means that nothing failed.
///
/// # Errors
/// When the tests cannot be built or started.
pub fn run(workspace: &Workspace, options: &TestOptions) -> Result<ExitCode> {
    let toolchain = Toolchain::detect();
    let depth = Depth::chosen(options);
    let results = workspace.test_results();
    std::fs::create_dir_all(&results).context("cannot create the folder of test results")?;

    let filter = options.filter.as_deref().unwrap_or_default();
    let mut full = (depth == Depth::Full).then(|| FullRun::begin(workspace)).transpose()?;
    let seed = full.as_ref().map(FullRun::seed);

    // The kinds with a first name of their own: asked for, nothing else need be built.
    let other_kind = ["guest::", "tidy::", "parity::", "on-disk::", "bench::", "front-door::", "wrong-call::"]
        .iter()
        .any(|kind| filter.starts_with(kind));
    let host = || if other_kind { Ok(Vec::new()) } else { host::cases(toolchain, workspace, depth, seed, filter) };
    let (host, guests) = build::at_once(host, || guest::cases(toolchain, workspace, depth, filter));
    let mut cases = host?;
    cases.extend(style::cases(workspace)?.into_iter().filter(|case| case.name().contains(filter)));
    cases.extend(guests?);
    if depth > Depth::Quick {
        cases.extend(parity::cases(toolchain, workspace, depth, filter)?);
        cases.extend(bench_trouble::cases(toolchain, workspace, filter));
        cases.extend(front_door::cases(toolchain, workspace, depth, filter));
    }
    if depth == Depth::Full {
        cases.extend(peer::cases(filter));
        cases.extend(wrong_call::cases(toolchain, workspace, filter)?);
    }
    let all = cases.len();
    cases.retain(|case| !full.as_ref().is_some_and(|run| run.has_passed(case.name())));
    cases.sort_by(|left, right| left.name().cmp(right.name()));

    let mut report = Report::new(&results, cases.len(), all - cases.len());
    let mut written = Ok(());
    pool::run(&cases, &results, |outcome| {
        report.add(outcome);
        if let Some(run) = full.as_mut().filter(|_| outcome.case.skip_reason().is_none()) {
            written = run.add(outcome);
        }
    });
    written.and_then(|()| full.map_or(Ok(()), |run| run.finish(filter.is_empty())))?;
    let (counts, failed) = (report.counts(), report.failed());
    report.finish()?;
    answer::print(&format!("{counts}\n"))?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
