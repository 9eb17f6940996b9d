//! Registers and what else a CPU holds: after every switch one sees one's own values or zero, never another's.
//!
//! A painter fills every register it can reach with a pattern and gives the CPU away in every way. The observer looks
//! at what the kernel gives it when its own slice begins.
//!
//! `painter` is the painter and `observer` how it is looked at; the others are about one fault, or some that belong together.
#![no_std]
#![no_main]

extern crate alloc;

mod bases;
mod general;
mod observer;
mod painter;
mod shown;
mod successor;
mod vector_state;

use bases::fault_32_segment_bases_and_protection_keys;
use general::{fault_31_registers_after_a_call, fault_31_registers_after_a_yield, fault_31_registers_at_the_beginning};
use shown::{
    fault_34_frames_hold_nothing_else, fault_34_unused_words_are_zero, fault_35_no_kernel_address_is_exposed,
    fault_36_beyond_what_is_exposed,
};
use successor::{
    fault_31_registers_of_one_that_begins_in_anothers_pages, fault_31_registers_of_one_that_begins_in_anothers_slot,
};
use test_programs::guest;
use vector_state::{
    fault_30_reserved_bits_in_vector_state, fault_30_vector_registers_over_a_transfer,
    fault_30_vector_state_of_another, fault_30_vector_unit_off,
};

guest! {
    Here fault_30_vector_state_of_another;
    Here fault_30_vector_registers_over_a_transfer;
    Child fault_30_reserved_bits_in_vector_state;
    Child fault_30_vector_unit_off;
    Here fault_31_registers_after_a_yield;
    Here fault_31_registers_at_the_beginning;
    Child fault_31_registers_after_a_call;
    Here fault_31_registers_of_one_that_begins_in_anothers_pages;
    Here fault_31_registers_of_one_that_begins_in_anothers_slot;
    Here fault_32_segment_bases_and_protection_keys;
    Child fault_34_unused_words_are_zero;
    Child fault_34_frames_hold_nothing_else;
    Here fault_35_no_kernel_address_is_exposed;
    Child fault_36_beyond_what_is_exposed;
}

/// What painters leave in registers.
const PATTERN: u64 = 0xdead_beef_dead_beef;
/// What observers have in theirs.
const OWN: u64 = 0x0123_4567_89ab_cdef;
