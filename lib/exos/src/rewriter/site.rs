//! Which `syscall` instructions become calls, and the bytes that make them so (DESIGN.md §5).
//!
//! Pure: bytes in, bytes out. A site is rewritten when the five bytes before the `syscall` are `mov $imm32, %eax`, the
//! immediate is what `rax` holds at the trap, no prefix stands before them, and all of it lies in one page. The five
//! bytes become a jump to a stub; the `syscall` stays where it is.

use linux_raw_sys::general as linux;

/// Bytes of `syscall`.
pub const SYSCALL_BYTES: usize = 2;
/// Bytes of `mov $imm32, %eax`, and of the jump that takes its place.
pub const MOVE_BYTES: usize = 5;
/// Bytes from one stub to the next.
pub const STUB_STRIDE: usize = 32;
/// Farthest that a jump reaches, with room for the lengths of the instructions.
pub const REACH: u64 = (1 << 31) - 4096;

/// Opcode of `mov $imm32, %eax`.
pub const MOVE_TO_EAX: u8 = 0xb8;
const JUMP: u8 = 0xe9;

/// Calls that keep the gate: they come back elsewhere, twice, or with all registers changed.
const KEEP_THE_GATE: [u32; 6] = [
    linux::__NR_clone,
    linux::__NR_clone3,
    linux::__NR_vfork,
    linux::__NR_rt_sigreturn,
    linux::__NR_execve,
    linux::__NR_execveat,
];

/// A place that can be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Offset in the page of the five bytes.
    pub offset: usize,
    /// The number that they load.
    pub number: u32,
}

/// Whether the `syscall` at `offset` in this page of text, which trapped with `rax`, can become a call.
pub fn decide(page: &[u8], offset: usize, rax: u64) -> Option<Site> {
    let is_syscall = page.get(offset..offset.checked_add(SYSCALL_BYTES)?)? == [0x0f, 0x05];
    let start = offset.checked_sub(MOVE_BYTES)?;
    let before = *page.get(start.checked_sub(1)?)?;
    let [opcode, immediate @ ..]: [u8; MOVE_BYTES] = page.get(start..offset)?.try_into().ok()?;
    let number = u32::from_le_bytes(immediate);
    let fits = is_syscall
        && opcode == MOVE_TO_EAX
        && u64::from(number) == rax
        && !is_prefix(before)
        && !KEEP_THE_GATE.contains(&number);
    fits.then_some(Site { offset: start, number })
}

/// REX prefixes change what the move loads, and so does an operand-size prefix.
fn is_prefix(byte: u8) -> bool {
    byte & 0xf0 == 0x40 || byte == 0x66
}

/// The jump that goes to `stub` from `site`; `None` where it does not reach.
pub fn jump(site: u64, stub: u64) -> Option<[u8; MOVE_BYTES]> {
    let [a, b, c, d] = relative(site + MOVE_BYTES as u64, stub)?;
    Some([JUMP, a, b, c, d])
}

/// The stub at `address` for a site whose `syscall` ends at `back`: loads the number again, puts the way back into
/// `rcx`, as SYSCALL would, and jumps to the address that lies at `entry_offset` from the GS base.
pub fn stub(address: u64, number: u32, back: u64, entry_offset: u32) -> Option<[u8; STUB_STRIDE]> {
    const LOAD_WAY_BACK: [u8; 3] = [0x48, 0x8d, 0x0d];
    const JUMP_BY_GS: [u8; 4] = [0x65, 0xff, 0x24, 0x25];
    const BREAKPOINT: u8 = 0xcc;
    let mut bytes = [BREAKPOINT; STUB_STRIDE];
    bytes[0] = MOVE_TO_EAX;
    bytes[1..5].copy_from_slice(&number.to_le_bytes());
    bytes[5..8].copy_from_slice(&LOAD_WAY_BACK);
    bytes[8..12].copy_from_slice(&relative(address + 12, back)?);
    bytes[12..16].copy_from_slice(&JUMP_BY_GS);
    bytes[16..20].copy_from_slice(&entry_offset.to_le_bytes());
    Some(bytes)
}

fn relative(from: u64, to: u64) -> Option<[u8; 4]> {
    let distance = i32::try_from(to.wrapping_sub(from) as i64).ok()?;
    Some(distance.to_le_bytes())
}
