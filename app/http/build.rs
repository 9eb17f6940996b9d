//! Links the program with the layout that the runtime gives it.

#[path = "../../lib/runtime/link/build.rs"]
mod link;

fn main() {
    link::program();
}
