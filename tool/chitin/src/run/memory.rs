//! Memory of the machine: what was asked for, checked, or chosen by the size of the root, which lies in it.

use crate::failure::{Failure, Result};
use crate::root::Tree;
use crate::size;

/// MiB that a machine has where its root fits in.
const USUAL: u64 = 256;
/// MiB that a machine needs beyond its root.
const LEAST: u64 = 32;
/// MiB for the program that a machine of the usual size leaves beyond its root.
const USUAL_ROOM: u64 = 192;
/// MiB for the program that are chosen beyond a large root: PostgreSQL cannot make its first database with 512.
/// The host gives memory when the machine touches it.
const ROOM: u64 = 1280;
/// A choice is a multiple of so many MiB.
const STEP: u64 = 64;

/// MiB of memory for a machine with this root.
///
/// # Errors
/// When what was asked for is too little, or the host has too little.
pub fn choose(asked: Option<u64>, root: &Tree) -> Result<u64> {
    choice(asked, root.packed_size().div_ceil(1 << 20), size::host_memory() >> 20).map_err(Failure::new)
}

fn choice(asked: Option<u64>, root: u64, host: u64) -> std::result::Result<u64, String> {
    let least = root + LEAST;
    match asked {
        Some(asked) if asked < least => {
            Err(format!("--memory {asked}M is too little: this root needs {least}M at least"))
        }
        Some(asked) => Ok(asked),
        None if root + USUAL_ROOM <= USUAL => Ok(USUAL),
        None if least > host => {
            Err(format!("this root is {root} MiB and lies in the machine's memory: this host has {host} MiB of memory"))
        }
        // Half as much again for what the program makes of its files.
        None => Ok((root + root / 2 + ROOM).next_multiple_of(STEP).min(host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_root_gets_more_and_too_little_is_refused() {
        assert_eq!(choice(None, 5, 8000), Ok(256));
        assert_eq!(choice(None, 400, 8000), Ok(1920));
        assert_eq!(choice(None, 7900, 8000), Ok(8000));
        assert!(choice(None, 8000, 8000).unwrap_err().contains("8000 MiB"));
        assert!(choice(Some(100), 400, 8000).unwrap_err().contains("432M"));
        assert_eq!(choice(Some(500), 400, 8000), Ok(500));
    }
}
