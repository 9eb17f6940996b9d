//! What is found where: the table of mounts and its changes, the volumes that can be mounted, the volume that a disk
//! keeps, and the tree at boot with its archive.

pub mod cpio;
pub mod initramfs;
pub mod mount;
pub mod mount_table;
pub mod persistent;
pub mod superblock;
