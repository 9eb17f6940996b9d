//! The two Rust toolchains that build Chitin: the pinned one by rustup, or
//! Debian's own, which carries the library's sources instead of a prebuilt
//! library for the bare machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::Workspace;

/// The target of everything that runs inside the machine.
pub const GUEST_TARGET: &str = "x86_64-unknown-none";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// rustup's, with the version that `rust-toolchain.toml` names.
    Pinned,
    /// Debian's packages `rustc-web`, `cargo-web` and `rust-web-src`.
    Debian,
}

impl Toolchain {
    /// The same rule as the front door's: rustup wherever there is one.
    pub fn detect() -> Self {
        if find_program("rustup").is_some() { Self::Pinned } else { Self::Debian }
    }

    /// A cargo that builds for this host.
    pub fn host_cargo(self, workspace: &Workspace) -> Command {
        let mut cargo = match self {
            Self::Pinned => Command::new("cargo"),
            Self::Debian => Command::new("/usr/bin/cargo"),
        };
        cargo.current_dir(workspace.root()).env_remove("RUSTFLAGS");
        cargo
    }

    /// `cargo build` for the machine, into `target`, with these code
    /// generation flags.
    pub fn guest_build(self, workspace: &Workspace, target: &Path, profile: &str, flags: &str) -> Command {
        let mut cargo = self.host_cargo(workspace);
        cargo.args(["build", "--profile", profile, "--target", GUEST_TARGET]);
        cargo.arg("--target-dir").arg(target);
        match self {
            Self::Pinned => cargo.env("RUSTFLAGS", flags),
            Self::Debian => cargo
                .args(["-Zbuild-std=core,alloc", "-Zbuild-std-features=compiler-builtins-mem"])
                .env("RUSTC_BOOTSTRAP", "1")
                .env("RUSTC", "/usr/bin/rustc")
                .env("RUSTFLAGS", format!("{flags} -Clinker-flavor=ld -Clinker=/usr/bin/ld")),
        };
        cargo
    }
}

/// Where a program stands on the search path.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
