//! Links `init`, an ordinary program of the runtime.

#[path = "../exos/link/build.rs"]
mod link;

fn main() {
    link::programs(&["init"], &[]);
}
