//! Random bytes: every source that the machine has is mixed into one key at boot, and ChaCha20 stretches it. Each
//! block replaces the key first, so that what was given out before cannot be computed from what is kept (Bernstein's
//! fast-key-erasure). What is left of a block serves small requests; it is erased as it is given out.
//!
//! Sources: the CPU (RDRAND, mixed in again with each new key), a virtio entropy device (virtio 1.2, section 5.4), and
//! `entropy_seed=` with 64 hexadecimal digits on the command line. Without any of them the key is made of the jitter of
//! the clock, as Linux does; where the clock has none, as one that counts instructions, nothing is given, ever.

use crate::byte_stream::RECORDS;
use crate::chacha20;
use machine::boot::Boot;
use machine::clock;
use machine::dma::{DeviceBuffer, Direction};
use machine::lock::TurnLock;
use machine::random;
use machine::virtio::{Device, DeviceError, Kind};

const KEY_WORDS: usize = 8;
const KEY_BYTES: usize = KEY_WORDS * 4;
/// Nanoseconds until an entropy device counts as silent.
const PATIENCE: u64 = 100_000_000;

/// Bytes of a block that do not become the next key.
const REST_BYTES: usize = chacha20::BLOCK - KEY_BYTES;

type Key = [u32; KEY_WORDS];

/// What random bytes come from.
struct Generator {
    key: Key,
    /// The rest of the last block, zeros where it was given out, and how much of it was.
    rest: [u8; REST_BYTES],
    given: usize,
}

/// The generator; none until there was a source.
static GENERATOR: TurnLock<Option<Generator>> = TurnLock::new(None);

/// Asks all sources; false if there is none.
pub fn start(boot: &mut Boot) -> bool {
    let device = from_device(boot);
    let sources = [from_cpu(), device, from_command_line(boot)];
    let key = sources.into_iter().flatten().reduce(mix).or_else(|| from_jitter(clock::now));
    *GENERATOR.lock() = key.map(Generator::of);
    key.is_some()
}

/// Fills `bytes` with random bytes; false, and nothing changed, where the machine has no source.
pub fn fill(bytes: &mut [u8]) -> bool {
    let mut generator = GENERATOR.lock();
    let Some(generator) = generator.as_mut() else { return false };
    generator.fill(bytes, || from_cpu().unwrap_or([0; KEY_WORDS]));
    true
}

impl Generator {
    const fn of(key: Key) -> Self {
        Self { key, rest: [0; REST_BYTES], given: REST_BYTES }
    }

    /// Few bytes are what was left, if that is enough; others come from blocks of their own, of a key with `fresh`
    /// bits.
    fn fill(&mut self, bytes: &mut [u8], fresh: impl FnOnce() -> Key) {
        if bytes.len() > REST_BYTES - self.given {
            self.renew(mix(self.key, fresh()), bytes);
        } else {
            self.give_rest(bytes);
        }
    }

