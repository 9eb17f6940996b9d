//! Upcalls and exceptions: each goes to the environment that raised it, nests, and resumes; a bad entry ends it.
#![no_std]
#![no_main]

extern crate alloc;

use abi::page_table::{MapRow, PAGE};
use abi::syscall::number;
use abi::upcall::{UpcallFrame, kind};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::address_space::Access;
use runtime::area::Area;
use runtime::critical_section;
use runtime::environment::{DeathReason, PRIVATE_COUNT};
use runtime::page::{self, Allocator};
use runtime::upcall::{Context, set_handler};
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber, area, context, exposed, syscall, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{death, eventually, expect_death, once_in, prepare, spawn, status};
use test_programs::{Outcome, World, attempt, check, granted, guest, is_counting, refused};

guest! {
    Child exceptions_come_with_their_details;
    Child a_handler_resumes_without_the_kernel;
    Child event_bits_reach_their_handler;
    Child fault_156_an_event_without_bits_is_none;
    Child a_critical_section_defers_and_the_end_delivers;
    Here fault_18_endless_loop_in_a_handler;
    Here fault_19_invalid_entry;
    Here fault_19_invalid_entries_of_slices_and_events;
    Here fault_20_upcall_stack_is_something_else;
    Child fault_20_stack_pointers_that_are_none;
    Here fault_20_frames_that_do_not_fit;
    Child fault_21_nested_faults_resume;
    Here fault_21_endless_nesting;
    Here fault_22_fault_storm;
    Child fault_23_bad_iret_frames;
    Child fault_24_flags_at_a_kernel_call;
    Child fault_24_flags_from_a_frame;
    Child fault_24_copies_with_every_flag_set;
    Here fault_24_flags_at_interrupts;
    Child fault_25_debug_traps_and_software_interrupts;
    Child fault_27_segment_bases;
    Child fault_27_interrupts_with_a_kernel_address_in_gs_base;
    Child fault_28_privileged_instructions;
    Child fault_28_descriptor_tables_are_hidden;
    Child fault_29_port_input_and_output;
}

/// Fails unless the assembly raises one of these kinds.
macro_rules! raises {
    ($text:literal, $($kind:path)|+) => {
        let raised = attempt!([$text]).map(|frame| frame.kind);
        check!(matches!(raised, $(Some($kind))|+), "{} raised {raised:?}", $text);
    };
}

fn exceptions_come_with_their_details() -> Outcome {
    watch();
    raises!("xor edx, edx; xor ecx, ecx; mov eax, 1; div ecx", kind::DIVIDE_ERROR);
    raises!("ud2", kind::INVALID_OPCODE);
    raises!("int3", kind::BREAKPOINT);
    let read = attempt!(["mov rax, [0x123000]"]).ok_or_else(|| String::from("no fault"))?;
    check!((read.kind, read.detail, read.error) == (kind::PAGE_FAULT, 0x12_3000, 4), "reading raised {read:?}");
    let write = attempt!(["mov qword ptr [0x123008], 1"]).ok_or_else(|| String::from("no fault"))?;
    check!((write.kind, write.detail, write.error) == (kind::PAGE_FAULT, 0x12_3008, 6), "writing raised {write:?}");
    let far = attempt!(["mov rax, 0x800000000000", "mov rax, [rax]"]).map(|frame| frame.kind);
    check!(far == Some(kind::GENERAL_PROTECTION), "a non-canonical address raised {far:?}");
    let kernel = attempt!(["mov rax, 0xffffffff80000000", "mov rax, [rax]"]).map(|frame| (frame.kind, frame.error & 6));
    check!(kernel == Some((kind::PAGE_FAULT, 4)), "reading the kernel's image raised {kernel:?}");
    Ok(())
}

/// Repairs `mov rax, [rbx]` with rbx = 8 by giving the value that was wanted.
extern "C" fn repair(context: &mut Context) {
    context.registers.rax = context.frame.detail + 0x1000;
    context.frame.rip += 3;
}

fn a_handler_resumes_without_the_kernel() -> Outcome {
    set_handler(kind::PAGE_FAULT, repair);
    let (loaded, kept): (u64, u64);
    // SAFETY: the load faults, and the handler steps over its three bytes with rax set; nothing else changes.
    unsafe {
        core::arch::asm!(
            "push rbx", "mov ebx, 8", "mov r12, 77", "mov rax, [rbx]", "pop rbx",
            out("rax") loaded, out("r12") kept
        );
    }
    check!((loaded, kept) == (0x1008, 77), "the handler's value came back as {loaded:#x}, r12 as {kept}");
    Ok(())
}

const SEEN: usize = 9;

