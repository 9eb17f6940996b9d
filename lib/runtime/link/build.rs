// The whole build script of a program: `include!("../../lib/runtime/link/build.rs");` in its build.rs, from any folder
// two levels below the root.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/runtime/link/program.ld");
    println!("cargo:rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bins=-T{script}");
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo:rustc-link-arg-bins=--no-pie");
    }
}
