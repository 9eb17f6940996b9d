//! dpkg's database of a root whose packages are unpacked and not configured: `var/lib/dpkg` as dpkg itself leaves it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use tar::{Archive, EntryType};

use crate::failure::{Context, Failure, Result};
use crate::root::{Contents, Kind, Node, Tree};

const PLACE: &str = "var/lib/dpkg";

/// A package as its file's control part describes it.
#[derive(Debug)]
pub struct Control {
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
    pub fn read(package: &Path) -> Result<Self> {
        let mut command = Command::new("dpkg-deb");
        let output = command.arg("--ctrl-tarfile").arg(package).output().context("cannot start dpkg-deb")?;
        let damaged = || Failure::new(format!("{} is damaged: delete it and try again", package.display()));
        if !output.status.success() {
            return Err(damaged());
        }
        let mut files = BTreeMap::new();
        for entry in Archive::new(output.stdout.as_slice()).entries().context(package.display())? {
            let mut entry = entry.context(package.display())?;
            if entry.header().entry_type() != EntryType::Regular {
                continue;
            }
            let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).context(package.display())?;
            files.insert(name, bytes);
        }
        let fields = files.remove("control").ok_or_else(damaged)?;
        let fields = String::from_utf8_lossy(&fields).trim_end().to_owned();
        let name = field(&fields, "Package").ok_or_else(damaged)?.to_owned();
        let name = match (field(&fields, "Multi-Arch"), field(&fields, "Architecture")) {
            (Some("same"), Some(architecture)) => format!("{name}:{architecture}"),
            _ => name,
        };
        Ok(Self { name, fields, files })
    }

    pub fn has(&self, script: &str) -> bool {
        self.files.contains_key(script)
    }
}

/// The value of a field of one line.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Adds the database; `lists` are the names of each package's files.
pub fn add(tree: &mut Tree, packages: &[Control], lists: &[String]) {
    let mut status = String::new();
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
    for (name, text) in [("status", status.as_str()), ("available", ""), ("diversions", ""), ("statoverride", "")] {
        file(tree, name, text.as_bytes(), 0o644);
    }
    file(tree, "info/format", b"1\n", 0o644);
    for folder in ["updates", "alternatives", "triggers", "parts"] {
        tree.insert(format!("{PLACE}/{folder}").as_bytes(), Node::of_root(Kind::Directory, 0o755));
    }
}

fn file(tree: &mut Tree, name: &str, bytes: &[u8], mode: u32) {
    let contents = tree.add_contents(Contents::Bytes(bytes.to_vec()));
    let place = tree.place_of(format!("{PLACE}/{name}").as_bytes());
    tree.insert(&place, Node::of_root(Kind::File(contents), mode));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_stands_in_the_database_unpacked() {
        let fields = "Package: a\nVersion: 1\nArchitecture: amd64\nMulti-Arch: same".to_owned();
        let files = BTreeMap::from([("postinst".to_owned(), b"#!/bin/sh\n".to_vec())]);
        let package = Control { name: "a:amd64".into(), fields, files };
        assert!(package.has("postinst") && !package.has("preinst"));
        let mut tree = Tree::new();
        add(&mut tree, &[package], &["/.\n".to_owned()]);
        let Kind::File(status) = tree.get(b"var/lib/dpkg/status").unwrap().kind else { panic!("no file") };
        let status = String::from_utf8(tree.read(status, 1000).unwrap()).unwrap();
        assert!(status.starts_with("Package: a\nStatus: install ok unpacked\nVersion: 1\n"), "{status}");
        assert_eq!(tree.get(b"var/lib/dpkg/info/a:amd64.postinst").unwrap().permissions, 0o755);
        assert_eq!(field("A: b\nC: d", "C"), Some("d"));
    }
}
