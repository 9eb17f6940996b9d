//! Contexts to check programs against on the host, before they meet a kernel's.
//!
//! Each resembles one use that the kernel has for downloaded code. The kernel's own
//! contexts are constants of the kernel; these are what `./chitin code check` and the
//! tests of usefulness take.

use downloaded_code::context::{Access, Argument, Context, Extent, Helper, Parameter, Region, RegionSize, Speculation};

use crate::constant::CONSTANTS_REGION;
use crate::program::CONSTANTS_MAX;

/// The longest packet, in bytes.
const PACKET_MAX: u32 = 65_535;
/// Bytes of a disk block.
const BLOCK: u32 = 4096;

const CONSTANTS: Region<'static> = Region {
    name: CONSTANTS_REGION,
    access: Access::ReadOnly,
    size: RegionSize::Passed { minimum: 0, maximum: CONSTANTS_MAX as u32 },
    alignment: 8,
};

const fn region(name: &'static str, access: Access, size: RegionSize) -> Region<'static> {
    Region { name, access, size, alignment: 8 }
}

const ANY: Parameter = Parameter::Scalar { minimum: 0, maximum: u64::MAX };

const CLOCK_NOW: Helper<'static> = Helper {
    number: 1,
    name: "clock_now",
    parameters: &[],
    result: (0, u64::MAX),
    deterministic: false,
    may_stop: false,
    cost: 30,
};

const REPLY: Helper<'static> = Helper {
    number: 2,
    name: "reply",
    parameters: &[Parameter::Readable(Extent::Parameter(1)), Parameter::Scalar { minimum: 0, maximum: 1514 }],
    result: (0, 1),
    deterministic: true,
    may_stop: false,
    cost: 500,
};

const OWN_BLOCKS: Helper<'static> = Helper {
    number: 3,
    name: "own_blocks",
    parameters: &[ANY, Parameter::Scalar { minimum: 1, maximum: 1 << 20 }],
    result: (0, 1),
    deterministic: true,
    may_stop: true,
    cost: 20,
};

/// A packet handler: `u64 handle(const u8 *packet, const u8 *end, u64 length)`, with
/// `extern u8 state[4096]` to keep things in and the helpers `clock_now` and `reply`.
pub const PACKET: Context<'static> = Context {
    name: "packet",
    regions: &[
        region("packet", Access::ReadOnly, RegionSize::Passed { minimum: 0, maximum: PACKET_MAX }),
        region("state", Access::ReadWrite, RegionSize::Fixed(4096)),
        CONSTANTS,
    ],
    arguments: &[Argument::Pointer(0), Argument::End(0), Argument::Length(0)],
    helpers: &[CLOCK_NOW, REPLY],
    budget: 200_000,
    deterministic: false,
    strict: false,
    speculation: Speculation::Masked,
};

/// An *owns* function of XN: `u64 owns(const u8 block[4096], u64 type)`, which calls the
/// helper `own_blocks(first, count)` for each run of blocks that the metadata owns. It is
/// deterministic.
pub const OWNS: Context<'static> = Context {
    name: "owns",
    regions: &[region("block", Access::ReadOnly, RegionSize::Fixed(BLOCK)), CONSTANTS],
    arguments: &[Argument::Pointer(0), Argument::Scalar { minimum: 0, maximum: 255 }],
    helpers: &[OWN_BLOCKS],
    budget: 100_000,
    deterministic: true,
    strict: false,
    speculation: Speculation::Masked,
};

/// Computation on memory: `u64 compute(const u8 *input, u64 length, u8 output[4096])`.
pub const MEMORY: Context<'static> = Context {
    name: "memory",
    regions: &[
        region("input", Access::ReadOnly, RegionSize::Passed { minimum: 0, maximum: 1 << 20 }),
        region("output", Access::ReadWrite, RegionSize::Fixed(4096)),
        CONSTANTS,
    ],
    arguments: &[Argument::Pointer(0), Argument::Length(0), Argument::Pointer(1)],
    helpers: &[],
    budget: 10_000_000,
    deterministic: true,
    strict: false,
    speculation: Speculation::Masked,
};

/// All of them.
pub const ALL: [&Context<'static>; 3] = [&PACKET, &OWNS, &MEMORY];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contexts_are_well_formed_and_have_names_of_their_own() {
        for context in ALL {
            assert!(context.check().is_ok(), "{}", context.name);
            assert_eq!(ALL.iter().filter(|other| other.name == context.name).count(), 1);
        }
    }
}
