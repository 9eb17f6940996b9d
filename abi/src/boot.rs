//! The boot archive: what the kernel is given to start from.
//!
//! A newc cpio, PVH module 0. The kernel looks for one name in it, [`INIT`], a flat static ELF, loads it into the first
//! environment, and maps the whole archive read-only for it at [`ARCHIVE`]. Everything else in it is for libraries.

/// Name of the program of the first environment.
pub const INIT: &str = "init";
/// Name of the ExOS image.
pub const EXOS: &str = "exos";
/// Folder of the root file system.
pub const ROOT: &str = "root/";
/// Name of the file that says what to run: see [`Record`].
pub const COMMAND: &str = "command";
/// Address at which the first environment finds the archive, read-only.
pub const ARCHIVE: u64 = 0x0000_7d00_0000_0000;
/// Address of the environment area of the first environment: its public page, then its private pages.
pub const AREA: u64 = 0x0000_7d80_0000_0000;
/// Private pages of the first environment.
pub const PRIVATE_PAGES: usize = 8;

/// Kinds of record in [`COMMAND`]. Each record is this byte, the value, and a NUL.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// An argument of the program; the first is the program.
    Argument = b'a',
    /// An environment variable, `NAME=VALUE`.
    Environment = b'e',
    /// The working directory.
    WorkingDirectory = b'w',
    /// `1` where input, output and error are one terminal, `0` where they are pipes.
    Terminal = b't',
    /// An option for ExOS, such as `syscall-summary`, `missing-files` or `trace=LIST`.
    Option = b'o',
}
