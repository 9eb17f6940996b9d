//! Network cards of `./chitin run --network KIND`: what stands on the host's side of each.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};
use crate::qemu::{Link, NetworkCard};

use super::publish::{self, Published};

/// Bytes of a name of a network device on Linux.
const NAME: usize = 15;

/// The network devices of the name space that this command is in.
const DEVICES: &str = "/proc/self/net/dev";

/// What a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    None,
    Link(Link),
}

/// `none`, `user`, `tap:NAME` or `wire:SOCKET`.
pub fn parse(text: &str) -> std::result::Result<Wanted, String> {
    match text.split_once(':') {
        None if text == "none" => Ok(Wanted::None),
        None if text == "user" => Ok(Wanted::Link(Link::User)),
        Some(("tap", name)) if is_name(name) => Ok(Wanted::Link(Link::Tap(name.into()))),
        Some(("tap", _)) => Err(format!("a tap has a name of 1 to {NAME} letters, digits and signs, as in tap:tap0")),
        Some(("wire", socket)) if !socket.is_empty() => Ok(Wanted::Link(Link::Wire(socket.into()))),
        _ => Err("a network is none, user, tap:NAME or wire:SOCKET".into()),
    }
}

fn is_name(name: &str) -> bool {
    let is_sign = |sign: char| sign.is_ascii_graphic() && !"/:,".contains(sign);
    (1..=NAME).contains(&name.len()) && name.chars().all(is_sign) && ![".", ".."].contains(&name)
}

/// The cards of a machine. Published ports make one of the network user where no network is named. `seed` tells the
/// addresses of machines on one wire apart.
///
/// # Errors
/// One line about the first that cannot be used.
pub fn cards(
    wanted: &[Wanted],
    published: &[Published],
    packets: Option<&Path>,
    seed: u32,
) -> Result<Vec<NetworkCard>> {
    if wanted.contains(&Wanted::None) && wanted.len() > 1 {
        return Err(Failure::new("--network none stands alone: leave it out, or the other networks"));
    }
    let links = wanted.iter().filter_map(|wanted| match wanted {
        Wanted::None => None,
        Wanted::Link(link) => Some(link),
    });
    let default = (wanted.is_empty() && !published.is_empty()).then_some(&Link::User);
    let links = links.chain(default);
    let mut cards =
        links.enumerate().map(|(number, link)| card(number, link, packets, seed)).collect::<Result<Vec<_>>>()?;
    if packets.is_some() && cards.is_empty() {
        return Err(Failure::new("--packets: this machine has no network; name one with --network"));
    }
    publish::forward(published, &mut cards)?;
    Ok(cards)
}

fn card(number: usize, link: &Link, packets: Option<&Path>, seed: u32) -> Result<NetworkCard> {
    match link {
        Link::User => {}
        Link::Tap(name) => check_tap(name).context(format!("--network tap:{name}"))?,
        Link::Wire(socket) => check_wire(socket)?,
    }
    let packets = packets.map(|file| numbered(file, number));
    if let Some(file) = &packets {
        File::create(file).context(format!("--packets {}", file.display()))?;
    }
    let [_, second, third, fourth] = seed.to_be_bytes();
    let address = [0x52, 0x54, second, third, fourth, number as u8];
    Ok(NetworkCard { link: link.clone(), address, packets, forwards: Vec::new() })
}

/// Whether the host has this tap.
///
/// # Errors
/// One line that says what there is instead.
pub fn check_tap(name: &str) -> Result<()> {
    let refuse = |why: &str| Err(Failure::new(why));
    let devices = fs::read_to_string(DEVICES).context(DEVICES)?;
    if !devices.lines().any(|line| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))) {
        return refuse(&format!("no such device; make it with: ip tuntap add dev {name} mode tap"));
    }
    // In a name space of its own a command may see the devices of another one here; then QEMU finds what is no tap.
    let place = Path::new("/sys/class/net").join(name);
    if place.exists() && !place.join("tun_flags").exists() {
        return refuse("the device is no tap; name one that `ip tuntap` lists");
    }
    Ok(())
}

