//! How the bench takes trouble: a guest that hangs, a QEMU that lacks a feature
//! or dies, no network for Debian's packages, no room for files. Each test runs the command itself where a QEMU of its
//! own comes first in PATH. It looks for a clear message, an end within the limit, and what could be measured.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use chitin::build::{self, Images};
use chitin::failure::{Context, Failure, Result};
use chitin::qemu::PROGRAM;
use chitin::scratch;
use chitin::toolchain::{Toolchain, find_program};
use chitin::workspace::Workspace;

use super::case::{Case, Verdict};

/// A table with one program under ExOS, `calls`, and one that needs the kernel alone, `primitives`, in that order.
const TABLE: &str = "sosp95-table-4";
const WEIGHT: Duration = Duration::from_secs(15);
/// What the command may take at most; its own limits are to end it long before.
const PATIENCE: &str = "300";

/// Trouble, and what must be said of it.
struct Trouble {
    name: &'static str,
    /// The lines of a QEMU of this trouble; `$qemu` is the real one.
    emulator: &'static str,
    /// What starts the bench, as a shell has it; `"$@"` is its command line.
    start: &'static str,
    options: &'static [&'static str],
    /// What standard error must hold.
    told: &'static [&'static str],
    /// The program that could be measured all the same.
    measured: Option<&'static str>,
    /// How the command ends.
    status: i32,
}

/// A QEMU that is never asked to do anything.
const UNUSED: &str = "exit 1";
const PLAINLY: &str = r#"exec "$@""#;

const TROUBLES: [Trouble; 6] = [
    Trouble {
        name: "bench::a_guest_that_hangs_is_stopped_at_its_limit",
        emulator: r#"exec "$qemu" "$@" -S"#,
        start: PLAINLY,
        options: &["--alone", "--limit", "2"],
        told: &["calls on Chitin is partial: the time limit passed", "primitives on Chitin is partial: the time limit"],
        measured: None,
        status: 1,
    },
    Trouble {
        name: "bench::what_runs_without_the_feature_that_this_qemu_lacks_is_kept",
        emulator: r#"case "$*" in
            *-kernel*) [ -e "$0.refused" ] || { touch "$0.refused"; echo "$0: -icount: no such option" >&2; exit 1; };;
        esac
        exec "$qemu" "$@""#,
        start: PLAINLY,
        options: &["--alone"],
        told: &["calls on Chitin is partial: QEMU did not start", "-icount: no such option"],
        measured: Some("primitives"),
        status: 1,
    },
    Trouble {
        name: "bench::a_qemu_that_dies_is_told_of",
        // A second in which it may or may not have come up, on a busy host.
        emulator: r#"case "$*" in
            *-kernel*) exec timeout -s KILL 1 setpriv --pdeathsig KILL -- "$qemu" "$@" -S;;
        esac
        exec "$qemu" "$@""#,
        start: PLAINLY,
        options: &["--alone"],
        told: &["calls on Chitin is partial: QEMU ", "primitives on Chitin is partial: QEMU "],
        measured: None,
        status: 1,
    },
    Trouble {
        name: "bench::what_was_measured_before_an_interruption_is_told",
        // Two programs are booted, one after the other.
        emulator: r#"case "$*" in
            *-kernel*) [ ! -e "$0.began" ] || { kill -INT $PPID; exec "$qemu" "$@" -S; }; touch "$0.began";;
        esac
        exec "$qemu" "$@""#,
        start: PLAINLY,
        options: &["--alone"],
        told: &["interrupted: only what was measured until then is told"],
        measured: Some("calls"),
        status: 130,
    },
    Trouble {
        name: "bench::no_network_for_the_packages_is_told_of",
        emulator: UNUSED,
        start: r#"mkdir empty; export CHITIN_CACHE=$PWD/empty APT_CONFIG=$PWD/apt.conf
        for kind in http https; do echo "Acquire::$kind::Proxy \"http://127.0.0.1:9\"; Acquire::Retries 0;"; done > apt.conf
        exec "$@""#,
        options: &["--quick"],
        told: &[
            "calls on LinuxTuned is partial: apt",
            "calls on Chitin is partial: cannot fetch busybox-static",
            "apt-get update",
        ],
        measured: None,
        status: 1,
    },
    Trouble {
        name: "bench::no_room_for_files_is_told_of",
        emulator: UNUSED,
        // Files of more than 64 KiB cannot be written, as on a disk that is full by then.
        start: r#"trap '' XFSZ; ulimit -f 128; exec "$@""#,
        options: &["--alone"],
        told: &["on Chitin is partial: cannot write the boot archive", "File too large"],
        measured: None,
        status: 1,
    },
];