extern "C" fn count_event(context: &mut Context) {
    Area::current().library().free[SEEN].fetch_add(context.frame.detail, Relaxed);
}

fn event_bits_reach_their_handler() -> Outcome {
    set_handler(kind::EVENT, count_event);
    let seen = &Area::current().library().free[SEEN];
    granted!(syscall::event_raise(KeyIndex::FIRST, area::number(), 0x50));
    check!(eventually(|| seen.load(Relaxed) == 0x50), "event bits {:#x} arrived", seen.load(Relaxed));
    let refusal = syscall::event_raise(KeyIndex::WELL_KNOWN, area::number(), 1);
    check!(refusal.is_err(), "bits that nobody accepts were raised with the well-known name");
    Area::current().private().events_accepted.store(1, SeqCst);
    granted!(syscall::event_raise(KeyIndex::WELL_KNOWN, area::number(), 1));
    check!(eventually(|| seen.load(Relaxed) == 0x51), "an accepted bit did not arrive");
    Ok(())
}

/// An event without bits takes no right. It interrupts neither the creator nor the caller.
fn fault_156_an_event_without_bits_is_none() -> Outcome {
    let own = exposed::environment(area::number()).ok_or("no record of the own")?;
    let creator = abi::EnvironmentId(own.creator.load(SeqCst));
    for target in [creator, area::number()] {
        for key in [KeyIndex::WELL_KNOWN, KeyIndex::FIRST] {
            refused!(syscall::event_raise(key, target, 0), BadArgument);
        }
    }
    let pending = Area::current().private().pending.load(SeqCst);
    check!(pending & abi::area::PENDING_EVENT == 0, "an event without bits pends: {pending:#x}");
    Ok(())
}

fn a_critical_section_defers_and_the_end_delivers() -> Outcome {
    set_handler(kind::EVENT, count_event);
    let seen = &Area::current().library().free[SEEN];
    let section = critical_section::enter();
    granted!(syscall::event_raise(KeyIndex::FIRST, area::number(), 0x8));
    time_slice::yield_now();
    check!(seen.load(Relaxed) == 0, "the event came in spite of the critical section");
    let pending = Area::current().private().pending.load(SeqCst);
    check!(pending & abi::area::PENDING_EVENT != 0, "the event does not pend: {pending:#x}");
    let mark = attempt_in_section();
    check!(mark == Some(kind::INVALID_OPCODE), "an exception in a critical section came as {mark:?}");
    drop(section);
    check!(seen.load(Relaxed) == 8, "the end of the section delivered {:#x}", seen.load(Relaxed));
    Ok(())
}

fn attempt_in_section() -> Option<u64> {
    watch();
    attempt!(["ud2"]).map(|frame| frame.kind)
}

