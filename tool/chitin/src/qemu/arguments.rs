//! A machine as QEMU's command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::{Accelerator, Board, Cpu, Disk, Forward, Link, Machine, NetworkCard, Transport};

pub const PROGRAM: &str = "qemu-system-x86_64";

/// The port that `abi::host_channel::stop` values are written to.
const DEBUG_EXIT: &str = "isa-debug-exit,iobase=0xf4,iosize=0x04";

/// Where the parts of one machine are on the host.
pub struct Places<'a> {
    pub kernel: &'a Path,
    pub archive: &'a Path,
    /// Takes what the kernel writes to the serial line.
    pub serial: &'a Path,
    /// The socket of the host channel; this command listens there.
    pub channel: &'a Path,
}

/// The arguments that say what `machine` is, without what belongs to one start of it.
pub fn flags(machine: &Machine) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"]);
    let is_alone = machine.disks.is_empty() && machine.networks.is_empty();
    if !is_alone {
        // The firmware leaves devices alone that are not in its list: it would take memory in which the boot archive
        // lies.
        add(&["-boot", "strict=on"]);
    }
    add(&["-machine", board(machine.board)]);
    add(&["-accel", accelerator(machine.accelerator), "-cpu", cpu(machine.cpu)]);
    add(&["-smp", &machine.cpus.to_string(), "-m", &format!("{}M", machine.memory)]);
    add(&["-device", DEBUG_EXIT]);
    if machine.instruction_count {
        // A device takes time of the host: a clock that jumps while the machine is idle would let every request time
        // out.
        add(&["-icount", if is_alone { "shift=0,sleep=off" } else { "shift=0,sleep=on" }]);
    }
    add(console_bus(machine.board));
    all
}

/// QEMU's arguments for `machine`.
pub fn arguments(machine: &Machine, places: &Places) -> Vec<OsString> {
    let mut all: Vec<OsString> = flags(machine).into_iter().map(OsString::from).collect();
    let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
    if !machine.command_line.is_empty() {
        add(&["-append", &machine.command_line]);
    }
    // A console port would drop output while this command is slow to read; a serial port waits.
    add(&["-device", "virtserialport,nr=1,chardev=channel"]);
    for (option, prefix, path) in [
        ("-kernel", "", places.kernel),
        ("-initrd", "", places.archive),
        ("-serial", "file:", places.serial),
        ("-chardev", "socket,id=channel,path=", places.channel),
    ] {
        let mut value = OsString::from(prefix);
        value.push(if prefix.contains(',') { in_list(path.as_os_str()) } else { path.into() });
        all.extend([option.into(), value]);
    }
    for (number, disk) in machine.disks.iter().enumerate() {
        let device = format!("{},drive=disk{number},werror=report,rerror=report", disk_device(machine.board));
        all.extend(["-drive".into(), drive(number, disk), "-device".into(), device.into()]);
    }
    for (number, card) in machine.networks.iter().enumerate() {
        all.extend(network_card(machine.board, number, card));
    }
    if let Some(plugin) = &machine.plugin {
        let mut value = in_list(plugin.file.as_os_str());
        value.push(",out=");
        value.push(in_list(plugin.out.as_os_str()));
        all.extend(["-plugin".into(), value]);
    }
    if let Some(monitor) = &machine.monitor {
        all.extend(["-qmp".into(), listening(monitor)]);
    }
    if let Some(debugger) = &machine.debugger {
        all.extend(["-S".into(), "-gdb".into(), listening(debugger)]);
    }
    all
}

/// A socket where QEMU listens.
fn listening(socket: &Path) -> OsString {
    let mut value = OsString::from("unix:");
    value.push(in_list(socket.as_os_str()));
    value.push(",server=on,wait=off");
    value
}

