//! Recording disk: copy-on-write blocks and a log of writes and flushes.
//!
//! A write changes what reads return when it completes. It is durable when a flush that was issued after its completion
//! has completed.

use std::rc::Rc;
use xn::format::Block;

/// Contents of one block, shared by all states that have it.
pub type Cell = Rc<Block>;

/// What happened, in order.
#[derive(Clone, Debug)]
pub enum Event {
    /// A write was submitted; its number is its place among the submissions.
    Submitted { block: u64, cell: Cell },
    /// A submission completed.
    Completed { write: usize },
    /// A flush was issued; its number is its place among the flushes.
    FlushIssued,
    /// A flush completed.
    FlushCompleted { flush: usize },
}

/// The disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// What the disk held before the first event.
    pub base: Vec<Cell>,
    /// What reads return.
    pub current: Vec<Cell>,
    pub log: Vec<Event>,
    writes: Vec<(u64, Cell)>,
    flushes: usize,
}

impl Disk {
    pub fn new(base: Vec<Cell>) -> Self {
        Self { current: base.clone(), base, log: Vec::new(), writes: Vec::new(), flushes: 0 }
    }

    pub fn submit(&mut self, block: u64, bytes: &Block) -> usize {
        let cell = Rc::new(*bytes);
        self.log.push(Event::Submitted { block, cell: Rc::clone(&cell) });
        self.writes.push((block, cell));
        self.writes.len() - 1
    }

    pub fn complete(&mut self, write: usize) {
        let (block, cell) = self.writes[write].clone();
        self.current[block as usize] = cell;
        self.log.push(Event::Completed { write });
    }

    pub fn flush_issue(&mut self) -> usize {
        self.log.push(Event::FlushIssued);
        self.flushes += 1;
        self.flushes - 1
    }

    pub fn flush_complete(&mut self, flush: usize) {
        self.log.push(Event::FlushCompleted { flush });
    }

    /// Writes a block and awaits it.
    pub fn write(&mut self, block: u64, bytes: &Block) {
        let write = self.submit(block, bytes);
        self.complete(write);
    }

    /// Flushes and awaits it.
    pub fn flush(&mut self) {
        let flush = self.flush_issue();
        self.flush_complete(flush);
    }
}
