//! Volumes of XN in the kernel: which disk has one, and the calls about it.
//!
//! Memory for storage is set aside at boot where the machine has a disk. Elsewhere each call checks its key and is
//! refused with `Absent`.

use crate::kernel::{Kernel, Outcome, refuse};
use abi::{Error, KeyIndex, UserAddress};

impl Kernel {
    /// Fails unless the caller holds the key and the machine has storage.
    fn storage(&self, key: KeyIndex) -> Outcome<()> {
        self.key(key)?;
        refuse(Error::Absent, 0)
    }

    /// Does a step with a volume (see `abi::syscall`).
    pub(crate) fn step_volume(&mut self, key: KeyIndex, _: u64, _: u64, _: u64, _: u64) -> Outcome<u64> {
        self.storage(key).map(|()| 0)
    }

    /// Binds a frame to a block (see `abi::syscall`).
    pub(crate) fn bind_block(&mut self, key: KeyIndex, _: u64, _: u64, _: u64, _: u64) -> Outcome<u64> {
        self.storage(key).map(|()| 0)
    }

    /// Copies bytes of a block out (see `abi::syscall`).
    pub(crate) fn read_block(&mut self, key: KeyIndex, _: u64, _: u64, _: UserAddress, _: u64) -> Outcome<()> {
        self.storage(key)
    }

    /// Copies bytes into a block (see `abi::syscall`).
    pub(crate) fn write_block(&mut self, key: KeyIndex, _: u64, _: u64, _: UserAddress, _: u64) -> Outcome<()> {
        self.storage(key)
    }

    /// Changes metadata (see `abi::syscall`).
    pub(crate) fn modify_blocks(&mut self, key: KeyIndex, _: UserAddress) -> Outcome<()> {
        self.storage(key)
    }

    /// Writes a block to the disk (see `abi::syscall`).
    pub(crate) fn submit_block(&mut self, key: KeyIndex, _: u64) -> Outcome<()> {
        self.storage(key)
    }

    /// Empties a frame (see `abi::syscall`).
    pub(crate) fn release_block(&mut self, key: KeyIndex, _: u64) -> Outcome<()> {
        self.storage(key)
    }
}
