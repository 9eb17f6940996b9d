//! Files below `/proc` about the machine: its CPUs, disks, network and settings.

pub(super) mod cpuinfo;
pub(super) mod disks;
pub(super) mod machine_files;
pub(super) mod net;
pub(super) mod net_card;
pub(super) mod system;
