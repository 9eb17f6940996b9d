//! `process_vm_readv` and `process_vm_writev`: the memory of another process, whose library reads and writes it for who
//! may look into that process (`exos_server::programs::process_requests`).

use crate::hw::usercopy;
use crate::process::call::Call;
use crate::procfs::process_memory::{AT_ONCE, fetch, read_own, store, write_own};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// Pieces of memory that a call can name.
const MOST_PIECES: u64 = 1024;

/// Pieces of memory, one after the other.
struct Pieces(Vec<(u64, u64)>);

impl Pieces {
    fn read(from: u64, count: u64) -> Result<Self> {
        if count > MOST_PIECES {
            return Err(Errno::EINVAL);
        }
        let piece = |index: u64| {
            usercopy::read_words::<2>(from.wrapping_add(index * 16)).map(|[address, bytes]| (address, bytes))
        };
        let mut pieces: Vec<(u64, u64)> = (0..count).map(piece).collect::<Result<_>>()?;
        if pieces.iter().any(|(_, bytes)| *bytes as i64 != 0 && (*bytes as i64) < 0) {
            return Err(Errno::EINVAL);
        }
        pieces.retain(|(_, bytes)| *bytes != 0);
        pieces.reverse();
        Ok(Self(pieces))
    }

    /// Bytes that lie together from where one is.
    fn together(&self) -> u64 {
        self.0.last().map_or(0, |(_, bytes)| *bytes)
    }

    /// The address of the next bytes; the list advances by so many.
    fn pass(&mut self, bytes: u64) -> u64 {
        let Some((address, left)) = self.0.pop() else { return 0 };
        if left > bytes {
            self.0.push((address.wrapping_add(bytes), left - bytes));
        }
        address
    }
}

/// Carries bytes over until one of both is at its end, or until an error, which is told only if nothing went before.
fn carry(call: &Call<'_>, most: u64, mut step: impl FnMut(u64, u64, u64) -> Result<u64>) -> Result<u64> {
    let [_, local, locals, remote, remotes, flags] = call.arguments();
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (mut here, mut there) = (Pieces::read(local, locals)?, Pieces::read(remote, remotes)?);
    let mut done = 0;
    loop {
        let bytes = here.together().min(there.together()).min(most);
        if bytes == 0 {
            return Ok(done);
        }
        match step(here.pass(bytes), there.pass(bytes), bytes) {
            Ok(moved) if moved == bytes => done += moved,
            Ok(moved) => return Ok(done + moved),
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        }
    }
}

pub(crate) fn process_vm_readv(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    let is_own = number == call.process.number();
    carry(call, AT_ONCE, |here, there, bytes| {
        let told = match is_own {
            true => read_own(there, bytes)?,
            false => fetch(number, there, bytes, false)?,
        };
        usercopy::write(here, &told)?;
        Ok(told.len() as u64)
    })
}

pub(crate) fn process_vm_writev(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    let is_own = number == call.process.number();
    carry(call, AT_ONCE, |here, there, bytes| {
        let contents = usercopy::read_vec(here, bytes as usize)?;
        match is_own {
            true => write_own(there, &contents),
            false => store(number, there, false, &contents),
        }
    })
}
