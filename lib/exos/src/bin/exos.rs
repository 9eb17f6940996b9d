//! The ExOS image: one copy of the library's text for all processes. It begins with the header that
//! `exos::user_memory::header` describes; it is never started as a program by itself.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod guest {
    // Keeps the header in the image.
    use exos as _;

    runtime::entry!(main);

    /// A process begins at a function that its maker names; without one there is nothing to do.
    fn main() -> u32 {
        runtime::entry::START_FAILURE_STATUS
    }
}

#[cfg(not(target_os = "none"))]
fn main() {}
