//! Waiting for many descriptors: the joined wakeup predicates of all of them.

use crate::descriptor::fd_pins::Used;
use crate::descriptor::object::Object;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::descriptor::readiness::{BROKEN, HUNG_UP, READABLE, SPECIAL, SleeperBell, WRITABLE, state};
use crate::hw::usercopy;
use crate::pipe::bells::with_deaths;
use crate::process::call::Call;
use crate::process::current::thread;
use crate::signal;
use crate::wait::{self, WakeReason};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::predicate::Term;

const NANOSECONDS: u64 = 1_000_000_000;
/// personality(2): a wait leaves its time-out as it was.
const STICKY_TIMEOUTS: u32 = 0x0400_0000;
/// What waits for bytes, or for the end of them.
const INCOMING: u16 = READABLE | linux::POLLRDHUP as u16 | SPECIAL;
const INVALID: u16 = linux::POLLNVAL as u16;

/// Entries of `poll` that need no room in the heap.
const FEW: usize = 8;

/// `struct pollfd` as a word: a descriptor, what is asked of it, and what came.
const fn polled(number: i32, wanted: u16) -> u64 {
    number as u32 as u64 | (wanted as u64) << 32
}

const fn wanted_of(polled: u64) -> u16 {
    (polled >> 32) as u16
}

const fn found_of(polled: u64) -> u16 {
    (polled >> 48) as u16
}

const fn with_found(polled: u64, found: u16) -> u64 {
    polled & 0xffff_ffff_ffff | (found as u64) << 48
}

/// The open file of an entry; nothing where the entry is skipped.
#[inline]
fn description_of(call: &Call<'_>, polled: u64) -> Option<Result<Used>> {
    u64::try_from(polled as i32).ok().map(|number| call.process.descriptors.description(number))
}

pub(crate) fn poll(call: &mut Call<'_>) -> Result<u64> {
    let [list, count, milliseconds, ..] = call.arguments();
    let timeout = u64::try_from(milliseconds as i32).ok().map(|milliseconds| milliseconds * 1_000_000);
    poll_list(call, list, count, timeout)
}

pub(crate) fn ppoll(call: &mut Call<'_>) -> Result<u64> {
    let [list, count, time, mask, bytes, _] = call.arguments();
    check_mask(mask, bytes)?;
    let timeout = duration(time, 1)?;
    with_time_left(call, (time, 1), timeout, |call| with_mask(call, mask, |call| poll_list(call, list, count, timeout)))
}

/// A set of signals has eight bytes.
pub(crate) fn check_mask(mask: u64, bytes: u64) -> Result<()> {
    if mask == 0 || bytes == 8 { Ok(()) } else { Err(Errno::EINVAL) }
}

pub(crate) fn select(call: &mut Call<'_>) -> Result<u64> {
    let [count, read, write, except, time, _] = call.arguments();
    let timeout = microseconds(time)?;
    with_time_left(call, (time, 1000), timeout, |call| select_sets(call, count, [read, write, except], timeout))
}

pub(crate) fn pselect6(call: &mut Call<'_>) -> Result<u64> {
    let [count, read, write, except, time, mask] = call.arguments();
    let timeout = duration(time, 1)?;
    let mask = if mask == 0 { 0 } else { usercopy::read_word(mask)? };
    with_time_left(call, (time, 1), timeout, |call| {
        with_mask(call, mask, |call| select_sets(call, count, [read, write, except], timeout))
    })
}

