//! The only kernel crate with unsafe code and assembly: boot, traps, page tables, CPUs, time, virtqueues, user copies.
//!
//! Everything above it is safe Rust over its types (DESIGN.md §3, "Unsafe"). The order of the modules below is the
//! order of the boot, then of the machine's parts.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod acpi;
pub mod boot;
pub mod boot_memory;
pub mod code_arena;
pub mod features;
pub mod handover;
pub mod kernel_map;
pub mod layout;
pub mod memory_map;
pub mod start_info;

pub mod apic;
mod critical_trap;
mod interrupt_table;
pub mod io_apic;
pub mod per_cpu;
pub mod processor_start;
mod segment;
mod stamp_offset;

mod calibration;
pub mod clock;
mod reference_clock;
pub mod time_scale;

pub mod cmos;
pub mod crc32c;
pub mod device_discovery;
pub mod dma;
#[cfg(not(target_os = "none"))]
pub mod host_machine;
pub mod packet;
mod pci;
pub mod random;
mod registers;
pub mod virtio;
pub mod virtqueue;

pub mod panic;
mod port;
pub mod serial;
pub mod stop;

pub mod context;
pub mod cpu_control;
pub mod entry;
pub mod exposed;
pub mod lock;
pub mod map_few;
pub mod memory;
pub mod page_table;
pub mod tlb;
#[cfg(feature = "trace")]
mod trace;
#[cfg(test)]
mod transfer_model;
pub mod user;
mod user_return;
mod vector_state;
