//! Files of `/proc` that tell of any process: from its public page, where it says who it is, and from the kernel's
//! record of its environment, where it cannot lie.

use crate::layout::PAGE_SIZE;
use crate::process::status::Change;
use crate::relatives::Other;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::{EnvironmentId, exposed};

/// The files.
pub(super) const FILES: [&str; 5] = ["cmdline", "comm", "stat", "statm", "status"];
/// Nanoseconds in a tick.
const TICK: u64 = 10_000_000;

/// What a file says; `None`: there is no such file.
pub(super) fn text(other: &Other, rest: &[&str]) -> Option<Vec<u8>> {
    let name = String::from_utf8_lossy(&other.name).into_owned();
    let text = match rest {
        ["comm"] => format!("{name}\n"),
        ["cmdline"] => return Some(other.arguments.clone()),
        ["stat"] => statistics(other, &name),
        ["statm"] => {
            let pages = pages(other.number);
            format!("{pages} {pages} 0 0 0 {pages} 0\n")
        }
        ["status"] => status(other, &name),
        _ => return None,
    };
    Some(text.into_bytes())
}

/// Whether a process has a CPU now.
pub(super) fn is_running(number: u64) -> bool {
    exposed::runs(EnvironmentId(number))
}

fn state(other: &Other) -> (char, &'static str) {
    match Change::from_word(other.change) {
        Some(Change::Stopped(_)) => ('T', "T (stopped)"),
        _ if is_running(other.number) => ('R', "R (running)"),
        _ => ('S', "S (sleeping)"),
    }
}

/// Pages on a process's account.
fn pages(number: u64) -> u64 {
    exposed::environment(EnvironmentId(number)).map_or(0, |info| info.budget[0].used.load(Relaxed))
}

/// The 52 fields of proc(5), those that have no meaning here 0.
fn statistics(other: &Other, name: &str) -> String {
    let time = exposed::environment(EnvironmentId(other.number)).map_or(0, |info| info.time.load(Relaxed));
    let pages = pages(other.number);
    let mut fields = [0; 52];
    (fields[3], fields[4], fields[5]) = (other.parent, other.group, other.session);
    fields[13] = time / TICK;
    (fields[17], fields[19]) = (20, 1);
    (fields[22], fields[23], fields[24]) = (pages * PAGE_SIZE, pages, u64::MAX);
    fields[37] = 17;
    let rest: Vec<String> = fields[3..].iter().map(|field| format!("{field}")).collect();
    format!("{} ({name}) {} {}\n", other.number, state(other).0, rest.join(" "))
}

fn status(other: &Other, name: &str) -> String {
    let (number, parent, kilobytes) = (other.number, other.parent, pages(other.number) * PAGE_SIZE / 1024);
    let ([user, acting], [group, group_acting]) = (other.user, other.groups);
    format!(
        "Name:\t{name}\nUmask:\t0022\nState:\t{}\nTgid:\t{number}\nNgid:\t0\nPid:\t{number}\nPPid:\t{parent}\n\
         TracerPid:\t0\nUid:\t{user}\t{acting}\t{acting}\t{acting}\nGid:\t{group}\t{group_acting}\t{group_acting}\t{group_acting}\nFDSize:\t64\nGroups:\t\n\
         VmPeak:\t{kilobytes:>8} kB\nVmSize:\t{kilobytes:>8} kB\nVmRSS:\t{kilobytes:>8} kB\nThreads:\t1\n",
        state(other).1,
    )
}
