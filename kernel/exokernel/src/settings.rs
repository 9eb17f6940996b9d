//! Settings of the machine: its end; the quantum, the save window, the excess limit (exokernel-sosp95 §5.1.1); the
//! emergency grace and the request of a shortage (§3.4).
//!
//! The exposed record of the kernel holds the values that scheduling and revocation go by.

use crate::channel::present;
use crate::kernel::{Kernel, Outcome, refuse};
use abi::capability::Rights;
use abi::machine::Setting;
use abi::{Error, KeyIndex};
use core::sync::atomic::Ordering;
use driver::console;
use machine::{exposed, stop};

impl Kernel {
    /// Sets a setting of the machine (see `abi::syscall`).
    pub(crate) fn set_machine(&mut self, key: KeyIndex, setting: u64, value: u64) -> Outcome<()> {
        self.require(key, &capability::root(), Rights::OWN)?;
        let Some(setting) = Setting::from_number(setting) else { return refuse(Error::BadArgument, 1) };
        if !setting.range().contains(&value) {
            return refuse(Error::BadArgument, 2);
        }
        let kernel = exposed::kernel();
        let word = match setting {
            Setting::Stop => stop_in_order(),
            Setting::Quantum => &kernel.quantum,
            Setting::SaveWindow => &kernel.save_window,
            Setting::ExcessLimit => &kernel.excess_limit,
            Setting::EmergencyGrace => &kernel.emergency_grace,
            Setting::ShortagePages => &kernel.shortage_pages,
            Setting::ShortageDeadline => &kernel.shortage_deadline,
        };
        word.store(value, Ordering::Release);
        Ok(())
    }
}

fn stop_in_order() -> ! {
    if present() {
        console::drain();
    }
    stop::in_order()
}
