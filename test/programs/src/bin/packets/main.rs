//! Packets on interface 0: filters, rings and sending, honest and evil; what they cost.
#![no_std]
#![no_main]

extern crate alloc;

mod code;
mod costs;
mod evil;
mod others;
mod receive;
mod wire;

use code::*;
use costs::*;
use evil::*;
use receive::*;
use test_programs::guest;

guest! {
    Here a_frame_reaches_its_ring;
    Here an_idle_cpu_wakes_by_a_frame;
    Here long_frames_go_on_in_the_next_slots;
    Here the_more_specific_filter_wins;
    Here drops_are_counted_by_reason;
    Here a_full_ring_is_not_written;
    Here frames_leave_by_a_card;
    Here fault_161_filters_beyond_the_parent_or_over_others;
    Here fault_161_forged_headers;
    Here fault_162_offloads_over_fixed_bytes;
    Here fault_162_a_header_changed_during_the_call;
    Here fault_52_garbage;
    Here rings_that_make_no_sense;
    Here ring_pages_freed_and_taken;
    Here a_revocation_takes_rings;
    Here fault_53_the_owner_dies;
    Here fault_51_quotas;
    Here fault_54_filters_until_there_is_no_room;
    Here fault_55_constants_that_are_instructions;
    Here what_a_packet_costs;
    Here fault_153_rows_of_packets_64_to_a_batch;
    Child an_environment_without_a_key_gets_nothing;
}
