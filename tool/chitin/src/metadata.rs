//! The workspace and its dependencies as cargo knows them.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::{Context, Failure, Result};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    pub workspace_members: Vec<String>,
    pub workspace_default_members: Vec<String>,
    pub workspace_root: PathBuf,
}

#[derive(Debug, Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
    pub targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None` for a normal one, else `dev` or `build`.
    pub kind: Option<String>,
    /// Where it is, for a dependency inside the workspace.
    pub path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
pub struct Target {
    pub name: String,
    pub kind: Vec<String>,
    pub src_path: PathBuf,
}

impl Metadata {
    /// Asks cargo about `workspace`: its members, and with `all` also every
    /// package that they stand on.
    ///
    /// # Errors
    /// What cargo says when it cannot answer.
    pub fn load(toolchain: Toolchain, workspace: &Workspace, all: bool) -> Result<Self> {
        let mut cargo = toolchain.host_cargo(workspace);
        cargo.args(["metadata", "--format-version=1", "--quiet"]);
        if !all {
            cargo.arg("--no-deps");
        }
        let output = cargo.output().context("cannot start cargo")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            return Err(Failure::new(format!("cargo metadata failed: {said}")));
        }
        serde_json::from_slice(&output.stdout).context("cargo metadata")
    }

    /// The packages of the workspace itself.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}

impl Package {
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new(""))
    }

    /// Whether it holds a program, not only a library.
    pub fn has_program(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "bin"))
    }
}
