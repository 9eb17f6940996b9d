//! Execution context of the caller: segment bases, vector unit, protection keys.

use crate::kernel::{Kernel, Outcome, refuse};
use abi::Error;
use abi::environment::ContextPart;
use abi::feature;
use abi::memory_map::in_user_half;
use machine::cpu_control;

impl Kernel {
    /// Sets a part of the caller's context (see `abi::syscall`).
    pub(crate) fn set_context(&mut self, part: u64, value: u64) -> Outcome<()> {
        match ContextPart::from_number(part) {
            None => refuse(Error::BadArgument, 0),
            Some(ContextPart::FsBase) => set_base(value, cpu_control::write_fs_base),
            Some(ContextPart::GsBase) => set_base(value, cpu_control::write_user_gs_base),
            Some(ContextPart::Vector | ContextPart::ProtectionKeys) if value > 1 => refuse(Error::BadArgument, 1),
            Some(ContextPart::Vector) => {
                self.context_of(self.caller()).set_vector(value == 1);
                Ok(())
            }
            Some(ContextPart::ProtectionKeys) => self.switch_protection_keys(value == 1),
        }
    }

    fn switch_protection_keys(&mut self, on: bool) -> Outcome<()> {
        if on && !cpu_control::has(feature::PKU) {
            return refuse(Error::BadArgument, 1);
        }
        self.context_of(self.caller()).set_keys(on);
        cpu_control::write_pkru(0);
        Ok(())
    }
}

fn set_base(base: u64, write: fn(u64)) -> Outcome<()> {
    if !in_user_half(base, 0) {
        return refuse(Error::BadAddress, base);
    }
    write(base);
    Ok(())
}
