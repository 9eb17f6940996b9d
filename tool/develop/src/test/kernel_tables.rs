//! Walks of the kernel's page tables for a guest under test, by the monitor of its machine. Nothing that the kernel
//! maps is both writable and executable, in any alias.
//!
//! The monitor prints each translation of the first CPU, those of the program included. The kernel's half is the same
//! in every address space.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two walks.
const PAUSE: Duration = Duration::from_millis(300);
/// Where the kernel's half begins, and the kernel's image in it.
const KERNEL_HALF: u64 = 0xffff_8000_0000_0000;
const HUGE: u64 = 1 << 30;
const LARGE: u64 = 2 << 20;
const SMALL: u64 = 4 << 10;

/// What a walk found, for the transcript, or what is wrong.
pub type Found = Result<String, String>;

/// One translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    address: u64,
    physical: u64,
    bytes: u64,
    writable: bool,
    executable: bool,
}

/// Walks from the time on that the machine has spoken until it is gone.
pub fn walk(monitor: PathBuf, spoken: Arc<AtomicBool>, over: Arc<AtomicBool>) -> JoinHandle<Found> {
    thread::spawn(move || {
        while !spoken.load(Ordering::Acquire) && !over.load(Ordering::Acquire) {
            thread::sleep(PAUSE);
        }
        let stream = UnixStream::connect(monitor).map_err(|error| format!("no monitor: {error}"))?;
        walk_by(&stream, &over)
    })
}

fn walk_by(stream: &UnixStream, over: &AtomicBool) -> Found {
    const QUESTION: &str = r#"{"execute":"human-monitor-command","arguments":{"command-line":"info tlb"}}"#;
    let mut to = stream;
    let mut ask = |command: &str| to.write_all(format!("{command}\n").as_bytes()).is_ok();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    if lines.next().is_none() || !ask(r#"{"execute":"qmp_capabilities"}"#) {
        return Err("the monitor says nothing".into());
    }
    let (mut walks, mut last) = (0usize, String::new());
    let mut is_first = true;
    for line in lines.filter(|line| line.contains("\"return\"")) {
        if !std::mem::take(&mut is_first) {
            let answer: serde_json::Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            last = judge(&entries(answer["return"].as_str().unwrap_or_default()))?;
            walks += 1;
            thread::sleep(PAUSE);
        }
        if over.load(Ordering::Acquire) || !ask(QUESTION) {
            break;
        }
    }
    if walks == 0 {
        Err("the kernel's page tables were not walked".into())
    } else {
        Ok(format!("{walks} walks; {last}"))
    }
}

/// The translations in what the monitor printed: address, physical address, and the letters of the bits that are set.
fn entries(text: &str) -> Vec<Entry> {
    let parse = |line: &str| {
        let (address, rest) = line.trim().split_once(": ")?;
        let (physical, bits) = rest.split_once(' ')?;
        let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
        let bytes = if bits.contains('P') { LARGE } else { SMALL };
        let (address, physical) = (hexadecimal(address)?, hexadecimal(physical)?);
        Some(Entry { address, physical, bytes, writable: bits.contains('W'), executable: !bits.contains('X') })
    };
    let mut all: Vec<Entry> = text.lines().filter_map(parse).collect();
    // The monitor does not say which large page is a huge one: the next translation does.
    for index in 0..all.len() {
        let next = all.get(index + 1).map_or(u64::MAX, |next| next.address);
        let entry = &mut all[index];
        let is_aligned = (entry.address | entry.physical).is_multiple_of(HUGE);
        if entry.bytes == LARGE && is_aligned && next - entry.address >= HUGE {
            entry.bytes = HUGE;
        }
    }
    all
}

/// Nothing in the kernel's half is executable and also writable, there or under any other address.
fn judge(all: &[Entry]) -> Found {
    let executable: Vec<&Entry> = all.iter().filter(|entry| entry.address >= KERNEL_HALF && entry.executable).collect();
    let writable: Vec<&Entry> = all.iter().filter(|entry| entry.writable).collect();
    for code in &executable {
        let overlaps =
            |data: &&&Entry| data.physical < code.physical + code.bytes && code.physical < data.physical + data.bytes;
        if let Some(data) = writable.iter().find(overlaps) {
            let (at, from) = (code.address, data.address);
            return Err(format!("{at:#x} is executable and can be written at {from:#x}, page {:#x}", code.physical));
        }
    }
    let (image, arena): (Vec<&Entry>, Vec<&Entry>) =
        executable.iter().partition(|entry| entry.address >= abi::memory_map::KERNEL_IMAGE);
    if image.is_empty() || arena.is_empty() || writable.is_empty() {
        return Err(format!("{} translations, of which none is the image's code or none the arena's", all.len()));
    }
    let bytes = |entries: &[&Entry]| entries.iter().map(|entry| entry.bytes).sum::<u64>();
    Ok(format!("{} translations, {} bytes of code, {} in the arena", all.len(), bytes(&image), bytes(&arena)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "0000000000400000: 0000000000900000 ----A--UW\r\n\
        ffff800000000000: 0000000000000000 XG-DA---W\r\n\
        ffff800000200000: 0000000000200000 XGPDA---W\r\n\
        ffff800000400000: 0000000000400000 XGPDA----\r\n\
        ffff900000000000: 0000000000401000 -G-DA----\r\n\
        ffffffff80000000: 0000000000400000 -G-DA----\r\n";

    #[test]
    fn sound_tables_pass_and_each_planted_page_is_found() {
        let walked = |text: &str| judge(&entries(text));
        assert_eq!(walked(SOUND).unwrap(), "6 translations, 4096 bytes of code, 4096 in the arena");
        for (planted, what) in [
            ("ffffffff80001000: 0000000000300000 -G-DA---W\r\n", "both at once"),
            ("ffff800000600000: 0000000000400000 XGPDA---W\r\n", "a large alias"),
            ("0000000000401000: 0000000000401000 ----A--UW\r\n", "an alias of a program"),
        ] {
            let found = walked(&format!("{SOUND}{planted}"));
            assert!(found.is_err(), "{what}: {found:?}");
        }
        assert!(walked("").is_err(), "nothing was walked");
        assert!(walked(&SOUND.replace("-G-DA", "XG-DA")).is_err(), "no code");
    }

    #[test]
    fn a_huge_page_is_known_by_the_next_one() {
        let text = "ffff800000000000: 0000000000000000 XGPDA---W\nffff800040000000: 0000000040000000 XGPDA---W\n\
            ffff800040200000: 0000000040200000 XGPDA---W\n";
        assert_eq!(entries(text).iter().map(|entry| entry.bytes).collect::<Vec<_>>(), [HUGE, LARGE, LARGE]);
    }
}
