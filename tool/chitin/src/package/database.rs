//! dpkg's database of a root whose packages are unpacked and not configured: `var/lib/dpkg` as dpkg itself leaves it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use tar::{Archive, EntryType};

use crate::failure::{Context, Failure, Result};
use crate::root::{Contents, Kind, Node, Tree};

const PLACE: &str = "var/lib/dpkg";
/// What every system has apart from the packages that call themselves essential.
const ALWAYS: [&str; 2] = ["apt", "usr-is-merged"];

/// A package as its file's control part describes it.
#[derive(Clone, Debug)]
pub struct Control {
    pub file: PathBuf,
    /// Its line of the lock file.
    pub line: String,
    /// As dpkg names its files: with the architecture where several can be installed side by side.
    pub name: String,
    fields: String,
    /// Maintainer scripts and lists, by name.
    files: BTreeMap<String, Vec<u8>>,
}

impl Control {
    /// Reads the control part of a package.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn read(file: PathBuf, line: String) -> Result<Self> {
        let mut command = Command::new("dpkg-deb");
        let output = command.arg("--ctrl-tarfile").arg(&file).output().context("cannot start dpkg-deb")?;
        let damaged = || damaged(&file);
        if !output.status.success() {
            return Err(damaged());
        }
        let mut files = BTreeMap::new();
        for entry in Archive::new(output.stdout.as_slice()).entries().context(file.display())? {
            let mut entry = entry.context(file.display())?;
            if entry.header().entry_type() != EntryType::Regular {
                continue;
            }
            let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).context(file.display())?;
            files.insert(name, bytes);
        }
        let fields = files.remove("control").ok_or_else(damaged)?;
        let fields = String::from_utf8_lossy(&fields).trim_end().to_owned();
        let name = field(&fields, "Package").ok_or_else(damaged)?.to_owned();
        let name = match (field(&fields, "Multi-Arch"), field(&fields, "Architecture")) {
            (Some("same"), Some(architecture)) => format!("{name}:{architecture}"),
            _ => name,
        };
        Ok(Self { file, line, name, fields, files })
    }

    pub fn has(&self, script: &str) -> bool {
        self.files.contains_key(script)
    }

    fn belongs_to_base(&self) -> bool {
        field(&self.fields, "Essential") == Some("yes") || self.names().any(|name| ALWAYS.contains(&name))
    }

    /// Its own name, and those that it provides.
    fn names(&self) -> impl Iterator<Item = &str> {
        ["Package", "Provides"].into_iter().flat_map(|field| self.names_in(field))
    }

    /// What it depends on: of alternatives all.
    fn needs(&self) -> impl Iterator<Item = &str> {
        ["Depends", "Pre-Depends"].into_iter().flat_map(|field| self.names_in(field))
    }

    fn names_in(&self, name: &str) -> impl Iterator<Item = &str> {
        let value = field(&self.fields, name).unwrap_or_default();
        value.split([',', '|']).filter_map(|one| one.trim().split([' ', ':', '(']).next()).filter(|one| !one.is_empty())
    }
}

/// The packages that every system has, with all that they depend on, and the others.
pub fn split(packages: Vec<Control>) -> (Vec<Control>, Vec<Control>) {
    let mut base: BTreeSet<usize> = (0..packages.len()).filter(|&number| packages[number].belongs_to_base()).collect();
    loop {
        let needed: BTreeSet<&str> = base.iter().flat_map(|&number| packages[number].needs()).collect();
        let known = base.len();
        base.extend((0..packages.len()).filter(|&number| packages[number].names().any(|name| needed.contains(name))));
        if base.len() == known {
            break;
        }
    }
    let (base, more): (Vec<_>, Vec<_>) =
        packages.into_iter().enumerate().partition(|(number, _)| base.contains(number));
    let packages = |half: Vec<(usize, Control)>| half.into_iter().map(|(_, package)| package).collect();
    (packages(base), packages(more))
}

/// What is said of a file that dpkg-deb does not read.
pub fn damaged(file: &Path) -> Failure {
    Failure::new(format!("{} is damaged: delete it and try again", file.display()))
}

