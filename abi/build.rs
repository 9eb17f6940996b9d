//! Hashes the sources of this crate: the hash is the version of the interface.

use std::{env, fs, path::PathBuf};

/// FNV-1a, 64 bits: enough to tell two versions apart, and a few lines long.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn main() {
    let mut files: Vec<PathBuf> = fs::read_dir("src")
        .expect("abi/src exists")
        .map(|entry| entry.expect("readable directory entry").path())
        .collect();
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for file in &files {
        let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
        hash = fnv1a(hash, name.as_bytes());
        hash = fnv1a(hash, &fs::read(file).expect("readable source file"));
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let text =
        format!("/// Hash of every source file of this crate (FNV-1a).\npub const VERSION: u64 = {hash:#018x};\n");
    fs::write(out.join("version.rs"), text).expect("OUT_DIR is writable");
    println!("cargo:rerun-if-changed=src");
}
