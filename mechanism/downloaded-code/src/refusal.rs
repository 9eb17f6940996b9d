//! Why a program was refused: where, which register, what was known, what was needed.

use core::fmt;

use crate::context::Context;

/// What the verifier knew about a register or stack slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing that matters here.
    Nothing,
    /// It was never written.
    Uninitialised,
    /// It holds different kinds of value on different paths.
    DependsOnPath,
    /// A number between the two, unsigned.
    Number {
        /// Least value.
        minimum: u64,
        /// Greatest value.
        maximum: u64,
    },
    /// A pointer into a region, at an offset between the two (signed).
    Region {
        /// Index of the region.
        region: u8,
        /// Least offset.
        minimum: i64,
        /// Greatest offset.
        maximum: i64,
        /// Length of the region that is proven at this place.
        proven_length: u32,
    },
    /// A pointer into the function's own frame, at an offset between the two from r10.
    Stack {
        /// Least offset.
        minimum: i64,
        /// Greatest offset.
        maximum: i64,
    },
    /// A pointer into a caller's frame, at an offset between the two from where the argument pointed.
    CallersStack {
        /// Least offset.
        minimum: i64,
        /// Greatest offset.
        maximum: i64,
        /// Bytes before the argument that may be used.
        before: u32,
        /// Bytes from the argument on that may be used.
        after: u32,
    },
}

/// What was needed and not there.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    // The bytes.
    LengthNotWholeSlots,
    TooLong,
    BeyondTheEnd,
    NoSuchRegister,
    UnknownOpcode,
    ReservedFieldNotZero,
    LegacyPacketAccess,
    HalfOfConstantLoad,
    UnsupportedConstantLoad,
    UnknownAtomicOperation,
    UnknownByteOrderWidth,
    IndirectCall,
    UnsupportedCall,
    // The shape of the program.
    TargetOutside,
    TargetInsideConstantLoad,
    JumpIntoOtherFunction,
    FallsOffTheEnd,
    Recursion,
    CallsTooDeep,
    LongerThanBudget,
    // Values.
    FramePointerIsReadOnly,
    NeedsInitialised,
    NeedsNumber,
    NeedsPointer,
    PointerArithmetic,
    PointerComparison,
    PointerWouldLeak,
    ReturnsPointer,
    PartOfPointer,
    TooManyPointersOnStack,
    // Memory.
    NoSuchRegion,
    RegionIsReadOnly,
    OutsideRegion { size: u32 },
    OutsideStack { size: u32 },
    OutsideCallersStack { size: u32 },
    StackNotInitialised,
    Misaligned { size: u32 },
    // Helpers.
    NoSuchHelper { number: u32 },
    HelperNotDeterministic { number: u32 },
    ArgumentOutOfRange { minimum: u64, maximum: u64 },
    // Limits.
    LoopNotProven,
    TooComplex,
    StorageTooSmall { needed: usize },
    UnsoundContext,
}

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Index of the instruction, in slots of eight bytes.
    pub instruction: u32,
    /// The register concerned, if one is.
    pub register: Option<u8>,
    /// What was known about it.
    pub known: Known,
    /// What was needed.
    pub reason: Reason,
}

impl Refusal {
    /// A refusal that concerns no register.
    pub fn at(instruction: usize, reason: Reason) -> Self {
        Self { instruction: instruction as u32, register: None, known: Known::Nothing, reason }
    }

    /// A sentence with the names of the context in it.
    pub fn describe<'a>(&'a self, context: &'a Context<'a>) -> Description<'a> {
        Description { refusal: self, context: Some(context) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Description { refusal: self, context: None }.fmt(f)
    }
}

/// A refusal with the context that gives its regions names.
pub struct Description<'a> {
    refusal: &'a Refusal,
    context: Option<&'a Context<'a>>,
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {}: ", self.refusal.instruction)?;
        if let Some(register) = self.refusal.register {
            write!(f, "r{register} ")?;
            self.known(f)?;
            f.write_str("; ")?;
        }
        needed(f, self.refusal.reason)
    }
}

impl Description<'_> {
    fn known(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal.known {
            Known::Nothing => f.write_str("is used"),
            Known::Uninitialised => f.write_str("was never written"),
            Known::DependsOnPath => f.write_str("holds different kinds of value on different paths"),
            Known::Number { minimum, maximum } if minimum == maximum => write!(f, "is the number {minimum}"),
            Known::Number { minimum, maximum } => write!(f, "is a number in {minimum}..={maximum}"),
            Known::Region { region, minimum, maximum, proven_length } => {
                let name = self.context.and_then(|context| context.regions.get(usize::from(region)));
                match name {
                    Some(region) => write!(f, "points into {}", region.name)?,
                    None => write!(f, "points into region {region}")?,
                }
                let (offset, known) = (Span(minimum, maximum), Bytes(proven_length));
                write!(f, " at offset {offset}, of which {known} {} known to exist", known.verb())
            }
            Known::Stack { minimum, maximum } => {
                write!(f, "points into the stack frame at r10 + {}", Span(minimum, maximum))
            }
            Known::CallersStack { minimum, maximum, before, after } => write!(
                f,
                "points into a caller's frame, {} from an argument that has {before} usable bytes before it and {after} \
                 from it on",
                Span(minimum, maximum)
            ),
        }
    }
}