/// The tests whose names contain `filter`.
pub fn cases(toolchain: Toolchain, workspace: &Workspace, filter: &str) -> Vec<Case> {
    let chosen: Vec<&Trouble> = TROUBLES.iter().filter(|trouble| trouble.name.contains(filter)).collect();
    if chosen.is_empty() {
        return Vec::new();
    }
    // Built beforehand: within the tests there may be no room for it.
    if let Err(failure) = Images::build(toolchain, workspace, build::MEASURED) {
        return vec![Case::failed("build::bench", failure.to_string())];
    }
    let case = |trouble: &'static Trouble| {
        let root = workspace.root().to_owned();
        Case::new(trouble.name.into(), WEIGHT, move |transcript| judge(trouble, &root, transcript))
    };
    chosen.into_iter().map(case).collect()
}

fn judge(trouble: &Trouble, root: &Path, mut transcript: File) -> Verdict {
    let output = bench(trouble, root).map_err(|failure| failure.to_string())?;
    transcript
        .write_all(&output.stdout)
        .and_then(|()| transcript.write_all(&output.stderr))
        .map_err(|error| error.to_string())?;
    let (figures, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    verdict(trouble, output.status.code(), &figures, &told)
}

/// Runs the bench in trouble.
fn bench(trouble: &Trouble, root: &Path) -> Result<Output> {
    let folder = scratch::folder()?;
    let real = find_program(PROGRAM).ok_or_else(|| Failure::new(format!("{PROGRAM} is missing")))?;
    let emulator = folder.path().join(PROGRAM);
    // What asks which QEMU this is gets an answer.
    let asked = r#"[ "$1" != --version ] || exec "$qemu" --version"#;
    fs::write(&emulator, format!("#!/bin/sh\nqemu={}\n{asked}\n{}\n", real.display(), trouble.emulator))
        .and_then(|()| fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755)))
        .context("cannot write a QEMU")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("timeout");
    command.args([PATIENCE, "sh", "-c", trouble.start, "sh"]);
    command.arg(std::env::current_exe().context("this command")?).args(["bench", "--json"]).args(trouble.options);
    command.arg(TABLE).env("CHITIN_ROOT", root).env("PATH", format!("{}:{path}", folder.path().display()));
    command.current_dir(folder.path()).stdin(Stdio::null()).output().context("cannot start timeout")
}

/// Trouble has its status, is told of, leaves no line of a panic, and nothing that was measured is lost.
fn verdict(trouble: &Trouble, status: Option<i32>, figures: &str, told: &str) -> Verdict {
    if status != Some(trouble.status) {
        return Err(format!("the bench ended with status {status:?}: {told}"));
    }
    if let Some(missing) = trouble.told.iter().find(|part| !told.contains(*part)) {
        return Err(format!("the bench does not say {missing:?}: {told}"));
    }
    if told.contains("panicked") {
        return Err(format!("the bench panicked: {told}"));
    }
    let lines = figures.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let whole: BTreeSet<String> = lines
        .filter(|line| line["partial"].is_null())
        .filter_map(|line| Some(line["program"].as_str()?.to_owned()))
        .collect();
    if whole.iter().map(String::as_str).eq(trouble.measured) {
        return Ok(());
    }
    Err(format!("{whole:?} was measured where {:?} could be: {told}", trouble.measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_a_wrong_status_and_lost_figures_are_failures() {
        let kept = TROUBLES.iter().find(|trouble| trouble.measured.is_some()).expect("one leaves something");
        let told = kept.told.join("\n");
        let line = r#"{"program":"primitives","figure":"null-call","partial":null}"#;
        assert_eq!(verdict(kept, Some(1), line, &told), Ok(()));
        assert!(verdict(kept, Some(0), line, &told).is_err());
        assert!(verdict(kept, Some(1), line, "").is_err());
        assert!(verdict(kept, Some(1), &line.replace("null}", "\"late\"}"), &told).is_err());
        assert!(verdict(kept, Some(1), line, &format!("{told}\nthread panicked")).is_err());
        assert!(verdict(&TROUBLES[0], Some(1), line, &TROUBLES[0].told.join("\n")).is_err());
    }
}
