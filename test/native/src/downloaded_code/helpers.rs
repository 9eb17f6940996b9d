//! The context of the tests, with its helpers in two forms: for the interpreter and for compiled code.

use downloaded_code::context::{Access, Argument, Context, Extent, Helper, Parameter, Region, RegionSize, Speculation};
use downloaded_code::interpreter::{HelperCall, Helpers};
use downloaded_code::invocation::{Invocation, Stop};

/// A packet of unknown length, a state of fixed size, a table of constants.
pub const REGIONS: [Region<'static>; 3] = [
    Region {
        name: "packet",
        access: Access::ReadOnly,
        size: RegionSize::Passed { minimum: 0, maximum: 200 },
        alignment: 1,
    },
    Region { name: "state", access: Access::ReadWrite, size: RegionSize::Fixed(64), alignment: 8 },
    Region {
        name: "buffer",
        access: Access::ReadWrite,
        size: RegionSize::Passed { minimum: 8, maximum: 100 },
        alignment: 4,
    },
];

/// r1 to r5 of a program.
pub const ARGUMENTS: [Argument; 5] = [
    Argument::Pointer(0),
    Argument::Length(0),
    Argument::Pointer(1),
    Argument::End(0),
    Argument::Scalar { minimum: 0, maximum: 1000 },
];

/// Helpers of every kind.
pub const HELPERS: [Helper<'static>; 5] = [
    Helper {
        number: 1,
        name: "mix",
        parameters: &[Parameter::Scalar { minimum: 3, maximum: 1000 }],
        result: (0, 0xffff),
        deterministic: true,
        may_stop: false,
        cost: 3,
    },
    Helper {
        number: 2,
        name: "sum",
        parameters: &[Parameter::Readable(Extent::Parameter(1)), Parameter::Scalar { minimum: 0, maximum: 40 }],
        result: (0, 40 * 255),
        deterministic: true,
        may_stop: false,
        cost: 0,
    },
    Helper {
        number: 3,
        name: "fill",
        parameters: &[Parameter::Writable(Extent::Fixed(12)), Parameter::Scalar { minimum: 0, maximum: u64::MAX }],
        result: (0, u64::MAX),
        deterministic: true,
        may_stop: false,
        cost: 20,
    },
    Helper {
        number: 4,
        name: "maybe_stop",
        parameters: &[Parameter::Scalar { minimum: 0, maximum: u64::MAX }],
        result: (7, 7),
        deterministic: true,
        may_stop: true,
        cost: 0,
    },
    Helper {
        number: 5,
        name: "five",
        parameters: &[
            Parameter::Scalar { minimum: 0, maximum: u64::MAX },
            Parameter::Scalar { minimum: 0, maximum: u64::MAX },
            Parameter::Scalar { minimum: 0, maximum: u64::MAX },
            Parameter::Scalar { minimum: 0, maximum: u64::MAX },
            Parameter::Scalar { minimum: 0, maximum: u64::MAX },
        ],
        result: (0, u64::MAX),
        deterministic: false,
        may_stop: false,
        cost: 1,
    },
];

/// The context with a budget and kind of protection.
pub fn context(budget: u64, speculation: Speculation, strict: bool) -> Context<'static> {
    Context {
        name: "test",
        regions: &REGIONS,
        arguments: &ARGUMENTS,
        helpers: &HELPERS,
        budget,
        deterministic: false,
        strict,
        speculation,
    }
}

fn mix(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9) >> 7 & 0xffff
}

fn five(values: [u64; 5]) -> u64 {
    values.iter().fold(7, |sum, value| sum.rotate_left(9) ^ value)
}

/// The helpers for the interpreter.
pub struct Interpreted;

impl Helpers for Interpreted {
    fn call(&mut self, call: &mut HelperCall<'_, '_, '_>) -> Result<u64, Stop> {
        let values = call.values;
        let outside = Err(Stop::OutOfBounds);
        match call.number {
            1 => Ok(mix(values[0])),
            2 => match call.bytes(0, values[1] as usize) {
                Some(bytes) => Ok(bytes.iter().map(|byte| u64::from(*byte)).sum()),
                None => outside,
            },
            3 => match call.bytes(0, 12) {
                Some(bytes) => {
                    bytes.fill(values[1] as u8);
                    Ok(values[1])
                }
                None => outside,
            },
            4 if values[0] % 5 == 4 => Err(Stop::Helper),
            4 => Ok(7),
            _ => Ok(five(values)),
        }
    }
}

// The System V convention lets helpers spoil every register that the program may hold in one: they do.
macro_rules! spoil {
    () => {
        // SAFETY: declares what it changes; touches no memory.
        unsafe {
            std::arch::asm!(
                "mov rcx, -1", "mov rdx, -2", "mov rsi, -3", "mov rdi, -4", "mov r8, -5", "mov r9, -6",
                "mov r10, -7", "mov r11, -8",
                out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
                out("r10") _, out("r11") _, options(nomem, nostack),
            );
        }
    };
}

extern "sysv64" fn native_mix(value: u64) -> u64 {
    assert!((3..=1000).contains(&value), "helper got {value}");
    let result = mix(value);
    spoil!();
    result
}

extern "sysv64" fn native_sum(start: *const u8, size: u64) -> u64 {
    assert!(size <= 40, "helper got size {size}");
    // SAFETY: the program was checked to pass so many readable bytes; if it did not, the guard pages tell.
    let sum = (0..size).map(|index| u64::from(unsafe { start.add(index as usize).read_volatile() })).sum();
    spoil!();
    sum
}

extern "sysv64" fn native_fill(start: *mut u8, value: u64) -> u64 {
    for index in 0..12 {
        // SAFETY: the program was checked to pass twelve writable bytes; if it did not, the guard pages tell.
        unsafe { start.add(index).write_volatile(value as u8) };
    }
    spoil!();
    value
}

extern "sysv64" fn native_maybe_stop(value: u64, _: u64, _: u64, _: u64, _: u64, record: *mut Invocation) -> u64 {
    if value % 5 == 4 {
        // SAFETY: compiled code passes the record that it was called with.
        unsafe { (*record).stop = Stop::Helper as u32 };
    }
    spoil!();
    7
}

extern "sysv64" fn native_five(first: u64, second: u64, third: u64, fourth: u64, fifth: u64) -> u64 {
    let result = five([first, second, third, fourth, fifth]);
    spoil!();
    result
}

/// Addresses of the helpers for compiled code.
pub fn addresses() -> [u64; 5] {
    [
        native_mix as *const () as u64,
        native_sum as *const () as u64,
        native_fill as *const () as u64,
        native_maybe_stop as *const () as u64,
        native_five as *const () as u64,
    ]
}
