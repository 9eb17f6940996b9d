//! Where an environment begins, and how it ends.
//!
//! The kernel enters a new environment at its slice start entry, [`_start`], with a frame on the upcall stack that
//! interrupts nothing. There the runtime checks that this kernel speaks its language, points GS base at the private
//! page, declares the upcall entries, finds or makes a stack, and calls the program.

use crate::area::{Area, LibraryWords};
use crate::{channel, context, exposed, layout, syscall};
use abi::host_channel::Kind;
use abi::machine::Setting;
use abi::{EnvironmentId, KeyIndex, feature};
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Exit status of a program that raised an exception without a handler: 128 and SIGSEGV, as shells say it.
pub const FAULT_STATUS: u32 = 139;
/// Exit status of a program that could not start.
pub const START_FAILURE_STATUS: u32 = 125;
/// Exit status after a panic, as Rust programs have it.
pub const PANIC_STATUS: u32 = 101;
/// Status word of the public page in which [`exit`] leaves the status, plus one.
pub const EXIT_WORD: usize = 0;

/// Makes `fn() -> u32` the program: what it returns is the exit status.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn program_main() -> u32 {
            let main: fn() -> u32 = $main;
            main()
        }
    };
}

/// The first instruction: RSP is at the frame, on the upcall stack, all other registers are zero.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn _start() {
    core::arch::naked_asm!(
        "mov rdi, rsp",
        "call {prepare}",
        "mov rsp, rax",
        "xor ebp, ebp",
        "call {run}",
        "ud2",
        prepare = sym prepare, run = sym run,
    )
}

/// On the upcall stack: makes the environment fit for Rust. Returns the stack pointer to go on with, aligned to 16.
#[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "only the entry of a guest calls it"))]
extern "C" fn prepare(frame: u64) -> u64 {
    // SAFETY: the frame lies in the upcall stack of this environment, so this is its area, which stays mapped.
    let area = unsafe { Area::at(layout::area_of(frame)) };
    area.private().critical_section.store(1, Relaxed);
    let words = area.library();
    words.area.store(area.address(), Relaxed);
    words.upcall_stack_end.store((frame | (abi::limits::PAGE_SIZE - 1)) + 1, Relaxed);
    set_gs_base(area.address() + abi::area::PRIVATE);
    let is_first = area.private().number.load(Relaxed) == FIRST.0;
    if is_first {
        claim_first_keys(words);
    }
    refuse_another_interface();
    if is_first {
        // SAFETY: nothing lies in the lowest page of the upcall stack. If it stays mapped, all works but the guard.
        let _ = unsafe { crate::address_space::own().unmap(area.address() + layout::UPCALL_GUARD, 1) };
    }
    crate::upcall::install(area);
    match words.start_stack.load(Relaxed) {
        0 => make_stack(area),
        stack => stack,
    }
}

/// The number of the first environment.
pub const FIRST: EnvironmentId = EnvironmentId(1);
const STACK_PAGES: u64 = 64;

/// The kernel made the first environment and filled in no words.
fn claim_first_keys(words: &LibraryWords) {
    words.keys.store(1 << KeyIndex::WELL_KNOWN.0 | 1 << KeyIndex::FIRST.0, Relaxed);
    words.channel_key.store(KeyIndex::FIRST.0 + 1, Relaxed);
}

/// One line and the end, where kernel and program were built from different sources of the interface.
fn refuse_another_interface() {
    let kernel = exposed::kernel().version.load(Relaxed);
    if kernel != abi::VERSION {
        crate::error_line!(
            "this program was built for another kernel interface ({:#018x}, the kernel has {kernel:#018x})",
            abi::VERSION
        );
        exit(START_FAILURE_STATUS);
    }
}

fn set_gs_base(base: u64) {
    if exposed::has(feature::FSGSBASE) {
        // SAFETY: the kernel says that user code may use the instruction. GS base is the runtime's to set.
        unsafe { core::arch::asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: as above, by the call that serves where the instruction is missing. It cannot fail: the private page
        // is in the user half.
        let _ = unsafe { context::set_gs_base(base) };
    }
}

/// A stack of [`STACK_PAGES`] pages, an unmapped page below it.
fn make_stack(area: Area) -> u64 {
    let end = layout::stack_end(area.address());
    let start = end - STACK_PAGES * abi::limits::PAGE_SIZE;
    // SAFETY: nothing of the program lies in the range that the layout keeps for this stack.
    let made = unsafe { crate::address_space::own().back_with_fresh_pages(start, STACK_PAGES) };
    if let Err(failure) = made {
        crate::error_line!("no memory for a stack: {}", failure.error.text());
        exit(START_FAILURE_STATUS);
    }
    end
}

/// On the program's stack: lets slices end, and runs the program.
#[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "only the entry of a guest calls it"))]
extern "C" fn run() -> ! {
    crate::critical_section::leave();
    let words = Area::current().library();
    match words.start_function.load(Relaxed) {
        0 => exit(program()),
        function => {
            // SAFETY: who created the environment put the address of such a function of this image here.
            let function: extern "C" fn(u64) = unsafe { core::mem::transmute(function as usize) };
            function(words.start_argument.load(Relaxed));
            exit(0)
        }
    }
}

#[cfg(target_os = "none")]
fn program() -> u32 {
    unsafe extern "C" {
        safe fn program_main() -> u32;
    }
    program_main()
}

#[cfg(not(target_os = "none"))]
fn program() -> u32 {
    0
}

/// The exit status that an outcome means: 0, or 1 after a line that says what failed.
pub fn status_of(outcome: Result<(), impl core::fmt::Display>) -> u32 {
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            crate::println!("failed: {why}");
            1
        }
    }
}

/// Stops the machine, if the environment holds the root key.
pub fn stop_machine() {
    let _ = syscall::machine_set(KeyIndex::FIRST, Setting::Stop as u64, 0);
}

/// Ends the environment. The first one ends the run: it sends the status to the host and stops the machine.
pub fn exit(status: u32) -> ! {
    let own = crate::area::number();
    Area::current().status(EXIT_WORD).store(u64::from(status) + 1, Release);
    if own == FIRST {
        channel::send(Kind::Exit, &status.to_le_bytes());
        stop_machine();
    }
    loop {
        let _ = syscall::environment_destroy(KeyIndex::FIRST, own);
        let _ = crate::time_slice::yield_to(EnvironmentId::NONE);
    }
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    crate::error_line!("environment {}: {info}", crate::area::number().0);
    exit(PANIC_STATUS)
}
