//! Fault 30: the vector unit of another, over switches and control transfers, and its states that are none.

use crate::PATTERN;
use crate::observer::{CONTROL, LEGACY_WORDS, Legacy, MXCSR, MXCSR_WORD, legacy, upper_halves, vectors};
use crate::painter::{paint_vectors, with_painters};
use abi::environment::ContextPart;
use abi::feature;
use abi::upcall::kind;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::environment::Child;
use runtime::transfer::{Kind, Message, call, serve};
use runtime::{EnvironmentId, Error, area, context, exposed, syscall, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{prepare, settle};
use test_programs::{Outcome, World, attempt, check, granted, refused};

pub(crate) fn fault_30_vector_state_of_another(world: &World) -> Outcome {
    granted!(context::set_vector(true));
    let outcome = with_painters(world, |round| {
        time_slice::yield_now();
        let Legacy(found) = legacy();
        for (index, word) in found[..LEGACY_WORDS].iter().enumerate() {
            let (word, initial) = match index {
                0 => (*word, CONTROL),
                MXCSR_WORD => (*word & 0xffff_ffff, MXCSR),
                _ => (*word, 0),
            };
            check!(word == initial, "round {round}: word {index} of the vector state is {word:#x}");
        }
        if exposed::has(feature::AVX) {
            check!(upper_halves() == [0; 32], "round {round}: wide registers hold {:x?}", upper_halves());
        }
        Ok(())
    });
    granted!(context::set_vector(false));
    outcome
}

/// What a service with its vector unit off says of the first use.
const UNIT_OFF: u64 = 0x0ff;

/// Tells what its vector registers hold, and what they hold once its unit is on if it was off; leaves the pattern in
/// them.
extern "C" fn tell_vectors(_: EnvironmentId, message: &mut Message) {
    let is_off = attempt!(["pxor xmm0, xmm0"]).is_some_and(|frame| frame.kind == kind::DEVICE_NOT_AVAILABLE);
    if is_off {
        message[0] = UNIT_OFF;
        let _ = context::set_vector(true);
    } else {
        // The attempt has emptied the first.
        message[0] = vectors()[1];
    }
    message[1] = vectors()[2];
    message[2] = vectors()[16] & 0xffff_ffff;
    paint_vectors();
    if is_off {
        let _ = context::set_vector(false);
    }
}

extern "C" fn serve_vectors(on: u64) {
    watch();
    let _ = context::set_vector(on == 1);
    Area::current().status(1).store(1, SeqCst);
    serve(tell_vectors)
}

/// Vector registers are part of the message where both have their unit on. To a callee that has it on, a caller without
/// gives the initial state, and leaves nothing behind for a callee that switches it on itself. The same is true on the
/// way back.
pub(crate) fn fault_30_vector_registers_over_a_transfer(world: &World) -> Outcome {
    for callee_on in [0, 1] {
        let mut builder = prepare(world, serve_vectors, callee_on)?;
        builder.budget(abi::budget::Resource::Slice, 0);
        let child = granted!(builder.create());
        settle(&child)?;
        for (caller_on, kind) in
            [(0, Kind::Synchronous), (1, Kind::Synchronous), (0, Kind::Asynchronous), (1, Kind::Asynchronous)]
        {
            let case = alloc::format!("{kind:?}, units {caller_on} and {callee_on}");
            // The end of a slice leaves the initial state to both, who have not declared theirs live.
            let slice = || exposed::cpu(area::cpu()).map_or(0, |cpu| cpu.slice_end.load(SeqCst));
            let within_a_slice = (0..1000).find_map(|_| {
                let begun = slice();
                let (told, back) = exchange_vectors(&child, kind, caller_on)?;
                (slice() == begun).then_some((told, back))
            });
            let Some((told, back)) = within_a_slice else { return Err(case + ": no call came back within its slice") };
            let (first, later) = match (caller_on, callee_on) {
                (1, 1) => (CALLERS, CALLERS),
                (_, 1) => (0, 0),
                _ => (UNIT_OFF, 0),
            };
            check!(told == [first, later, 0x1f80], "{case}: the callee found {told:x?}");
            let left = if (caller_on, callee_on) == (1, 1) { PATTERN } else { 0 };
            // The callee leaves something else in the third and the twelfth where they are wider.
            let is_left = |(index, word): (usize, &u64)| *word == left || left != 0 && (index == 3 || index == 12);
            check!(back[..16].iter().enumerate().all(is_left), "{case}: the caller found {back:x?}");
        }
        granted!(context::set_vector(false));
        granted!(child.destroy());
    }
    Ok(())
}

/// What the caller leaves in its registers.
const CALLERS: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// One call: what the callee found, and what the caller finds afterwards.
fn exchange_vectors(child: &Child, kind: Kind, caller_on: u64) -> Option<([u64; 3], [u64; 17])> {
    context::set_vector(true).ok()?;
    fill_vectors(CALLERS);
    if caller_on == 0 {
        context::set_vector(false).ok()?;
    }
    let mut message: Message = [0; 6];
    call(kind, child.number, &mut message).ok()?;
    if caller_on == 0 {
        context::set_vector(true).ok()?;
    }
    Some(([message[0], message[1], message[2]], vectors()))
}

/// The same word in every vector register; MXCSR stays.
fn fill_vectors(word: u64) {
    // SAFETY: this program keeps nothing in vector registers.
    unsafe {
        core::arch::asm!(
            "movq xmm0, {word}", "punpcklqdq xmm0, xmm0",
            "movdqa xmm1, xmm0", "movdqa xmm2, xmm0", "movdqa xmm3, xmm0", "movdqa xmm4, xmm0", "movdqa xmm5, xmm0",
            "movdqa xmm6, xmm0", "movdqa xmm7, xmm0", "movdqa xmm8, xmm0", "movdqa xmm9, xmm0", "movdqa xmm10, xmm0",
            "movdqa xmm11, xmm0", "movdqa xmm12, xmm0", "movdqa xmm13, xmm0", "movdqa xmm14, xmm0", "movdqa xmm15, xmm0",
            word = in(reg) word
        );
    }
}

pub(crate) fn fault_30_reserved_bits_in_vector_state() -> Outcome {
    watch();
    granted!(context::set_vector(true));
    // The emulator may let reserved bits pass; nothing but a general protection fault may come of them.
    let raised = attempt!(["push -1", "ldmxcsr [rsp]"]).map(|frame| frame.kind);
    check!(matches!(raised, None | Some(kind::GENERAL_PROTECTION)), "reserved MXCSR bits raised {raised:?}");
    let raised = attempt!([
        "sub rsp, 1024",
        "and rsp, -64",
        "fxsave64 [rsp]",
        "mov dword ptr [rsp + 24], 0xffff0000",
        "fxrstor64 [rsp]"
    ]);
    check!(raised.is_none_or(|frame| frame.kind == kind::GENERAL_PROTECTION), "FXRSTOR raised {raised:?}");
    if exposed::has(feature::XSAVE) {
        let raised = attempt!([
            "sub rsp, 4096",
            "and rsp, -64",
            "mov rdi, rsp",
            "mov ecx, 512",
            "xor eax, eax",
            "rep stosq",
            "mov qword ptr [rsp + 512], -1",
            "mov eax, -1",
            "mov edx, -1",
            "xrstor64 [rsp]"
        ]);
        check!(raised.is_some_and(|frame| frame.kind == kind::GENERAL_PROTECTION), "XRSTOR raised {raised:?}");
    }
    Ok(())
}

pub(crate) fn fault_30_vector_unit_off() -> Outcome {
    watch();
    granted!(context::set_vector(false));
    let raised = attempt!(["pxor xmm0, xmm0"]).map(|frame| frame.kind);
    check!(raised == Some(kind::DEVICE_NOT_AVAILABLE), "with the vector unit off, PXOR raised {raised:?}");
    granted!(context::set_vector(true));
    check!(attempt!(["pxor xmm0, xmm0"]).is_none(), "the vector unit does not come on");
    check!(vectors()[..16].iter().all(|word| *word == 0), "vector registers are not zero after off and on");
    for part in [ContextPart::Vector, ContextPart::ProtectionKeys] {
        // SAFETY: a refused call changes nothing.
        let told = unsafe { syscall::context_set(part as u64, 2) };
        check!(told == Err(Error::BadArgument.about(1)), "2 is no state of {part:?}, but {told:?}");
    }
    // SAFETY: there is no such part.
    refused!(unsafe { syscall::context_set(4, 0) }, BadArgument);
    Ok(())
}
