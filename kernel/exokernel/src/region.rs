//! Software regions: protection finer than a page (xok-exos-sosp97 §3.3). Read and written by system calls only.

use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::{permit, rights_from};
use abi::capability::{Capability, Rights};
use abi::limits::{REGION_BYTES, REGIONS_PER_PAGE};
use abi::page::PageKind;
use abi::region::RegionPage;
use abi::{Error, KeyIndex, PageNumber, UserAddress};
use machine::{memory, user};

const WORDS: usize = REGION_BYTES / 8;

/// A checked piece of a region.
struct Piece {
    region: usize,
    offset: usize,
    bytes: usize,
}

/// `place` is `region << 32 | offset`.
fn piece(place: u64, bytes: u64) -> Outcome<Piece> {
    let (region, offset) = ((place >> 32) as usize, (place & 0xffff_ffff) as usize);
    if region >= REGIONS_PER_PAGE {
        return refuse(Error::BadArgument, 2);
    }
    match usize::try_from(bytes) {
        Ok(bytes) if offset <= REGION_BYTES && bytes <= REGION_BYTES - offset => Ok(Piece { region, offset, bytes }),
        _ => refuse(Error::BadArgument, 4),
    }
}

fn to_bytes(words: &[u64; WORDS]) -> [u8; REGION_BYTES] {
    let mut bytes = [0; REGION_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn to_words(bytes: &[u8; REGION_BYTES]) -> [u64; WORDS] {
    core::array::from_fn(|index| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
        u64::from_le_bytes(word)
    })
}

impl Kernel {
    /// Makes a page one of regions.
    pub(crate) fn create_regions(&mut self, key: KeyIndex, page: PageNumber) -> Outcome<()> {
        self.donatable(key, page)?;
        let names = [capability::empty(); REGIONS_PER_PAGE];
        let object = RegionPage { names, data: [[0; WORDS]; REGIONS_PER_PAGE] };
        self.memory.create(page, PageKind::Region, object);
        Ok(())
    }

    /// The regions in a page.
    fn regions(&self, page: PageNumber) -> Outcome<&RegionPage> {
        let info = self.page(page)?;
        match self.memory.get::<RegionPage>(page) {
            Some(regions) => Ok(regions),
            None => refuse(Error::WrongKind, memory::state(info).kind as u64),
        }
    }

    /// Names a region (see `abi::syscall`).
    pub(crate) fn name_region(
        &mut self,
        key: KeyIndex,
        page: PageNumber,
        region: u64,
        source: KeyIndex,
        rights: u64,
    ) -> Outcome<()> {
        let info = self.page(page)?;
        permit(self.rights_on_page(key, info)?, Rights::OWN)?;
        self.regions(page)?;
        let name = Capability { rights: rights_from(rights, 4)?, ..*self.key(source)? };
        let regions = self.memory.get_mut::<RegionPage>(page).expect("checked");
        match usize::try_from(region).ok().and_then(|region| regions.names.get_mut(region)) {
            Some(place) => *place = name,
            None => return refuse(Error::BadArgument, 2),
        }
        Ok(())
    }

    /// The contents of a region that a key opens with this right.
    fn opened(&self, key: KeyIndex, page: PageNumber, region: usize, right: Rights) -> Outcome<[u64; WORDS]> {
        let key = *self.key(key)?;
        let regions = self.regions(page)?;
        permit(capability::rights_under(&key, &regions.names[region]), right)?;
        Ok(regions.data[region])
    }

    /// Copies out of a region (see `abi::syscall`).
    pub(crate) fn read_region(
        &mut self,
        key: KeyIndex,
        page: PageNumber,
        place: u64,
        to: UserAddress,
        bytes: u64,
    ) -> Outcome<()> {
        let piece = piece(place, bytes)?;
        let data = to_bytes(&self.opened(key, page, piece.region, Rights::READ)?);
        copied(user::copy_out(to, &data[piece.offset..][..piece.bytes]), to)
    }

    /// Copies into a region (see `abi::syscall`).
    pub(crate) fn write_region(
        &mut self,
        key: KeyIndex,
        page: PageNumber,
        place: u64,
        from: UserAddress,
        bytes: u64,
    ) -> Outcome<()> {
        let piece = piece(place, bytes)?;
        let mut data = to_bytes(&self.opened(key, page, piece.region, Rights::WRITE)?);
        copied(user::copy_in(&mut data[piece.offset..][..piece.bytes], from), from)?;
        let regions = self.memory.get_mut::<RegionPage>(page).expect("checked");
        regions.data[piece.region] = to_words(&data);
        Ok(())
    }
}
