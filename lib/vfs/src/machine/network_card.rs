//! The network card in the file system: its folder below `/sys`, and the name servers that DHCP names.

use crate::file_data::PageStorage;
use crate::inode::NodeId;
use crate::namespace::{FileTree, Fresh, FsCredentials};
use alloc::format;
use internet::device::{self, hexadecimal};
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;

/// What `/sys` says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its address on the link.
    pub hardware: [u8; 6],
    /// Bytes of its largest packet.
    pub mtu: usize,
}

/// The file of the resolver, and where it leads on a machine with a card and no file of its own.
const NAME_SERVERS: (&[u8], &[u8]) = (b"/etc/resolv.conf", b"/proc/net/pnp");

impl<S: PageStorage> FileTree<S> {
    pub(crate) fn tell_card(&mut self, root: NodeId, card: &Card) -> Result<()> {
        let address = hexadecimal(&card.hardware);
        let mtu = format!("{}", card.mtu);
        let rows = [
            ("addr_len", "6"),
            ("address", address.as_str()),
            ("broadcast", "ff:ff:ff:ff:ff:ff"),
            ("carrier", "1"),
            ("flags", "0x1003"),
            ("ifindex", "2"),
            ("iflink", "2"),
            ("mtu", mtu.as_str()),
            ("operstate", "up"),
            ("type", "1"),
            ("uevent", "INTERFACE=eth0\nIFINDEX=2"),
        ];
        for (name, text) in rows {
            self.tell_at(root, &format!("devices/virtio/net/{}/{name}", device::NAME), text)?;
        }
        let folder = self.told_folder(root, "class/net")?;
        let target = format!("../../devices/virtio/net/{}", device::NAME);
        let owner = FsCredentials::new(0, 0);
        let link = Fresh { mode: linux::S_IFLNK | 0o777, owner, device: (0, 0), target: target.as_bytes() };
        self.create(folder, device::NAME.as_bytes(), link).map(|_| ())
    }

    /// Leads the resolver to the name servers that DHCP names, where the root names none.
    ///
    /// # Errors
    /// Where there is no page for the link.
    pub fn offer_name_servers(&mut self) -> Result<()> {
        let (path, target) = NAME_SERVERS;
        let folder = self.resolve_all(b"/etc")?;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        if let Ok(there) = self.look_up(folder, name) {
            if self.node(there)?.size > 0 {
                return Ok(());
            }
            self.remove(folder, name, false)?;
        }
        let owner = FsCredentials::new(0, 0);
        let link = Fresh { mode: linux::S_IFLNK | 0o777, owner, device: (0, 0), target };
        self.create(folder, name, link).map(|_| ())
    }
}
