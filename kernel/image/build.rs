//! Hands the kernel's linker script and page size to the linker; no other crate needs link arguments.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=kernel.ld");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let directory = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rustc-link-arg-bins=-T{directory}/kernel.ld");
    println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
    println!("cargo:rustc-link-arg-bins=--no-dynamic-linker");
}
