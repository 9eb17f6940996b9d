//! Device drivers over machine's safe types: serial, timer, virtio.

#![no_std]
#![forbid(unsafe_code)]
