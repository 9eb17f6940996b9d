//! Templates: what libraries teach XN about their metadata (SOSP 1997, section 4.1, "owns-udf" and "acl-uf").
//!
//! An owns program names the blocks of one sector. An access program permits or refuses one operation. Both are pure
//! functions of their arguments. XN compares what owns says before and after each change, so a lie gains nothing.
//! Invariant: a loaded metadata template owns nothing in a zeroed sector.

use crate::claim::Claims;
use crate::error::{Error, Result};
use crate::format::{BLOCK_SIZE, CONTENT, MAX_TEMPLATES};

/// Slot of the built-in template of blocks that are owned and never readable.
pub const RESERVED: u8 = 255;
/// Slot that stands for the root catalogue in the registry.
pub const CATALOGUE: u8 = 254;
/// Longest owns program, in bytes.
pub const MAX_OWNS: usize = 512 * 8;
/// Longest access program, in bytes.
pub const MAX_ACCESS: usize = 1400 * 8;

/// What blocks of a template are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The slot is empty.
    None = 0,
    /// Data: owns nothing, has no checksum.
    Leaf = 1,
    /// Metadata: interpreted by the owns program, sealed, changed by transactions only.
    Metadata = 2,
}

/// A loaded template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// What its blocks are.
    pub kind: Kind,
    /// Slots of the templates that it may own.
    pub children: [u8; 8],
    /// Number of children.
    pub child_count: u8,
    /// Bytes of its owns program.
    pub owns_size: u32,
    /// Bytes of its access program.
    pub access_size: u32,
}

impl Template {
    /// An empty slot.
    pub const NONE: Self = Self { kind: Kind::None, children: [0; 8], child_count: 0, owns_size: 0, access_size: 0 };

    /// Whether it may own blocks of template `child`.
    pub fn may_own(&self, child: u8) -> bool {
        self.children.iter().take(self.child_count.into()).any(|slot| *slot == child)
    }
}

/// One run of an access program: the fold over the blocks of an operation.
pub struct AccessStep<'a> {
    /// Words of the request ([`crate::access::Request`]).
    pub request: &'a [u64; crate::access::REQUEST_WORDS],
    /// Old bytes of all changes, one after the other.
    pub old: &'a [u8],
    /// New bytes of all changes.
    pub new: &'a [u8],
    /// The shown block after the change; zeros in the last run.
    pub block: &'a [u8; BLOCK_SIZE],
}

/// Runs the programs of templates. In a kernel this is compiled code, on a host also native Rust.
pub trait Programs {
    /// Reports what a sector owns.
    fn owns(&self, template: u8, content: &[u8; CONTENT], claims: &mut Claims) -> Result<()>;
    /// Whether the operation may continue; the last run decides. `scratch` lasts for the operation.
    fn access(&self, template: u8, step: &AccessStep<'_>, scratch: &mut [u8; 512]) -> bool;
    /// The words of the request that decide what `access` says, bit n for word n, if nothing else does; else
    /// [`crate::access::EVERYTHING`].
    fn reads(&self, _template: u8) -> u32 {
        crate::access::EVERYTHING
    }
}

/// The templates of a volume.
pub struct Templates<'a>(pub &'a mut [Template; MAX_TEMPLATES]);

impl Templates<'_> {
    /// The template in `slot`; the built-in ones have none.
    pub fn get(&self, slot: u8) -> Option<Template> {
        self.0.get(usize::from(slot)).copied().filter(|template| template.kind != Kind::None)
    }

    /// Whether blocks of template `slot` are metadata.
    pub fn is_metadata(&self, slot: u8) -> bool {
        slot == CATALOGUE || self.get(slot).is_some_and(|template| template.kind == Kind::Metadata)
    }

    /// Enters a template. A zeroed sector of metadata must own nothing.
    pub fn load(&mut self, slot: u8, template: Template, programs: &impl Programs) -> Result<()> {
        let entry = self.0.get_mut(usize::from(slot)).ok_or(Error::BadArgument)?;
        if entry.kind != Kind::None {
            return Err(Error::NotFree(slot.into()));
        }
        if template.kind == Kind::Metadata {
            let mut claims = Claims::default();
            programs.owns(slot, &[0; CONTENT], &mut claims)?;
            if let Some(claim) = claims.ranges().first() {
                return Err(Error::Undeclared(claim.first));
            }
        }
        *entry = template;
        Ok(())
    }
}
