//! Storage: volumes of XN in the kernel, two mutually distrustful file systems on one disk, and what hostile callers
//! and programs cannot do.
#![no_std]
#![no_main]

extern crate alloc;

mod bounds;
mod costs;
mod faults;
mod program;
mod volume;

use abi::device::operation::WRITE;
use abi::limits::{TRANSACTION_BLOCKS, TRANSACTION_BYTES};
use abi::storage::{FLUSH, PROGRAM, ROOT, UNDECLARED, action, phase, state, step, usage};
use alloc::format;
use bounds::{a_recovery_takes_few_steps_for_each_block, the_kernel_has_little_memory_for_blocks};
use core::sync::atomic::Ordering::Acquire;
use costs::fault_153_rows_of_storage_64_to_a_batch;
use faults::{
    fault_63_programs_that_explode_are_stopped, fault_66_no_cycle_of_writes_can_be_made,
    fault_69_a_disk_that_writes_wrongly_is_found_or_harmless,
};
use program::{DATA, DIRECTORY, ENDLESS, FIRST_ENTRY, GREEDY, OUTSIDE, OWNER};
use runtime::{Error, KeyIndex, UserAddress, channel, exposed, key, syscall};
use test_programs::{Outcome, World, check, granted, guest, refused};
use volume::{
    KEY, SECRET, WORST, add, flush, info, modify, on_a_volume, once, open, persist, person, read, run, settled, submit,
    transaction, tree, visit, write,
};
use xn::format::BLOCK_SIZE;

guest! {
    Here what_is_durable_is_there_after_another_mount;
    Here what_was_not_closed_is_recovered;
    Here fault_61_programs_that_do_not_end_or_look_outside_are_refused;
    Here fault_62_only_the_declared_difference_is_accepted_by_the_kernel;
    Here fault_63_programs_that_explode_are_stopped;
    Here fault_64_a_parent_waits_for_its_children_in_the_kernel;
    Here fault_65_a_freed_block_is_held_until_nothing_leads_to_it;
    Here fault_66_no_cycle_of_writes_can_be_made;
    Here fault_67_a_fresh_block_shows_nothing_of_its_former_owner;
    Here fault_97_file_systems_do_not_reach_into_each_other;
    Here fault_69_a_disk_that_writes_wrongly_is_found_or_harmless;
    Here fault_70_damage_is_found_when_a_block_is_bound;
    Here the_kernel_has_little_memory_for_blocks;
    Here a_recovery_takes_few_steps_for_each_block;
    Here a_disk_with_a_volume_is_not_raw;
    Here steps_need_their_right;
    Here arguments_that_make_no_sense;
    Here fault_153_rows_of_storage_64_to_a_batch;
    Here what_the_steps_take;
    Child without_a_key_there_is_nothing;
}

fn what_is_durable_is_there_after_another_mount(_: &World) -> Outcome {
    on_a_volume(|_| {
        let (alice, name) = person()?;
        let own = tree(alice, name, 300, 1)?;
        granted!(add(alice, 1, 0, 301, DATA));
        granted!(syscall::block_bind(alice, 1, 0, 301, 2));
        granted!(write(alice, 2, &[7; BLOCK_SIZE]));
        persist(2)?;
        persist(1)?;
        let root = *b"the root of a file system of a test             ";
        granted!(once(KEY, step::ENTER, own << 8 | 3, root.as_ptr() as u64));
        persist(0)?;
        granted!(run(step::STOP, 0, 0));
        check!(once(KEY, step::STATE, 0, 0).is_ok_and(|state| state & 0xff == phase::READ_ONLY), "it is not read only");
        granted!(run(step::CLOSE, 0, 0));
        open()?;
        let again = granted!(once(KEY, step::MOUNT, 3, 0));
        check!(granted!(syscall::block_bind(alice, ROOT | again, 0, 0, 5)) == 1, "a block of the disk was not read");
        check!(settled(5), "the root does not come");
        granted!(syscall::block_bind(alice, 5, 0, 301, 6));
        check!(settled(6), "the data does not come");
        let mut bytes = [0; BLOCK_SIZE];
        granted!(read(alice, 6, &mut bytes));
        check!(bytes == [7; BLOCK_SIZE], "it reads otherwise");
        granted!(syscall::block_release(alice, 6));
        granted!(syscall::block_release(alice, 5));
        check!(info(6).name.load(Acquire) == 0, "the frame is not empty");
        Ok(granted!(key::discard(alice)))
    })
}

