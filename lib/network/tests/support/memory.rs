//! Pages of a test: written once, counted until they are released.

use network::checksum::Sum;
use network::link::{Extent, Pages, Part};

#[derive(Default)]
pub struct Memory {
    pages: Vec<Option<Vec<u8>>>,
    free: Vec<usize>,
}

impl Memory {
    /// Puts bytes into a page at an odd place, so that sums of odd offsets are met.
    pub fn store(&mut self, bytes: &[u8]) -> Extent {
        let mut page = vec![0xa5; bytes.len() % 3];
        let offset = page.len() as u32;
        page.extend_from_slice(bytes);
        let number = self.free.pop().unwrap_or(self.pages.len());
        if number == self.pages.len() {
            self.pages.push(None);
        }
        self.pages[number] = Some(page);
        Extent { page: number as u64, offset, length: bytes.len() as u32, sum: Some(Sum::of(bytes)) }
    }

    /// Pages that are not released.
    pub fn held(&self) -> usize {
        self.pages.iter().flatten().count()
    }
}

impl Memory {
    pub fn bytes(&self, part: Part) -> &[u8] {
        let page = self.pages[part.page as usize].as_ref().expect("a page that was not released");
        &page[part.offset as usize..][..part.length as usize]
    }
}

impl Pages for Memory {
    fn sum(&self, part: Part) -> Sum {
        Sum::of(self.bytes(part))
    }

    fn append(&self, part: Part, to: &mut Vec<u8>) {
        to.extend_from_slice(self.bytes(part));
    }

    fn release(&mut self, extent: Extent) {
        let page = self.pages[extent.page as usize].take();
        assert!(page.is_some(), "released twice");
        self.free.push(extent.page as usize);
    }
}
