//! CRC32C (Castagnoli) of metadata sectors, seeded with the place of the sector.
//!
//! The seed names volume, block and sector: a sector that a disk wrote to, or read from, another place is damaged.

const POLYNOMIAL: u32 = 0x82F6_3B78;

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        tables[0][index] = value;
        index += 1;
    }
    let mut slice = 1;
    while slice < 8 {
        let mut index = 0;
        while index < 256 {
            let before = tables[slice - 1][index];
            tables[slice][index] = before >> 8 ^ tables[0][(before & 255) as usize];
            index += 1;
        }
        slice += 1;
    }
    tables
}

static TABLES: [[u32; 256]; 8] = tables();

/// A function that continues a CRC32C over bytes.
pub type Crc = fn(u32, &[u8]) -> u32;

/// CRC32C of `bytes`, continued from `crc` (0 at the start).
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    let mut state = !crc;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(state);
        let entry = |slice: usize| TABLES[slice][usize::from((word >> (56 - 8 * slice)) as u8)];
        state = entry(7) ^ entry(6) ^ entry(5) ^ entry(4) ^ entry(3) ^ entry(2) ^ entry(1) ^ entry(0);
    }
    for byte in rest {
        state = state >> 8 ^ TABLES[0][usize::from(state as u8 ^ byte)];
    }
    !state
}

/// The checksum of a sector's content at its place: CRC32C over volume id, block, sector index and content.
pub fn of_sector(crc: Crc, volume: &[u8; 16], block: u64, sector: usize, content: &[u8]) -> u32 {
    let place = (block << 3 | sector as u64).to_le_bytes();
    crc(crc(crc(0, volume), &place), content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(crc32c(0, b"12345"), b"6789"), 0xE306_9283);
        assert_eq!(crc32c(0, &[0; 32]), 0x8A91_36AA);
    }

    #[test]
    fn place_and_content_count() {
        let of_sector = |volume, sector, content: &_| of_sector(crc32c, volume, 7, sector, content);
        let sum = of_sector(&[1; 16], 3, &[5; 508]);
        assert_ne!(sum, of_sector(&[2; 16], 3, &[5; 508]));
        assert_ne!(sum, of_sector(&[1; 16], 4, &[5; 508]));
        let mut other = [5; 508];
        other[507] ^= 128;
        assert_ne!(sum, of_sector(&[1; 16], 3, &other));
    }
}