fn what_was_not_closed_is_recovered(_: &World) -> Outcome {
    on_a_volume(|_| {
        let (alice, name) = person()?;
        let own = tree(alice, name, 300, 1)?;
        granted!(add(alice, 1, 0, 301, DATA));
        granted!(add(alice, 1, 1, 302, DIRECTORY));
        granted!(syscall::block_bind(alice, 1, 0, 301, 2));
        granted!(syscall::block_bind(alice, 1, 0, 302, 3));
        for frame in [2, 3, 1] {
            persist(frame)?;
        }
        granted!(once(KEY, step::ENTER, own << 8, [9_u8; 48].as_ptr() as u64));
        persist(0)?;
        // It is never on the disk.
        granted!(add(alice, 1, 2, 303, DATA));
        granted!(run(step::CLOSE, 0, 0));
        granted!(run(step::OPEN, 0, 0));
        for slot in [DIRECTORY, DATA] {
            granted!(run(step::TEMPLATE, slot.into(), 0));
        }
        granted!(run(step::MAP, 0, 0));
        granted!(once(KEY, step::RECOVER, 0, 0));
        refused!(once(KEY, step::RECOVERED, 0, 0), Again);
        refused!(once(KEY, step::START, 0, 0), NotPermitted);
        let again = granted!(once(KEY, step::MOUNT, 0, 0));
        granted!(syscall::block_bind(alice, ROOT | again, 0, 0, 1));
        check!(settled(1), "the root does not come");
        visit(1)?;
        granted!(syscall::block_bind(alice, 1, 0, 302, 2));
        check!(settled(2), "the directory does not come");
        visit(2)?;
        granted!(once(KEY, step::RECOVERED, 0, 0));
        let uses = granted!(once(KEY, step::MAP_READ, 300, 0));
        let of = |block: u64| uses >> (block % 32 * 2) & 3;
        let found = [300, 301, 302, 303].map(of);
        check!(found == [usage::USED, usage::USED, usage::USED, usage::FREE], "uses after recovery: {found:?}");
        granted!(run(step::START, 0, 0));
        Ok(granted!(key::discard(alice)))
    })
}

fn fault_61_programs_that_do_not_end_or_look_outside_are_refused(_: &World) -> Outcome {
    on_a_volume(|_| {
        for slot in [OUTSIDE, ENDLESS, GREEDY] {
            let refusal = run(step::TEMPLATE, slot.into(), 0).map_err(|failure| (failure.error, failure.detail));
            let of_program = |detail: u64| detail & (PROGRAM | UNDECLARED) != 0;
            let told = matches!(refusal, Err((Error::BadArgument, detail)) if of_program(detail));
            check!(told, "template {slot} gave {refusal:?}");
            // A refused template makes no tree.
            refused!(once(KEY, step::CREATE, 300, slot.into()), BadArgument);
        }
        refused!(run(step::TEMPLATE, DIRECTORY.into(), 0), NotFree);
        Ok(())
    })
}

