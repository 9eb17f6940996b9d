//! A program's memory: areas (what each address means), frames (which page is there), and what a fault makes of them.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address_space;
mod copy_on_write;
mod cut_pages;
pub mod dry_run;
pub mod exec_prefault;
pub mod fault_around;
mod lazy_free;
pub mod madvise;
pub mod map_diff;
pub mod mlock;
pub mod mremap;
pub mod page_record;
pub mod spawn_cache;
pub mod table_scan;
mod truncate;
pub mod vma;
mod vma_list;
pub mod write_log;
