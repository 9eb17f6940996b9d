//! Every array that the kernel exposes, on a machine that has all of them: what can be watched in each.
#![no_std]
#![no_main]

extern crate alloc;

use abi::limits::PAGE_SIZE;
use abi::memory_map::EXPOSED_ARRAYS;
use abi::predicate::Term;
use runtime::Failure;
use runtime::predicate::{Fired, Operator, Predicate, clock as until};
use test_programs::arrays::exposed_arrays;
use test_programs::{Outcome, World, check, guest, refused};

guest! {
    Here this_machine_has_every_array;
    Here each_word_of_each_array_can_be_watched;
    Here nothing_behind_an_array_can_be_watched;
}

/// Times that a word is read again, if it changes while it is watched.
const TRIES: u32 = 100;

fn this_machine_has_every_array(_: &World) -> Outcome {
    let found = exposed_arrays().len();
    check!(found == EXPOSED_ARRAYS.len(), "{found} of {} arrays are there", EXPOSED_ARRAYS.len());
    Ok(())
}

/// Whether a predicate over one word wakes. A clock that is past ends it where the word does not.
fn wakes(source: u64, operator: Operator, value: u64) -> Result<bool, Failure> {
    let term = Term { source, operation: operator as u64, mask: u64::MAX, value };
    Ok(Predicate::new().or(&[term])?.or(&[until(0)])?.wait()? == Fired::Product(0))
}

/// Whether the kernel sees the same word at an address as this program.
fn is_seen(address: u64) -> Result<bool, Failure> {
    for _ in 0..TRIES {
        // SAFETY: the word lies in an exposed array.
        let value = unsafe { (address as *const u64).read_volatile() };
        if wakes(address, Operator::Equal, value)? && !wakes(address, Operator::NotEqual, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Each word of the first record, of the last one, and of one between them. Some words of a CPU change with each wait:
/// they can be watched, and no value is expected of them.
fn each_word_of_each_array_can_be_watched(_: &World) -> Outcome {
    for array in exposed_arrays() {
        for record in [0, array.records / 2, array.records - 1] {
            let start = array.start + record * array.record_bytes;
            let mut unseen = 0;
            for address in (start..start + array.record_bytes).step_by(8) {
                let seen = is_seen(address);
                check!(seen.is_ok(), "{} {record}, at {address:#x}: {seen:?}", array.name);
                unseen += u64::from(seen == Ok(false));
            }
            check!(
                unseen * 16 < array.record_bytes,
                "{} {record}: {unseen} words are not seen as they are",
                array.name
            );
        }
    }
    Ok(())
}

fn nothing_behind_an_array_can_be_watched(_: &World) -> Outcome {
    for array in exposed_arrays() {
        refused!(wakes(array.end().next_multiple_of(PAGE_SIZE), Operator::Equal, 0), BadAddress);
        for odd in [1, 4, 7] {
            check!(wakes(array.start + odd, Operator::Equal, 0).is_err(), "{} is watched at byte {odd}", array.name);
        }
    }
    Ok(())
}
