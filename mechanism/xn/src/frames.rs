//! Contents of pages, as XN sees them.
//!
//! A kernel has no slices of pages that programs can write, so XN copies in and out of its own workspace.

/// The pages of the registry, by index. Every offset and length lies in a page.
pub trait Frames {
    /// Copies bytes out of a page.
    fn load(&self, page: usize, offset: usize, into: &mut [u8]);
    /// Copies bytes into a page.
    fn store(&mut self, page: usize, offset: usize, from: &[u8]);
}
