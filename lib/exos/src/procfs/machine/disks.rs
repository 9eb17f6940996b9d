//! `/proc/partitions`, `/proc/diskstats` and the driver in `/proc/devices`, from the exposed records of disks.

use crate::hw::disk;
use abi::device::DeviceInfo;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering::Acquire;
use vfs::disk_number::{MAJOR, MINORS, MOST, letter};

fn disks() -> impl Iterator<Item = (u64, &'static DeviceInfo)> {
    (0..MOST).map_while(|number| disk::find(number).map(|(_, info)| (number, info)))
}

pub(crate) fn partitions() -> String {
    let line = |(number, info): (u64, &DeviceInfo)| {
        let minor = number * u64::from(MINORS);
        format!("{MAJOR:4}  {minor:7} {:10} vd{}\n", info.capacity.load(Acquire) / 1024, letter(number))
    };
    let lines: String = disks().map(line).collect();
    format!("major minor  #blocks  name\n\n{lines}")
}

/// Of each disk what the kernel counts: requests that ended, and flushes; reads and writes are not told apart.
pub(crate) fn statistics() -> String {
    let line = |(number, info): (u64, &DeviceInfo)| {
        let minor = number * u64::from(MINORS);
        let (ended, flushes) = (info.completed.load(Acquire), info.flushes.load(Acquire));
        format!("{MAJOR:4} {minor:7} vd{} {ended} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 {flushes} 0\n", letter(number))
    };
    disks().map(line).collect()
}

pub(crate) fn driver() -> String {
    if disks().next().is_none() { String::new() } else { format!("{MAJOR:3} virtblk\n") }
}
