//! Dry run: the memory that a program finds when it begins (`vm::exec_prefault`), planned before anything is mapped.
//!
//! Pure. A [`DryRun`] takes the place of the kernel's operations ([`PageOps`]) while an address space is filled.
//! Invariant: unless it is spoilt, the space says what lies where as if all of it were mapped, but for the numbers of
//! the pages of its own.

use crate::address_space::PageOps;
use abi::page_table::MapRow;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// The pages of memory that is only planned: its own ones all bear the number 0.
#[derive(Debug, Default)]
pub struct DryRun {
    /// Its own pages: address, and the page whose contents each begins with; none: zeros.
    pub own: Vec<(u64, Option<u64>)>,
    /// Whether something was asked for that a plan cannot give.
    pub is_spoilt: bool,
}

impl DryRun {
    fn unsupported<T>(&mut self) -> Result<T> {
        self.is_spoilt = true;
        Err(Errno::ENOMEM)
    }
}

impl PageOps for DryRun {
    fn allocate(&mut self) -> Result<u64> {
        self.unsupported()
    }

    fn allocate_many(&mut self, _: &mut [u64]) -> Result<()> {
        self.unsupported()
    }

    fn take_used(&mut self, places: &mut [u64]) -> usize {
        places.len()
    }

    fn owns(&self, _: &[u64]) -> bool {
        true
    }

    fn clear_at(&mut self, addresses: &[u64]) {
        self.own.extend(addresses.iter().map(|address| (*address, None)));
    }

    fn release(&mut self, _: &[u64]) {
        self.is_spoilt = true;
    }

    fn supply(&mut self, _: u64, _: &mut [u64]) -> usize {
        self.is_spoilt = true;
        0
    }

    fn map(&mut self, _: &[MapRow]) -> Result<()> {
        Ok(())
    }

    fn allocate_copies(&mut self, _: &mut [u64]) -> Result<()> {
        self.unsupported()
    }

    fn copy_to(&mut self, copies: &[(u64, u64)]) -> Result<()> {
        self.own.extend(copies.iter().map(|(page, address)| (*address, Some(*page))));
        Ok(())
    }

    fn fill(&mut self, _: u64, _: &[u8]) -> Result<()> {
        self.unsupported()
    }

    fn read(&mut self, _: u64) -> Result<Vec<u8>> {
        self.unsupported()
    }

    fn is_sole(&self, _: u64) -> bool {
        false
    }

    fn file_pages(&mut self, _: u64, _: u64, _: bool, _: u64, _: &mut [u64]) -> Result<bool> {
        self.unsupported()
    }

    fn working_set(&mut self, _: u64, _: u64, _: u64) -> Result<Vec<(u64, u64)>> {
        self.unsupported()
    }

    fn cuts(&self) -> u64 {
        // The process that maps what was planned looks.
        0
    }

    fn prepare(&mut self, _: u64) -> Result<()> {
        self.unsupported()
    }

    fn hold_file(&mut self, _: u64, _: bool) {
        self.is_spoilt = true;
    }
}
