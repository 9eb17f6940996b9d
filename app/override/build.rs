//! Links the program, and the images of ExOS that it gives to its sessions.

#[path = "../../lib/exos/link/build.rs"]
mod link;

fn main() {
    link::programs(&["override", "beside"], &["own-offsets", "own-replacement"]);
}
