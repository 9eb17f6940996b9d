//! What linking asks of one slot of a BPF program (RFC 9669, section 3).

use downloaded_code::instruction::Slot;

/// Opcode of the 16-byte load of a 64-bit immediate, which takes two slots.
const WIDE_LOAD: u8 = 0x18;
/// Opcode of a call.
const CALL: u8 = 0x85;
/// Opcode of the jump whose distance is the 32-bit immediate.
const LONG_JUMP: u8 = 0x06;

/// Source-register number of a call of a function of the same program.
const LOCAL_CALL: u8 = 1;

pub(crate) fn is_wide_load(slot: Slot) -> bool {
    slot.opcode == WIDE_LOAD
}

/// Whether it calls a function of the same program.
pub(crate) fn is_local_call(slot: Slot) -> bool {
    slot.opcode == CALL && slot.source == LOCAL_CALL
}

/// How many slots a jump skips from the next one; `None` for what is no jump.
pub(crate) fn jump(slot: Slot) -> Option<i64> {
    const JUMP_CLASSES: [u8; 2] = [0x05, 0x06];
    const CALL_AND_EXIT: [u8; 2] = [0x80, 0x90];
    if !JUMP_CLASSES.contains(&(slot.opcode & 0x07)) || CALL_AND_EXIT.contains(&(slot.opcode & 0xf0)) {
        return None;
    }
    Some(if slot.opcode == LONG_JUMP { slot.immediate.into() } else { slot.offset.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_and_calls() {
        let slot = |bytes| Slot::from_bytes(bytes);
        assert_eq!(jump(slot([0x05, 0, 0xff, 0xff, 0, 0, 0, 0])), Some(-1));
        assert_eq!(jump(slot([0x06, 0, 0, 0, 5, 0, 0, 0])), Some(5));
        assert_eq!(jump(slot([0x2d, 0x23, 2, 0, 0, 0, 0, 0])), Some(2));
        assert_eq!([0x85, 0x95, 0x07, 0x18].map(|opcode| jump(slot([opcode, 0, 1, 0, 1, 0, 0, 0]))), [None; 4]);
        assert!(is_local_call(slot([0x85, 0x10, 0, 0, 0xff, 0xff, 0xff, 0xff])));
        assert!(!is_local_call(slot([0x85, 0, 0, 0, 5, 0, 0, 0])));
    }
}
