//! Send templates: the bytes that a filter fixes in the headers of frames sent under it.

/// Words of a header that a template can fix, byte 0 lowest in word 0.
pub const FIXED_WORDS: usize = 8;

/// The header bytes that a filter fixes of frames sent under it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Template {
    mask: [u64; FIXED_WORDS],
    value: [u64; FIXED_WORDS],
    end: usize,
}

impl Template {
    /// One that fixes the bits of a mask. None: the value has bits outside the mask.
    #[must_use]
    pub fn new(mask: [u64; FIXED_WORDS], value: [u64; FIXED_WORDS]) -> Option<Self> {
        let last = mask.iter().rposition(|word| *word != 0);
        let end = last.map_or(0, |word| word * 8 + 8 - mask[word].leading_zeros() as usize / 8);
        let is_odd = value.iter().zip(&mask).any(|(value, mask)| value & !mask != 0);
        (!is_odd).then_some(Self { mask, value, end })
    }

    /// Bytes up to the last one that is fixed.
    #[must_use]
    #[inline(always)]
    pub fn end(&self) -> usize {
        self.end
    }

    /// The bits of a word that a header has otherwise.
    #[must_use]
    #[inline(always)]
    pub fn differs(&self, index: usize, word: u64) -> u64 {
        (word ^ self.value[index]) & self.mask[index]
    }

    /// Whether it fixes any bit of a byte.
    #[must_use]
    pub fn fixes(&self, byte: usize) -> bool {
        self.mask.get(byte / 8).is_some_and(|word| word >> (byte % 8 * 8) & 0xff != 0)
    }

    /// The first byte that it leaves free, or fixes otherwise, where the parent fixes it.
    #[must_use]
    pub fn exceeds(&self, parent: &Self) -> Option<usize> {
        first_byte(core::array::from_fn(|index| {
            parent.mask[index] & !self.mask[index] | (self.value[index] ^ parent.value[index]) & parent.mask[index]
        }))
    }
}

/// The first byte that is not 0 in a row of words.
#[must_use]
#[cold]
pub fn first_byte(words: [u64; FIXED_WORDS]) -> Option<usize> {
    let (index, word) = words.into_iter().enumerate().find(|(_, word)| *word != 0)?;
    Some(index * 8 + word.trailing_zeros() as usize / 8)
}
