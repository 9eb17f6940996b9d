//! The machine as `/sys` and device files show it: the tree of `/sys` (`sysfs`), caches of CPUs, network cards, and the
//! numbers of disks.

pub mod cpu_cache;
pub mod disk_number;
pub mod network_card;
pub mod sysfs;