/// Waits, then writes the time that is left to where the program's time-out lies, in units of so many nanoseconds.
///
/// A time-out of 0 stays as it is, and so does every one under `STICKY_TIMEOUTS`. A time-out that cannot be written is
/// no error.
fn with_time_left(
    call: &Call<'_>,
    (place, unit): (u64, u64),
    timeout: Option<u64>,
    action: impl FnOnce(&Call<'_>) -> Result<u64>,
) -> Result<u64> {
    let Some(timeout) = timeout.filter(|timeout| *timeout != 0) else { return action(call) };
    let begin = runtime::clock::now();
    let outcome = action(call);
    if call.process.attributes.prctl.lock().personality & STICKY_TIMEOUTS == 0 {
        let left = timeout.saturating_sub(runtime::clock::now().saturating_sub(begin));
        let _ = usercopy::write_words(place, &[left / NANOSECONDS, left % NANOSECONDS / unit]);
    }
    outcome
}

/// A time as two words: seconds, and a rest in units of `unit` nanoseconds. 0: for ever.
pub(crate) fn duration(address: u64, unit: u64) -> Result<Option<u64>> {
    if address == 0 {
        return Ok(None);
    }
    let [seconds, rest] = usercopy::read_words::<2>(address)?;
    checked(seconds, rest, unit).map(Some)
}

/// The same in microseconds, of which there may be more than a second has.
fn microseconds(address: u64) -> Result<Option<u64>> {
    const SECOND: i64 = 1_000_000;
    if address == 0 {
        return Ok(None);
    }
    let [seconds, rest] = usercopy::read_words::<2>(address)?.map(|word| word as i64);
    checked(seconds.saturating_add(rest / SECOND) as u64, (rest % SECOND) as u64, 1000).map(Some)
}

fn checked(seconds: u64, rest: u64, unit: u64) -> Result<u64> {
    if rest >= NANOSECONDS / unit || (seconds as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    Ok(seconds.saturating_mul(NANOSECONDS).saturating_add(rest * unit))
}

/// Blocks other signals while something is done; the mask comes back once a signal was delivered.
pub(crate) fn with_mask(call: &Call<'_>, mask: u64, action: impl FnOnce(&Call<'_>) -> Result<u64>) -> Result<u64> {
    if mask == 0 {
        return action(call);
    }
    let mask = usercopy::read_word(mask)?;
    thread().signals.block_for_now(mask);
    let outcome = action(call);
    // A handler that interrupts runs under the mask of the call; the old one comes back behind it.
    if outcome != Err(Errno::EINTR) {
        thread().signals.restore_mask();
    }
    outcome
}

fn poll_list(call: &Call<'_>, list: u64, count: u64, timeout: Option<u64>) -> Result<u64> {
    let count = u64::from(count as u32);
    if count > call.process.attributes.limits.lock().soft(linux::RLIMIT_NOFILE) {
        return Err(Errno::EINVAL);
    }
    let (mut few, mut many) = ([0; FEW], Vec::new());
    let words = match few.get_mut(..count as usize) {
        Some(words) => words,
        None => {
            many.resize(count as usize, 0);
            &mut many[..]
        }
    };
    usercopy::read_into_words(list, words)?;
    let come = wait_for(call, words, timeout)?;
    usercopy::write_words(list, words)?;
    Ok(come)
}

/// Words of a set of descriptors that needs no room in the heap.
const SET_WORDS: usize = linux::__FD_SETSIZE as usize / 64;
/// Sets of descriptors, to read, to write, exceptional: what is waited for because of each, and what counts as having
/// come.
const WANTED: [u16; SETS] = [READABLE, WRITABLE, SPECIAL];
const MATCHING: [u16; SETS] = [READABLE | HUNG_UP | BROKEN | INVALID, WRITABLE | BROKEN | INVALID, SPECIAL];
const SETS: usize = 3;

/// Numbers beyond all descriptors are not looked at. The bound is the size of the table, which is as large as on Linux
/// for the highest descriptor, but no smaller than a set of the usual size.
fn below_all(call: &Call<'_>) -> usize {
    const STEP: usize = 128;
    let highest = call.process.descriptors.table.lock().iter().map(|(number, _)| number as usize).max().unwrap_or(0);
    ((highest / STEP + 1).next_power_of_two() * STEP).max(SET_WORDS * 64)
}

fn select_sets(call: &Call<'_>, count: u64, places: [u64; SETS], timeout: Option<u64>) -> Result<u64> {
    let count = usize::try_from(count as i32).map_err(|_| Errno::EINVAL)?;
    let count = if count > SET_WORDS * 64 { below_all(call).min(count) } else { count };
    let used = count.div_ceil(64);
    let words = used.max(1);
    let (mut few, mut many) = ([0; 2 * SETS * SET_WORDS], Vec::new());
    let room = match few.get_mut(..2 * SETS * words) {
        Some(room) => room,
        None => {
            many.resize(2 * SETS * words, 0);
            &mut many[..]
        }
    };
    let (asked, results) = room.split_at_mut(SETS * words);
    for (set, place) in asked.chunks_exact_mut(words).zip(places).filter(|(_, place)| *place != 0) {
        usercopy::read_into_words(place, &mut set[..used])?;
    }
    let mut watched = watched_of(asked, count);
    wait_for(call, &mut watched, timeout)?;
    let is_invalid = |polled: &&u64| found_of(**polled) & INVALID != 0;
    // What stands for a place alone is open, and no call on it would wait.
    if watched
        .iter()
        .filter(is_invalid)
        .any(|polled| call.process.descriptors.description(*polled as u32 as u64).is_err())
    {
        return Err(Errno::EBADF);
    }
    let mut total = 0;
    for polled in watched {
        let (word, bit) = (polled as u32 as usize / 64, 1 << (polled % 64));
        let sets = results.chunks_exact_mut(words).zip(asked.chunks_exact(words));
        for ((result, asked), matching) in sets.zip(MATCHING) {
            if asked[word] & bit != 0 && found_of(polled) & matching != 0 {
                result[word] |= bit;
                total += 1;
            }
        }
    }
    for (result, place) in results.chunks_exact(words).zip(places).filter(|(_, place)| *place != 0) {
        usercopy::write_words(place, &result[..used])?;
    }
    Ok(total)
}

/// The descriptors below a number that are in any of three sets, which follow each other, in order.
fn watched_of(sets: &[u64], count: usize) -> Vec<u64> {
    let words = sets.len() / SETS;
    let mut watched = Vec::with_capacity(FEW);
    for word in 0..count.div_ceil(64) {
        let asked: [u64; SETS] = core::array::from_fn(|set| sets[set * words + word]);
        let mut left = asked.into_iter().fold(0, |all, set| all | set);
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            let wanted = asked
                .into_iter()
                .zip(WANTED)
                .fold(0, |all, (set, wanted)| if set >> bit & 1 != 0 { all | wanted } else { all });
            if word * 64 + bit < count {
                watched.push(polled((word * 64 + bit) as i32, wanted));
            }
        }
    }
    watched
}

