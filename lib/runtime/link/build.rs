//! What the build script of every program on the runtime does. Two lines in `build.rs` of a folder two levels below the
//! root: `#[path = "../../lib/runtime/link/build.rs"] mod link;` and `fn main() { link::program(); }`.

use std::env;

/// Hands the layout of programs to the linker, where the target is the machine.
pub(crate) fn program() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/runtime/link/program.ld");
    println!("cargo:rerun-if-changed={script}");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bins=-T{script}");
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo:rustc-link-arg-bins=--no-pie");
    }
}
