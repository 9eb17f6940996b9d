//! Builds what runs inside the machine: the kernel's image with the kernel's
//! code model, and the guest programs, each into a target folder of its own.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::cargo::{self, Executable};
use crate::elf;
use crate::failure::{Context, Failure, Result};
use crate::metadata::Metadata;
use crate::seal::{self, Turn};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

const KERNEL_FLAGS: &str = "-Crelocation-model=static -Ccode-model=kernel -Cforce-frame-pointers=yes";
const GUEST_FLAGS: &str = "-Crelocation-model=pic -Ccode-model=small";
/// Folders of the crates whose programs make up ExOS.
pub const EXOS: &[&str] = &["lib"];
/// Folders of the crates whose programs run without ExOS.
pub const NATIVE: &[&str] = &["lib", "app"];
/// Folders of the crates whose programs are measured.
pub const MEASURED: &[&str] = &["lib", "bench", "app"];
/// Folders of the crates whose programs tests boot.
pub const TESTED: &[&str] = &["lib", "app", "test/programs"];

/// All that was built for the machine.
#[derive(Clone, Debug)]
pub struct Images {
    pub kernel: PathBuf,
    programs: Vec<Executable>,
}

impl Images {
    /// Builds the kernel and the guest programs of the crates in `folders`.
    ///
    /// # Errors
    /// When something does not build or is damaged.
    pub fn build(toolchain: Toolchain, workspace: &Workspace, folders: &[&str]) -> Result<Self> {
        Self::of(toolchain, workspace, folders, None)
    }

    /// The same with a kernel that keeps a trace of the entries into it.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn build_tracing(toolchain: Toolchain, workspace: &Workspace, folders: &[&str]) -> Result<Self> {
        Self::of(toolchain, workspace, folders, Some("trace"))
    }

    /// Both at once: rustc spends half of either build in steps that use one CPU.
    fn of(toolchain: Toolchain, workspace: &Workspace, folders: &[&str], feature: Option<&str>) -> Result<Self> {
        let (kernel, programs) =
            at_once(|| kernel(toolchain, workspace, feature), || programs(toolchain, workspace, folders));
        Ok(Self { kernel: kernel?, programs: programs? })
    }

    /// The file of a guest program, symbols and all.
    pub fn file(&self, name: &str) -> Option<&Path> {
        self.programs.iter().find(|program| program.target == name).map(|program| program.file.as_path())
    }

    /// A guest program as it goes into the boot archive: checked, and without
    /// what is not loaded.
    ///
    /// # Errors
    /// When no crate has a program of that name, or its file is damaged.
    pub fn program(&self, name: &str) -> Result<Vec<u8>> {
        let found = self.programs.iter().find(|program| program.target == name);
        let program = found.ok_or_else(|| {
            let mut names: Vec<&str> = self.programs.iter().map(|program| program.target.as_str()).collect();
            names.sort_unstable();
            Failure::new(format!("no guest program is called {name}; there are {}", names.join(", ")))
        })?;
        let bytes = read_image(&program.file)?;
        elf::check(&bytes, &program.file.display().to_string())?;
        Ok(elf::loadable(&bytes))
    }
}

/// Does two things at the same time.
pub fn at_once<First: Send, Second>(
    first: impl FnOnce() -> First + Send,
    second: impl FnOnce() -> Second,
) -> (First, Second) {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| resume_unwind(panic)), second)
    })
}

/// A kernel with a feature gets a target folder of its own, so that neither takes the other's place.
fn kernel(toolchain: Toolchain, workspace: &Workspace, feature: Option<&str>) -> Result<PathBuf> {
    let base = workspace.kernel_target();
    let target = feature.map_or(base.clone(), |feature| base.join(feature));
    let mut command = toolchain.guest_build(workspace, &target, "kernel", KERNEL_FLAGS);
    command.args(["--package", "image", "--bin", "image"]);
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    let built = built(&mut command, &target, "building the kernel")?;
    let image = built.into_iter().find(|executable| executable.target == "image");
    let file = image.ok_or_else(|| Failure::new("cargo built no kernel image"))?.file;
    elf::check_kernel(&read_image(&file)?, &file.display().to_string())?;
    Ok(file)
}

fn programs(toolchain: Toolchain, workspace: &Workspace, folders: &[&str]) -> Result<Vec<Executable>> {
    let metadata = Metadata::load(toolchain, workspace, false)?;
    let mut command = toolchain.guest_build(workspace, &workspace.guest_target(), "release", GUEST_FLAGS);
    command.arg("--bins");
    let mut any = false;
    for package in metadata.members().filter(|package| package.has_program()) {
        let folder = package.folder().strip_prefix(workspace.root()).unwrap_or(package.folder());
        if folders.iter().any(|guest| folder.starts_with(guest)) {
            command.args(["--package", &package.name]);
            any = true;
        }
    }
    if any { built(&mut command, &workspace.guest_target(), "building the guest programs") } else { Ok(Vec::new()) }
}

/// What cargo builds into `target`, sealed.
fn built(command: &mut Command, target: &Path, step: &str) -> Result<Vec<Executable>> {
    let turn = Turn::take(target)?;
    let built = cargo::build_all(command, step)?;
    turn.seal(&built)?;
    Ok(built)
}

/// # Errors
/// When the file is gone or damaged: what says how to get it back.
fn read_image(file: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(file).context(format!("{} is missing, delete its folder to build it anew", file.display()))?;
    seal::check(&bytes, file)?;
    Ok(bytes)
}
