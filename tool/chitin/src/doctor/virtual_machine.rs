//! What stands under the machine: QEMU, its devices, and the truth about KVM.

use std::fs;
use std::process::Command;

use crate::kvm::{self, Answer};
use crate::qemu::PROGRAM;
use crate::workspace::Workspace;

use super::Line;

/// The oldest QEMU that Chitin was tried with: major and minor number.
const OLDEST: (u32, u32) = (7, 2);
/// What a machine is put together from, as QEMU names it.
const DEVICES: [&str; 4] = ["isa-debug-exit", "virtio-serial-pci", "virtio-serial-device", "virtserialport"];
const BOARDS: [&str; 2] = ["q35", "microvm"];

fn ask(arguments: &[&str]) -> Option<String> {
    let output = Command::new(PROGRAM).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn version(_: &Workspace) -> Line {
    let Some(said) = ask(&["--version"]) else {
        return Line::missing("qemu", format!("no {PROGRAM}: install qemu-system-x86"));
    };
    match parse_version(&said) {
        None => Line::note("qemu", "its version cannot be read"),
        Some(found) if found < OLDEST => {
            let (major, minor) = OLDEST;
            Line::missing("qemu", format!("version {}.{} is older than {major}.{minor}", found.0, found.1))
        }
        Some((major, minor)) => Line::good("qemu", format!("version {major}.{minor}")),
    }
}

/// Major and minor number from `QEMU emulator version 7.2.22 (Debian …)`.
fn parse_version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split("version ").nth(1)?.split(['.', ' ', '\n']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub fn features(_: &Workspace) -> Line {
    let devices = ask(&["-device", "help"]).unwrap_or_default();
    let boards = ask(&["-machine", "help"]).unwrap_or_default();
    let mut lacking: Vec<&str> = DEVICES.into_iter().filter(|name| !devices.contains(&format!("\"{name}\""))).collect();
    let has_board = |name: &str| boards.lines().any(|line| line.split_whitespace().next() == Some(name));
    lacking.extend(BOARDS.into_iter().filter(|name| !has_board(name)));
    if lacking.is_empty() {
        Line::good("devices", "QEMU has all boards and devices that are used")
    } else {
        Line::missing("devices", format!("this QEMU lacks {}", lacking.join(", ")))
    }
}

pub fn kvm(workspace: &Workspace) -> Line {
    match kvm::known(&workspace.cache()) {
        Answer::Works => Line::good("kvm", "Chitin runs under it"),
        Answer::Fails(reason) => Line::note("kvm", format!("{reason}: machines are emulated")),
        Answer::NotTried => Line::note("kvm", "/dev/kvm is there: ./chitin run tries whether Chitin runs under it"),
    }
}

/// Under KVM the guest's kernel stands on the host's real CPU.
pub fn meltdown(_: &Workspace) -> Line {
    let state = fs::read_to_string("/sys/devices/system/cpu/vulnerabilities/meltdown").unwrap_or_default();
    judge_meltdown(state.trim())
}

fn judge_meltdown(state: &str) -> Line {
    match state {
        "Not affected" => Line::good("meltdown", "this CPU needs no page-table isolation"),
        "" => Line::note("meltdown", "this host does not say whether its CPU is affected"),
        state => Line::note(
            "meltdown",
            format!(
                "this CPU needs page-table isolation ({state}), which Chitin does not have: do not use --accel kvm"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_version("QEMU emulator version 7.2.22 (Debian 1:7.2)\nCopyright"), Some((7, 2)));
        assert_eq!(parse_version("QEMU emulator version 10.0\n"), Some((10, 0)));
        assert_eq!(parse_version("something else"), None);
    }

    #[test]
    fn an_affected_cpu_is_named() {
        assert_eq!(judge_meltdown("Not affected").grade, Grade::Good);
        assert!(judge_meltdown("Mitigation: PTI").text.contains("needs page-table isolation"));
        assert!(judge_meltdown("Vulnerable").text.contains("needs page-table isolation"));
    }
}
