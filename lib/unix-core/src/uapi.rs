//! Structures of the Linux interface as bytes. Pure: little-endian, as x86-64 has them.

use alloc::vec::Vec;
use linux_raw_sys::general as linux;
use vfs::inode::Status;
use vfs::mount::FIRST_TOLD;

const NANOSECONDS: i64 = 1_000_000_000;
/// Bytes of a block as `stat` counts them.
const BLOCK: u64 = 512;

/// `struct stat`: 144 bytes.
#[inline(always)]
pub fn stat(status: &Status) -> [u64; 18] {
    let (accessed, modified) = (seconds_and_rest(status.accessed), seconds_and_rest(status.modified));
    let changed = seconds_and_rest(status.changed);
    [
        device((0, status.volume())),
        status.node,
        status.mode_links >> 32,
        u64::from(status.mode()) | status.owner << 32,
        status.owner >> 32,
        device(((status.device >> 32) as u32, status.device as u32)),
        status.size,
        linux_abi::address_map::PAGE_SIZE,
        status.allocated / BLOCK,
        accessed[0],
        accessed[1],
        modified[0],
        modified[1],
        changed[0],
        changed[1],
        0,
        0,
        0,
    ]
}

/// `struct statx`: 256 bytes.
pub fn statx(status: &Status) -> [u64; 32] {
    let mask = u64::from(linux::STATX_BASIC_STATS | linux::STATX_MNT_ID);
    let mut words = [0; 32];
    words[..8].copy_from_slice(&[
        mask | linux_abi::address_map::PAGE_SIZE << 32,
        0,
        status.mode_links >> 32 | status.owner << 32,
        status.owner >> 32 | (u64::from(status.mode()) & 0xffff) << 32,
        status.node,
        status.size,
        status.allocated / BLOCK,
        0,
    ]);
    put_times(&mut words[8..16], &[status.accessed, 0, status.changed, status.modified]);
    words[16] = status.device.rotate_left(32);
    words[17] = u64::from(status.volume()) << 32;
    words[18] = (status.place >> 32) + FIRST_TOLD;
    words
}

/// Two words for each time.
fn put_times(words: &mut [u64], times: &[u64]) {
    for (two, time) in words.chunks_exact_mut(2).zip(times) {
        two.copy_from_slice(&seconds_and_rest(*time));
    }
}

/// A time of the file system as Linux writes it: seconds, which may be negative, and nanoseconds, which are not.
#[inline(always)]
fn seconds_and_rest(time: u64) -> [u64; 2] {
    match time as i64 {
        // Most are, and that is quicker.
        0.. => [time / NANOSECONDS as u64, time % NANOSECONDS as u64],
        before => [before.div_euclid(NANOSECONDS) as u64, before.rem_euclid(NANOSECONDS) as u64],
    }
}

/// A device number as Linux writes it.
pub const fn device((major, minor): (u32, u32)) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
}

/// The major and minor number in a device number.
pub const fn device_parts(device: u64) -> (u32, u32) {
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff & 0xffff_ffff;
    (major as u32, minor as u32)
}

/// `struct utsname`: six fields of 65 bytes.
pub fn names(fields: [&[u8]; 6]) -> Vec<u8> {
    const FIELD: usize = 65;
    let mut bytes = Vec::with_capacity(6 * FIELD);
    for (index, field) in fields.iter().enumerate() {
        bytes.extend_from_slice(&field[..field.len().min(FIELD - 1)]);
        bytes.resize((index + 1) * FIELD, 0);
    }
    bytes
}

/// Words, little-endian.
pub fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A record of `getdents64`.
pub fn directory_entry(name: &[u8], node: u64, next: u64, kind: u8) -> Vec<u8> {
    const HEAD: usize = 19;
    let length = (HEAD + name.len() + 1).next_multiple_of(8);
    let mut record = Vec::with_capacity(length);
    record.extend_from_slice(&node.to_le_bytes());
    record.extend_from_slice(&next.to_le_bytes());
    record.extend_from_slice(&(length as u16).to_le_bytes());
    record.push(kind);
    record.extend_from_slice(name);
    record.resize(length, 0);
    record
}
