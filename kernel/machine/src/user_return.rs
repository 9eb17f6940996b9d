//! IRET in user mode, where an emulator gets it wrong.
//!
//! Programs leave an upcall by IRETQ in user mode (DESIGN.md §4). QEMU's TCG before 9.1 makes the stack reads of that
//! instruction as if the kernel made them, so that with SMAP on each of them faults. A real CPU never reports such a
//! fault: a protection fault from user mode that claims to be the kernel's. Where one comes, the kernel carries out
//! what the instruction would have done. `doc/decision/0001-iret-in-user-mode-under-smap.md` tells why, and what it
//! costs.

use crate::context::{Entry, Program, Upcall};
use crate::cpu_control;
use crate::entry::{Frame, TrapFrame, current};
use crate::user::{CopyError, copy_in};
use abi::UserAddress;
use abi::upcall::{USER_CODE, USER_DATA, kind};

/// IRETQ.
pub(crate) const INSTRUCTION: [u8; 2] = [0x48, 0xcf];
/// Flags that IRET changes in user mode: all but IF, IOPL and the virtual-8086 ones.
const CHANGED_FLAGS: u64 = 0x25_4dd5;
/// Bit of a page fault's error code: the access was user mode's.
const USER_ACCESS: u64 = 1 << 2;

/// A page fault from user mode that claims to be the kernel's. Returns false where even the upcall cannot be delivered.
pub(crate) fn carry_out(frame: &mut TrapFrame) -> bool {
    let program = frame.program();
    let mut code = [0; 2];
    let is_iret = copy_in(&mut code, UserAddress(program.rip)).is_ok() && code == INSTRUCTION;
    let mut words = [0; 5];
    if !is_iret {
        return deliver(frame, kind::PAGE_FAULT, frame.error, cpu_control::read_cr2());
    }
    match copy_in(&mut words, UserAddress(program.rsp)) {
        Ok(()) => {}
        Err(CopyError::Fault(fault)) => return deliver(frame, kind::PAGE_FAULT, fault.error, fault.address),
        Err(CopyError::OutOfRange) => return deliver(frame, kind::GENERAL_PROTECTION, 0, 0),
    }
    let [rip, cs, rflags, rsp, ss] = words;
    if cs & 0xffff != USER_CODE || ss & 0xffff != USER_DATA {
        return deliver(frame, kind::GENERAL_PROTECTION, cs & 0xfffc, 0);
    }
    // A RIP above the user half faults when it is fetched: a program that was interrupted before the fetch resumes to
    // that fault.
    if !is_canonical(rip) {
        return deliver(frame, kind::GENERAL_PROTECTION, 0, 0);
    }
    let rflags = program.rflags & !CHANGED_FLAGS | rflags & CHANGED_FLAGS;
    frame.set_program(Program { rip, rsp, rflags, pkru: program.pkru });
    true
}

/// Whether the upper 17 bits are equal, as with page tables of four levels.
fn is_canonical(address: u64) -> bool {
    matches!(address >> 47, 0 | 0x1_ffff)
}

fn deliver(frame: &mut TrapFrame, kind: u64, error: u64, detail: u64) -> bool {
    let error = if kind == kind::PAGE_FAULT { error | USER_ACCESS } else { error };
    let context = current().expect("a program ran");
    match context.push_upcall(frame.program(), Upcall { entry: Entry::Exception, kind, error, detail }) {
        Ok(program) => {
            frame.set_program(program);
            true
        }
        Err(_) => false,
    }
}
