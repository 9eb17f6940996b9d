//! Internet sockets, as a process asks the server for them. Endpoints and page numbers travel in words, bytes in the
//! window.

use super::Client;
use crate::hw::card;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use internet::address::Endpoint;
use internet::control::Sending;
use internet::datagram::{HEAD_BYTES, HEAD_WORDS, Head};
use internet::device::Device;
use linux_abi::errno::Result;
use runtime::PageNumber;
use runtime::transfer::Message;
use unix_core::server::protocol::{InternetRequest, Listed, Request, WINDOW_BYTES};

/// Bits of a request to send, above its length: more bytes of the datagram come; there is an address.
const MORE: u64 = 1 << 24;
const HAS_ADDRESS: u64 = 1 << 25;

/// The network card, as the server describes it. The first question waits until the card has addresses, or none came.
pub fn network_card() -> Option<Device> {
    card::is_there().then(|| super::files().lock().lines(Listed::Card).ok()).flatten().and_then(|text| {
        let text = String::from_utf8(text).ok()?;
        Device::from_lines(&text)
    })
}

impl Client {
    /// A fresh socket: its node, which the caller holds, and its page.
    pub fn make_internet_socket(&self, family: u64, sort: u64, protocol: u64) -> Result<(u64, PageNumber)> {
        let answer = self.exchange([Request::MakeInternetSocket as u64, family, sort, protocol, 0, 0])?;
        Ok((answer[1], PageNumber(answer[2])))
    }

    /// Asks something of a socket that is held.
    pub fn on_internet_socket(&self, node: u64, request: InternetRequest, words: [u64; 3]) -> Result<Message> {
        let [a, b, c] = words;
        self.exchange([Request::InternetSocket as u64, node, request as u64, a, b, c])
    }

    /// Rings bells, from bit 0 on.
    pub fn ring(&self, bells: u64) -> Result<()> {
        self.exchange([Request::Ring as u64, bells, 0, 0, 0, 0]).map(|_| ())
    }

    /// The pages of the larger area of a socket, or of the other side of its connection.
    pub fn large_area(&mut self, node: u64, of_other: bool) -> Result<Vec<PageNumber>> {
        let window = self.window()?;
        let [_, count, ..] = self.on_internet_socket(node, InternetRequest::Large, [u64::from(of_other), 0, 0])?;
        Ok(window.words().iter().take(count as usize).map(|word| PageNumber(word.load(Relaxed))).collect())
    }

    /// Sends a datagram: what the server answers, see [`InternetRequest::Send`].
    pub fn send_datagram(
        &mut self,
        node: u64,
        to: Option<Endpoint>,
        bytes: &[u8],
        sending: Sending,
    ) -> Result<Message> {
        let window = self.window()?;
        let [high, low, port] = to.unwrap_or_default().to_words();
        let flags = sending.to_bits() | if to.is_some() { HAS_ADDRESS } else { 0 };
        let mut rest = bytes;
        loop {
            let (some, more) = rest.split_at(rest.len().min(WINDOW_BYTES as usize));
            window.write(0, some)?;
            let flags = flags | some.len() as u64 | if more.is_empty() { 0 } else { MORE };
            let answer = self.on_internet_socket(node, InternetRequest::Send, [high, low, port | flags << 16])?;
            if more.is_empty() {
                return Ok(answer);
            }
            rest = more;
        }
    }

    /// The channels that a socket receives by: page, where the datagrams of each come from, and go to.
    pub fn datagram_channels(&mut self, node: u64) -> Result<Vec<(PageNumber, Endpoint, Endpoint)>> {
        let window = self.window()?;
        let [_, count, ..] = self.on_internet_socket(node, InternetRequest::Channels, [0; 3])?;
        let row = |words: &[AtomicU64; 8]| {
            let [page, a, b, c, d, e, f, _] = words.each_ref().map(|word| word.load(Relaxed));
            (PageNumber(page), Endpoint::from_words([a, b, c]), Endpoint::from_words([d, e, f]))
        };
        Ok(window.words().as_chunks::<8>().0.iter().take(count as usize).map(row).collect())
    }

    /// The datagram that waits with the server, at most so many bytes of it.
    pub fn receive_datagram(&mut self, node: u64, most: u64, takes: bool) -> Result<(Head, Vec<u8>)> {
        let window = self.window()?;
        let mut bytes = Vec::new();
        loop {
            let place = [bytes.len() as u64, 0, 0];
            let [_, count, ..] = self.on_internet_socket(node, InternetRequest::Receive, place)?;
            let head =
                Head::from_words(core::array::from_fn::<u64, HEAD_WORDS, _>(|at| window.words()[at].load(Relaxed)));
            let mut some = vec![0; count.min(WINDOW_BYTES - HEAD_BYTES) as usize];
            window.read(HEAD_BYTES, &mut some)?;
            bytes.extend_from_slice(&some);
            if some.is_empty() || bytes.len() as u64 >= head.length.min(most) {
                if takes {
                    self.on_internet_socket(node, InternetRequest::Receive, [head.length, 1, 0])?;
                }
                bytes.truncate(most.min(head.length) as usize);
                return Ok((head, bytes));
            }
        }
    }
}
