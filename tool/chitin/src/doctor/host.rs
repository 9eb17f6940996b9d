//! What the host itself must have: a toolchain, a linker, packages, room.

use std::fs;
use std::process::Command;

use rustix::fs::statvfs;

use crate::toolchain::{GUEST_TARGET, Toolchain, find_program};
use crate::workspace::Workspace;

use super::Line;

/// KiB of memory: what the build needs, and what the largest test machine needs.
const BUILD_MEMORY: u64 = 1 << 20;
const TEST_MEMORY: u64 = 7 << 20;
/// MiB of disk that builds and tests take.
const DISK: u64 = 4096;

/// The toolchain, asked as the build would ask it.
pub fn rust(workspace: &Workspace) -> Line {
    let toolchain = Toolchain::detect();
    let rustc = match toolchain {
        Toolchain::Pinned => "rustc",
        Toolchain::Debian => "/usr/bin/rustc",
    };
    let ask = |arguments: &[&str]| {
        let output = Command::new(rustc).args(arguments).current_dir(workspace.root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (Some(version), Some(sysroot)) = (ask(&["--version"]), ask(&["--print", "sysroot"])) else {
        return Line::missing("rust", "no Rust that works here: ./chitin installs it");
    };
    let library = match toolchain {
        Toolchain::Pinned => format!("{sysroot}/lib/rustlib/{GUEST_TARGET}/lib"),
        Toolchain::Debian => format!("{sysroot}/lib/rustlib/src/rust/library/core"),
    };
    if !fs::exists(&library).unwrap_or(false) {
        return Line::missing("rust", format!("{version} cannot build for {GUEST_TARGET}: ./chitin installs that"));
    }
    let origin = if toolchain == Toolchain::Pinned { "rustup" } else { "Debian" };
    Line::good("rust", format!("{version}, from {origin}, builds for {GUEST_TARGET}"))
}

pub fn linker(_: &Workspace) -> Line {
    match find_program("cc") {
        Some(found) => Line::good("linker", found.display().to_string()),
        None => Line::missing("linker", "no cc: install gcc and libc6-dev"),
    }
}

/// What fetches the built-in root file system.
pub fn packages(workspace: &Workspace) -> Line {
    if workspace.cache().join("busybox-static").is_dir() {
        return Line::good("packages", "the built-in root file system is in the cache");
    }
    match ["apt-get", "dpkg"].iter().find(|tool| find_program(tool).is_none()) {
        Some(tool) => Line::missing("packages", format!("no {tool}: the built-in root cannot be fetched, give --root")),
        None => Line::good("packages", "apt-get and dpkg can fetch the built-in root file system"),
    }
}

/// What single commands need beyond the build, by program, package and purpose.
const OPTIONAL: [(&str, &str, &str); 10] = [
    ("clang", "clang", "./chitin test"),
    ("tcpdump", "tcpdump", "./chitin test"),
    ("patch", "patch", "./chitin test"),
    ("git", "git", "./chitin test"),
    ("zstd", "zstd", "./chitin test"),
    ("bzip2", "bzip2", "./chitin test"),
    ("umoci", "umoci", "tests of images"),
    ("skopeo", "skopeo", "tests of images"),
    ("gdb", "gdb", "./chitin run --gdb"),
    ("dpkg-deb", "dpkg", "./chitin root"),
];

/// What to install for what; ./chitin test installs its own.
pub fn tools(_: &Workspace) -> Line {
    let missing = OPTIONAL.iter().filter(|(program, _, _)| find_program(program).is_none());
    let missing: Vec<String> =
        missing.map(|(_, package, purpose)| format!("install {package} for {purpose}")).collect();
    if missing.is_empty() {
        Line::good("tools", "every command has what it needs")
    } else {
        Line::note("tools", missing.join(", "))
    }
}

pub fn memory(_: &Workspace) -> Line {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let Some(available) = kibibytes(&text, "MemAvailable:") else {
        return Line::note("memory", "this host does not say how much memory is free");
    };
    let free = format!("{} MiB available", available >> 10);
    match available {
        0..BUILD_MEMORY => Line::missing("memory", format!("{free}: building needs {} MiB", BUILD_MEMORY >> 10)),
        BUILD_MEMORY..TEST_MEMORY => Line::note("memory", format!("{free}: the tests with 6 GiB machines may be slow")),
        _ => Line::good("memory", free),
    }
}

fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

pub fn disk(workspace: &Workspace) -> Line {
    match statvfs(workspace.root()) {
        Err(error) => Line::note("disk", format!("this host does not say how much disk is free ({error})")),
        Ok(space) => {
            let free = (space.f_bavail * space.f_frsize) >> 20;
            let text = format!("{free} MiB free");
            if free < DISK {
                Line::missing("disk", format!("{text}: builds and tests take up to {DISK} MiB"))
            } else {
                Line::good("disk", text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::kibibytes;

    #[test]
    fn memory_is_read_from_its_line() {
        let text = "MemTotal:  24 kB\nMemAvailable:   4711 kB\n";
        assert_eq!(kibibytes(text, "MemAvailable:"), Some(4711));
        assert_eq!(kibibytes(text, "Swap:"), None);
    }
}
