//! Calls on the system as a whole, and on what a process may use of it.

use crate::descriptor::object::random;
use crate::hw::usercopy;
use crate::loader::cpu_entry;
use crate::process::Process;
use crate::process::call::Call;
use crate::server::client::machine_name;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general::{CAP_SYS_ADMIN, GRND_INSECURE, GRND_NONBLOCK, GRND_RANDOM, membarrier_cmd as Command};
use runtime::{clock, exposed, time_slice};
use unix_core::server::protocol::{DOMAIN_NAME, HOST_NAME, NAME_WORDS, Request};
use unix_core::session::status_page;
use unix_core::uapi;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_GET_GS: u64 = 0x1004;
const ARCH_GET_CPUID: u64 = 0x1011;
const ARCH_SET_CPUID: u64 = 0x1012;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;

pub(crate) fn uname(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    // personality(2): an execution domain is the lowest byte; this one is told of a machine of 32 bits.
    const LINUX32: u32 = 8;
    let is_narrow = call.process.attributes.prctl.lock().personality & 0xff == LINUX32;
    let machine: &[u8] = if is_narrow { b"i686" } else { b"x86_64" };
    let [host, domain] = [HOST_NAME, DOMAIN_NAME].map(machine_name);
    let fields: [&[u8]; 6] = [b"Linux", &host, b"6.1.0-chitin", b"#1 Chitin ExOS", machine, &domain];
    usercopy::write(to, &uapi::names(fields)).map(|()| 0)
}

pub(crate) fn sethostname(call: &mut Call<'_>) -> Result<u64> {
    set_name(call, HOST_NAME)
}

pub(crate) fn setdomainname(call: &mut Call<'_>) -> Result<u64> {
    set_name(call, DOMAIN_NAME)
}

