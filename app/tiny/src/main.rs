//! tiny
#![no_std]
#![no_main]
#![forbid(unsafe_code)]
runtime::entry!(main);
fn main() -> u32 {
    runtime::println!("hello from environment {}", runtime::area::number().0);
    0
}