    /// Replaces the key by the first bytes of a block stream that no later key leads back to, then fills `bytes`
    /// from the rest.
    fn renew(&mut self, stream: Key, bytes: &mut [u8]) {
        let first = chacha20::block(&stream, 0, &[0; 3]);
        let (new_key, rest) = first.split_at(KEY_BYTES);
        self.key = words(new_key);
        self.rest.copy_from_slice(rest);
        self.given = 0;
        let (few, more) = bytes.split_at_mut(bytes.len().min(REST_BYTES));
        self.give_rest(few);
        for (counter, chunk) in (1..).zip(more.chunks_mut(chacha20::BLOCK)) {
            let block = chacha20::block(&stream, counter, &[0; 3]);
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
    }

    /// Gives so many bytes of what is left, which is enough.
    fn give_rest(&mut self, bytes: &mut [u8]) {
        let given = &mut self.rest[self.given..][..bytes.len()];
        bytes.copy_from_slice(given);
        given.fill(0);
        self.given += bytes.len();
    }
}

fn mix(one: Key, other: Key) -> Key {
    core::array::from_fn(|index| one[index] ^ other[index])
}

fn words(bytes: &[u8]) -> Key {
    let mut key = [0; KEY_WORDS];
    for (word, bytes) in key.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    key
}

fn from_cpu() -> Option<Key> {
    let mut key = [0; KEY_WORDS];
    for pair in key.chunks_exact_mut(2) {
        let bits = random::hardware()?;
        (pair[0], pair[1]) = (bits as u32, (bits >> 32) as u32);
    }
    Some(key)
}

/// A key from the time that pieces of work take; none where too few of them differ. Takes some milliseconds.
///
/// Each of the samples counts for an eighth of a bit, so that they are more than the key has bits four times over.
fn from_jitter(now: impl Fn() -> u64) -> Option<Key> {
    const SAMPLES: usize = 8192;
    const LEAST_CHANGES: usize = SAMPLES / 4;
    /// Nanoseconds by which equal times may differ.
    const ROUNDING: u64 = 2;
    let (mut key, mut before, mut changes) = ([0; KEY_WORDS], [now(), 0], 0);
    for _ in 0..SAMPLES {
        let time = now();
        let took = time.wrapping_sub(before[0]);
        changes += usize::from(took.abs_diff(before[1]) > ROUNDING);
        before = [time, took];
        // The work of one sample also mixes it in.
        let nonce = [time as u32, (time >> 32) as u32, took as u32];
        key = words(&chacha20::block(&key, 0, &nonce)[..KEY_BYTES]);
    }
    (changes >= LEAST_CHANGES).then_some(key)
}

fn from_command_line(boot: &Boot) -> Option<Key> {
    let text = boot.start.command_line.value("entropy_seed")?;
    let seed = from_text(text);
    if seed.is_none() {
        machine::log!("entropy_seed= wants {} hexadecimal digits: it is ignored", 2 * KEY_BYTES);
    }
    seed
}

fn from_text(text: &str) -> Option<Key> {
    let mut bytes = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = char::from(digits[0]).to_digit(16)?;
        let low = char::from(digits[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(words(&bytes))
}

fn from_device(boot: &mut Boot) -> Option<Key> {
    let mut device = boot.devices.take(Kind::Entropy)?;
    let key = ask(&mut device, boot);
    // It is asked once; afterwards it must not touch memory any more. A device that does not reset was not answered
    // either.
    let _ = device.reset();
    key.unwrap_or_else(|error| {
        machine::log!("the virtio entropy device cannot be used: {error:?}");
        None
    })
}

/// Reads a key from the device; none if it stays silent.
fn ask(device: &mut Device, boot: &mut Boot) -> Result<Option<Key>, DeviceError> {
    device.start(0)?;
    let mut memory = boot.memory();
    let mut queue = device.make_queue(0, &mut memory, RECORDS)?;
    let buffer = DeviceBuffer::allocate(&mut memory, 1).ok_or(DeviceError::NoMemory)?;
    queue.offer(0, &[buffer.segment(0, KEY_BYTES, Direction::FromDevice)]);
    device.go();
    device.notify(0);
    let deadline = clock::now() + PATIENCE;
    while clock::now() < deadline {
        match queue.take(drop) {
            Ok(None) => core::hint::spin_loop(),
            Ok(Some(done)) if done.length as usize == KEY_BYTES => {
                let mut bytes = [0; KEY_BYTES];
                buffer.read(0, &mut bytes);
                return Ok(Some(words(&bytes)));
            }
            Ok(Some(_)) | Err(_) => return Err(DeviceError::Queue),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_given_out_twice_or_kept() {
        let mut generator = Generator::of([7; KEY_WORDS]);
        let mut given = std::vec::Vec::new();
        for count in (0..100).flat_map(|round| [100, 16, 8, 8, round, 24]) {
            let mut bytes = std::vec![0; count];
            let before = generator.key;
            generator.fill(&mut bytes, || [0; KEY_WORDS]);
            assert!(count <= REST_BYTES || generator.key != before);
            let state: std::vec::Vec<u32> = generator.key.into_iter().chain(words(&generator.rest)).collect();
            let is_kept = |word: &[u8]| state.contains(&u32::from_le_bytes(word.try_into().unwrap()));
            assert!(!bytes.chunks_exact(4).any(is_kept));
            given.extend(bytes.chunks_exact(8).map(<[u8]>::to_vec));
        }
        let all = given.len();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), all);
    }

    #[test]
    fn few_bytes_are_what_a_block_has_left() {
        let mut generator = Generator::of([7; KEY_WORDS]);
        let mut bytes = [0; REST_BYTES / 2];
        generator.fill(&mut bytes, || [1; KEY_WORDS]);
        let key = generator.key;
        generator.fill(&mut bytes, || unreachable!());
        assert_eq!((generator.key, generator.rest), (key, [0; REST_BYTES]));
        let mut more = [0; 1];
        generator.fill(&mut more, || [1; KEY_WORDS]);
        assert_ne!(generator.key, key);
    }

    #[test]
    fn jitter_makes_a_key_and_a_counting_clock_makes_none() {
        use core::cell::Cell;
        let clock = |steps: &'static [u64]| {
            let (time, calls) = (Cell::new(0), Cell::new(0));
            move || {
                calls.set(calls.get() + 1);
                time.set(time.get() + steps[calls.get() % steps.len()]);
                time.get()
            }
        };
        let varied = from_jitter(clock(&[90, 95, 90, 111, 93])).unwrap();
        assert_ne!(from_jitter(clock(&[90, 95, 90, 111, 94])), Some(varied));
        assert_eq!(from_jitter(clock(&[90])), None);
        assert_eq!(from_jitter(clock(&[90, 91])), None);
        assert_eq!(from_jitter(clock(&[90, 90, 90, 90, 90, 90, 90, 90, 90, 91])), None);
        assert_eq!(from_jitter(clock(&[0])), None);
    }

    #[test]
    fn seeds_are_read_or_refused() {
        let digits = "00112233445566778899aabbccddeeff".repeat(2);
        assert_eq!(from_text(&digits).unwrap()[0], 0x3322_1100);
        for wrong in ["", "00", &"zz".repeat(32), &"é".repeat(32)] {
            assert_eq!(from_text(wrong), None, "{wrong}");
        }
    }
}