fn set_name(call: &Call<'_>, first: usize) -> Result<u64> {
    let [from, length, ..] = call.arguments();
    if !call.process.may(CAP_SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    if length as u32 as usize > NAME_WORDS * 8 {
        return Err(Errno::EINVAL);
    }
    let name = usercopy::read_vec(from, length as u32 as usize)?;
    let words = [first as u64, name.len() as u64, 0, 0, 0];
    call.process.files.lock().on_object_with(Request::SetMachine, words, &name).map(|_| 0)
}

pub(crate) fn sysinfo(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    let kernel = exposed::kernel();
    let pages = |word: &core::sync::atomic::AtomicU64| word.load(Relaxed) * linux_abi::address_map::PAGE_SIZE;
    let free = pages(&kernel.free_pages);
    let total = free + pages(&kernel.owned_pages) + pages(&kernel.orphan_pages) + pages(&kernel.kernel_pages);
    let processes = crate::process_table::all().len() as u64;
    // Averages have 11 bits behind the point, and here 16.
    let loads = &crate::process::current::process().board.words()[status_page::LOADS..status_page::LOADS + 3];
    let [one, five, fifteen] = core::array::from_fn(|index| loads[index].load(Relaxed) << 5);
    let mut words =
        Vec::from([clock::now() / 1_000_000_000, one, five, fifteen, total, free, 0, 0, 0, 0, processes, 0, 0, 1]);
    words.truncate(14);
    usercopy::write(to, &uapi::bytes(&words)).map(|()| 0)
}

pub(crate) fn getrandom(call: &mut Call<'_>) -> Result<u64> {
    let [to, count, flags, ..] = call.arguments();
    const EITHER: u64 = (GRND_RANDOM | GRND_INSECURE) as u64;
    if flags & !(EITHER | GRND_NONBLOCK as u64) != 0 || flags & EITHER == EITHER {
        return Err(Errno::EINVAL);
    }
    let count = count.min(1 << 20) as usize;
    let mut done = 0;
    while done < count {
        let some = random((count - done).min(4096))?;
        usercopy::write(to.saturating_add(done as u64), &some)?;
        done += some.len();
    }
    Ok(count as u64)
}

pub(crate) fn arch_prctl(call: &mut Call<'_>) -> Result<u64> {
    let [operation, address, ..] = call.arguments();
    match operation {
        ARCH_SET_FS if address >= linux_abi::address_map::PROGRAM_END => Err(Errno::EPERM),
        ARCH_SET_FS => {
            cpu_entry::set_segment_base(address);
            Ok(0)
        }
        ARCH_GET_FS => usercopy::write_word(address, cpu_entry::segment_base()).map(|()| 0),
        // GS is where ExOS finds its thread.
        ARCH_SET_GS => Err(Errno::EPERM),
        ARCH_GET_GS => usercopy::write_word(address, 0).map(|()| 0),
        // The instruction works, and nothing here can forbid it.
        ARCH_GET_CPUID => Ok(1),
        ARCH_SET_CPUID => Err(Errno::ENODEV),
        _ => Err(Errno::EINVAL),
    }
}

/// The CPU that this runs on; there is one node of memory.
pub(crate) fn getcpu(call: &mut Call<'_>) -> Result<u64> {
    let [cpu, node, ..] = call.arguments();
    let own = runtime::area::number().0;
    let current = exposed::cpus().position(|info| info.environment.load(Relaxed) == own).unwrap_or(0);
    if cpu != 0 {
        usercopy::write_half(cpu, current as u32)?;
    }
    if node != 0 {
        usercopy::write_half(node, 0)?;
    }
    Ok(0)
}

/// Barriers for the threads of this process; and for all programs, which take as long as a slice: no process can
/// interrupt the CPUs of others.
pub(crate) fn membarrier(call: &mut Call<'_>) -> Result<u64> {
    const QUERY: u32 = Command::MEMBARRIER_CMD_QUERY as u32;
    const GLOBAL: u32 = Command::MEMBARRIER_CMD_GLOBAL as u32;
    const GLOBAL_EXPEDITED: u32 = Command::MEMBARRIER_CMD_GLOBAL_EXPEDITED as u32;
    const REGISTER_GLOBAL: u32 = Command::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED as u32;
    const BARRIER: u32 = Command::MEMBARRIER_CMD_PRIVATE_EXPEDITED as u32;
    const REGISTER: u32 = Command::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as u32;
    let [command, flags, ..] = call.arguments();
    let registered = |process: &Process| process.attributes.prctl.lock().wants_barriers;
    match (command as u32, flags as u32) {
        (QUERY, 0) => return Ok(u64::from(GLOBAL | GLOBAL_EXPEDITED | REGISTER_GLOBAL | BARRIER | REGISTER)),
        (GLOBAL | GLOBAL_EXPEDITED, 0) => global_barrier(),
        (REGISTER_GLOBAL, 0) => {}
        (REGISTER, 0) => call.process.attributes.prctl.lock().wants_barriers = true,
        (BARRIER, 0) if !registered(call.process) => return Err(Errno::EPERM),
        (BARRIER, 0) if call.process.descriptors.has_threads.load(Relaxed) => barrier(call.process)?,
        (BARRIER, 0) => fence(SeqCst),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// Waits until every other CPU is idle or in another slice than now: it has been in the kernel in between, which is a
/// barrier.
fn global_barrier() {
    fence(SeqCst);
    let own = runtime::area::cpu();
    let others = || (0..exposed::kernel().cpus.load(Relaxed)).filter(|cpu| *cpu != own).filter_map(exposed::cpu);
    let slices: Vec<u64> = others().map(|cpu| cpu.slice_end.load(SeqCst)).collect();
    for (cpu, slice) in others().zip(slices) {
        while cpu.environment.load(SeqCst) != 0 && cpu.slice_end.load(SeqCst) == slice {
            time_slice::yield_now();
        }
    }
    fence(SeqCst);
}

/// A CPU that runs a thread of this process is interrupted, or has switched since: a mapping goes, and the kernel waits
/// until no CPU uses it.
fn barrier(process: &Process) -> Result<()> {
    fence(SeqCst);
    let page = crate::budget::allocate()?;
    let window = process.mappings.lock().open(vec![page], process.session_key, true);
    if let Ok(window) = &window {
        window.words()[0].store(1, SeqCst);
        process.mappings.lock().close(window);
    }
    runtime::page::Allocator::own().free(page)?;
    window.map(|_| ())
}
