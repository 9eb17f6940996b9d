//! Links the two programs: `init` is an ordinary program of the runtime, `exos` the image that all processes share.

#[path = "link/build.rs"]
mod link;

fn main() {
    link::programs(&["init"], &["exos"]);
}