extern "C" fn loop_for_ever(_: &mut Context) {
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn fault_into_a_loop(_: u64) {
    set_handler(kind::INVALID_OPCODE, loop_for_ever);
    let _ = attempt!(["ud2"]);
}

/// Its slices end, one after the other, are charged to it, and the victim has as many.
fn fault_18_endless_loop_in_a_handler(world: &World) -> Outcome {
    let child = spawn(world, fault_into_a_loop, 0)?;
    check!(eventually(|| used(child.number)[1] > 2), "the child does not run");
    keeps_its_share(world, child.number, 20)?;
    check!(child.alive(), "the child died: {}", death(&child));
    granted!(child.destroy());
    Ok(())
}

/// Time and slices of an environment.
fn used(number: EnvironmentId) -> [u64; 2] {
    exposed::environment(number).map_or([0; 2], |info| [&info.time, &info.slices].map(|word| word.load(Relaxed)))
}

/// Gives an environment so many slices more. They are charged to it, and the victim has as many.
fn keeps_its_share(world: &World, number: EnvironmentId, count: u64) -> Outcome {
    let before = [used(world.victim.number()), used(number)];
    check!(eventually(|| used(number)[1] > before[1][1] + count), "environment {number:?} gets too few slices");
    let now = [used(world.victim.number()), used(number)];
    let [victim, other] = core::array::from_fn(|who| core::array::from_fn(|what| now[who][what] - before[who][what]));
    let ([victim_time, victim_slices], [time, slices]): ([u64; 2], [u64; 2]) = (victim, other);
    // On a busy host a slice in which the victim was not run costs it the next.
    let least = if is_counting() { slices } else { slices / 2 };
    check!(victim_slices + 2 >= least, "the victim had {victim_slices} slices, the other {slices}");
    check!(!is_counting() || victim_time * 100 >= time * 95, "the victim had {victim_time} ns, the other {time} ns");
    let charged = (slices - 1) * exposed::kernel().quantum.load(Relaxed);
    check!(!is_counting() || time * 100 >= charged * 95, "{slices} slices were charged with {time} ns");
    Ok(())
}

extern "C" fn fault_with_entry(entry: u64) {
    Area::current().private().exception_entry.store(entry, SeqCst);
    let _ = attempt!(["ud2"]);
}

fn fault_19_invalid_entry(world: &World) -> Outcome {
    let data = Area::current().address();
    let cases = [
        (0, DeathReason::BadEntry),
        (0x66_6000, DeathReason::UpcallStackOverflow),
        (1 << 48, DeathReason::BadEntry),
        (data, DeathReason::UpcallStackOverflow),
        (0x8000_0000_0000, DeathReason::BadEntry),
        (u64::MAX, DeathReason::BadEntry),
        (0xffff_ffff_8000_0000, DeathReason::BadEntry),
        (abi::memory_map::EXPOSED, DeathReason::BadEntry),
    ];
    for (entry, reason) in cases {
        expect_death(spawn(world, fault_with_entry, entry)?, reason)
            .map_err(|why| alloc::format!("{entry:#x}: {why}"))?;
    }
    Ok(())
}

/// Declares an entry that is none, for the start of a slice (0), its end (1) or an event (2), and lets it come.
extern "C" fn declare_badly(case: u64) {
    let private = Area::current().private();
    let entry = [1 << 48, abi::memory_map::EXPOSED, u64::MAX][(case / 3) as usize];
    match case % 3 {
        0 => private.slice_start_entry.store(entry, SeqCst),
        1 => private.slice_end_entry.store(entry, SeqCst),
        _ => {
            private.event_entry.store(entry, SeqCst);
            let _ = syscall::event_raise(KeyIndex::FIRST, area::number(), 1);
        }
    }
    loop {
        if case % 3 != 1 {
            time_slice::yield_now();
        }
    }
}

fn fault_19_invalid_entries_of_slices_and_events(world: &World) -> Outcome {
    for case in 0..9 {
        // What comes just when a slice ends is delivered by the runtime, not the kernel, and faults as any jump there
        // does: then the kernel gets another one to deliver.
        once_in(10, || expect_death(spawn(world, declare_badly, case)?, DeathReason::BadEntry))
            .map_err(|why| alloc::format!("case {case}: {why}"))?;
    }
    Ok(())
}

/// Pages of an upcall stack.
const STACK_PAGES: u64 = PRIVATE_COUNT as u64 - 1;

/// Faults, with nothing in the place of its upcall stack (0), with a page there that it may only read (1), or with what
/// its creator has put there (2).
extern "C" fn fault_without_a_stack(case: u64) {
    let (stack, own) = (Area::current().address() + abi::area::UPCALL_STACK, runtime::address_space::own());
    if case < 2 {
        // SAFETY: the upcall stack is not in use; what follows is the death of this environment.
        let _ = unsafe { own.unmap(stack, STACK_PAGES) };
    }
    if case == 1 {
        let page = Allocator::own().allocate().unwrap_or(PageNumber::NONE);
        // Not in the place of the lowest one: an environment at the end of that stack writes to what lies below,
        // without end.
        let above = &[page; STACK_PAGES as usize - 1];
        // SAFETY: as above.
        let _ = unsafe { own.map(stack + abi::limits::PAGE_SIZE, above, Access::READ) };
    }
    let _ = attempt!(["ud2"]);
}

/// Frames are written to the pages that the environment was made of, whatever lies at their addresses.
fn fault_20_upcall_stack_is_something_else(world: &World) -> Outcome {
    const WORD: u64 = 0x5afe_5afe_5afe_5afe;
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    window.words().iter().for_each(|word| word.store(WORD, SeqCst));
    for case in 0..3 {
        let child = granted!(prepare(world, fault_without_a_stack, case)?.create());
        if case == 2 {
            let stack = child.info().map_or(0, |info| info.area.load(SeqCst)) + abi::area::UPCALL_STACK;
            // SAFETY: it is the address space of another environment.
            granted!(unsafe { child.space.map(stack, &[page; STACK_PAGES as usize], Access::READ) });
        }
        granted!(child.run(0, time_slice::ANY_POSITION));
        // Where the stack was bad from the start it has not come to declare an entry.
        let reason = if case == 2 { DeathReason::BadEntry } else { DeathReason::UpcallStackOverflow };
        expect_death(child, reason).map_err(|why| alloc::format!("case {case}: {why}"))?;
        check!(window.words().iter().all(|word| word.load(SeqCst) == WORD), "case {case}: the page shown was written");
    }
    drop(window);
    granted!(Allocator::own().free(page));
    Ok(())
}

/// A stack pointer that leads nowhere, or to the kernel, does not matter to an exception.
fn fault_20_stack_pointers_that_are_none() -> Outcome {
    watch();
    let stack = Area::current().address() + abi::area::UPCALL_STACK;
    let end = stack + STACK_PAGES * 0x1000;
    let pointers = [0, 8, stack - 8, end + 0x1000, abi::memory_map::USER_END, 1 << 47, 1 << 63, u64::MAX - 7, u64::MAX];
    for pointer in pointers.into_iter().chain([abi::memory_map::EXPOSED, abi::memory_map::KERNEL_IMAGE + 0x1000]) {
        let raised = attempt!(["mov rsp, rdi", "ud2"], "rdi" = pointer);
        let is_told = |frame: UpcallFrame| frame.kind == kind::INVALID_OPCODE && frame.rsp == pointer;
        check!(raised.is_some_and(is_told), "with the stack pointer {pointer:#x}: {raised:?}");
    }
    Ok(())
}

extern "C" fn fault_at_the_end_of_the_stack(above: u64) {
    let pointer = Area::current().address() + abi::area::UPCALL_STACK + above;
    let _ = attempt!(["mov rsp, rdi", "ud2"], "rdi" = pointer);
}

fn fault_20_frames_that_do_not_fit(world: &World) -> Outcome {
    for above in [1, 8, 64, 127] {
        expect_death(spawn(world, fault_at_the_end_of_the_stack, above)?, DeathReason::UpcallStackOverflow)
            .map_err(|why| alloc::format!("{above} bytes above: {why}"))?;
    }
    Ok(())
}

/// Handlers that are open.
const DEPTH: usize = 10;
/// Most that were open at a time.
const DEEPEST: usize = 11;

extern "C" fn nest(context: &mut Context) {
    let words = &Area::current().library().free;
    let depth = words[DEPTH].fetch_add(1, Relaxed) + 1;
    words[DEEPEST].fetch_max(depth, Relaxed);
    if depth < 8 {
        // SAFETY: the fault is handled by this function again, which steps over the two bytes of UD2.
        unsafe { core::arch::asm!("ud2") };
    }
    words[DEPTH].fetch_sub(1, Relaxed);
    context.frame.rip += 2;
}

fn fault_21_nested_faults_resume() -> Outcome {
    set_handler(kind::INVALID_OPCODE, nest);
    // SAFETY: as in `nest`.
    unsafe { core::arch::asm!("ud2") };
    let words = &Area::current().library().free;
    let (open, deepest) = (words[DEPTH].load(Relaxed), words[DEEPEST].load(Relaxed));
    check!((open, deepest) == (0, 8), "{open} handlers are open, {deepest} were at most");
    Ok(())
}

extern "C" fn nest_for_ever(_: &mut Context) {
    // SAFETY: the fault is handled by this function again, until the upcall stack is full.
    unsafe { core::arch::asm!("ud2") };
}

extern "C" fn fault_for_ever(_: u64) {
    set_handler(kind::INVALID_OPCODE, nest_for_ever);
    // SAFETY: as above.
    unsafe { core::arch::asm!("ud2") };
}

fn fault_21_endless_nesting(world: &World) -> Outcome {
    expect_death(spawn(world, fault_for_ever, 0)?, DeathReason::UpcallStackOverflow)
}

extern "C" fn skip_and_count(context: &mut Context) {
    context.frame.rip += if context.frame.kind == kind::PAGE_FAULT { 8 } else { 2 };
    let faults = Area::current().status(1);
    faults.store(faults.load(Relaxed) + 1, Relaxed);
}

/// Faults without end: by an invalid opcode of two bytes, or by a load of eight bytes from where nothing is.
extern "C" fn storm(of: u64) {
    set_handler(of, skip_and_count);
    loop {
        if of == kind::PAGE_FAULT {
            // SAFETY: the handler steps over the eight bytes of the load.
            unsafe { core::arch::asm!(".byte 0x48, 0x8b, 0x04, 0x25, 8, 0, 0, 0", out("rax") _) };
        } else {
            // SAFETY: the handler steps over the two bytes of UD2.
            unsafe { core::arch::asm!("ud2") };
        }
    }
}

fn fault_22_fault_storm(world: &World) -> Outcome {
    for of in [kind::INVALID_OPCODE, kind::PAGE_FAULT] {
        let child = spawn(world, storm, of)?;
        check!(eventually(|| status(&child, 1) > 0), "the storm does not begin: {}", death(&child));
        let before = status(&child, 1);
        keeps_its_share(world, child.number, 50)?;
        let faults = status(&child, 1) - before;
        check!(!is_counting() || faults > 50 * 1000, "there were {faults} faults only in fifty milliseconds");
        granted!(child.destroy());
    }
    Ok(())
}

/// Resumes with a frame whose words are in the registers.
fn iret(rip: u64, code: u64, flags: u64, stack: u64, data: u64) -> Option<UpcallFrame> {
    attempt!(
        ["push r8", "push rcx", "push rdx", "push rsi", "push rdi", "iretq"],
        "rdi" = rip,
        "rsi" = code,
        "rdx" = flags,
        "rcx" = stack,
        "r8" = data
    )
}

fn fault_23_bad_iret_frames() -> Outcome {
    watch();
    let (code, data) = (abi::upcall::USER_CODE, abi::upcall::USER_DATA);
    let here = iret as *const () as u64;
    let stack = Area::current().address() + 0x4000;
    for (rip, bad_code, bad_data) in [
        (here, 0x08, data),
        (here, 0x10, 0x10),
        (here, code, 0x10),
        (here, code & !3, data),
        (here, 0, data),
        (here, 0x40, data),
        (0x8000_0000_0000, code, data),
        (u64::MAX, code, data),
    ] {
        let raised = iret(rip, bad_code, 0x202, stack, bad_data).map(|frame| frame.kind);
        check!(matches!(raised, Some(10..=14)), "RIP {rip:#x} CS {bad_code:#x} SS {bad_data:#x} raised {raised:?}");
    }
    // Where a program may jump, it may also return: the fault comes with the fetch.
    for rip in [abi::memory_map::USER_END, abi::memory_map::KERNEL_IMAGE] {
        let raised = iret(rip, code, 0x202, stack, data);
        let at_the_fetch =
            |frame: UpcallFrame| frame.kind == kind::PAGE_FAULT && frame.detail == rip && frame.rip == rip;
        check!(raised.is_some_and(at_the_fetch), "RIP {rip:#x} raised {raised:?}");
    }
    Ok(())
}

/// RFLAGS behind an IRETQ from a frame with these.
fn flags_through_iretq(flags: u64) -> u64 {
    let after: u64;
    // SAFETY: the frame leads to the next instruction, with the stack as it is; the flags are put back behind it.
    unsafe {
        core::arch::asm!(
            "mov r9, rsp", "push {data}", "push r9", "push {flags}", "push {code}", "lea r8, [rip + 2f]", "push r8",
            "iretq",
            "2:", "pushfq", "pop {after}", "push 0x202", "popfq",
            data = const abi::upcall::USER_DATA, code = const abi::upcall::USER_CODE,
            flags = in(reg) flags, after = out(reg) after, out("r8") _, out("r9") _
        );
    }
    after
}

/// No frame gives I/O privilege, virtual-8086 mode or virtual interrupts, or turns interrupts off.
fn fault_24_flags_from_a_frame() -> Outcome {
    const NEVER: u64 = 3 << 12 | 1 << 17 | 1 << 19 | 1 << 20;
    for bit in 9..22 {
        for flags in [0x202 | 1 << bit, 2 | 1 << bit] {
            let after = flags_through_iretq(flags);
            check!(after & NEVER == 0 && after & 1 << 9 != 0, "flags {flags:#x} of a frame became {after:#x}");
        }
    }
    Ok(())
}

/// A call that is made with these flags set: its error and its result.
fn call_with_flags(set: u64, number: u64, [first, second, third, fourth, fifth, sixth]: [u64; 6]) -> (u64, u64) {
    let (error, result): (u64, u64);
    // SAFETY: the callers name pages that nothing of the program lies in; the flags are put back behind the call.
    unsafe {
        core::arch::asm!(
            "pushfq", "or [rsp], r12", "popfq", "syscall", "push 0x202", "popfq",
            in("r12") set, inout("rax") number => error, in("rdi") first, in("rsi") second, inout("rdx") third => result,
            in("r10") fourth, in("r8") fifth, in("r9") sixth, out("rcx") _, out("r11") _
        );
    }
    (error, result)
}

/// What the kernel fills and copies it fills and copies upwards, and where it reads words of a program at any address,
/// whatever direction and alignment flags the program has.
fn fault_24_copies_with_every_flag_set() -> Outcome {
    const FLAGS: u64 = 1 << 10 | 1 << 18 | 1 << 14 | 0xcd4;
    let own = Allocator::own();
    let key = own.key.0;
    let mut row = [MapRow { address: 0, entry: PageNumber::NONE.address() }];
    let arguments = [key, own.list.0, key, PageNumber::NONE.0, row.as_mut_ptr() as u64, 1];
    let (error, _) = call_with_flags(FLAGS, number::page_allocate, arguments);
    check!(error == 0, "a page was refused: {error}");
    let page = PageNumber((core::hint::black_box(&row)[0].entry & PAGE) >> 12);
    let window = granted!(Window::open(&[page], own.key, Access::WRITE));
    check!(window.words().iter().all(|word| word.load(SeqCst) == 0), "a fresh page does not hold zeros only");
    (0..).zip(window.words()).for_each(|(index, word)| word.store(index * 0x0101_0101, SeqCst));
    let mut row = [MapRow { address: key, entry: page.address() }];
    let arguments = [key, own.list.0, key, PageNumber::NONE.0, row.as_mut_ptr() as u64, 1];
    let answer = call_with_flags(FLAGS, number::page_allocate, arguments);
    check!(answer == (0, 1), "a copy was refused: {answer:?}");
    let copy = PageNumber((core::hint::black_box(&row)[0].entry & PAGE) >> 12);
    let other = granted!(Window::open(&[copy], own.key, Access::READ));
    let words = |window: &Window| window.words().iter().map(|word| word.load(SeqCst)).collect::<Vec<_>>();
    check!(words(&window) == words(&other), "the copy is another");
    let region = granted!(own.allocate());
    granted!(page::become_regions(own.key, region));
    granted!(syscall::region_name(own.key, region, 0, own.key, 7));
    let (from, to) = (*b"..abcdefghijklmnopqrstuvwxyz..", [0u8; 30]);
    let arguments = |at: *const u8, write: u64| [key, region.0, 1, at as u64 + 1, 28, write];
    check!(call_with_flags(FLAGS, number::region_copy, arguments(from.as_ptr(), 1)).0 == 0, "writing was refused");
    check!(call_with_flags(FLAGS, number::region_copy, arguments(to.as_ptr(), 0)).0 == 0, "reading was refused");
    let to = core::hint::black_box(&to);
    check!(to[1..29] == from[1..29] && to[0] == 0 && to[29] == 0, "what was written came back as {to:?}");
    drop(window);
    drop(other);
    check!(own.free_many(&[page, copy, region]) == 3, "not all pages were freed");
    Ok(())
}

/// RFLAGS after a null call that was made with these flags set.
fn flags_through_a_call(set: u64) -> u64 {
    let flags: u64;
    // SAFETY: the flags are set around one kernel call and cleared behind it; the stack is balanced.
    unsafe {
        core::arch::asm!(
            "pushfq", "or [rsp], {set}", "popfq",
            "mov eax, 0", "syscall",
            "pushfq", "pop {flags}", "push 0x202", "popfq",
            set = in(reg) set, flags = out(reg) flags, out("rax") _, out("rcx") _, out("rdx") _, out("r11") _
        );
    }
    flags
}

fn fault_24_flags_at_a_kernel_call() -> Outcome {
    const DIRECTION: u64 = 1 << 10;
    const NESTED_TASK: u64 = 1 << 14;
    const ALIGNMENT: u64 = 1 << 18;
    const IDENTIFICATION: u64 = 1 << 21;
    const PRIVILEGE: u64 = 3 << 12;
    for flag in [DIRECTION, NESTED_TASK, ALIGNMENT, IDENTIFICATION, PRIVILEGE, 1 << 16, 1 << 17] {
        let after = flags_through_a_call(flag);
        check!(after & PRIVILEGE == 0, "flags {flag:#x} gave I/O privilege: {after:#x}");
        check!(after & 1 << 17 == 0, "flags {flag:#x} gave virtual-8086 mode: {after:#x}");
        check!(after & 1 << 9 != 0, "flags {flag:#x} turned interrupts off: {after:#x}");
    }
    for flag in [DIRECTION, ALIGNMENT] {
        check!(flags_through_a_call(flag) & flag != 0, "the call lost the flag {flag:#x}");
    }
    Ok(())
}

fn fault_25_debug_traps_and_software_interrupts() -> Outcome {
    watch();
    // INT1, which the emulator does not know.
    raises!(".byte 0xf1", kind::DEBUG | kind::INVALID_OPCODE);
    raises!("int3", kind::BREAKPOINT);
    raises!(".byte 0xce", kind::INVALID_OPCODE);
    raises!("int 0x80", kind::GENERAL_PROTECTION);
    raises!("int 2", kind::GENERAL_PROTECTION);
    raises!("int 8", kind::GENERAL_PROTECTION);
    raises!("int 0x20", kind::GENERAL_PROTECTION);
    raises!("int 0xff", kind::GENERAL_PROTECTION);
    // A single step over SYSCALL: the trap comes in user mode, behind it.
    raises!("mov eax, 0; pushfq; or qword ptr [rsp], 0x100; popfq; syscall; nop; nop", kind::DEBUG);
    raises!("mov eax, 0; mov ecx, 0x1b; mov ss, ecx; syscall; ud2", kind::INVALID_OPCODE);
    // Both: the trap after MOV SS waits until SYSCALL, INT3 or INT is done, and must not find the kernel unprepared.
    raises!(
        "mov eax, 0; mov ecx, 0x1b; pushfq; or qword ptr [rsp], 0x100; popfq; mov ss, ecx; syscall; nop; nop",
        kind::DEBUG
    );
    raises!(
        "mov ecx, 0x1b; pushfq; or qword ptr [rsp], 0x100; popfq; mov ss, ecx; int3; nop",
        kind::DEBUG | kind::BREAKPOINT
    );
    raises!(
        "mov ecx, 0x1b; pushfq; or qword ptr [rsp], 0x100; popfq; mov ss, ecx; int 0x80; nop",
        kind::DEBUG | kind::GENERAL_PROTECTION
    );
    raises!("pushfq; or qword ptr [rsp], 0x100; popfq; nop; nop", kind::DEBUG);
    Ok(())
}

fn fault_27_segment_bases() -> Outcome {
    watch();
    raises!("swapgs", kind::GENERAL_PROTECTION | kind::INVALID_OPCODE);
    for base in [0x8000_0000_0000, 0xffff_8000_0000_0000, u64::MAX] {
        // SAFETY: a refused call changes no base.
        let refused = unsafe { context::set_fs_base(base) };
        check!(refused.is_err(), "the base {base:#x} was accepted");
    }
    if !exposed::has(abi::feature::FSGSBASE) {
        raises!("xor eax, eax; wrfsbase rax", kind::INVALID_OPCODE);
        return Ok(());
    }
    // The emulator does not look at the base; then the kernel has to live with it.
    let raised = attempt!(["mov rax, 0x800000000000; wrfsbase rax"]).map(|frame| frame.kind);
    check!(matches!(raised, None | Some(kind::GENERAL_PROTECTION)), "a non-canonical FS base raised {raised:?}");
    time_slice::yield_now();
    let (error, base): (u64, u64);
    // Handlers go by GS: the end of a slice waits.
    let section = critical_section::enter();
    // SAFETY: GS base is put back before any other code runs; RFLAGS and the stack stay as they are.
    unsafe {
        core::arch::asm!(
            "rdgsbase r8", "mov r9, 0xffffffff80000000", "wrgsbase r9",
            "mov eax, 0", "syscall",
            "rdgsbase r9", "wrgsbase r8",
            out("rax") error, out("rcx") _, out("rdx") _, out("r11") _, out("r8") _, out("r9") base
        );
    }
    drop(section);
    check!(
        (error, base) == (0, 0xffff_ffff_8000_0000),
        "with a kernel address in GS base a call gave {error}, {base:#x}"
    );
    Ok(())
}

/// Interrupts come while GS base is an address of the kernel, and slices end: it is the same afterwards, and the kernel
/// has its own.
fn fault_27_interrupts_with_a_kernel_address_in_gs_base() -> Outcome {
    if !exposed::has(abi::feature::FSGSBASE) {
        return Ok(());
    }
    let slices = || used(area::number())[1];
    let before = slices();
    for base in [0xffff_ffff_8000_0000u64, 0xffff_8000_0000_0000, 0, u64::MAX] {
        // Handlers go by GS: the ends of slices wait, and this environment is switched out whole.
        let section = critical_section::enter();
        let after: u64;
        // SAFETY: GS base is put back before any other code runs.
        unsafe {
            core::arch::asm!(
                "rdgsbase r8", "wrgsbase {base}", "mov ecx, 3000000", "2:", "dec ecx", "jnz 2b",
                "rdgsbase {after}", "wrgsbase r8",
                base = in(reg) base, after = out(reg) after, out("rcx") _, out("r8") _
            );
        }
        drop(section);
        check!(after == base, "GS base {base:#x} became {after:#x}");
    }
    check!(slices() > before, "no slice ended");
    Ok(())
}

fn fault_28_privileged_instructions() -> Outcome {
    watch();
    raises!("hlt", kind::GENERAL_PROTECTION);
    raises!("cli", kind::GENERAL_PROTECTION);
    raises!("sti", kind::GENERAL_PROTECTION);
    raises!("sub rsp, 16; lgdt [rsp]", kind::GENERAL_PROTECTION);
    raises!("sub rsp, 16; lidt [rsp]", kind::GENERAL_PROTECTION);
    raises!("xor eax, eax; ltr ax", kind::GENERAL_PROTECTION);
    raises!("xor eax, eax; lldt ax", kind::GENERAL_PROTECTION);
    raises!("mov rax, cr0", kind::GENERAL_PROTECTION);
    raises!("xor eax, eax; mov cr3, rax", kind::GENERAL_PROTECTION);
    raises!("xor eax, eax; mov cr4, rax", kind::GENERAL_PROTECTION);
    raises!("mov rax, cr8", kind::GENERAL_PROTECTION);
    raises!("mov rax, dr0", kind::GENERAL_PROTECTION);
    raises!("xor eax, eax; mov dr7, rax", kind::GENERAL_PROTECTION);
    raises!("mov ecx, 0xc0000080; rdmsr", kind::GENERAL_PROTECTION);
    raises!("mov ecx, 0xc0000082; xor eax, eax; xor edx, edx; wrmsr", kind::GENERAL_PROTECTION);
    raises!("invlpg [rsp]", kind::GENERAL_PROTECTION);
    raises!("wbinvd", kind::GENERAL_PROTECTION);
    raises!("invd", kind::GENERAL_PROTECTION);
    raises!("clts", kind::GENERAL_PROTECTION);
    raises!("xor eax, eax; lmsw ax", kind::GENERAL_PROTECTION);
    raises!("xor ecx, ecx; xor eax, eax; xor edx, edx; xsetbv", kind::GENERAL_PROTECTION | kind::INVALID_OPCODE);
    raises!("xor ecx, ecx; rdpmc", kind::GENERAL_PROTECTION);
    raises!("xor ecx, ecx; sysretq", kind::GENERAL_PROTECTION);
    raises!("sysenter", kind::GENERAL_PROTECTION | kind::INVALID_OPCODE);
    Ok(())
}

fn fault_28_descriptor_tables_are_hidden() -> Outcome {
    if !exposed::has(abi::feature::UMIP) {
        return Ok(());
    }
    watch();
    raises!("sub rsp, 16; sgdt [rsp]", kind::GENERAL_PROTECTION);
    raises!("sub rsp, 16; sidt [rsp]", kind::GENERAL_PROTECTION);
    raises!("sldt ax", kind::GENERAL_PROTECTION);
    raises!("str ax", kind::GENERAL_PROTECTION);
    raises!("smsw rax", kind::GENERAL_PROTECTION);
    Ok(())
}

fn fault_29_port_input_and_output() -> Outcome {
    watch();
    raises!("in al, 0x60", kind::GENERAL_PROTECTION);
    raises!("mov edx, 0xcf8; in eax, dx", kind::GENERAL_PROTECTION);
    raises!("mov edx, 0xf4; mov eax, 0x10; out dx, eax", kind::GENERAL_PROTECTION);
    raises!("mov edx, 0x3f8; mov al, 65; out dx, al", kind::GENERAL_PROTECTION);
    raises!("mov edx, 0xffff; in al, dx", kind::GENERAL_PROTECTION);
    raises!("mov edx, 0x64; lea rdi, [rsp - 64]; mov ecx, 1; rep insb", kind::GENERAL_PROTECTION);
    raises!("mov edx, 0x3f8; lea rsi, [rsp - 64]; mov ecx, 1; rep outsb", kind::GENERAL_PROTECTION);
    for port in 0..=0xffffu64 {
        for raised in [attempt!(["in al, dx"], "rdx" = port), attempt!(["out dx, al"], "rdx" = port)] {
            check!(
                raised.is_some_and(|frame| frame.kind == kind::GENERAL_PROTECTION),
                "port {port:#x} gave {raised:?}"
            );
        }
    }
    Ok(())
}

extern "C" fn go_on(_: &mut Context) {}

/// Runs on when its slices end, with every flag set that a program can set: direction, alignment check, the arithmetic
/// ones.
extern "C" fn spin_with_flags(_: u64) {
    set_handler(kind::SLICE_END, go_on);
    Area::current().status(1).store(1, SeqCst);
    // SAFETY: the loop changes rax only, and touches no memory but the two words it pushes and pops.
    unsafe { core::arch::asm!("push 0x40cd7", "popfq", "2:", "inc rax", "jmp 2b", options(noreturn)) };
}

/// Interrupts come with the flags of the code that they interrupt. What the kernel does then, which is to switch to one
/// whose predicate has become true, must not go by them.
fn fault_24_flags_at_interrupts(world: &World) -> Outcome {
    let child = spawn(world, spin_with_flags, 0)?;
    check!(eventually(|| status(&child, 1) == 1), "the child does not start");
    for _ in 0..60 {
        let time = runtime::clock::now() + 500_000;
        granted!(runtime::predicate::wait_any(&[], Some(time)));
    }
    check!(child.alive(), "the child died: {}", test_programs::child::death(&child));
    granted!(child.destroy());
    Ok(())
}