fn fault_62_only_the_declared_difference_is_accepted_by_the_kernel(_: &World) -> Outcome {
    on_a_volume(|_| {
        let (alice, name) = person()?;
        tree(alice, name, 300, 1)?;
        let entry = |block: u64| (block | u64::from(DATA) << 56).to_le_bytes();
        let place = FIRST_ENTRY;
        let version = info(1).version.load(Acquire);
        let allocate = |block| (block, action::ALLOCATE, DATA);
        // Nothing declared; another block declared; more declared; another template declared; a free block freed.
        for declared in [
            &[][..],
            &[allocate(302)],
            &[allocate(301), allocate(302)],
            &[(301, action::ALLOCATE, DIRECTORY)],
            &[(301, action::FREE, DATA)],
        ] {
            refused!(modify(alice, &transaction(1, place, &entry(301), declared)), BadArgument);
        }
        // Its own root, a fixed block, a block behind the end, and one twice.
        refused!(add(alice, 1, 0, 300, DATA), NotFree);
        refused!(add(alice, 1, 0, 1, DATA), BadArgument);
        refused!(add(alice, 1, 0, 4096, DATA), BadArgument);
        let twice = [entry(301), entry(301)].concat();
        refused!(modify(alice, &transaction(1, place, &twice, &[allocate(301)])), BadArgument);
        let mut bytes = [0; BLOCK_SIZE];
        granted!(read(alice, 1, &mut bytes));
        check!(bytes[place..508].iter().all(|byte| *byte == 0), "a refused transaction has changed the block");
        check!(info(1).version.load(Acquire) % 2 == 0 && version % 2 == 0, "a version stays odd");
        granted!(add(alice, 1, 0, 301, DATA));
        Ok(granted!(key::discard(alice)))
    })
}

fn fault_64_a_parent_waits_for_its_children_in_the_kernel(_: &World) -> Outcome {
    on_a_volume(|_| {
        let (alice, name) = person()?;
        let own = tree(alice, name, 300, 1)?;
        persist(1)?;
        granted!(once(KEY, step::ENTER, own << 8, [1_u8; 48].as_ptr() as u64));
        persist(0)?;
        granted!(add(alice, 1, 0, 301, DATA));
        let refusal = syscall::block_submit(KEY, 1).map_err(|failure| (failure.error, failure.detail));
        check!(refusal == Err((Error::Unready, 301)), "the parent first gave {refusal:?}");
        granted!(syscall::block_bind(alice, 1, 0, 301, 2));
        granted!(submit(2));
        check!(settled(2), "the child does not come to an end");
        let refusal = syscall::block_submit(KEY, 1).map_err(|failure| (failure.error, failure.detail & FLUSH));
        check!(refusal == Err((Error::Unready, FLUSH)), "the parent before the flush gave {refusal:?}");
        refused!(once(KEY, step::STOP, 0, 0), InUse);
        flush()?;
        persist(1)
    })
}

fn fault_65_a_freed_block_is_held_until_nothing_leads_to_it(_: &World) -> Outcome {
    on_a_volume(|_| {
        let (alice, name) = person()?;
        tree(alice, name, 300, 1)?;
        granted!(add(alice, 1, 0, 301, DATA));
        granted!(syscall::block_bind(alice, 1, 0, 301, 2));
        persist(2)?;
        persist(1)?;
        let free = [(301, action::FREE, DATA)];
        granted!(modify(alice, &transaction(1, FIRST_ENTRY, &[0; 8], &free)));
        refused!(add(alice, 1, 1, 301, DATA), NotFree);
        refused!(once(KEY, step::RECLAIM, 0, 0), Again);
        refused!(add(alice, 1, 1, 301, DATA), NotFree);
        persist(1)?;
        refused!(once(KEY, step::RECLAIM, 0, 0), Again);
        Ok(granted!(add(alice, 1, 1, 301, DATA)))
    })
}

fn fault_67_a_fresh_block_shows_nothing_of_its_former_owner(_: &World) -> Outcome {
    on_a_volume(|raw| {
        let (alice, name) = person()?;
        tree(alice, name, 300, 1)?;
        granted!(add(alice, 1, 0, 301, DATA));
        check!(granted!(syscall::block_bind(alice, 1, 0, 301, 2)) == 0, "a fresh block was read");
        let mut bytes = [1; BLOCK_SIZE];
        granted!(read(alice, 2, &mut bytes));
        check!(bytes == [0; BLOCK_SIZE], "a fresh block is not zero");
        granted!(run(step::CLOSE, 0, 0));
        check!(raw.read(301)? == [SECRET; BLOCK_SIZE], "the disk had nothing to show");
        granted!(run(step::OPEN, 0, 0));
        Ok(())
    })
}