/// Notes what came of each: waits until something did, or the time is over. The result is of how many.
fn wait_for(call: &Call<'_>, watched: &mut [u64], timeout: Option<u64>) -> Result<u64> {
    let come = scan(call, watched);
    if come != 0 {
        return Ok(come);
    }
    if timeout == Some(0) {
        return if signal::handle_non_handler_signals() { Err(Errno::EINTR) } else { Ok(0) };
    }
    let deadline = timeout.map(|timeout| runtime::clock::now().saturating_add(timeout));
    loop {
        let terms = terms(call, watched);
        // What came while the terms were made is in none of them.
        let come = scan(call, watched);
        if come != 0 {
            return Ok(come);
        }
        // What came as late as the end of the time has come.
        if wait::wait(&terms, deadline)? == WakeReason::TimedOut {
            return Ok(scan(call, watched));
        }
    }
}

/// Notes what has come of each; the result is of how many.
fn scan(call: &Call<'_>, watched: &mut [u64]) -> u64 {
    let mut come = 0;
    for one in watched {
        let found = match description_of(call, *one) {
            None => 0,
            Some(Err(_)) => INVALID,
            Some(Ok(description)) if description.is_a_place() => INVALID,
            Some(Ok(description)) => state(&description, wanted_of(*one)),
        };
        *one = with_found(*one, found);
        come += u64::from(found != 0);
    }
    come
}

/// What becomes true when one of the wanted events comes, or an end where none is wanted; the thread that makes it come
/// is told who waits.
fn terms(call: &Call<'_>, watched: &[u64]) -> Vec<Term> {
    let bell = SleeperBell::of_thread();
    // Almost every descriptor has a term.
    if watched.len() <= wait::MOST_TERMS {
        let mut terms = terms_beside(call, watched, |_, _| false);
        let rings = |one: &u64| description_of(call, *one)?.ok().map(|open| bell.rings_for_holders(&open));
        if watched.iter().filter_map(rings).fold(false, |any, rings| any | rings) {
            terms.push(bell.term);
        }
        if terms.len() <= wait::MOST_TERMS {
            return terms;
        }
    }
    let mut deaths = Vec::new();
    let rings =
        |open: &OpenFile, wanted: u16| bell.rings_for(open, events(wanted)).map(|more| deaths.extend(more)).is_some();
    let others = terms_beside(call, watched, rings);
    with_deaths(core::iter::once(bell.term).chain(others).collect(), deaths)
}

/// The terms of all descriptors but those for which a bell rings.
fn terms_beside(call: &Call<'_>, watched: &[u64], mut rings: impl FnMut(&OpenFile, u16) -> bool) -> Vec<Term> {
    let mut terms = Vec::new();
    for one in watched {
        if let Some(Ok(description)) = description_of(call, *one)
            && !rings(&description, wanted_of(*one))
        {
            let mut wanted = events(wanted_of(*one)).peekable();
            if wanted.peek().is_none() {
                terms.extend(description.end_terms());
            }
            let is_for_bytes = wanted_of(*one) & READABLE != 0;
            for event in wanted {
                description.note_waiter(event);
                // Bytes that wait are no news to a sleeper that waits for urgent ones or an end.
                let waits_for_news = event == Event::Readable && !is_for_bytes;
                terms.extend(if waits_for_news { description.changes(event) } else { description.terms(event) });
            }
            // A mount table can be read all the time.
            if matches!(description.object, Object::Text(_)) {
                terms.extend(description.changes(Event::Readable));
            }
        }
    }
    terms
}

fn events(wanted: u16) -> impl Iterator<Item = Event> {
    let readable = (wanted & INCOMING != 0).then_some(Event::Readable);
    readable.into_iter().chain((wanted & WRITABLE != 0).then_some(Event::Writable))
}
