//! Ports of the peer that lose frames: one answers nothing, and one falls silent once a connection stands.

use std::collections::BTreeSet;

use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};

/// TCP segments to this port are lost.
const SILENT: u16 = 1;
/// Segments to this port are lost behind the handshake.
const DEAF: u16 = 2;

/// The ends whose handshake with [`DEAF`] is complete.
#[derive(Debug, Default)]
pub struct Ports {
    heard: BTreeSet<([u8; 4], u16)>,
}

impl Ports {
    /// Whether a frame is lost.
    pub fn lose(&mut self, frame: &[u8]) -> bool {
        self.segment(frame).unwrap_or(false)
    }

    fn segment(&mut self, frame: &[u8]) -> Option<bool> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        let is_tcp = ethernet.ethertype() == EthernetProtocol::Ipv4 && packet.next_header() == IpProtocol::Tcp;
        let segment = TcpPacket::new_checked(packet.payload()).ok().filter(|_| is_tcp)?;
        let end = (packet.src_addr().octets(), segment.src_port());
        Some(match segment.dst_port() {
            SILENT => true,
            DEAF if segment.syn() => {
                self.heard.remove(&end);
                false
            }
            DEAF => !self.heard.insert(end),
            _ => false,
        })
    }
}
