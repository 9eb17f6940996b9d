//! One checked atom: a test, and the constant it compares with.
//!
//! A [`Test`] is what can be shared by many filters: where to look and how. For `Equal` the
//! constant is apart from it ([`Condition::value`]), so that many constants at one place hang from
//! one branch and are hashed; a range is part of its test.

/// What kind of test it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The masked load equals the condition's value.
    #[default]
    Equal,
    /// It lies in `low..=high`.
    Within,
    /// It lies outside `low..=high`.
    Outside,
    /// No comparison: it moves the base.
    Shift,
}

/// A test without its constant. The order of the fields is the order of tests in a conjunction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) offset: u32,
    pub(crate) size: u8,
    pub(crate) mask: u32,
    pub(crate) kind: Kind,
    pub(crate) shift: i8,
    pub(crate) low: u32,
    pub(crate) high: u32,
}

/// A test with its constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Condition {
    pub(crate) test: Test,
    /// What an `Equal` compares with; zero for the others.
    pub(crate) value: u32,
}

/// A packet and the base that shifts have moved.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// What is left of the packet from the base on.
    pub(crate) rest: &'a [u8],
}

impl Test {
    /// One past the last byte it loads, from the base.
    pub(crate) fn end(&self) -> u32 {
        self.offset + u32::from(self.size)
    }

    /// All bits that a load of this size has.
    pub(crate) fn all_bits(&self) -> u32 {
        u32::MAX >> (32 - 8 * u32::from(self.size))
    }

    /// A value as the bytes of the packet hold it, read by a little-endian load: what edges are known
    /// by, so that compiled code need not swap bytes.
    pub(crate) fn raw(&self, value: u32) -> u32 {
        value.swap_bytes() >> (32 - 8 * u32::from(self.size))
    }

    /// How far a shift moves for a masked load. Checked to be at most `limit::SHIFT_DISTANCE`.
    pub(crate) fn distance(&self, masked: u32) -> u32 {
        if self.shift >= 0 { masked << self.shift } else { masked >> -self.shift }
    }

    /// The masked load, or `None` when it would pass the end.
    pub(crate) fn load(&self, view: View<'_>) -> Option<u32> {
        let start = self.offset as usize;
        let bytes = view.rest.get(start..start + usize::from(self.size))?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)) & self.mask)
    }

    /// Whether a masked load passes, for every kind but `Equal`.
    pub(crate) fn passes(&self, masked: u32) -> bool {
        let inside = self.low <= masked && masked <= self.high;
        match self.kind {
            Kind::Outside => !inside,
            Kind::Within => inside,
            Kind::Equal | Kind::Shift => true,
        }
    }

    /// The view for what follows this test: itself, or moved by a shift; `None` past the end.
    pub(crate) fn advance<'a>(&self, view: View<'a>, masked: u32) -> Option<View<'a>> {
        if self.kind != Kind::Shift {
            return Some(view);
        }
        Some(View { rest: view.rest.get(self.distance(masked) as usize..)? })
    }
}

impl Condition {
    /// Whether it compares with a range.
    pub(crate) fn is_range(&self) -> bool {
        matches!(self.test.kind, Kind::Within | Kind::Outside)
    }

    /// The view for the next condition, or `None` when this one does not hold.
    pub(crate) fn apply<'a>(&self, view: View<'a>) -> Option<View<'a>> {
        let masked = self.test.load(view)?;
        let holds = match self.test.kind {
            Kind::Equal => masked == self.value,
            _ => self.test.passes(masked),
        };
        if holds { self.test.advance(view, masked) } else { None }
    }
}
