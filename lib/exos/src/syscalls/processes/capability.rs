//! Calls on capabilities of Linux: see `process::capabilities` for what they are worth here.

use crate::hw::usercopy;
use crate::process::Process;
use crate::process::call::Call;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::prctl as operation;
use unix_core::process::capabilities::{ALL, Capabilities, bit, secure};

/// The versions of the structures of capabilities, and how many words of each set they have.
fn words_of(version: u32) -> Option<u64> {
    match version {
        0x1998_0330 => Some(1),
        0x2007_1026 | 0x2008_0522 => Some(2),
        _ => None,
    }
}

/// Where a header does not name a version that there is, the best one is written into it.
fn read_header(header: u64) -> Result<Option<(u64, i32)>> {
    const BEST: u32 = 0x2008_0522;
    let [version, number] = [usercopy::read_half(header)?, usercopy::read_half(header.saturating_add(4))?];
    let Some(words) = words_of(version) else {
        usercopy::write_half(header, BEST)?;
        return Ok(None);
    };
    Ok(Some((words, number as i32)))
}

/// The sets of a process; what another one gave up only itself knows.
fn sets_of(process: &Process, number: u64) -> Result<Capabilities> {
    if number == 0 || number == process.number() {
        return Ok(process.attributes.capabilities());
    }
    let other = crate::process_table::find(number).ok_or(Errno::ESRCH)?;
    let all = if other.user[1] == 0 { ALL } else { 0 };
    Ok(Capabilities { effective: all, permitted: all, ..Capabilities::default() })
}

pub(crate) fn capget(call: &mut Call<'_>) -> Result<u64> {
    let [header, data, ..] = call.arguments();
    let Some((words, number)) = read_header(header)? else {
        return if data == 0 { Ok(0) } else { Err(Errno::EINVAL) };
    };
    let number = u64::try_from(number).map_err(|_| Errno::EINVAL)?;
    if data == 0 {
        return Ok(0);
    }
    let sets = sets_of(call.process, number)?;
    for word in 0..words {
        for (place, set) in (0..).zip([sets.effective, sets.permitted, sets.inheritable]) {
            usercopy::write_half(data + (word * 3 + place) * 4, (set >> (32 * word)) as u32)?;
        }
    }
    Ok(0)
}

pub(crate) fn capset(call: &mut Call<'_>) -> Result<u64> {
    let [header, data, ..] = call.arguments();
    let (words, number) = read_header(header)?.ok_or(Errno::EINVAL)?;
    if number != 0 && number as u64 != call.process.number() {
        return Err(Errno::EPERM);
    }
    let bytes = usercopy::read_vec(data, words as usize * 12)?;
    let (halves, _) = bytes.as_chunks::<4>();
    let half = |word: usize, place: usize| halves.get(word * 3 + place).map_or(0, |half| u32::from_le_bytes(*half));
    let wanted = [0, 1, 2].map(|place| (u64::from(half(0, place)) | u64::from(half(1, place)) << 32) & ALL);
    call.process.set_capabilities(call.process.attributes.capabilities().set(wanted)?).map(|()| 0)
}

/// What `prctl` does about them; `None`: the operation is another one.
pub(crate) fn control(
    process: &Process,
    wanted: u32,
    [argument, capability, more @ ..]: [u64; 4],
) -> Option<Result<u64>> {
    let before = process.attributes.capabilities();
    let mut now = before;
    let sets = &mut now;
    let outcome = match wanted {
        operation::PR_CAPBSET_READ => bit(argument).map(|bit| u64::from(sets.bounding & bit != 0)),
        operation::PR_CAPBSET_DROP => sets.drop_bound(argument).map(|()| 0),
        operation::PR_GET_SECUREBITS => Ok(u64::from(sets.secure_bits)),
        operation::PR_SET_SECUREBITS => sets.set_secure_bits(argument).map(|()| 0),
        operation::PR_GET_KEEPCAPS => Ok(u64::from(sets.secure_bits & secure::KEEP != 0)),
        operation::PR_SET_KEEPCAPS if argument > 1 => Err(Errno::EINVAL),
        operation::PR_SET_KEEPCAPS if sets.secure_bits & secure::KEEP << 1 != 0 => Err(Errno::EPERM),
        operation::PR_SET_KEEPCAPS => {
            sets.secure_bits = sets.secure_bits & !secure::KEEP | if argument == 1 { secure::KEEP } else { 0 };
            Ok(0)
        }
        operation::PR_CAP_AMBIENT if more != [0; 2] => Err(Errno::EINVAL),
        operation::PR_CAP_AMBIENT => ambient(sets, argument as u32, capability),
        _ => return None,
    };
    let kept = if now == before { Ok(()) } else { process.set_capabilities(now) };
    Some(kept.and(outcome))
}

fn ambient(sets: &mut Capabilities, wanted: u32, capability: u64) -> Result<u64> {
    match wanted {
        operation::PR_CAP_AMBIENT_CLEAR_ALL if capability == 0 => sets.ambient = 0,
        operation::PR_CAP_AMBIENT_IS_SET => return Ok(u64::from(sets.ambient & bit(capability)? != 0)),
        operation::PR_CAP_AMBIENT_RAISE => sets.raise_ambient(capability)?,
        operation::PR_CAP_AMBIENT_LOWER => sets.ambient &= !bit(capability)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
