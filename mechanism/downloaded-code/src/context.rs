//! Contexts: what one use of downloaded code may see and do.
//!
//! A context is a constant of the kernel (packet handlers, the functions of XN, …), not of the program's owner. It
//! lists the memory *regions* that a program sees, what its *arguments* r1 to r5 hold on entry, the *helpers* it may
//! call, and its limits. Pointers come only from arguments, from the frame pointer and from the constant load of form
//! 6 ("map by index"). That load yields the start of the region with that index plus a constant.

use crate::refusal::{Reason, Refusal};

/// Most regions of a context.
pub const MAX_REGIONS: usize = 8;
/// Most helpers of a context.
pub const MAX_HELPERS: usize = 64;
/// Most arguments of a program or helper: r1 to r5.
pub const MAX_ARGUMENTS: usize = 5;
/// Largest region, in bytes.
pub const MAX_REGION_SIZE: u32 = 1 << 30;

/// What a program may do to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    ReadOnly,
    /// Loads, stores and atomic operations.
    ReadWrite,
}

/// How long a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionSize {
    /// Always this many bytes.
    Fixed(u32),
    /// The length is passed with each run and lies between the two, in bytes.
    Passed {
        /// Least length.
        minimum: u32,
        /// Greatest length.
        maximum: u32,
    },
}

/// A piece of memory that a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// Name, for messages.
    pub name: &'a str,
    /// Whether it may be written.
    pub access: Access,
    /// Its length.
    pub size: RegionSize,
    /// Every run gives it at an address that is a multiple of this: 1, 2, 4 or 8. Atomic operations need it.
    pub alignment: u32,
}

impl Region<'_> {
    /// The length that holds for every run.
    pub fn minimum(&self) -> u32 {
        match self.size {
            RegionSize::Fixed(size) => size,
            RegionSize::Passed { minimum, .. } => minimum,
        }
    }

    /// The length that no run exceeds.
    pub fn maximum(&self) -> u32 {
        match self.size {
            RegionSize::Fixed(size) => size,
            RegionSize::Passed { maximum, .. } => maximum,
        }
    }
}

/// What an argument register (r1 is the first) holds when the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The address of the region with this index.
    Pointer(u8),
    /// The address just past the region with this index.
    End(u8),
    /// The length in bytes of the region with this index.
    Length(u8),
    /// A number between the two, given with each run ([`crate::invocation::Invocation::scalars`]).
    Scalar {
        /// Least value, unsigned.
        minimum: u64,
        /// Greatest value, unsigned.
        maximum: u64,
    },
}

/// Size in bytes of the memory that a helper's pointer parameter must point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// This many bytes.
    Fixed(u32),
    /// As many bytes as the parameter with this index (0 is the first) says.
    Parameter(u8),
}

/// What a helper takes in one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A number between the two, unsigned.
    Scalar {
        /// Least value.
        minimum: u64,
        /// Greatest value.
        maximum: u64,
    },
    /// A pointer to memory that the helper reads.
    Readable(Extent),
    /// A pointer to memory that the helper may read and write.
    Writable(Extent),
}

/// A function of the kernel that programs call by number; its result is a number in r0.
///
/// When it runs it gets exactly what its parameters say and may trust it: the verifier proved it, or a check before
/// the call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Helper<'a> {
    /// The immediate of the call instruction.
    pub number: u32,
    /// Name, for messages.
    pub name: &'a str,
    /// Its parameters, at most five: r1, r2, …
    pub parameters: &'a [Parameter],
    /// Least and greatest result, unsigned.
    pub result: (u64, u64),
    /// Same arguments and memory, same result and effects.
    pub deterministic: bool,
    /// It may end the program, by setting [`crate::invocation::Invocation::stop`] to a value that is not zero.
    pub may_stop: bool,
    /// What a call costs of the budget, besides the call instruction.
    pub cost: u32,
}

/// Whether code is protected against speculation past its checks (FAULTS row 90).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speculation {
    /// An access that is in bounds only because of an earlier branch is masked. So after a mispredicted branch a load
    /// gives zero and a store stays inside its region.
    Masked,
    /// No masking: for code whose owner may read all memory anyway.
    Trusted,
}

/// One use of downloaded code.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Name, for messages.
    pub name: &'a str,
    /// Memory that the program sees, besides its stack.
    pub regions: &'a [Region<'a>],
    /// What r1, r2, … hold at the start; the others hold nothing.
    pub arguments: &'a [Argument],
    /// What the program may call.
    pub helpers: &'a [Helper<'a>],
    /// Instructions that one run may execute, helpers' costs included.
    pub budget: u64,
    /// Only deterministic helpers may be called, so that equal inputs give equal runs.
    pub deterministic: bool,
    /// What cannot be proven is refused: no run-time check, no budget check remains.
    pub strict: bool,
    /// Protection against speculation.
    pub speculation: Speculation,
}

impl<'a> Context<'a> {
    /// The helper with this number.
    pub fn helper(&self, number: u32) -> Option<&'a Helper<'a>> {
        self.helpers.iter().find(|helper| helper.number == number)
    }

    /// Checks that the context is well formed: limits, indices, sizes. A kernel's contexts are constants, so this can
    /// be a test; the verifier does it again.
    pub fn check(&self) -> Result<(), Refusal> {
        let counts = self.regions.len() <= MAX_REGIONS
            && self.arguments.len() <= MAX_ARGUMENTS
            && self.helpers.len() <= MAX_HELPERS;
        let sound = counts
            && self.regions.iter().all(region_is_sound)
            && self.arguments.iter().all(|argument| self.argument_is_sound(argument))
            && self.helpers.iter().all(helper_is_sound);
        if sound { Ok(()) } else { Err(Refusal::at(0, Reason::UnsoundContext)) }
    }

    fn argument_is_sound(&self, argument: &Argument) -> bool {
        match *argument {
            Argument::Pointer(region) | Argument::End(region) | Argument::Length(region) => {
                usize::from(region) < self.regions.len()
            }
            Argument::Scalar { minimum, maximum } => minimum <= maximum,
        }
    }
}

fn region_is_sound(region: &Region<'_>) -> bool {
    region.minimum() <= region.maximum()
        && region.maximum() <= MAX_REGION_SIZE
        && region.alignment.is_power_of_two()
        && region.alignment <= 8
}

fn helper_is_sound(helper: &Helper<'_>) -> bool {
    let parameters = helper.parameters;
    parameters.len() <= MAX_ARGUMENTS
        && helper.result.0 <= helper.result.1
        && parameters.iter().all(|parameter| match *parameter {
            Parameter::Scalar { minimum, maximum } => minimum <= maximum,
            Parameter::Readable(extent) | Parameter::Writable(extent) => match extent {
                Extent::Fixed(size) => size <= MAX_REGION_SIZE,
                Extent::Parameter(index) => {
                    matches!(parameters.get(usize::from(index)), Some(Parameter::Scalar { maximum, .. })
                        if *maximum <= u64::from(MAX_REGION_SIZE))
                }
            },
        })
}
