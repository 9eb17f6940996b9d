//! A page that the relatives who hold a description share: the state of an eventfd or a timerfd; and what reading
//! either means.

use crate::descriptor::exported_pages;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::domain::domain;
use crate::hw::mapping::Mapping;
use crate::hw::usercopy;
use crate::wait;
use alloc::vec;
use core::sync::atomic::AtomicU64;
use linux_abi::errno::{Errno, Result};
use runtime::exposed::PageStamp;

/// The page.
#[derive(Debug)]
pub(crate) struct SharedCounter {
    shared: Mapping,
}

impl SharedCounter {
    /// A fresh one, all words 0.
    pub(crate) fn create() -> Result<Self> {
        exported_pages::reclaim_unused();
        let page = crate::budget::allocate()?;
        Ok(Self { shared: domain().mappings.lock().open(vec![page], domain().session_key, true)? })
    }

    /// One that a relative made.
    pub(crate) fn open(page: PageStamp) -> Result<Self> {
        Ok(Self { shared: domain().mappings.lock().open_noted(&[page], domain().opening_key(), true)? })
    }

    /// One of its words.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.shared.first_page()[index]
    }

    /// A number that no other one has.
    pub(crate) fn number(&self) -> u64 {
        self.shared.pages()[0].0
    }

    /// This process has no descriptor of it any more.
    pub(crate) fn discard(&self) {
        exported_pages::unmap_and_export(&self.shared);
    }
}

/// Bytes that are read and written.
pub(crate) const BYTES: u64 = 8;

/// `read` of what has one number at a time: the number, as soon as there is one.
pub(crate) fn read_number(
    object: &impl FileOps,
    description: &OpenFile,
    (to, count): (u64, u64),
    take: impl Fn() -> Option<u64>,
) -> Result<u64> {
    if count < BYTES {
        return Err(Errno::EINVAL);
    }
    usercopy::prepare(to, BYTES, true)?;
    loop {
        if let Some(number) = take() {
            usercopy::write_word(to, number)?;
            return Ok(BYTES);
        }
        if description.is_nonblocking() {
            return Err(Errno::EAGAIN);
        }
        wait::wait(&object.wait_terms(Event::Readable), None)?;
    }
}
