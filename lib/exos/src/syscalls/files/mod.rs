//! Calls on files and descriptors: opening, reading, attributes, locks, mounts, watches.

pub(super) mod attributes;
pub(super) mod descriptor;
pub(super) mod extended_attribute;
pub(super) mod fallocate;
pub(super) mod fcntl_owner;
pub(super) mod file;
pub(super) mod inotify;
pub(super) mod lock;
pub(super) mod mount;
pub(super) mod openat2;
pub(super) mod path;
pub(super) mod splice;
