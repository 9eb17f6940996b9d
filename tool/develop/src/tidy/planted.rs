//! For tests: checkouts that exist only in memory, to plant violations in.

use std::path::{Path, PathBuf};

use chitin::metadata::{Dependency, Metadata, Package, Target};

use super::Subject;
use super::exceptions::Exceptions;
use super::tree::{SourceFile, Tree};

const ROOT: &str = "/planted";

impl Subject {
    /// A checkout of these files and no packages.
    pub fn planted(files: Vec<(&str, &str)>) -> Self {
        let files = files.into_iter().map(|(path, source)| SourceFile::new(path, source.into()));
        let tree = Tree { root: ROOT.into(), files: files.collect() };
        Self { tree, metadata: metadata(&[]), exceptions: Exceptions::default() }
    }
}

/// A workspace of library crates, each a folder and the folders it imports.
pub fn metadata(packages: &[(&str, &[&str])]) -> Metadata {
    let packages: Vec<Package> = packages.iter().map(|(at, imports)| package(at, imports)).collect();
    let workspace_members: Vec<String> = packages.iter().map(|package| package.id.clone()).collect();
    let workspace_default_members = workspace_members.clone();
    Metadata { packages, workspace_members, workspace_default_members, workspace_root: PathBuf::from(ROOT) }
}

fn package(at: &str, imports: &[&str]) -> Package {
    let folder = Path::new(ROOT).join(at);
    let import = |path: &&str| Dependency { name: (*path).into(), kind: None, path: Some(Path::new(ROOT).join(path)) };
    Package {
        id: at.into(),
        name: at.into(),
        version: "0.1.0".into(),
        license: Some("MIT OR Apache-2.0".into()),
        manifest_path: folder.join("Cargo.toml"),
        dependencies: imports.iter().map(import).collect(),
        targets: vec![Target { name: at.into(), kind: vec!["lib".into()], src_path: folder.join("src/lib.rs") }],
    }
}
