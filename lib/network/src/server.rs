//! Server: the loop of a program that serves TCP connections. It keeps a value for each connection, and calls its owner
//! for those that are new or have changed, so that idle ones cost nothing.
//!
//! Invariant: a connection has a value from the time that it is accepted until its owner says that it is over.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::link::Link;
use crate::slab::Handle;
use crate::stack::Stack;
use crate::tcp::block::Error;
use crate::tcp::listen::Listener;
use crate::time::Time;

/// `K` says what a port serves, `T` is what is kept for a connection.
#[derive(Debug)]
pub struct Server<K, T> {
    listeners: Vec<(Handle, K)>,
    connections: BTreeMap<Handle, T>,
}

impl<K, T> Default for Server<K, T> {
    fn default() -> Self {
        Self { listeners: Vec::new(), connections: BTreeMap::new() }
    }
}

impl<K, T> Server<K, T> {
    /// Serves what connects to a listener.
    ///
    /// # Errors
    /// Those of [`crate::tcp::engine::Tcp::listen`].
    pub fn listen<L: Link>(&mut self, stack: &mut Stack<L>, listener: Listener, kind: K) -> Result<(), Error> {
        stack.tcp.record_changes();
        self.listeners.push((stack.tcp.listen(listener)?, kind));
        Ok(())
    }

    /// One round, between [`Stack::poll`] and [`Stack::flush`]. `fresh` makes the value of a connection. `work` reads
    /// and sends what it can; false: the connection is over, and is closed.
    pub fn serve<L: Link>(
        &mut self,
        stack: &mut Stack<L>,
        now: Time,
        fresh: impl Fn(&K) -> T,
        mut work: impl FnMut(&mut Stack<L>, Handle, &mut T) -> bool,
    ) {
        let mut changed = Vec::new();
        for (listener, kind) in &self.listeners {
            while let Some(handle) = stack.tcp.accept(*listener) {
                self.connections.insert(handle, fresh(kind));
                changed.push(handle);
            }
        }
        changed.extend(core::iter::from_fn(|| stack.tcp.take_change()));
        for handle in changed {
            if self.connections.get_mut(&handle).is_some_and(|one| !work(stack, handle, one)) {
                self.connections.remove(&handle);
                stack.close(handle, now);
            }
        }
        // Work changes connections, too: that is no news for it.
        while stack.tcp.take_change().is_some() {}
    }
}
