//! One 8-byte slot of a BPF program (RFC 9669, section 3), as far as linking looks at it.

/// Opcode of the 16-byte load of a 64-bit immediate, which takes two slots.
const WIDE_LOAD: u8 = 0x18;
/// Opcode of a call.
const CALL: u8 = 0x85;
/// Opcode of the jump whose offset is the 32-bit immediate.
const LONG_JUMP: u8 = 0x06;

/// Source-register number of a call of a function of the same program.
const LOCAL_CALL: u8 = 1;

/// One slot, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) [u8; 8]);

impl Slot {
    pub(crate) fn opcode(self) -> u8 {
        self.0[0]
    }

    pub(crate) fn is_wide_load(self) -> bool {
        self.opcode() == WIDE_LOAD
    }

    pub(crate) fn is_call(self) -> bool {
        self.opcode() == CALL
    }

    /// A call of a function of the same program.
    pub(crate) fn is_local_call(self) -> bool {
        self.is_call() && self.source() == LOCAL_CALL
    }

    pub(crate) fn source(self) -> u8 {
        self.0[1] >> 4
    }

    pub(crate) fn immediate(self) -> i32 {
        i32::from_le_bytes([self.0[4], self.0[5], self.0[6], self.0[7]])
    }

    pub(crate) fn with_immediate(self, value: i32) -> Slot {
        let mut bytes = self.0;
        bytes[4..].copy_from_slice(&value.to_le_bytes());
        Slot(bytes)
    }

    pub(crate) fn with_source(self, number: u8) -> Slot {
        let mut bytes = self.0;
        bytes[1] = bytes[1] & 0x0f | number << 4;
        Slot(bytes)
    }

    /// How many slots a jump goes on from the next one; `None` for what is no jump.
    pub(crate) fn jump(self) -> Option<i64> {
        const CONDITIONAL_AND_SHORT: [u8; 2] = [0x05, 0x06];
        let class = self.opcode() & 0x07;
        let operation = self.opcode() & 0xf0;
        if !CONDITIONAL_AND_SHORT.contains(&class) || matches!(operation, 0x80 | 0x90) {
            return None;
        }
        if self.opcode() == LONG_JUMP {
            return Some(self.immediate().into());
        }
        Some(i16::from_le_bytes([self.0[2], self.0[3]]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_and_calls() {
        assert_eq!(Slot([0x05, 0, 0xff, 0xff, 0, 0, 0, 0]).jump(), Some(-1));
        assert_eq!(Slot([0x06, 0, 0, 0, 5, 0, 0, 0]).jump(), Some(5));
        assert_eq!(Slot([0x2d, 0x23, 2, 0, 0, 0, 0, 0]).jump(), Some(2));
        assert_eq!([0x85, 0x95, 0x07, 0x18].map(|opcode| Slot([opcode, 0, 1, 0, 1, 0, 0, 0]).jump()), [None; 4]);
        let call = Slot([0x85, 0x10, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert!(call.is_local_call());
        assert_eq!(call.with_source(0).with_immediate(7), Slot([0x85, 0, 0, 0, 7, 0, 0, 0]));
    }
}
