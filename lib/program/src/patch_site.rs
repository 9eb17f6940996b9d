//! Which `syscall` instructions become calls, and the bytes that make them so (DESIGN.md §5).
//!
//! Pure: bytes in, bytes out. A site is rewritten where an instruction of five bytes stands before the `syscall` that
//! does the same elsewhere, and all of it lies in one page. That is `mov $imm32, %eax`, where the immediate is what
//! `rax` holds at the trap and no prefix stands before it. Or it is `mov 8(%rsp), %r9`, the sixth argument of the C
//! library's function `syscall`. The five bytes become a jump to a stub that begins with them; the `syscall` stays
//! where it is.
//!
//! `read` is number 0, for which compilers write `xor %eax, %eax`: two bytes, which become a jump to five unused
//! ones, the padding behind the function's `ret`; there lies the jump to the stub. That is done where all bytes from
//! the branch before the site, whose target is the end of the padding, to that end are the C library's.

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
const SHORT_JUMP: u8 = 0xeb;
const SYSCALL: [u8; SYSCALL_BYTES] = [0x0f, 0x05];
/// `mov 8(%rsp), %r9`.
const LOAD_SIXTH: [u8; MOVE_BYTES] = [0x4c, 0x8b, 0x4c, 0x24, 0x08];
/// `mov $0, %eax`, for `xor %eax, %eax`: the flags that it leaves are lost in the comparison behind the `syscall`.
const CLEAR_NUMBER: [u8; MOVE_BYTES] = [MOVE_TO_EAX, 0, 0, 0, 0];
const LONGEST_INSTRUCTION: usize = 15;

/// Calls whose own sites keep the gate: they come back elsewhere, twice, or with all registers changed. An unwinder
/// of a stack knows the return from a handler by its bytes.
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
    /// Offset in the page of the five bytes that become the jump to the stub.
    pub offset: usize,
    /// What the stub does first.
    pub first: [u8; MOVE_BYTES],
    /// Offset in the page of the two bytes that become a jump to those five, where the site itself has no room for
    /// them.
    pub hop: Option<usize>,
}

/// Whether the `syscall` at `offset` in this page of text, which trapped with `rax`, can become a call.
pub fn decide(page: &[u8], offset: usize, rax: u64) -> Option<Site> {
    if page.get(offset..offset.checked_add(SYSCALL_BYTES)?)? != SYSCALL {
        return None;
    }
    behind_move(page, offset, rax).or_else(|| behind_clearing(page, offset, rax))
}

/// Where five bytes stand before the `syscall` that can go elsewhere.
fn behind_move(page: &[u8], offset: usize, rax: u64) -> Option<Site> {
    let start = offset.checked_sub(MOVE_BYTES)?;
    let before = *page.get(start.checked_sub(1)?)?;
    let first: [u8; MOVE_BYTES] = page.get(start..offset)?.try_into().ok()?;
    let [opcode, immediate @ ..] = first;
    let number = u32::from_le_bytes(immediate);
    let loads_number = opcode == MOVE_TO_EAX && u64::from(number) == rax && !KEEP_THE_GATE.contains(&number);
    let fits = loads_number && !is_prefix(before) || first == LOAD_SIXTH && is_after_fifth(page, start);
    fits.then_some(Site { offset: start, first, hop: None })
}

/// Whether the instruction before `start` is the one that stands there in `syscall`: then there is no prefix.
fn is_after_fifth(page: &[u8], start: usize) -> bool {
    const MOVE_FIFTH: [u8; 3] = [0x4d, 0x89, 0xc8];
    start.checked_sub(MOVE_FIFTH.len()).and_then(|from| page.get(from..start)) == Some(&MOVE_FIFTH)
}

/// Where `xor %eax, %eax` stands before it in a function of the C library, with padding behind the end.
fn behind_clearing(page: &[u8], offset: usize, rax: u64) -> Option<Site> {
    const CLEARING: [u8; 2] = [0x31, 0xc0];
    const CHECK: [u8; 7] = [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77];
    const RETURN: u8 = 0xc3;
    let hop = offset.checked_sub(CLEARING.len())?;
    let &[branch, distance] = page.get(hop.checked_sub(2)?..hop)? else { return None };
    let check = offset + SYSCALL_BYTES;
    let padding = check + CHECK.len() + 2;
    let end = hop + usize::from(distance);
    let is_whole = rax == 0
        && matches!(branch, 0x74 | 0x75)
        && page.get(hop..offset)? == CLEARING
        && page.get(check..check + CHECK.len())? == CHECK
        && *page.get(padding - 1)? == RETURN
        && distance < 0x80
        && is_padding(page.get(padding..end)?);
    is_whole.then_some(Site { offset: padding, first: CLEAR_NUMBER, hop: Some(hop) })
}

/// Whether bytes are one instruction that does nothing, as compilers put it between functions and before targets of
/// branches, and as long as a jump at least.
fn is_padding(bytes: &[u8]) -> bool {
    let behind = bytes.iter().position(|byte| !matches!(byte, 0x66 | 0x2e)).unwrap_or(bytes.len());
    let places = match bytes.get(behind..) {
        Some([0x0f, 0x1f, 0x44, places @ ..]) if places.len() == 2 => places,
        Some([0x0f, 0x1f, 0x80, places @ ..]) if places.len() == 4 => places,
        Some([0x0f, 0x1f, 0x84, places @ ..]) if places.len() == 5 => places,
        _ => return false,
    };
    bytes.len() <= LONGEST_INSTRUCTION && places.iter().all(|byte| *byte == 0)
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

/// The jump of two bytes between two places of a page; `None` where it does not reach.
pub fn short_jump(from: usize, to: usize) -> Option<[u8; 2]> {
    let distance = i8::try_from(to.checked_signed_diff(from)? - 2).ok()?;
    Some([SHORT_JUMP, distance as u8])
}

/// The stub at `address` for a site whose `syscall` ends at `back`. It does first what stood at the site, and puts
/// the way back into `rcx`, as SYSCALL would. Then it jumps to the address that lies at `entry_offset` from the GS
/// base.
pub fn stub(address: u64, first: [u8; MOVE_BYTES], back: u64, entry_offset: u32) -> Option<[u8; STUB_STRIDE]> {
    const LOAD_WAY_BACK: [u8; 3] = [0x48, 0x8d, 0x0d];
    const JUMP_BY_GS: [u8; 4] = [0x65, 0xff, 0x24, 0x25];
    const BREAKPOINT: u8 = 0xcc;
    let mut bytes = [BREAKPOINT; STUB_STRIDE];
    bytes[..MOVE_BYTES].copy_from_slice(&first);
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
