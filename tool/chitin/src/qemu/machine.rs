//! What a machine is made of.

use super::Accelerator;

/// The kind of mainboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// A PC with PCI Express.
    Q35,
    /// A minimal machine with virtio devices behind memory-mapped registers.
    Microvm,
}

/// The CPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// All that the accelerator has.
    Max,
    /// The least: no SMEP, SMAP, UMIP, protection keys or FSGSBASE.
    Qemu64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub board: Board,
    pub cpu: Cpu,
    pub cpus: u32,
    /// MiB of memory.
    pub memory: u64,
    pub accelerator: Accelerator,
    /// The virtual clock counts instructions.
    pub instruction_count: bool,
    /// The machine waits for a debugger before its first instruction.
    pub debugger: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            board: Board::Q35,
            cpu: Cpu::Max,
            cpus: 1,
            memory: 256,
            accelerator: Accelerator::Tcg,
            instruction_count: false,
            debugger: false,
        }
    }
}