fn fault_97_file_systems_do_not_reach_into_each_other(_: &World) -> Outcome {
    on_a_volume(|_| {
        let ((alice, hers), (bob, his)) = (person()?, person()?);
        tree(alice, hers, 300, 1)?;
        tree(bob, his, 310, 2)?;
        granted!(add(alice, 1, 0, 301, DATA));
        granted!(syscall::block_bind(alice, 1, 0, 301, 3));
        granted!(write(alice, 3, b"for alice only"));
        let mut bytes = [0; 64];
        refused!(read(bob, 3, &mut bytes), NotPermitted);
        refused!(read(bob, 1, &mut bytes), NotPermitted);
        check!(bytes == [0; 64], "a refused read has copied something");
        refused!(write(bob, 3, b"by bob"), NotPermitted);
        refused!(syscall::block_bind(bob, 1, 0, 301, 4), NotPermitted);
        refused!(add(bob, 1, 1, 302, DATA), NotPermitted);
        // He shows his own block and changes hers; he claims her block for his tree; he names it in his sector.
        let mut mixed = transaction(1, OWNER, &his.to_le_bytes(), &[]);
        mixed.shown[0] = 2;
        refused!(modify(bob, &mixed), NotPermitted);
        refused!(add(bob, 2, 0, 301, DATA), NotFree);
        refused!(add(bob, 2, 0, 300, DIRECTORY), NotFree);
        refused!(syscall::block_bind(bob, 2, 0, 301, 4), BadArgument);
        // Metadata is changed by transactions alone, by its owner too.
        refused!(write(alice, 1, b"a pointer"), NotPermitted);
        refused!(write(KEY, 0, b"a root"), NotPermitted);
        refused!(read(KEY, 0, &mut bytes), NotPermitted);
        // The key above both is no owner of theirs: names are what the program makes of them.
        refused!(read(KEY, 3, &mut bytes), NotPermitted);
        granted!(add(bob, 2, 0, 311, DATA));
        granted!(read(alice, 3, &mut bytes));
        check!(bytes.starts_with(b"for alice only"), "she reads otherwise");
        granted!(key::discard(alice));
        Ok(granted!(key::discard(bob)))
    })
}

fn fault_70_damage_is_found_when_a_block_is_bound(_: &World) -> Outcome {
    on_a_volume(|raw| {
        let (alice, name) = person()?;
        let own = tree(alice, name, 300, 1)?;
        persist(1)?;
        granted!(once(KEY, step::ENTER, own << 8, [1_u8; 48].as_ptr() as u64));
        persist(0)?;
        granted!(run(step::STOP, 0, 0));
        granted!(run(step::CLOSE, 0, 0));
        let mut bytes = raw.read(300)?;
        bytes[FIRST_ENTRY] ^= 1;
        raw.write(300, &bytes)?;
        open()?;
        let tree = granted!(once(KEY, step::MOUNT, 0, 0));
        granted!(syscall::block_bind(alice, ROOT | tree, 0, 0, 1));
        check!(!settled(1), "a damaged block is there");
        check!(info(1).name.load(Acquire) == 0, "a damaged block keeps its frame");
        refused!(read(alice, 1, &mut bytes), BadArgument);
        Ok(granted!(key::discard(alice)))
    })
}

fn a_disk_with_a_volume_is_not_raw(_: &World) -> Outcome {
    on_a_volume(|raw| {
        refused!(raw.submit(WRITE, 300), InUse);
        check!(raw.read(300)? == [SECRET; BLOCK_SIZE], "a reader of the disk reads otherwise");
        refused!(once(KEY, step::OPEN, 0, 0), InUse);
        Ok(())
    })
}

fn steps_need_their_right(_: &World) -> Outcome {
    on_a_volume(|_| {
        let (stranger, _) = person()?;
        for step in step::OPEN..=step::DROP {
            refused!(once(stranger, step, 0, 0), NotPermitted);
            refused!(once(KeyIndex(43), step, 0, 0), NoSuchKey);
        }
        granted!(once(stranger, step::STATE, 0, 0));
        Ok(granted!(key::discard(stranger)))
    })
}

