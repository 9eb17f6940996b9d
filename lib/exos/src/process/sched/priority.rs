//! Scheduling of the running process against others (sched(7)): the rank that it publishes, and the slices that it
//! leaves to others.
//!
//! No process preempts another. At the end of a slice a thread that computes looks who wants the CPU, and leaves some
//! of its own slices to those of a higher rank (`nice_share`). A process is believed what it says of itself as far as
//! it puts itself below the usual rank: saying so it harms only itself. What puts it above stands in the server's table
//! (`exos_server::programs::priority_table`), or holds for nothing.

use crate::process::current::{process, thread};
use crate::process::process_record::Process;
use crate::server::client;
use crate::wait::cpu_placement;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime::address_space::Access;
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, area, exposed, time_slice};
use unix_core::process::nice_share::Priority;
use unix_core::process::prctl_state::{Attributes, Change};
use unix_core::process::public_page as public;

/// Whether the slice that has begun is one that the running thread, which computes, leaves to others.
pub fn leaves_slice() -> bool {
    let says = Attributes::from_word(process().public_word(public::PRIORITY).load(Relaxed));
    let own = Priority::of(&says);
    let table = client::priorities();
    if own == Priority::USUAL && table.is_empty() {
        return false;
    }
    let granted = |number: EnvironmentId| table.of(root_of(number), |number| root_of(EnvironmentId(number)));
    let own = granted(area::number()).map_or(own.min(Priority::USUAL), |granted| granted.min(own));
    let others = cpu_placement::wanting(time_slice::position().cpu).map(|(_, owner)| owner);
    let ranks = others.filter(|owner| *owner != area::number());
    let highest = ranks.map(|owner| granted(owner).unwrap_or_else(|| said_by(owner).min(Priority::USUAL))).max();
    highest.is_some_and(|highest| !thread().turns.lock().takes_next(own, highest))
}

/// How the running process is scheduled has changed: it has what the server grants.
pub fn change(process: &Process) {
    if client::priorities().of_number(process.environment()).is_some() {
        announce(process);
    } else {
        begin(process);
    }
}

/// The running process begins, scheduled as its maker was.
pub fn begin(process: &Process) {
    if Priority::of(&process.attributes.prctl.lock()) > Priority::USUAL {
        announce(process);
    }
}

/// The running process continues for another one, which recorded how it is scheduled: that counts as far as the
/// server's table allows it.
pub fn go_on(process: &Process, predecessor: EnvironmentId) {
    let granted = client::priorities().of_number(predecessor.0).unwrap_or(Priority::USUAL);
    if Priority::of(&process.attributes.prctl.lock()) > granted {
        process.attributes.prctl.lock().begin_usual();
    }
    begin(process);
}

/// Lets another process go before others as far as this change would have it, if this one is user 0.
pub fn grant(process: &Process, other: u64, change: Change) {
    let mut wanted = Attributes::default();
    if wanted.change(change, true, [0; 2]).is_ok() && Priority::of(&wanted) > Priority::USUAL {
        // A process that is refused has an ordinary share.
        let _ = process.files.lock().announce_precedence(other, wanted.to_word());
    }
}

fn announce(process: &Process) {
    let word = process.attributes.prctl.lock().to_word();
    let _ = process.files.lock().announce_precedence(process.environment(), word);
}

/// The rank of a process or thread, as its process says.
fn said_by(environment: EnvironmentId) -> Priority {
    let word = |environment: EnvironmentId, index: usize| {
        let page = PageNumber(exposed::environment(environment)?.public.load(Acquire));
        let public = Window::open(&[page], process().session_key, Access::READ).ok()?;
        Some(public.words()[index].load(Acquire))
    };
    let speaks_for = word(environment, public::PROCESS).filter(|number| *number != 0).map(EnvironmentId);
    let says = word(speaks_for.unwrap_or(environment), public::PRIORITY);
    says.map_or(Priority::USUAL, |word| Priority::of(&Attributes::from_word(word)))
}

/// The page of an environment's page-table root, which all threads of a process have in common.
fn root_of(environment: EnvironmentId) -> u64 {
    exposed::environment(environment).map_or(0, |info| info.root.load(Acquire))
}
