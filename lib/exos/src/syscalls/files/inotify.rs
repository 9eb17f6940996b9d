//! Calls that watch files (inotify(7)).

use super::path::{HERE, note_missing, start};
use crate::descriptor::events::inotify_fd::Watcher;
use crate::descriptor::open_file::OpenFile;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::proc_links::walk;
use crate::syscalls::events::event_fds::open;
use alloc::sync::Arc;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::procfs::Last;

pub(crate) fn inotify_init(call: &mut Call<'_>) -> Result<u64> {
    create(call, 0)
}

pub(crate) fn inotify_init1(call: &mut Call<'_>) -> Result<u64> {
    let [flags, ..] = call.arguments();
    create(call, flags as u32)
}

fn create(call: &Call<'_>, flags: u32) -> Result<u64> {
    if flags & !(linux::IN_CLOEXEC | linux::IN_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if call.process.descriptors.table.lock().room() == 0 {
        return Err(Errno::EMFILE);
    }
    let watcher = Watcher::create()?;
    let opened = open(call, Arc::new(watcher), flags);
    if opened.is_err() {
        call.process.files.lock().hold(watcher.node, false);
    }
    opened
}

fn watcher_of(description: &OpenFile) -> Result<Watcher> {
    description.as_kind::<Watcher>().copied().ok_or(Errno::EINVAL)
}

pub(crate) fn inotify_add_watch(call: &mut Call<'_>) -> Result<u64> {
    let [number, path, mask, ..] = call.arguments();
    let mask = mask as u32;
    let watcher = watcher_of(&*call.process.descriptors.description(number)?)?;
    if mask & linux::IN_ALL_EVENTS == 0 {
        return Err(Errno::EINVAL);
    }
    let path = usercopy::read_path(path)?;
    let (at, path) = start(call, HERE, &path)?;
    let last = Last::of(mask & linux::IN_DONT_FOLLOW == 0);
    let outcome = walk(at, &path, last, |files, at, rest| files.watch(watcher.node, at, rest, mask));
    // The server cannot watch files that a process makes itself, as below /proc.
    note_missing(call, &path, outcome)?.here(Errno::EOPNOTSUPP)
}

pub(crate) fn inotify_rm_watch(call: &mut Call<'_>) -> Result<u64> {
    let [number, watch, ..] = call.arguments();
    watcher_of(&*call.process.descriptors.description(number)?)?.remove(watch as u32).map(|()| 0)
}
