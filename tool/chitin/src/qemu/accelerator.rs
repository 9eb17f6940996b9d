//! What runs a machine's instructions.

use clap::ValueEnum;

/// What runs a machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU's own translator.
    Tcg,
    /// The host's CPU.
    Kvm,
}

/// What the user asked for (`kvm` says what comes of it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AcceleratorChoice {
    /// KVM where Chitin runs under it
    #[default]
    Auto,
    /// The host's CPU
    Kvm,
    /// Emulation
    Tcg,
}
