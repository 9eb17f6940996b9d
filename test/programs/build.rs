//! Links the programs of this folder with the layout that the runtime gives them.

#[path = "../../lib/runtime/link/build.rs"]
mod link;

fn main() {
    link::program();
}