/// The host's side of a disk.
fn drive(number: usize, disk: &Disk) -> OsString {
    let mut value = OsString::from(format!("if=none,id=disk{number},format=raw,file."));
    value.push(match disk.bad_sector {
        Some(_) => "driver=blkdebug,file.image.filename=",
        None => "filename=",
    });
    value.push(in_list(disk.file.as_os_str()));
    if let Some(sector) = disk.bad_sector {
        for (index, event) in ["read_aio", "write_aio"].into_iter().enumerate() {
            let rule = format!("file.inject-error.{index}");
            value.push(format!(",{rule}.event={event},{rule}.errno=5,{rule}.sector={sector}"));
        }
    }
    if disk.pace != 0 {
        value.push(format!(",throttling.iops-total={}", disk.pace));
    }
    if disk.read_only {
        value.push(",readonly=on");
    }
    value
}

/// The machine's side of a disk, without virtio's old register layout.
fn disk_device(board: Board) -> &'static str {
    match board {
        Board::Q35 => "virtio-blk-pci,disable-legacy=on",
        Board::Microvm => "virtio-blk-device",
    }
}

/// Both sides of a network card, without virtio's old register layout and without a program for the firmware.
fn network_card(board: Board, number: usize, card: &NetworkCard) -> Vec<OsString> {
    let mut link = OsString::new();
    match &card.link {
        Link::User => {
            link.push("user");
            card.forwards.iter().for_each(|forward| link.push(host_forward(forward)));
        }
        Link::Tap(name) => link.push(format!("tap,ifname={name},script=no,downscript=no,vhost=off")),
        Link::Wire(socket) => {
            link.push("stream,server=off,addr.type=unix,addr.path=");
            link.push(in_list(socket.as_os_str()));
        }
    }
    link.push(format!(",id=net{number}"));
    let [first, second, third, fourth, fifth, sixth] = card.address;
    let address = format!("{first:02x}:{second:02x}:{third:02x}:{fourth:02x}:{fifth:02x}:{sixth:02x}");
    let kind = match board {
        Board::Q35 => "virtio-net-pci,disable-legacy=on,romfile=",
        Board::Microvm => "virtio-net-device",
    };
    let device = format!("{kind},netdev=net{number},mac={address}");
    let mut all = vec!["-netdev".into(), link, "-device".into(), device.into()];
    if let Some(file) = &card.packets {
        let mut dump = OsString::from(format!("filter-dump,id=packets{number},netdev=net{number},file="));
        dump.push(in_list(file.as_os_str()));
        all.extend(["-object".into(), dump]);
    }
    all
}

/// A port of the host, and the port of the machine's first address by DHCP that it leads to.
fn host_forward(forward: &Forward) -> String {
    let transport = match forward.transport {
        Transport::Stream => "tcp",
        Transport::Datagrams => "udp",
    };
    format!(",hostfwd={transport}:{}:{}-:{}", forward.address, forward.host, forward.guest)
}

/// A value in a list of options: a comma in it is written twice.
fn in_list(value: &OsStr) -> OsString {
    let bytes = value.as_bytes().split(|byte| *byte == b',').collect::<Vec<_>>().join(&b",,"[..]);
    OsString::from_vec(bytes)
}

fn board(board: Board) -> &'static str {
    match board {
        Board::Q35 => "q35",
        Board::Microvm => "microvm",
    }
}

fn accelerator(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::Tcg => "tcg",
        Accelerator::Kvm => "kvm",
    }
}

fn cpu(cpu: Cpu) -> &'static str {
    match cpu {
        Cpu::Max => "max",
        Cpu::Qemu64 => "qemu64",
        Cpu::Measured => "max,-smap,-erms",
        Cpu::MeasuredPlain => "max,-smap,-erms,-avx,-avx2,-xsave,-xsaveopt,-pku",
    }
}

/// The virtio-console's controller, without virtio's old register layout.
fn console_bus(board: Board) -> &'static [&'static str] {
    match board {
        Board::Q35 => &["-device", "virtio-serial-pci,disable-legacy=on"],
        Board::Microvm => &["-global", "virtio-mmio.force-legacy=false", "-device", "virtio-serial-device"],
    }
}