fn check_wire(socket: &Path) -> Result<()> {
    let what = format!("--network wire:{}", socket.display());
    let metadata = fs::metadata(socket).context(format!("{what}: nothing listens there"))?;
    if !metadata.file_type().is_socket() {
        return Err(Failure::new(format!("{what}: no Unix socket; name the socket at which the other side listens")));
    }
    // A connection would be a machine to the other side. A socket of datagrams finds another kind instead, but only
    // where there is one. QEMU itself is silent about a socket that has been left there.
    match UnixDatagram::unbound().and_then(|probe| probe.connect(socket)) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            Err(Failure::new(format!("{what}: nothing listens there any more; start the other side first")))
        }
        Ok(()) => Err(Failure::new(format!("{what}: a socket of datagrams; streams are needed"))),
        Err(_) => Ok(()),
    }
}

/// The file of one card: of the second and later ones its name has their number before its ending.
fn numbered(file: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return file.into();
    }
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}", number + 1));
    if let Some(ending) = file.extension() {
        name.push(".");
        name.push(ending);
    }
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn networks_have_a_kind() {
        assert_eq!(parse("none"), Ok(Wanted::None));
        assert_eq!(parse("user"), Ok(Wanted::Link(Link::User)));
        assert_eq!(parse("tap:tap0"), Ok(Wanted::Link(Link::Tap("tap0".into()))));
        assert_eq!(parse("wire:/tmp/a:b"), Ok(Wanted::Link(Link::Wire("/tmp/a:b".into()))));
        for wrong in
            ["", "users", "user:1", "tap", "tap:", "tap:a/b", "tap:0123456789abcdef", "tap:a,b", "wire", "wire:"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = |text: &str| {
            let error = cards(&[parse(text).unwrap()], &[], None, 0).unwrap_err();
            error.to_string()
        };
        assert!(refused("tap:chitin-none").contains("ip tuntap add dev chitin-none"));
        assert!(refused("tap:lo").contains("no tap"));
        assert!(refused("wire:/nonexistent/socket").contains("nothing listens there"));
        assert!(refused("wire:/dev/null").contains("no Unix socket"));
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("socket");
        let wire = format!("wire:{}", place.display());
        let listener = UnixListener::bind(&place).unwrap();
        assert!(cards(&[parse(&wire).unwrap()], &[], None, 0).is_ok());
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "the other side has met no machine yet");
        drop(listener);
        assert!(refused(&wire).contains("nothing listens there any more"));
        let several = [Wanted::None, Wanted::Link(Link::User)];
        assert!(cards(&several, &[], None, 0).unwrap_err().to_string().contains("stands alone"));
        assert!(cards(&[], &[], Some(Path::new("a.pcap")), 0).unwrap_err().to_string().contains("--network"));
    }

    #[test]
    fn cards_of_all_machines_have_addresses_of_their_own() {
        let both = [Wanted::Link(Link::User), Wanted::Link(Link::User)];
        let address = |seed| cards(&both, &[], None, seed).unwrap().iter().map(|card| card.address).collect::<Vec<_>>();
        let all = [address(1), address(0x12_3456)].concat();
        assert_eq!(all[0], [0x52, 0x54, 0, 0, 1, 0]);
        assert!((0..4).all(|one| (0..one).all(|other| all[one] != all[other])));
        assert!(all.iter().all(|address| address[0] & 3 == 2), "local, and of one machine");
    }

    #[test]
    fn a_published_port_makes_a_card() {
        let port = [publish::parse("1:80").unwrap()];
        let told = cards(&[Wanted::None], &port, None, 0).unwrap_err().to_string();
        assert!(told.contains("-p 1:80: only the network user"), "{told}");
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = [publish::parse(&format!("{free}:80")).unwrap()];
        let made = cards(&[], &port, None, 0).unwrap();
        assert!(made.len() == 1 && made[0].link == Link::User && made[0].forwards.len() == 1);
    }

    #[test]
    fn each_card_has_a_file_for_packets() {
        assert_eq!(numbered(Path::new("a/b.pcap"), 0), Path::new("a/b.pcap"));
        assert_eq!(numbered(Path::new("a/b.pcap"), 1), Path::new("a/b-2.pcap"));
        assert_eq!(numbered(Path::new("b"), 2), Path::new("b-3"));
    }
}
