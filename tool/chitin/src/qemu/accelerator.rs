//! Which accelerator a machine runs on. KVM is used only where a guest has
//! really run under it: on some hosts its device is there and guests hang.

use std::fs;
use std::path::Path;

use clap::ValueEnum;

use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;

use super::probe;

/// What runs a machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU's own translator.
    Tcg,
    /// The host's CPU.
    Kvm,
}

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AcceleratorChoice {
    /// KVM where it works
    #[default]
    Auto,
    /// The host's CPU
    Kvm,
    /// Emulation
    Tcg,
}

impl AcceleratorChoice {
    /// The accelerator to use.
    ///
    /// # Errors
    /// When KVM was asked for and does not work here.
    pub fn resolve(self, cache: &Path) -> Result<Accelerator> {
        let works = || kvm_answer(cache);
        match self {
            Self::Tcg => Ok(Accelerator::Tcg),
            Self::Auto => Ok(if works()?.is_ok() { Accelerator::Kvm } else { Accelerator::Tcg }),
            Self::Kvm => match works()? {
                Ok(()) => Ok(Accelerator::Kvm),
                Err(reason) => Err(Failure::new(format!("--accel kvm: {reason}"))),
            },
        }
    }
}

/// Whether KVM works on this host, or why not. The probe's answer is kept
/// until the host's kernel changes.
///
/// # Errors
/// When the probe cannot be carried out.
pub fn kvm_answer(cache: &Path) -> Result<std::result::Result<(), String>> {
    if let Err(error) = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Ok(Err(format!("/dev/kvm cannot be used ({error})")));
    }
    let host = fs::read_to_string("/proc/version").unwrap_or_default();
    let file = cache.join("kvm");
    let known = fs::read_to_string(&file).unwrap_or_default();
    let works = match known.strip_prefix(&host) {
        Some("works\n") => true,
        Some("hangs\n") => false,
        _ => {
            let mut progress = Progress::step("trying whether a guest runs under KVM");
            progress.busy_with("");
            let works = probe::runs(Accelerator::Kvm)?;
            fs::create_dir_all(cache).context(cache.display())?;
            let answer = if works { "works" } else { "hangs" };
            fs::write(&file, format!("{host}{answer}\n")).context(file.display())?;
            works
        }
    };
    Ok(if works { Ok(()) } else { Err("/dev/kvm is there, but a guest does not run under it".into()) })
}
