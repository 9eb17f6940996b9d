//! Calls on memory: mappings, advice, locks, and the memory of other processes.

pub(super) mod memory;
pub(super) mod memory_advice;
pub(super) mod memory_lock;
pub(super) mod process_vm;
