//! The unsafe steps of making an environment: maps into another address space, and the creation itself.

use abi::environment::Specification;
use abi::limits::PRIVATE_PAGES;
use abi::page_table::MapRow;
use linux_abi::errno::{Errno, Result};
use runtime::address_space::{Access, AddressSpace};
use runtime::{EnvironmentId, Failure, KeyIndex, PageNumber, UserAddress, area, syscall};

/// Edits an address space that is not the own one.
pub fn map(space: &AddressSpace, rows: &[MapRow]) -> Result<()> {
    if space.root == area::root() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: it is not the own address space.
    unsafe { space.edit(rows) }?;
    Ok(())
}

/// Creates an environment of its control page, key ring, public page and root, with its area at `area`.
pub fn create(
    key: KeyIndex,
    name: KeyIndex,
    [control, key_ring, public, root]: [PageNumber; 4],
    area: u64,
    private: &[u64],
) -> Result<EnvironmentId> {
    let mut places = [0; PRIVATE_PAGES];
    places[..private.len()].copy_from_slice(private);
    let specification = Specification {
        name_key: name.0,
        control: control.0,
        key_ring: key_ring.0,
        public: public.0,
        root: root.0,
        area,
        private_count: private.len() as u64,
        private: places,
        ..Specification::default()
    };
    // SAFETY: the kernel reads this record; the private pages are mapped at their place only, by the caller.
    Ok(unsafe { syscall::environment_create(key, UserAddress(&raw const specification as u64)) }?)
}

/// Creates an environment from the parts of the dead one `of`, under the name of the key `name`. Its first private page
/// begins with the contents of `first`. Its address space stays as it is if it `keeps` it.
pub fn create_of_parts(
    key: KeyIndex,
    name: KeyIndex,
    of: EnvironmentId,
    first: PageNumber,
    keeps: bool,
) -> core::result::Result<EnvironmentId, Failure> {
    let (name_key, space) = (name.0, u64::from(keeps));
    let specification = Specification { name_key, parts_of: of.0, first: first.0, space, ..Specification::default() };
    // SAFETY: the kernel reads this record. No thread runs in the dead environment, whose pages become the new one's.
    unsafe { syscall::environment_create(key, UserAddress(&raw const specification as u64)) }
}

/// Maps pages of the area of a new thread into the own address space.
pub fn show_area(place: u64, pages: &[PageNumber]) -> Result<()> {
    // SAFETY: the place was reserved for this area; nothing lies there.
    unsafe { runtime::address_space::own().map(place, pages, Access::WRITE) }?;
    Ok(())
}

/// Takes the area of a thread that is gone out of the own address space.
pub fn hide_area(place: u64, pages: u64) {
    // SAFETY: the environment that used the area is destroyed.
    let _ = unsafe { runtime::address_space::own().unmap(place, pages) };
}
