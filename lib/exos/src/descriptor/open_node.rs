//! What an open makes of a node that the server found: the object of a file, a device, a disk, a terminal or a FIFO.

use super::object::{Device, Object};
use super::open_file::OpenFile;
use crate::descriptor::block_device::BlockDevice;
use crate::descriptor::fd_pins::descriptors;
use crate::pipe::{self, Pipe, Side};
use crate::server::client::{self, Opened};
use crate::terminal::{control, pty_master};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use vfs::initramfs::device;
use vfs::namespace::ROOT;

/// Opens an absolute path for ExOS itself; the result is a descriptor of the program.
pub(crate) fn open_absolute(path: &[u8], flags: u32) -> Result<u64> {
    let found = client::files().lock().open(ROOT, path, flags, 0)?;
    descriptors().install(open_node(found.here(Errno::ENXIO)?, flags)?, 0, flags & linux::O_CLOEXEC != 0)
}

/// A description of what the server opened, which holds the node if it is a file or a directory.
pub(crate) fn open_node(opened: Opened, flags: u32) -> Result<OpenFile> {
    let node = opened.node;
    let object = match opened.mode & linux::S_IFMT {
        linux::S_IFREG => Object::File { node },
        linux::S_IFDIR => Object::Directory { node },
        _ if flags & linux::O_PATH != 0 => Object::File { node },
        linux::S_IFCHR => device_object(opened.device, node, flags).map_err(|error| released(node, error))?,
        linux::S_IFBLK => {
            let disk = BlockDevice::open(opened.device, node).map_err(|error| released(node, error))?;
            Object::Disk(disk)
        }
        linux::S_IFIFO => open_fifo(node, flags).map_err(|error| released(node, error))?,
        _ => return Err(released(node, Errno::ENXIO)),
    };
    if object.node() != Some(node) {
        client::files().lock().hold(node, false);
    }
    OpenFile::new(object, of_description(flags))
}

/// The flags of an open file, by those that it was opened with.
pub(crate) const fn of_description(flags: u32) -> u32 {
    const KEPT: u32 = !(linux::O_CREAT | linux::O_EXCL | linux::O_NOCTTY | linux::O_TRUNC | linux::O_CLOEXEC);
    flags & KEPT | linux::O_LARGEFILE
}

pub(crate) fn released(node: u64, error: Errno) -> Errno {
    client::files().lock().hold(node, false);
    error
}

fn device_object(number: (u32, u32), node: u64, flags: u32) -> Result<Object> {
    Ok(match number {
        device::NULL => Object::Device(Device::Null, node),
        device::ZERO => Object::Device(Device::Zero, node),
        device::FULL => Object::Device(Device::Full, node),
        device::RANDOM | device::URANDOM => Object::Device(Device::Random, node),
        device::TTY | device::CONSOLE => return control::open(),
        device::PTMX => return pty_master::create(),
        (device::SLAVE_MAJOR, _) => return control::open_slave(node, flags),
        (device::MISC_MAJOR, _) => return Err(Errno::ENODEV),
        _ => return Err(Errno::ENXIO),
    })
}

/// An end of the pipe of a FIFO, whose node is held: waits for a process at the other end, as fifo(7) says.
fn open_fifo(node: u64, flags: u32) -> Result<Object> {
    let side = match flags & (linux::O_ACCMODE | linux::O_DIRECT) {
        linux::O_RDONLY => Side::Read,
        linux::O_WRONLY => Side::Write,
        linux::O_RDWR => Side::Both,
        _ => return Err(Errno::EINVAL),
    };
    let opened = Pipe::open_fifo(node)?;
    let nonblocking = flags & linux::O_NONBLOCK != 0;
    if side == Side::Write && nonblocking && !opened.has_other(side) {
        pipe::discard(&opened);
        return Err(Errno::ENXIO);
    }
    match opened.open_named(side, side != Side::Both && !nonblocking) {
        Ok(()) => Ok(Object::Pipe(opened, side)),
        Err(error) => {
            pipe::discard(&opened);
            Err(error)
        }
    }
}
