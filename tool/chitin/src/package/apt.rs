//! Resolver of Debian packages: what apt-get would install into an empty system, and the packages' files.
//!
//! The host's package lists are read; nothing is installed, and no rights are needed. Files are cached by version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::root::debian;

/// What every system has: the scripts of packages use it. The root has merged folders from the beginning.
const BASE: [&str; 2] = ["?and(?essential,?architecture(amd64))", "usr-is-merged"];
/// Names that are offered for an unknown one at most.
const OFFERED: usize = 5;

/// A package of a root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub architecture: String,
}

impl Package {
    /// As apt-get names its file: a colon is escaped.
    pub fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version.replace(':', "%3a"), self.architecture)
    }

    fn request(&self) -> String {
        format!("{}={}", self.name, self.version)
    }
}

/// When the host's package lists changed last.
pub fn age_of_lists() -> Option<SystemTime> {
    fs::metadata("/var/lib/apt/lists").and_then(|metadata| metadata.modified()).ok()
}

/// Packages to install, in the order in which apt-get would.
///
/// # Errors
/// When a package is unknown or cannot be installed with the others.
pub fn resolve(wanted: &[String]) -> Result<Vec<Package>> {
    wanted.iter().try_for_each(|name| check_name(name))?;
    let mut command = apt_get();
    command.args(["--simulate", "install"]).args(BASE).args(wanted);
    let output = command.output().context("cannot start apt-get, which finds Debian's packages")?;
    if !output.status.success() {
        return Err(complaint(&String::from_utf8_lossy(&output.stderr)));
    }
    let packages = parse(&String::from_utf8_lossy(&output.stdout));
    if packages.is_empty() { Err(Failure::new("apt-get names no package: run apt-get update")) } else { Ok(packages) }
}

/// Fetches what is missing of the files of `packages` into `folder`.
///
/// # Errors
/// When a file is missing and cannot be fetched.
pub fn fetch(packages: &[Package], folder: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).context(folder.display())?;
    let place = |package: &Package| folder.join(package.file_name());
    let missing: Vec<&Package> = packages.iter().filter(|package| !place(package).is_file()).collect();
    if !missing.is_empty() {
        let mut progress = Progress::step("fetching Debian's packages");
        progress.busy_with(&format!("({} of {})", missing.len(), packages.len()));
        let work = crate::scratch::folder_in(folder)?;
        let mut command = Command::new("apt-get");
        command
            .args(["--quiet", "-o", debian::RETRIES, "download"])
            .args(missing.iter().map(|package| package.request()));
        debian::said(command.current_dir(work.path()), "is the network up? (apt-get update renews old lists)")?;
        for entry in fs::read_dir(work.path()).context(work.path().display())?.flatten() {
            fs::rename(entry.path(), folder.join(entry.file_name())).context(folder.display())?;
        }
    }
    match packages.iter().find(|package| !place(package).is_file()) {
        Some(package) => Err(Failure::new(format!("apt-get did not bring {}", package.file_name()))),
        None => Ok(packages.iter().map(place).collect()),
    }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    for option in ["Dir::State::status=/dev/null", "APT::Install-Recommends=false", "Debug::NoLocking=true"] {
        command.args(["-o", option]);
    }
    command.env("LC_ALL", "C").args(["--quiet", "--assume-yes"]);
    command
}

/// The `Inst` lines of a simulation: `Inst NAME (VERSION ORIGIN [ARCHITECTURE])`.
fn parse(said: &str) -> Vec<Package> {
    let package = |line: &str| {
        let mut words = line.strip_prefix("Inst ")?.split(' ');
        let name = words.next()?.split(':').next()?.to_owned();
        let found = line.split_once('(')?.1.split(')').next()?;
        let version = found.split(' ').next()?.to_owned();
        let architecture = found.rsplit_once('[')?.1.trim_end_matches(']').to_owned();
        Some(Package { name, version, architecture })
    };
    said.lines().filter_map(package).collect()
}

/// A name goes into a command line: it is one, perhaps with a version.
fn check_name(name: &str) -> Result<()> {
    if let Some((_, other)) = name.split_once(':').filter(|(_, other)| !["amd64", "all", "any"].contains(other)) {
        return Err(Failure::new(format!("{name}: packages for {other} do not run here, the machine is amd64")));
    }
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.:=~%".contains(&byte);
    match name.bytes().next() {
        Some(first) if first.is_ascii_alphanumeric() && name.bytes().all(is_fit) => Ok(()),
        _ => Err(Failure::new(format!("{name:?} is no name of a package"))),
    }
}

fn complaint(said: &str) -> Failure {
    let errors: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("E: ")).collect();
    let unknown = errors.iter().find_map(|line| line.strip_prefix("Unable to locate package "));
    let Some(unknown) = unknown else {
        let reason = errors.first().copied().unwrap_or("it does not say why");
        return Failure::new(format!("apt-get: {reason} (apt-get update renews old lists)"));
    };
    let output = Command::new("apt-cache").arg("pkgnames").output().map(|output| output.stdout).unwrap_or_default();
    let names = String::from_utf8_lossy(&output).into_owned();
    let near = near(unknown, names.lines());
    Failure::new(if names.lines().count() < 100 {
        format!("no package {unknown}: this host has no package lists, run apt-get update")
    } else if near.is_empty() {
        format!("no package is called {unknown}, nor nearly so: run apt-get update if it is new")
    } else {
        format!("no package is called {unknown}: near it are {}", near.join(", "))
    })
}

/// Names that differ least from `wanted`, nearest first.
fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let most = (wanted.len() / 3).clamp(1, 3);
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len().abs_diff(wanted.len()) <= most)
        .map(|name| (distance(wanted, name), name))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    found.sort_unstable();
    found.truncate(OFFERED);
    found.into_iter().map(|(_, name)| name).collect()
}

/// Insertions, removals and replacements between two words (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, one) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(one != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_is_read() {
        let said = "Reading\nInst gcc-12-base (12.2.0-14 Debian:12.15/oldstable [amd64]) [libc6:i386 ]\n\
                    Inst git (1:2.39.5-0+deb12u3 Debian:12.15/oldstable [amd64])\nConf git (1:2.39.5 x [amd64])\n";
        let packages = parse(said);
        assert_eq!(packages.len(), 2);
        assert_eq!(packages[0].file_name(), "gcc-12-base_12.2.0-14_amd64.deb");
        assert_eq!(packages[1].file_name(), "git_1%3a2.39.5-0+deb12u3_amd64.deb");
    }

    #[test]
    fn near_names_are_offered() {
        let names = ["python3", "python2", "pythonic", "ruby", "pyhton3-x"];
        assert_eq!(near("pyton3", names.into_iter()), ["python3", "python2"]);
        assert!(near("xyzzy", names.into_iter()).is_empty());
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn other_architectures_are_refused() {
        assert!(check_name("hello:arm64").unwrap_err().to_string().contains("for arm64"));
        assert!(check_name("hello:amd64").is_ok());
    }

    #[test]
    fn options_are_no_names() {
        for bad in ["", "-o", "a b", "?essential", "a;b", "/etc"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("libstdc++6=12.2.0-14").is_ok());
    }
}
