//! `SIOCGIF…` (netdevice(7)): what there is to know about the loopback device and the network card.

use crate::attributes::attributes;
use crate::hw::{card, usercopy};
use crate::server::client::{self, network_card};
use alloc::vec::Vec;
use internet::address::Family;
use internet::device;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::server::protocol::InternetRequest;

/// Bytes of `struct ifreq`, and where the name ends in it.
const BYTES: usize = 40;
const NAME: usize = 16;
const INET: u8 = 2;

/// A device, as these requests describe it.
struct Described {
    name: &'static [u8],
    number: u32,
    flags: u16,
    /// Address, mask and the address of all hosts.
    v4: Option<[u32; 3]>,
    mtu: u32,
    kind: u16,
    hardware: [u8; 6],
}

fn loopback() -> Described {
    let v4 = Some([0x7f00_0001, 0xff00_0000, 0]);
    Described { name: b"lo", number: 1, flags: 0x49, v4, mtu: 65_536, kind: 772, hardware: [0; 6] }
}

fn of_card() -> Option<Described> {
    let card = network_card()?;
    let v4 = card.v4().map(|(own, bits)| {
        let mask = device::mask(bits);
        [own, mask, own | !mask]
    });
    let (number, flags) = (device::NUMBER as u32, device::FLAGS as u16);
    Some(Described { name: b"eth0", number, flags, v4, mtu: card.mtu, kind: 1, hardware: card.hardware })
}

fn named(name: &[u8]) -> Option<Described> {
    match name {
        b"lo" => Some(loopback()),
        b"eth0" => of_card(),
        _ => None,
    }
}

fn endpoint(address: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0] = INET;
    bytes[4..8].copy_from_slice(&address.to_be_bytes());
    bytes
}

/// `SIOCETHTOOL` (ethtool(8)), of which there is `ETHTOOL_RESET` of the card. `socket` is a node that the caller holds.
fn reset(socket: Option<u64>, argument: u64) -> Result<u64> {
    let mut name = [0; NAME];
    usercopy::read(argument, &mut name)?;
    let device = named(name.split(|byte| *byte == 0).next().unwrap_or_default()).ok_or(Errno::ENODEV)?;
    let what = usercopy::read_word(argument.saturating_add(NAME as u64))?;
    let is_reset = usercopy::read_half(what)? == 0x34 && device.name != b"lo";
    let socket = socket.filter(|_| is_reset).ok_or(Errno::EOPNOTSUPP)?;
    client::files().lock().on_internet_socket(socket, InternetRequest::ResetCard, [0; 3]).map(|_| 0)
}

/// `ioctl` with a request about a device.
pub(crate) fn device_request(socket: Option<u64>, family: Family, request: u32, argument: u64) -> Result<u64> {
    if request == 0x8946 {
        return reset(socket, argument);
    }
    if !matches!(request, 0x8910..=0x8942 | 0x8970) {
        return Err(Errno::ENOTTY);
    }
    if request == 0x8912 {
        return list_devices(argument);
    }
    let mut name = [0; NAME];
    usercopy::read(argument, &mut name)?;
    let value = argument.saturating_add(NAME as u64);
    if request == 0x8910 {
        // A name by its number.
        return match usercopy::read_half(value)? {
            1 => usercopy::write(argument, b"lo\0").map(|()| 0),
            2 if card::is_there() => usercopy::write(argument, b"eth0\0").map(|()| 0),
            _ => Err(Errno::ENODEV),
        };
    }
    // Addresses of IPv4 are for sockets of IPv4.
    if family == Family::V6 && matches!(request, 0x8915 | 0x8917 | 0x8919 | 0x891b) {
        return Err(Errno::ENOTTY);
    }
    let device = named(name.split(|byte| *byte == 0).next().unwrap_or_default()).ok_or(Errno::ENODEV)?;
    describe(&device, request, value)
}

fn describe(device: &Described, request: u32, value: u64) -> Result<u64> {
    let address = |which: usize| {
        let v4 = device.v4.ok_or(Errno::EADDRNOTAVAIL)?;
        usercopy::write(value, &endpoint(v4[which]))
    };
    match request {
        0x8913 => usercopy::write(value, &device.flags.to_le_bytes()),
        0x8915 | 0x8917 => address(0),
        0x8919 => address(2),
        0x891b => address(1),
        // Flags that it has, `SIOCSIFFLAGS`: `ifconfig lo up`.
        0x8914 if usercopy::read_half(value)? as u16 == device.flags => {
            let may_change = attributes().credentials.lock().has(linux::CAP_NET_ADMIN);
            if may_change { Ok(()) } else { Err(Errno::EPERM) }
        }
        0x891d => usercopy::write_half(value, 0),
        0x8921 => usercopy::write_half(value, device.mtu),
        0x8927 => usercopy::write(value, &[&device.kind.to_le_bytes()[..], &device.hardware, &[0; 8]].concat()),
        0x8933 => usercopy::write_half(value, device.number),
        0x8942 => usercopy::write_half(value, 1000),
        // Memory and interrupts of the device.
        0x8970 => usercopy::write(value, &[0; 24]),
        _ => Err(Errno::EPERM),
    }
    .map(|()| 0)
}

/// `SIOCGIFCONF`: devices that have an address, as many as there is room for.
fn list_devices(argument: u64) -> Result<u64> {
    let room = usercopy::read_half(argument)? as usize;
    let list = usercopy::read_word(argument.saturating_add(8))?;
    let mut all = Vec::new();
    for device in [Some(loopback()), of_card()].into_iter().flatten() {
        let Some([own, ..]) = device.v4 else { continue };
        let mut one = [0; BYTES];
        one[..device.name.len()].copy_from_slice(device.name);
        one[NAME..NAME + 16].copy_from_slice(&endpoint(own));
        all.extend(one);
    }
    if list != 0 {
        all.truncate(room / BYTES * BYTES);
        usercopy::write(list, &all)?;
    }
    usercopy::write_half(argument, all.len() as u32).map(|()| 0)
}
