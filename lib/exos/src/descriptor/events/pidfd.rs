//! `pidfd`: a descriptor of a process, which stays that one's when its number is another's (pidfd_open(2)). It can be
//! read when the process has ended, and there is nothing to read.

use crate::descriptor::file_ops::FileOps;
use crate::descriptor::poll_event::Event;
use crate::process_table;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use runtime::predicate::{Operator, Term, word};
use runtime::{EnvironmentId, exposed};

/// The process.
#[derive(Debug)]
pub struct ProcessDescriptor {
    /// Its number.
    pub number: u64,
}

impl ProcessDescriptor {
    /// The environment that it is now: a process that executed a set-id program has a successor.
    fn environment(&self) -> EnvironmentId {
        EnvironmentId(process_table::sight().succession.environment(self.number))
    }

    /// Whether it has not ended.
    pub fn lives(&self) -> bool {
        exposed::lives(self.environment())
    }
}

impl FileOps for ProcessDescriptor {
    fn is_ready(&self, event: Event) -> bool {
        event == Event::Readable && !self.lives()
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        let info = exposed::environment(self.environment()).filter(|_| event == Event::Readable);
        info.map(|info| word(info.state_word(), Operator::NotEqual, abi::environment::State::Alive as u64))
            .into_iter()
            .collect()
    }

    fn stays_where_it_is(&self) -> bool {
        false
    }

    fn status(&self) -> (u32, u64) {
        (0o600, 0)
    }

    fn name(&self) -> String {
        String::from("anon_inode:[pidfd]")
    }

    fn more_information(&self) -> String {
        let number = if self.lives() { self.number as i64 } else { -1 };
        format!("Pid:\t{number}\nNSpid:\t{number}\n")
    }
}
