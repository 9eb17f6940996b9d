//! `batch`: several calls for one crossing; stops at the first error.

use crate::cost;
use crate::kernel::{Kernel, Outcome, Stop, copied, refuse};
use crate::system_call::dispatch;
use abi::limits::BATCH_ROWS;
use abi::syscall::{BatchRow, number};
use abi::{Error, Failure, UserAddress};
use core::mem::MaybeUninit;
use machine::user;

/// Calls that change who runs, or that are batches themselves.
const EXCLUDED: [u64; 3] = [number::batch, number::time_slice_yield, number::predicate_wait];

impl Kernel {
    /// Runs rows (see `abi::syscall`).
    pub(crate) fn run_batch(&mut self, rows: UserAddress, count: u64) -> Outcome<u64> {
        if count > BATCH_ROWS as u64 {
            return refuse(Error::TooMany, BATCH_ROWS as u64);
        }
        let mut copy = [const { MaybeUninit::uninit() }; BATCH_ROWS];
        let copy: &mut [BatchRow] = copied(user::copy_rows_in(&mut copy[..count as usize], rows), rows)?;
        // Results go out at the end: where they cannot, the call must be refused before it has changed anything.
        copied(user::copy_out(rows, copy), rows)?;
        if let Some(row) = copy.iter().position(|row| EXCLUDED.contains(&row.number)) {
            return refuse(Error::BadArgument, row as u64);
        }
        let failed = copy.iter_mut().enumerate().position(|(index, row)| !self.run_row(index, row));
        copied(user::copy_out(rows, copy), rows)?;
        match failed {
            None => Ok(count),
            Some(index) => {
                let error = Error::from_number(copy[index].number).unwrap_or(Error::BadArgument);
                refuse(error, index as u64)
            }
        }
    }

    /// Runs one row and leaves its error and result in it; false after an error. The first row always runs.
    fn run_row(&mut self, index: usize, row: &mut BatchRow) -> bool {
        let cost = cost::of_row(row.number, &row.arguments);
        if index > 0 && (self.is_spent() || !self.has_room_for(cost)) {
            (row.number, row.arguments[0]) = (Error::Again as u64, 0);
            return false;
        }
        self.spend(cost);
        let outcome = dispatch(self, row.number, &row.arguments);
        let (error, value) = match outcome {
            Ok(value) => (0, value),
            Err(Stop::Refused(Failure { error, detail })) => (error as u64, detail),
            Err(Stop::Fault(fault)) => (Error::BadAddress as u64, fault.address),
        };
        (row.number, row.arguments[0]) = (error, value);
        error == 0
    }
}
