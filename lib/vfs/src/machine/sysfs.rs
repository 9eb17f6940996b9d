//! `/sys`: what ordinary programs look for there about the machine, which does not change while it runs: its CPUs, its
//! disks, and folders of other devices, where none is. Pure.
//!
//! It is a volume of files that are made once and cannot be changed.

use crate::cpu_cache::CpuCache;
use crate::disk_number::{MAJOR, MINORS, SECTOR, letter};
use crate::file_data::PageStorage;
use crate::inode::NodeId;
use crate::mount_table::Kind;
use crate::namespace::{FileTree, Fresh, FsCredentials};
use crate::network_card::Card;
use crate::superblock::MACHINE_VOLUME;
use alloc::format;
use alloc::string::String;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// CPUs that a mask of Linux has room for, at most: what `kernel_max` tells, and one.
const MOST_CPUS: u64 = 64;
/// Folders in which programs look for devices.
const FOLDERS: [&str; 11] = [
    "block",
    "bus",
    "class/block",
    "class/net",
    "class/tty",
    "dev/block",
    "dev/char",
    "devices/system/cpu",
    "fs/cgroup",
    "kernel/mm",
    "module",
];
/// Files with one line that is the same on every machine: no huge pages, one node of memory, no sleeping states.
const LINES: [(&str, &str); 32] = [
    ("devices/system/node/has_cpu", "0"),
    ("devices/system/node/has_memory", "0"),
    ("devices/system/node/has_normal_memory", "0"),
    ("devices/system/node/node0/distance", "10"),
    ("devices/system/node/online", "0"),
    ("devices/system/node/possible", "0"),
    ("devices/virtual/net/lo/addr_len", "6"),
    ("devices/virtual/net/lo/address", "00:00:00:00:00:00"),
    ("devices/virtual/net/lo/broadcast", "00:00:00:00:00:00"),
    ("devices/virtual/net/lo/carrier", "1"),
    ("devices/virtual/net/lo/flags", "0x9"),
    ("devices/virtual/net/lo/ifindex", "1"),
    ("devices/virtual/net/lo/iflink", "1"),
    ("devices/virtual/net/lo/mtu", "65536"),
    ("devices/virtual/net/lo/operstate", "unknown"),
    ("devices/virtual/net/lo/statistics/rx_bytes", "0"),
    ("devices/virtual/net/lo/statistics/rx_packets", "0"),
    ("devices/virtual/net/lo/statistics/tx_bytes", "0"),
    ("devices/virtual/net/lo/statistics/tx_packets", "0"),
    ("devices/virtual/net/lo/type", "772"),
    ("devices/virtual/net/lo/uevent", "INTERFACE=lo\nIFINDEX=1"),
    ("kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0"),
    ("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0"),
    ("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages_mempolicy", "0"),
    ("kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "0"),
    ("kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0"),
    ("kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", "0"),
    ("kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise madvise [never]"),
    ("kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
    ("kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152"),
    ("kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force"),
    ("kernel/mm/transparent_hugepage/use_zero_page", "0"),
];
/// Links: to files whose contents change, which the reader's library makes, and to the loopback device.
const LINKS: [(&str, &str); 3] = [
    ("class/net/lo", "../../devices/virtual/net/lo"),
    ("devices/system/node/node0/meminfo", "/proc/node/node0/meminfo"),
    ("devices/system/node/node0/vmstat", "/proc/node/node0/vmstat"),
];

/// A disk of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its size.
    pub bytes: u64,
    /// It cannot be written.
    pub read_only: bool,
}

impl<S: PageStorage> FileTree<S> {
    /// Fills `/sys` for a machine of so many CPUs and these disks, and mounts it.
    ///
    /// # Errors
    /// Where there is no `/sys`, or no page for a file.
    pub fn mount_machine(&mut self, cpus: u64, caches: &[CpuCache], disks: &[Disk], card: Option<Card>) -> Result<()> {
        let root = self.mount_kept(MACHINE_VOLUME, Kind::Machine, b"/sys")?;
        for folder in FOLDERS {
            self.told_folder(root, folder)?;
        }
        for (path, text) in LINES {
            self.tell_at(root, path, text)?;
        }
        for (path, target) in LINKS {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let folder = self.told_folder(root, folder)?;
            let link = Fresh { target: target.as_bytes(), ..fresh(linux::S_IFLNK | 0o777) };
            self.create(folder, name.as_bytes(), link)?;
        }
        // No state to sleep in: not even a line.
        let power = self.told_folder(root, "power")?;
        self.create(power, b"state", fresh(linux::S_IFREG | 0o644))?;
        let all = list(0, cpus);
        self.tell_at(root, "devices/system/node/node0/cpulist", &all)?;
        self.tell_at(root, "devices/system/node/node0/cpumap", &mask(0, cpus, cpus))?;
        let cpu = self.told_folder(root, "devices/system/cpu")?;
        for name in ["possible", "present", "online"] {
            self.tell(cpu, name, &all)?;
        }
        self.tell(cpu, "offline", "")?;
        self.tell(cpu, "isolated", "")?;
        self.tell(cpu, "kernel_max", &format!("{}", MOST_CPUS - 1))?;
        for number in 0..cpus {
            let place = self.told_folder(cpu, &format!("cpu{number}/topology"))?;
            self.tell(place, "core_id", &format!("{number}"))?;
            self.tell(place, "physical_package_id", "0")?;
            self.tell(place, "thread_siblings", &mask(number, 1, cpus))?;
            self.tell(place, "thread_siblings_list", &list(number, 1))?;
            self.tell(place, "core_siblings", &mask(0, cpus, cpus))?;
            self.tell(place, "core_siblings_list", &all)?;
            self.tell_caches(cpu, number, cpus, caches)?;
        }
        (0..).zip(disks).try_for_each(|(number, disk)| self.tell_disk(root, number, *disk))?;
        if let Some(card) = card {
            self.tell_card(root, &card)?;
        }
        if let Some(volume) = self.volumes.get_mut(&MACHINE_VOLUME) {
            volume.read_only = true;
        }
        Ok(())
    }

    /// The folders `cache/indexN` of a CPU.
    fn tell_caches(&mut self, cpu: NodeId, number: u64, cpus: u64, caches: &[CpuCache]) -> Result<()> {
        for (index, cache) in caches.iter().enumerate() {
            let place = self.told_folder(cpu, &format!("cpu{number}/cache/index{index}"))?;
            let (first, sharers) = cache.sharing(number, cpus);
            let rows = [
                ("coherency_line_size", format!("{}", cache.line)),
                ("level", format!("{}", cache.level)),
                ("number_of_sets", format!("{}", cache.sets)),
                ("physical_line_partition", format!("{}", cache.partitions)),
                ("shared_cpu_list", list(first, sharers)),
                ("shared_cpu_map", mask(first, sharers, cpus)),
                ("size", format!("{}K", cache.kilobytes())),
                ("type", String::from(cache.kind)),
                ("ways_of_associativity", format!("{}", cache.ways)),
            ];
            rows.iter().try_for_each(|(name, text)| self.tell(place, name, text))?;
        }
        Ok(())
    }

    /// The folder of a disk, the links to it, and its node below `/dev`, which group `disk` may read and write.
    fn tell_disk(&mut self, root: NodeId, number: u32, disk: Disk) -> Result<()> {
        const GROUP: u32 = 6;
        let name = format!("vd{}", letter(u64::from(number)));
        let (major, minor) = (MAJOR, number * MINORS);
        let place = self.told_folder(root, &format!("block/{name}"))?;
        let rows = [
            ("dev", format!("{major}:{minor}")),
            ("removable", String::from("0")),
            ("ro", format!("{}", u32::from(disk.read_only))),
            ("size", format!("{}", disk.bytes / SECTOR)),
            ("stat", String::from("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0")),
            ("uevent", format!("MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE=disk")),
        ];
        rows.iter().try_for_each(|(row, text)| self.tell(place, row, text))?;
        let queue = self.told_folder(place, "queue")?;
        for (row, text) in [
            ("hw_sector_size", SECTOR),
            ("logical_block_size", SECTOR),
            ("physical_block_size", SECTOR),
            ("minimum_io_size", SECTOR),
            ("rotational", 1),
            ("read_ahead_kb", 0),
        ] {
            self.tell(queue, row, &format!("{text}"))?;
        }
        for (folder, link) in [("class/block", name.clone()), ("dev/block", format!("{major}:{minor}"))] {
            let folder = self.told_folder(root, folder)?;
            let target = format!("../../block/{name}");
            self.create(folder, link.as_bytes(), Fresh { target: target.as_bytes(), ..fresh(linux::S_IFLNK | 0o777) })?;
        }
        let owner = FsCredentials::new(0, GROUP);
        let node = Fresh { device: (major, minor), owner, ..fresh(linux::S_IFBLK | 0o660) };
        match self.resolve_all(b"/dev").and_then(|folder| self.create(folder, name.as_bytes(), node)) {
            // A root may bring it along.
            Ok(_) | Err(Errno::EEXIST) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A file with one line at a path below a folder.
    pub(crate) fn tell_at(&mut self, root: NodeId, path: &str, text: &str) -> Result<()> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.told_folder(root, folder)?;
        self.tell(folder, name, text)
    }

    /// A folder below another one, with those above it.
    pub(crate) fn told_folder(&mut self, from: NodeId, path: &str) -> Result<NodeId> {
        path.split('/').try_fold(from, |above, name| match self.look_up(above, name.as_bytes()) {
            Ok(there) => Ok(there),
            Err(_) => self.create(above, name.as_bytes(), fresh(linux::S_IFDIR | 0o755)),
        })
    }

    /// A file with one line.
    fn tell(&mut self, folder: NodeId, name: &str, text: &str) -> Result<()> {
        let file = self.create(folder, name.as_bytes(), fresh(linux::S_IFREG | 0o444))?;
        let line = format!("{text}\n");
        let piece = |place: usize, bytes: &mut [u8]| bytes.copy_from_slice(&line.as_bytes()[place..][..bytes.len()]);
        self.write(file, 0, line.len() as u64, piece).map(|_| ())
    }
}

const fn fresh(mode: u32) -> Fresh<'static> {
    Fresh { mode, owner: FsCredentials::new(0, 0), device: (0, 0), target: b"" }
}

/// Some CPUs as a list of Linux.
fn list(first: u64, count: u64) -> String {
    if count <= 1 { format!("{first}") } else { format!("{first}-{}", first + count - 1) }
}

/// Some CPUs as a mask of Linux, as wide as one of all CPUs is.
fn mask(first: u64, count: u64, all: u64) -> String {
    let bits = (1u128 << count) - 1 << first;
    format!("{bits:0width$x}", width = all.div_ceil(4) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_written_as_linux_writes_them() {
        assert_eq!([list(0, 1), list(3, 1), list(0, 4)], ["0", "3", "0-3"]);
        assert_eq!([mask(0, 1, 1), mask(1, 1, 2), mask(0, 4, 4), mask(4, 1, 8)], ["1", "2", "f", "10"]);
        assert_eq!(mask(0, 16, 16), "ffff");
    }
}
