//! Calls on the system as a whole, and on what a process may use of it.

use super::dispatch::Call;
use super::{layout, time};
use crate::descriptor::object::random;
use crate::descriptor::table;
use crate::errno::{Errno, Result};
use crate::loader::enter;
use crate::user_memory::copy;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::{general as linux, prctl as operation};
use runtime::{clock, exposed};

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const UNLIMITED: u64 = u64::MAX;
/// Bytes of a name that `PR_SET_NAME` sets, its NUL included.
const NAME_BYTES: usize = 16;

pub(super) fn uname(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    let fields: [&[u8]; 6] = [b"Linux", b"chitin", b"6.1.0-chitin", b"#1 Chitin ExOS", b"x86_64", b"(none)"];
    copy::write(to, &layout::names(fields)).map(|()| 0)
}

pub(super) fn sysinfo(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    let kernel = exposed::kernel();
    let pages = |word: &core::sync::atomic::AtomicU64| word.load(Relaxed) * crate::layout::PAGE_SIZE;
    let free = pages(&kernel.free_pages);
    let total = free + pages(&kernel.owned_pages) + pages(&kernel.orphan_pages) + pages(&kernel.kernel_pages);
    let processes = crate::relatives::all().len() as u64;
    let mut words = Vec::from([clock::now() / 1_000_000_000, 0, 0, 0, total, free, 0, 0, 0, 0, processes, 0, 0, 1]);
    words.truncate(14);
    copy::write(to, &layout::bytes(&words)).map(|()| 0)
}

pub(super) fn getrandom(call: &mut Call<'_>) -> Result<u64> {
    let [to, count, flags, ..] = call.arguments();
    if flags & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    let count = count.min(1 << 20) as usize;
    let mut done = 0;
    while done < count {
        let some = random((count - done).min(4096))?;
        copy::write(to + done as u64, &some)?;
        done += some.len();
    }
    Ok(count as u64)
}

pub(super) fn arch_prctl(call: &mut Call<'_>) -> Result<u64> {
    let [operation, address, ..] = call.arguments();
    match operation {
        ARCH_SET_FS if address >= crate::layout::PROGRAM_END => Err(Errno::EPERM),
        ARCH_SET_FS => {
            enter::set_segment_base(address);
            Ok(0)
        }
        ARCH_GET_FS => copy::write_word(address, enter::segment_base()).map(|()| 0),
        // GS is where ExOS finds its thread.
        ARCH_SET_GS => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

pub(super) fn prctl(call: &mut Call<'_>) -> Result<u64> {
    let [wanted, argument, ..] = call.arguments();
    match wanted as u32 {
        operation::PR_SET_NAME => {
            let name = copy::read_string(argument, NAME_BYTES - 1, Errno::E2BIG);
            let name = match name {
                Err(Errno::E2BIG) => copy::read_vec(argument, NAME_BYTES - 1)?,
                other => other?,
            };
            call.process.program.lock().name = name;
            crate::process::begin::publish(call.process);
            Ok(0)
        }
        operation::PR_GET_NAME => {
            let mut name = call.process.program.lock().name.clone();
            name.resize(NAME_BYTES, 0);
            copy::write(argument, &name).map(|()| 0)
        }
        operation::PR_GET_DUMPABLE | operation::PR_SET_DUMPABLE => Ok(0),
        operation::PR_SET_NO_NEW_PRIVS | operation::PR_GET_NO_NEW_PRIVS => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// The limit of a resource: what holds, and the most that may be asked for.
fn limit(call: &Call<'_>, resource: u64) -> Result<[u64; 2]> {
    Ok(match resource as u32 {
        linux::RLIMIT_NOFILE => [call.process.descriptors.lock().limit() as u64, table::LIMIT_MOST as u64],
        linux::RLIMIT_STACK => [crate::layout::STACK_BYTES, UNLIMITED],
        linux::RLIMIT_CORE => [0, UNLIMITED],
        resource if resource < linux::RLIM_NLIMITS => [UNLIMITED, UNLIMITED],
        _ => return Err(Errno::EINVAL),
    })
}

fn set_limit(call: &Call<'_>, resource: u64, [soft, hard]: [u64; 2]) -> Result<()> {
    let [_, most] = limit(call, resource)?;
    if soft > hard {
        return Err(Errno::EINVAL);
    }
    if hard > most {
        return Err(Errno::EPERM);
    }
    if resource as u32 == linux::RLIMIT_NOFILE {
        call.process.descriptors.lock().set_limit(soft as usize);
    }
    Ok(())
}

pub(super) fn getrlimit(call: &mut Call<'_>) -> Result<u64> {
    let [resource, to, ..] = call.arguments();
    copy::write(to, &layout::bytes(&limit(call, resource)?)).map(|()| 0)
}

pub(super) fn setrlimit(call: &mut Call<'_>) -> Result<u64> {
    let [resource, from, ..] = call.arguments();
    set_limit(call, resource, copy::read_words(from)?).map(|()| 0)
}

pub(super) fn prlimit64(call: &mut Call<'_>) -> Result<u64> {
    let [number, resource, new, old, ..] = call.arguments();
    if number != 0 && number != call.process.number() {
        return Err(Errno::ESRCH);
    }
    let before = limit(call, resource)?;
    if new != 0 {
        set_limit(call, resource, copy::read_words(new)?)?;
    }
    if old != 0 {
        copy::write(old, &layout::bytes(&before))?;
    }
    Ok(0)
}

pub(super) fn getrusage(call: &mut Call<'_>) -> Result<u64> {
    let [who, to, ..] = call.arguments();
    let used = match who as i32 {
        who if who as u32 == linux::RUSAGE_SELF => time::own_time(),
        who if who as u32 == linux::RUSAGE_THREAD => time::thread_time(),
        linux::RUSAGE_CHILDREN => call.process.children.lock().time,
        _ => return Err(Errno::EINVAL),
    };
    copy::write(to, &layout::resource_usage(used)).map(|()| 0)
}
