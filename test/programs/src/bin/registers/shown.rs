//! Faults 34 to 36: what frames and exposed tables show, and what lies behind them.

use abi::upcall::{USER_CODE, USER_DATA, UpcallFrame, kind};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::exposed;
use runtime::upcall::{Context, set_handler};
use test_programs::arrays::exposed_arrays;
use test_programs::attempt::watch;
use test_programs::{Outcome, World, attempt, check};

pub(crate) fn fault_34_unused_words_are_zero() -> Outcome {
    let private = Area::current().private();
    check!(private.unused.iter().all(|word| word.load(SeqCst) == 0), "unused words of the private page are not zero");
    let vector = private.repossession.iter().all(|entry| entry.resource.load(SeqCst) | entry.name.load(SeqCst) == 0);
    check!(vector, "the repossession vector of a new environment is not empty");
    check!(
        exposed::kernel().unused.iter().all(|word| word.load(SeqCst) == 0),
        "unused words of KernelInfo are not zero"
    );
    for cpu in exposed::cpus() {
        check!(cpu.unused.iter().all(|word| word.load(SeqCst) == 0), "unused words of CpuInfo are not zero");
    }
    for slot in 0..exposed::kernel().environments.load(SeqCst) {
        let unused =
            exposed::environment_slot(slot).is_none_or(|info| info.unused.iter().all(|word| word.load(SeqCst) == 0));
        check!(unused, "unused words of environment slot {slot} are not zero");
    }
    Ok(())
}

/// The words of the last frame.
static FRAME: [AtomicU64; 9] = [const { AtomicU64::new(u64::MAX) }; 9];

extern "C" fn keep_frame(context: &mut Context) {
    let UpcallFrame { kind, error, detail, pkru, rip, cs, rflags, rsp, ss } = context.frame;
    for (place, word) in FRAME.iter().zip([kind, error, detail, pkru, rip, cs, rflags, rsp, ss]) {
        place.store(word, SeqCst);
    }
    context.frame.rip += 2;
}

/// Each word of a frame is what it says, all 64 bits of it.
pub(crate) fn fault_34_frames_hold_nothing_else() -> Outcome {
    set_handler(kind::INVALID_OPCODE, keep_frame);
    for _ in 0..100 {
        let (rip, rsp): (u64, u64);
        // SAFETY: the handler steps over the two bytes of UD2.
        unsafe {
            core::arch::asm!(
                "lea {rip}, [rip + 2f]", "mov {rsp}, rsp", "push 0x202", "popfq", "2:", "ud2",
                rip = out(reg) rip, rsp = out(reg) rsp
            );
        }
        let found = FRAME.each_ref().map(|word| word.load(SeqCst));
        let wanted = [kind::INVALID_OPCODE, 0, 0, 0, rip, USER_CODE, 0x202, rsp, USER_DATA];
        check!(found == wanted, "a frame holds {found:x?}, not {wanted:x?}");
    }
    Ok(())
}

/// Every word of what is exposed: none is an address of the kernel.
pub(crate) fn fault_35_no_kernel_address_is_exposed(_: &World) -> Outcome {
    use abi::memory_map::{DIRECT_MAP, KERNEL_IMAGE};
    for array in exposed_arrays() {
        for address in (array.start..array.end()).step_by(8) {
            // SAFETY: the kernel maps these arrays read-only for all, as long as their counts say.
            let word = unsafe { (address as *const u64).read_volatile() };
            let kernels = (DIRECT_MAP..DIRECT_MAP + (1 << 40)).contains(&word)
                || (KERNEL_IMAGE..KERNEL_IMAGE + (1 << 30)).contains(&word);
            check!(!kernels, "{address:#x} of {} exposes {word:#x}", array.name);
        }
    }
    Ok(())
}

pub(crate) fn fault_36_beyond_what_is_exposed() -> Outcome {
    use abi::memory_map::{DIRECT_MAP, EXPOSED_KERNEL, KERNEL_IMAGE};
    watch();
    // What is shown ends with the page that its last record lies in, and behind that record there are zeros.
    for array in exposed_arrays() {
        let last = array.end().next_multiple_of(abi::limits::PAGE_SIZE);
        for address in (array.end()..last).step_by(8) {
            // SAFETY: the rest of a page whose beginning is shown.
            let word = unsafe { (address as *const u64).read_volatile() };
            check!(word == 0, "behind the last {}, at {address:#x}, stands {word:#x}", array.name);
        }
        let raised = attempt!(["mov rax, [rdi]"], "rdi" = last);
        check!(raised.is_some_and(|frame| frame.kind == kind::PAGE_FAULT), "reading {last:#x} raised {raised:?}");
        let address = array.start;
        let raised = attempt!(["mov [rdi], rax"], "rdi" = address);
        check!(raised.is_some_and(|frame| frame.error == 7), "writing {address:#x} raised {raised:?}");
        let raised = attempt!(["call rdi"], "rdi" = address);
        check!(raised.is_some_and(|frame| frame.kind == kind::PAGE_FAULT), "jumping to {address:#x} raised {raised:?}");
    }
    for address in [DIRECT_MAP, DIRECT_MAP + 0x10_0000, KERNEL_IMAGE, KERNEL_IMAGE + 0x10_0000, EXPOSED_KERNEL - 8] {
        let raised = attempt!(["mov rax, [rdi]"], "rdi" = address);
        check!(raised.is_some_and(|frame| frame.kind == kind::PAGE_FAULT), "reading {address:#x} raised {raised:?}");
    }
    Ok(())
}
