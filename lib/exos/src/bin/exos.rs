//! The ExOS image: one copy of the library's text for all processes. It begins with the header that
//! `exos::hw::header` describes; it is never started as a program by itself.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

exos::image!(exos::override_tables::OverrideTables::EXOS);
