//! The recording disk as a device of C-FFS.

use crate::disk::{Cell, Disk};
use cffs::device::{Device, Failed};
use std::cell::RefCell;
use std::rc::Rc;
use xn::format::Block;

/// Clones share the disk.
#[derive(Clone)]
pub struct Recorder(pub Rc<RefCell<Disk>>);

impl Recorder {
    pub fn new(cells: Vec<Cell>) -> Self {
        Self(Rc::new(RefCell::new(Disk::new(cells))))
    }

    /// Number of events so far.
    pub fn moment(&self) -> usize {
        self.0.borrow().log.len()
    }

    /// What reads return.
    pub fn cells(&self) -> Vec<Cell> {
        self.0.borrow().current.clone()
    }
}

impl Device for Recorder {
    fn blocks(&self) -> u64 {
        self.0.borrow().current.len() as u64
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed> {
        bytes.copy_from_slice(&self.0.borrow().current[block as usize][..]);
        Ok(())
    }

    fn write(&mut self, block: u64, bytes: &Block) -> Result<(), Failed> {
        self.0.borrow_mut().write(block, bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failed> {
        self.0.borrow_mut().flush();
        Ok(())
    }
}
