//! Packets on interface 0: filters, rings and sending, honest and evil; what they cost.
#![no_std]
#![no_main]

extern crate alloc;

mod others;
mod receive;
mod wire;

use receive::*;
use test_programs::guest;

guest! {
    Here a_frame_reaches_its_ring;
    Here an_idle_cpu_wakes_by_a_frame;
    Here long_frames_go_on_in_the_next_slots;
    Here the_more_specific_filter_wins;
    Here drops_are_counted_by_reason;
    Here a_full_ring_is_not_written;
}