/// The value of a field of one line.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Adds packages to the database, which is made where there is none; `lists` are the names of each package's files.
pub fn add(tree: &mut Tree, packages: &[Control], lists: &[String]) {
    let mut status = text(tree, "status").unwrap_or_default();
    for (package, list) in packages.iter().zip(lists) {
        let (first, rest) = package.fields.split_once('\n').unwrap_or((&package.fields, ""));
        // A string takes whatever is written to it.
        let _ = write!(status, "{first}\nStatus: install ok unpacked\n{rest}\n\n");
        file(tree, &format!("info/{}.list", package.name), list.as_bytes(), 0o644);
        for (name, bytes) in &package.files {
            let mode = if bytes.starts_with(b"#!") || bytes.starts_with(b"\x7fELF") { 0o755 } else { 0o644 };
            file(tree, &format!("info/{}.{name}", package.name), bytes, mode);
        }
    }
    file(tree, "status", status.as_bytes(), 0o644);
    for (name, contents) in [("available", ""), ("diversions", ""), ("statoverride", ""), ("info/format", "1\n")] {
        if text(tree, name).is_none() {
            file(tree, name, contents.as_bytes(), 0o644);
        }
    }
    for folder in ["updates", "alternatives", "triggers", "parts"] {
        let place = format!("{PLACE}/{folder}");
        if tree.get(place.as_bytes()).is_none() {
            tree.insert(place.as_bytes(), Node::of_root(Kind::Directory, 0o755));
        }
    }
}

fn text(tree: &Tree, name: &str) -> Option<String> {
    let Kind::File(contents) = tree.get(format!("{PLACE}/{name}").as_bytes())?.kind else { return None };
    Some(String::from_utf8_lossy(&tree.read(contents, u64::MAX).ok()?).into_owned())
}

fn file(tree: &mut Tree, name: &str, bytes: &[u8], mode: u32) {
    let contents = tree.add_contents(Contents::Bytes(bytes.to_vec()));
    let place = tree.place_of(format!("{PLACE}/{name}").as_bytes());
    tree.insert(&place, Node::of_root(Kind::File(contents), mode));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(fields: &str) -> Control {
        let fields = fields.to_owned();
        let name = field(&fields, "Package").unwrap().to_owned();
        Control { file: PathBuf::new(), line: String::new(), name, fields, files: BTreeMap::new() }
    }

    fn status(tree: &Tree) -> String {
        text(tree, "status").unwrap()
    }

    #[test]
    fn a_package_stands_in_the_database_unpacked() {
        let mut package = package("Package: a\nVersion: 1\nArchitecture: amd64\nMulti-Arch: same");
        package.name = "a:amd64".into();
        package.files = BTreeMap::from([("postinst".to_owned(), b"#!/bin/sh\n".to_vec())]);
        assert!(package.has("postinst") && !package.has("preinst"));
        let mut tree = Tree::new();
        add(&mut tree, &[package], &["/.\n".to_owned()]);
        let status = status(&tree);
        assert!(status.starts_with("Package: a\nStatus: install ok unpacked\nVersion: 1\n"), "{status}");
        assert_eq!(tree.get(b"var/lib/dpkg/info/a:amd64.postinst").unwrap().permissions, 0o755);
        assert_eq!(field("A: b\nC: d", "C"), Some("d"));
    }

    #[test]
    fn packages_come_to_those_that_are_there() {
        let mut tree = Tree::new();
        add(&mut tree, &[package("Package: a\nVersion: 1")], &["/.\n".to_owned()]);
        file(&mut tree, "diversions", b"/bin/sh\n", 0o644);
        add(&mut tree, &[package("Package: b\nVersion: 2")], &["/.\n".to_owned()]);
        let status = status(&tree);
        assert_eq!(status.lines().filter(|line| line.starts_with("Package: ")).count(), 2, "{status}");
        assert_eq!(text(&tree, "diversions").as_deref(), Some("/bin/sh\n"));
    }

    #[test]
    fn the_base_is_what_essential_packages_need() {
        let packages = [
            "Package: dash\nEssential: yes\nPre-Depends: libc6 (>= 2.36)\nDepends: debconf (>= 0.5) | debconf-2.0, awk",
            "Package: libc6\nDepends: libgcc-s1",
            "Package: mawk\nProvides: awk",
            "Package: libgcc-s1\nDepends: gcc-12-base (= 12.2.0-14)",
            "Package: gcc-12-base",
            "Package: redis-server\nDepends: libc6, redis-tools",
            "Package: redis-tools",
            "Package: apt\nDepends: adduser:any",
            "Package: adduser",
        ];
        let (base, more) = split(packages.map(package).into());
        let names = |packages: &[Control]| packages.iter().map(|one| one.name.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&base), "dash libc6 mawk libgcc-s1 gcc-12-base apt adduser");
        assert_eq!(names(&more), "redis-server redis-tools");
    }
}
