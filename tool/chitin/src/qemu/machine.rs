//! What a machine is made of.

use std::net::Ipv4Addr;
use std::path::PathBuf;

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
    /// The machine for measurements: all but SMAP and fast string copies. With SMAP QEMU before 9.1 faults on an IRETQ
    /// of user mode, and the counting clock counts string copies byte by byte.
    Measured,
    /// The same without what QEMU is slow at: vector state by XSAVE, and protection keys.
    MeasuredPlain,
}

/// A plugin for the emulator, which looks at the machine and changes nothing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The shared object.
    pub file: PathBuf,
    /// Where it writes what it saw.
    pub out: PathBuf,
}

/// A disk, and how it behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// A raw file.
    pub file: PathBuf,
    /// The machine cannot write it.
    pub read_only: bool,
    /// Operations that it carries out in a second; 0: as many as it can.
    pub pace: u32,
    /// A sector whose reads and writes fail.
    pub bad_sector: Option<u64>,
}

/// The host's side of a network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// QEMU's own network, from which connections go out as the user's.
    User,
    /// A tap of the host.
    Tap(String),
    /// A Unix socket at which the other side listens. Each frame goes with its length before it.
    Wire(PathBuf),
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCard {
    pub link: Link,
    /// Its address on the link.
    pub address: [u8; 6],
    /// The file that gets all its frames, in the format of pcap.
    pub packets: Option<PathBuf>,
    /// Ports of the host that lead to the machine; only QEMU's own network has them.
    pub forwards: Vec<Forward>,
}

/// What a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Stream,
    Datagrams,
}

/// A port of the host that leads to a port of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub transport: Transport,
    /// Address of the host that is listened at.
    pub address: Ipv4Addr,
    pub host: u16,
    pub guest: u16,
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
    /// The machine waits before its first instruction for a debugger, which connects to this socket.
    pub debugger: Option<PathBuf>,
    /// The kernel's command line; Chitin has none.
    pub command_line: String,
    pub plugin: Option<Plugin>,
    /// Disks, the first is /dev/vda.
    pub disks: Vec<Disk>,
    pub networks: Vec<NetworkCard>,
    /// The socket at which the emulator takes commands (QMP).
    pub monitor: Option<PathBuf>,
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
            debugger: None,
            command_line: String::new(),
            plugin: None,
            disks: Vec::new(),
            networks: Vec::new(),
            monitor: None,
        }
    }
}
