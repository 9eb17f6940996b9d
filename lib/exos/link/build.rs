//! What the build script of a crate with images of ExOS does: those are linked with `image.ld`, its other programs with
//! the layout that the runtime gives.

use std::env;

/// Hands the layouts to the linker, where the target is the machine.
pub(crate) fn programs(programs: &[&str], images: &[&str]) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let layouts =
        [(programs, format!("{root}/lib/runtime/link/program.ld")), (images, format!("{root}/lib/exos/link/image.ld"))];
    for (names, script) in layouts {
        println!("cargo:rerun-if-changed={script}");
        if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
            names.iter().for_each(|name| println!("cargo:rustc-link-arg-bin={name}=-T{script}"));
        }
    }
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo:rustc-link-arg-bins=--no-pie");
    }
}
