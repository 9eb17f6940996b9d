//! What the verifier tells the compiler about one instruction: one word each.

/// A packed record; all zero means "not reached".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotation(pub(crate) u64);

/// How an access is kept inside its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Proven whatever branches do: nothing is emitted.
    Proven,
    /// Proven on every path, but a mispredicted branch could lead outside: what it does then is masked.
    Masked,
    /// Not proven: compared at run time (and masked, where the context asks for it).
    Checked,
}

/// What memory an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The region with this index.
    Region(u8),
    /// The function's own frame.
    Stack,
    /// An object in a caller's frame.
    CallersStack,
}

impl Space {
    fn code(self) -> u64 {
        match self {
            Self::Region(region) => u64::from(region & 7),
            Self::Stack => 8,
            Self::CallersStack => 9,
        }
    }

    fn from_code(code: u64) -> Self {
        match code & 15 {
            8 => Self::Stack,
            9 => Self::CallersStack,
            region => Self::Region(region as u8 & 7),
        }
    }
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl Annotation {
            $($(#[$doc])* pub(crate) const $name: u64 = 1 << $bit;)*
        }
    };
}

flags! {
    /// Some run may execute it.
    REACHED = 0;
    /// A jump or call leads here, or a function starts here.
    TARGET = 1;
    /// A function starts here.
    FUNCTION = 2;
    /// The conditional jump is always taken.
    ALWAYS = 3;
    /// The conditional jump is never taken.
    NEVER = 4;
    /// The address of the atomic operation must be checked for alignment.
    ALIGNMENT = 7;
    /// The result is the constant in the upper half, sign-extended.
    CONSTANT = 8;
    /// The divisor is never zero.
    DIVISOR_NOT_ZERO = 9;
    /// The signed division never overflows.
    NO_OVERFLOW = 10;
    /// (At a function's start) the frame must be zeroed.
    ZERO_FRAME = 11;
    /// The second half of a 64-bit constant load.
    SECOND_HALF = 12;
    /// The upper half says how often the addition can happen before its result leaves the known range.
    STEPS = 13;
    /// A backward jump leads here.
    LOOP_HEAD = 14;
    /// Arguments of the helper hold only because of a branch: no speculation past the call.
    FENCE = 15;
    /// (While loops are looked at) the loop's end can be reached from here without leaving it.
    IN_LOOP = 26;
    /// (At a function's start) registers that hold nothing must be zeroed.
    ZERO_REGISTERS = 27;
    /// The upper half says where in its region the access ends, whatever branches do.
    FIXED_END = 28;
    /// The access starts nowhere before its region, whatever branches do.
    STARTS_INSIDE = 29;
    /// The upper half says which register holds the region's end, less where the access ends counted from its
    /// address, and whether it is less by one more.
    END_IN_REGISTER = 30;
}

const SPACE_AT: u32 = 16;
const CHECKS_AT: u32 = 20;
const PROTECTION_AT: u32 = 5;
const SPACES_AT: u32 = 32;
/// The flags that the first scan sets; the others belong to the analysis.
const FROM_SCAN: u64 = Annotation::TARGET | Annotation::FUNCTION | Annotation::SECOND_HALF | Annotation::LOOP_HEAD;

impl Annotation {
    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u64) {
        self.0 |= flag;
    }

    /// Without what the analysis added.
    pub(crate) fn scanned(self) -> Self {
        Self(self.0 & (FROM_SCAN | Self::ZERO_FRAME | Self::ZERO_REGISTERS))
    }

    pub(crate) fn set_access(&mut self, space: Space, protection: Protection) {
        self.0 |= space.code() << SPACE_AT | (protection as u64) << PROTECTION_AT;
    }

    pub(crate) fn space(self) -> Space {
        Space::from_code(self.0 >> SPACE_AT)
    }

    pub(crate) fn protection(self) -> Protection {
        match self.0 >> PROTECTION_AT & 3 {
            0 => Protection::Proven,
            1 => Protection::Masked,
            _ => Protection::Checked,
        }
    }

    /// Argument `index` (0 is r1) points into `space`.
    pub(crate) fn set_argument_space(&mut self, index: usize, space: Space) {
        self.0 |= space.code() << (SPACES_AT + index as u32 * 4);
    }

    pub(crate) fn argument_space(self, index: usize) -> Space {
        Space::from_code(self.0 >> (SPACES_AT + index as u32 * 4))
    }

    /// Argument `index` (0 is r1) must be checked before the call.
    pub(crate) fn set_argument_check(&mut self, index: usize) {
        self.0 |= 1 << (CHECKS_AT + index as u32);
    }

    pub(crate) fn argument_check(self, index: usize) -> bool {
        self.0 >> (CHECKS_AT + index as u32) & 1 != 0
    }

    /// How many arguments are checked.
    pub(crate) fn argument_checks(self) -> u32 {
        (self.0 >> CHECKS_AT & 31).count_ones()
    }

    pub(crate) fn set_upper(&mut self, flag: u64, value: u32) {
        self.0 |= flag | u64::from(value) << 32;
    }

    pub(crate) fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Where in its region the access ends, when that is one place.
    pub(crate) fn fixed_end(self) -> Option<u32> {
        self.has(Self::FIXED_END).then(|| self.upper())
    }

    /// Where in the frame (counted from its lowest byte) an access of [`Space::Stack`] starts first and last.
    pub(crate) fn frame_places(self) -> (u16, u16) {
        (self.upper() as u16, (self.upper() >> 16) as u16)
    }

    pub(crate) fn set_frame_places(&mut self, first: u16, last: u16) {
        self.0 |= u64::from(first) << 32 | u64::from(last) << 48;
    }

    pub(crate) fn set_end_register(&mut self, register: u8, less_one: bool) {
        self.set_upper(Self::END_IN_REGISTER, u32::from(register) | u32::from(less_one) << 8);
    }

    /// The register that the address of a masked access is at most, if it is inside, or below it (`true`).
    pub(crate) fn end_register(self) -> Option<(u8, bool)> {
        let masked = self.has(Self::END_IN_REGISTER) && self.protection() == Protection::Masked;
        masked.then(|| (self.upper() as u8, self.upper() >> 8 != 0))
    }

    /// The constant result, when there is one.
    pub(crate) fn constant(self) -> Option<i32> {
        self.has(Self::CONSTANT).then(|| self.upper() as i32)
    }
}