fn arguments_that_make_no_sense(_: &World) -> Outcome {
    on_a_volume(|_| {
        let frames = exposed::kernel().frames.load(Acquire);
        let (alice, name) = person()?;
        tree(alice, name, 300, 1)?;
        let mut bytes = [0; 8];
        for frame in [frames, u64::MAX, 1 << 32, 60] {
            refused!(read(alice, frame, &mut bytes), BadArgument);
            refused!(write(alice, frame, &bytes), BadArgument);
            refused!(syscall::block_submit(alice, frame), BadArgument);
            refused!(syscall::block_release(alice, frame), BadArgument);
            check!(once(KEY, step::CHECK, frame, 0).is_err(), "a volume that is open is recovered");
        }
        refused!(syscall::block_bind(alice, frames, 0, 301, 3), BadArgument);
        refused!(syscall::block_bind(alice, 1, 8, 301, 3), BadArgument);
        refused!(syscall::block_bind(alice, 1, 0, 301, frames), BadArgument);
        refused!(syscall::block_bind(alice, 1, 0, 301, 3), BadArgument);
        refused!(syscall::block_bind(alice, ROOT | 0xffff, 0, 0, 3), BadArgument);
        refused!(syscall::block_bind(alice, ROOT | 1 << 20, 0, 0, 3), BadArgument);
        for (offset, length) in [(4096, 1), (0, 4097), (u64::MAX, 2), (0, 0)] {
            let address = UserAddress(bytes.as_mut_ptr() as u64);
            // SAFETY: the call is refused before it copies.
            refused!(unsafe { syscall::block_read(alice, 1, offset, address, length) }, BadArgument);
        }
        // SAFETY: the kernel's half is no memory of a caller.
        refused!(unsafe { syscall::block_read(alice, 1, 0, UserAddress(1 << 63), 8) }, BadAddress);
        let mut wanted = transaction(1, FIRST_ENTRY, &[0; 8], &[]);
        for counts in [[17, 1, 0], [1, 9, 0], [1, 1, 9], [1, 0, 0], [u32::MAX; 3]] {
            wanted.counts = counts;
            refused!(modify(alice, &wanted), BadArgument);
        }
        let long = transaction(1, 508, &[0; 8], &[]);
        refused!(modify(alice, &long), BadArgument);
        let mut long = transaction(1, FIRST_ENTRY, &[0; 8], &[]);
        long.changes[0].length = TRANSACTION_BYTES as u16 + 1;
        refused!(modify(alice, &long), BadArgument);
        let mut many = transaction(1, FIRST_ENTRY, &[0; 8], &[(301, action::ALLOCATE, DATA)]);
        many.declared[0].count = TRANSACTION_BLOCKS as u32 + 1;
        refused!(modify(alice, &many), TooMany);
        refused!(once(KEY, 99, 0, 0), BadArgument);
        refused!(once(KEY, step::TEMPLATE, 64, 0), BadArgument);
        refused!(once(KEY, step::MAP, 1, 0), BadArgument);
        refused!(once(KEY, step::MOUNT, u64::MAX, 0), BadArgument);
        refused!(once(KEY, step::MAP_READ, u64::MAX, 0), Absent);
        check!(info(1).state.load(Acquire) & state::RESIDENT != 0, "the block is gone");
        Ok(granted!(key::discard(alice)))
    })
}

/// After all others: the dearest call of each step.
fn what_the_steps_take(_: &World) -> Outcome {
    for (step, worst) in WORST.iter().enumerate() {
        let worst = worst.load(Acquire);
        check!(worst > 0 || step == step::DROP as usize || step == step::LEAVE as usize, "step {step} was not called");
        channel::measurement(&format!("step {step} of a volume"), worst, "instructions");
    }
    Ok(())
}

/// A child that has no key to the disk sees the records and nothing else.
fn without_a_key_there_is_nothing() -> Outcome {
    for key in (0..44).map(KeyIndex) {
        for step in step::OPEN..=step::DROP {
            let error = once(key, step, 0, 0).map_err(|failure| failure.error);
            let told = matches!(error, Err(Error::NoSuchKey | Error::NotPermitted));
            check!(told, "key {} gave {error:?} for step {step}", key.0);
        }
    }
    Ok(())
}