/// Offsets between the two; one number when they are equal.
struct Span(i64, i64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(minimum, maximum) = *self;
        if minimum == maximum { write!(f, "{minimum}") } else { write!(f, "{minimum}..={maximum}") }
    }
}

/// So many bytes.
struct Bytes(u32);

impl Bytes {
    fn verb(&self) -> &'static str {
        if self.0 == 1 { "is" } else { "are" }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

fn needed(f: &mut fmt::Formatter<'_>, reason: Reason) -> fmt::Result {
    match reason {
        Reason::OutsideRegion { size } => {
            write!(f, "needed: {} inside the region; compare before the access", Bytes(size))
        }
        Reason::OutsideStack { size } => {
            write!(f, "needed: {} inside the frame of 512 bytes below r10", Bytes(size))
        }
        Reason::OutsideCallersStack { size } => {
            write!(f, "needed: {} inside the object that the caller passed", Bytes(size))
        }
        Reason::Misaligned { size } => {
            write!(f, "needed: an address that is a multiple of {size}, as atomic operations do")
        }
        Reason::NoSuchHelper { number } => write!(f, "helper {number} does not exist in this context"),
        Reason::HelperNotDeterministic { number } => {
            write!(f, "helper {number} is not deterministic, this context must be")
        }
        Reason::ArgumentOutOfRange { minimum, maximum } => {
            write!(f, "needed: an argument in {minimum}..={maximum}")
        }
        Reason::StorageTooSmall { needed } => write!(f, "the verifier needs {needed} words of storage"),
        other => f.write_str(text(other)),
    }
}

/// The sentence of a reason without numbers.
fn text(reason: Reason) -> &'static str {
    match reason {
        Reason::LengthNotWholeSlots => "the program must be one or more whole slots of 8 bytes",
        Reason::TooLong => "the program has more than 4096 instructions",
        Reason::BeyondTheEnd => "needed: an instruction, but the program ends here",
        Reason::NoSuchRegister => "there are registers r0 to r10 only",
        Reason::UnknownOpcode => "the opcode is not in RFC 9669's supported groups",
        Reason::ReservedFieldNotZero => "a field that this instruction does not use must be zero",
        Reason::LegacyPacketAccess => "legacy packet access is not supported; load through a pointer",
        Reason::HalfOfConstantLoad => "the second half of the 64-bit constant load is missing",
        Reason::UnsupportedConstantLoad => "of the 64-bit constant loads, only forms 0 and 6 are supported",
        Reason::UnknownAtomicOperation => "the atomic operation is not in RFC 9669",
        Reason::UnknownByteOrderWidth => "byte-order conversions have 16, 32 or 64 bits",
        Reason::IndirectCall => "indirect calls are not supported",
        Reason::UnsupportedCall => "only calls to helpers by number and to functions of the program are supported",
        Reason::TargetOutside => "the target is outside the program",
        Reason::TargetInsideConstantLoad => "the target is the second half of a 64-bit constant load",
        Reason::JumpIntoOtherFunction => "jumps must stay inside their function",
        Reason::FallsOffTheEnd => "needed: exit or a jump as the last instruction of a function",
        Reason::Recursion => "functions must not call themselves, directly or through others",
        Reason::CallsTooDeep => "at most 8 functions may be active at once",
        Reason::LongerThanBudget => "a function is longer than the instruction budget of this context",
        Reason::FramePointerIsReadOnly => "r10 must not be written",
        Reason::NeedsInitialised => "needed: a value",
        Reason::NeedsNumber => "needed: a number",
        Reason::NeedsPointer => "needed: a pointer into a region or the stack",
        Reason::PointerArithmetic => "pointers allow only 64-bit addition and subtraction of numbers",
        Reason::PointerComparison => {
            "pointers may be compared with zero, or with pointers into the same region, at offsets known to be within 1 GiB"
        }
        Reason::PointerWouldLeak => "pointers may be stored only in whole, aligned slots of the function's own stack",
        Reason::ReturnsPointer => "needed: a number in r0 at the end",
        Reason::PartOfPointer => "the stack slot holds a pointer, which must be read and written whole",
        Reason::TooManyPointersOnStack => "too many pointers are saved on the stack at once",
        Reason::NoSuchRegion => "this context has no region with that index",
        Reason::RegionIsReadOnly => "the region is read-only",
        Reason::StackNotInitialised => "the stack bytes were never written",
        Reason::LoopNotProven => "this context is strict, and the loop is not proven to end within the budget",
        Reason::TooComplex => "the program is too complex to verify within the limit",
        Reason::UnsoundContext => "the context itself is not well formed",
        _ => "not allowed",
    }
}
