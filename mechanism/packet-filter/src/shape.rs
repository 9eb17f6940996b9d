//! Shapes: the sequences of tests that conjunctions make, without the constants of their `Equal`s.
//!
//! They form a tree of their own, each node counted once however many conjunctions share it. Its size bounds the time
//! of classification. Of all places in the decision structure that have the same sequence of tests a packet reaches
//! at most one, because each `Equal` leaves it one edge. So a packet is put to at most as many tests as there are
//! shapes, and shapes are what is limited, in all and for each owner. (Tuple space search rests on the same fact.)

use crate::condition::Test;
use crate::find::Fuel;
use crate::pool::{Linked, Pool};
use crate::refusal::{Reason, Refusal, Resource};

/// A node: a test after all tests of its parent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    pub(crate) test: Test,
    pub(crate) parent: u32,
    first_child: u32,
    sibling: u32,
    /// Conjunctions whose sequence begins with this one.
    references: u32,
    /// Owner of the filter that brought it; charged for it until it goes.
    owner: u32,
    /// The compiled tails that end here, as a list.
    pub(crate) tails: u32,
}

impl Linked for Shape {
    fn link(&mut self) -> &mut u32 {
        &mut self.sibling
    }
}

/// The tree. Node 1 is the empty sequence.
#[derive(Debug)]
pub(crate) struct Shapes<'a> {
    pub(crate) pool: Pool<'a, Shape>,
}

/// The empty sequence.
pub(crate) const ROOT: u32 = 1;

impl<'a> Shapes<'a> {
    /// A tree with only the root.
    pub(crate) fn new(records: &'a mut [Shape]) -> Option<Self> {
        let mut pool = Pool::new(records);
        pool.take().map(|_| Self { pool })
    }

    /// The child of `parent` with this test, made if need be, with one reference more.
    /// `charge` is asked before one is made.
    pub(crate) fn intern(
        &mut self,
        parent: u32,
        test: &Test,
        owner: u32,
        limit: u32,
        charge: &mut u32,
        fuel: &mut Fuel,
    ) -> Result<u32, Refusal> {
        let mut child = self.pool[parent].first_child;
        while child != 0 && self.pool[child].test != *test {
            child = self.pool[child].sibling;
            fuel.spend(1);
        }
        if child == 0 {
            if *charge >= limit {
                return Err(Refusal::whole(Reason::Quota(Resource::Shapes)));
            }
            child = self.pool.take().ok_or(Refusal::whole(Reason::Full(Resource::Shapes)))?;
            *charge += 1;
            let sibling = self.pool[parent].first_child;
            self.pool[child] = Shape { test: *test, parent, sibling, owner, ..Shape::default() };
            self.pool[parent].first_child = child;
        }
        self.pool[child].references += 1;
        Ok(child)
    }

    /// Drops one reference; returns the owner that is no longer charged when the node went.
    pub(crate) fn release(&mut self, shape: u32, fuel: &mut Fuel) -> Option<u32> {
        self.pool[shape].references -= 1;
        if self.pool[shape].references > 0 {
            return None;
        }
        let Shape { parent, sibling, owner, .. } = self.pool[shape];
        let mut before = self.pool[parent].first_child;
        if before == shape {
            self.pool[parent].first_child = sibling;
        } else {
            while self.pool[before].sibling != shape {
                before = self.pool[before].sibling;
                fuel.spend(1);
            }
            self.pool[before].sibling = sibling;
        }
        self.pool.give(shape);
        Some(owner)
    }
}
