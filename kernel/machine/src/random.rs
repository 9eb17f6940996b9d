//! The CPU's own source of random numbers, RDRAND (SDM volume 1, section 7.3.17).

use crate::features;
use abi::feature;
use core::arch::asm;

/// Tries before the source counts as dry, as Intel advises.
const TRIES: u32 = 10;

/// 64 random bits; none where the CPU has no source or it is dry.
pub fn hardware() -> Option<u64> {
    if !features::get().has(feature::RDRAND) {
        return None;
    }
    (0..TRIES).find_map(|_| {
        let (value, valid): (u64, u8);
        // SAFETY: the CPU announces the instruction.
        unsafe { asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) valid, options(nomem, nostack)) };
        (valid != 0).then_some(value)
    })
}
