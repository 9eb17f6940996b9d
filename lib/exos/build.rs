//! Link arguments of the two programs: `init` is an ordinary program of the runtime, `exos` the image that all
//! processes share.

fn main() {
    let manifest = env!("CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=../runtime/link/program.ld");
    println!("cargo:rerun-if-changed=link/image.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bin=init=-T{manifest}/../runtime/link/program.ld");
        println!("cargo:rustc-link-arg-bin=exos=-T{manifest}/link/image.ld");
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo:rustc-link-arg-bins=--no-pie");
    }
}
