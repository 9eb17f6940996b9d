//! The names and device numbers of disks, as Linux gives them to virtio disks.

/// Major number of disks, and minor numbers of each, as Linux's virtio disks have them.
pub const MAJOR: u32 = 254;
/// See [`MAJOR`].
pub const MINORS: u32 = 16;
/// Disks that get a name: `vda` to `vdz`.
pub const MOST: u64 = 26;
/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// The disk with a device number.
pub fn number_of((major, minor): (u32, u32)) -> Option<u64> {
    (major == MAJOR && minor % MINORS == 0).then(|| u64::from(minor / MINORS))
}

/// The letter of a disk's name.
pub const fn letter(number: u64) -> char {
    (b'a' + number as u8) as char
}
