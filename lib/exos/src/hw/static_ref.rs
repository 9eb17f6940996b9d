//! A reference to what lives for ever, which threads exchange.

use core::marker::PhantomData;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

/// An atomic `&'static T`.
#[derive(Debug)]
pub struct StaticRef<T: Sync + 'static>(AtomicPtr<T>, PhantomData<&'static T>);

impl<T: Sync> StaticRef<T> {
    /// It refers to `target` at first.
    pub const fn new(target: &'static T) -> Self {
        Self(AtomicPtr::new(core::ptr::from_ref(target).cast_mut()), PhantomData)
    }

    /// What it refers to.
    #[inline]
    pub fn get(&self) -> &'static T {
        // SAFETY: the pointer was made of a reference that lives for ever, and is only read through.
        unsafe { &*self.0.load(Acquire) }
    }

    /// It refers to `target` from now on.
    pub fn set(&self, target: &'static T) {
        self.0.store(core::ptr::from_ref(target).cast_mut(), Release);
    }
}
