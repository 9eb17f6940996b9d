//! Links `exos`, the image that all processes share.

#[path = "link/build.rs"]
mod link;

fn main() {
    link::programs(&[], &["exos"]);
}
