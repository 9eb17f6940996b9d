//! What is found where. Mounts and their changes, the volumes that can be mounted, and the one that a disk keeps, with
//! the extents of its files. The tree at boot with its archive.

pub mod cpio;
pub mod initramfs;
pub mod mount;
pub mod mount_table;
pub mod on_disk;
pub mod persistent;
pub mod superblock;
