//! The ExOS image: one copy of the library's text for all processes. It begins with the header that
//! `exos::hw::header` describes; it is never started as a program by itself.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
exos::image!(exos::override_tables::OverrideTables::EXOS);

#[cfg(not(target_os = "none"))]
fn main() {}
