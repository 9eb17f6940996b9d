//! State that a process that executes a set-id program hands over to its successor environment, as bytes.
//!
//! Pure. The reader is a fresh library and distrusts the writer: every value has a meaning, and what cannot be is an
//! error. Words are eight bytes, the lowest first; a string is its length and its bytes.

use crate::process::prctl_state::KEPT;
use crate::process::rlimits;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// Words of a descriptor as `descriptor::scm_rights` has it.
pub const DESCRIPTOR_WORDS: usize = 9;
/// Resources that have limits.
const LIMITS: usize = rlimits::COUNT;

/// An open descriptor: its number, and what it is open on.
pub type Open = (u64, [u64; DESCRIPTOR_WORDS]);

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecState {
    /// The path that the program was executed by.
    pub path: Vec<u8>,
    /// Its arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment.
    pub environment: Vec<Vec<u8>>,
    /// Node of the working directory, and bits that new files lack.
    pub place: [u64; 2],
    /// Folder below `/proc` that is the working directory; empty: none.
    pub below_proc: Vec<u8>,
    /// Process group and session.
    pub group: [u64; 2],
    /// Signals that are ignored, and those that are blocked.
    pub signals: [u64; 2],
    /// See `Attributes::kept`.
    pub attributes: [u64; KEPT],
    /// When the timers of `setitimer(ITIMER_REAL)` and `alarm` come, and how often after that.
    pub alarm: [u64; 2],
    /// What may be used of each resource.
    pub limits: Vec<[u64; 2]>,
    /// The terminal that controls the process, if there is one.
    pub terminal: Option<[u64; DESCRIPTOR_WORDS]>,
    /// Open descriptors.
    pub descriptors: Vec<Open>,
}

fn put(bytes: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
}

fn put_string(bytes: &mut Vec<u8>, string: &[u8]) {
    put(bytes, &[string.len() as u64]);
    bytes.extend_from_slice(string);
}

impl ExecState {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_string(&mut bytes, &self.path);
        for list in [&self.arguments, &self.environment] {
            put(&mut bytes, &[list.len() as u64]);
            list.iter().for_each(|string| put_string(&mut bytes, string));
        }
        put_string(&mut bytes, &self.below_proc);
        for words in [self.place, self.group, self.signals, self.alarm] {
            put(&mut bytes, &words);
        }
        put(&mut bytes, &self.attributes);
        self.limits.iter().for_each(|limit| put(&mut bytes, limit));
        put(&mut bytes, &[u64::from(self.terminal.is_some())]);
        put(&mut bytes, &self.terminal.unwrap_or_default());
        put(&mut bytes, &[self.descriptors.len() as u64]);
        for (number, words) in &self.descriptors {
            put(&mut bytes, &[*number]);
            put(&mut bytes, words);
        }
        bytes
    }

    /// From bytes.
    ///
    /// # Errors
    /// `EIO` for bytes that are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let path = reader.string()?;
        let [arguments, environment] = [reader.strings()?, reader.strings()?];
        let below_proc = reader.string()?;
        let [place, group, signals, alarm] = [reader.words()?, reader.words()?, reader.words()?, reader.words()?];
        let attributes = reader.words()?;
        let limits = (0..LIMITS).map(|_| reader.words()).collect::<Result<_>>()?;
        let [has_terminal] = reader.words()?;
        let terminal = reader.words()?;
        let count = reader.count(8 * (1 + DESCRIPTOR_WORDS))?;
        let one = |_| Ok((reader.words::<1>()?[0], reader.words()?));
        let descriptors = (0..count).map(one).collect::<Result<_>>()?;
        let terminal = (has_terminal != 0).then_some(terminal);
        let (place, below_proc) = (place, below_proc);
        Ok(Self {
            path,
            arguments,
            environment,
            place,
            below_proc,
            group,
            signals,
            attributes,
            alarm,
            limits,
            terminal,
            descriptors,
        })
    }

    /// Nodes of the server's that it names, each as often as the environment is to hold it.
    pub fn nodes(&self) -> Vec<u64> {
        const NODE: usize = 3;
        let opened = self.descriptors.iter().map(|(_, words)| words[NODE]);
        let terminal = self.terminal.iter().map(|words| words[NODE]);
        opened.chain(terminal).chain([self.place[0]]).filter(|node| *node != 0).collect()
    }
}

/// Bytes that were not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let (some, rest) = self.0.split_at_checked(count).ok_or(Errno::EIO)?;
        self.0 = rest;
        Ok(some)
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N]> {
        let bytes = self.take(8 * N)?;
        Ok(core::array::from_fn(|word| u64::from_le_bytes(core::array::from_fn(|index| bytes[word * 8 + index]))))
    }

    /// How many of at least so many bytes each there are.
    fn count(&mut self, least: usize) -> Result<usize> {
        let [count] = self.words()?;
        usize::try_from(count).ok().filter(|count| *count <= self.0.len() / least).ok_or(Errno::EIO)
    }

    /// A string without NUL.
    fn string(&mut self) -> Result<Vec<u8>> {
        let length = self.count(1)?;
        let bytes = self.take(length)?.to_vec();
        if bytes.contains(&0) { Err(Errno::EIO) } else { Ok(bytes) }
    }

    fn strings(&mut self) -> Result<Vec<Vec<u8>>> {
        (0..self.count(8)?).map(|_| self.string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn some() -> ExecState {
        ExecState {
            path: b"/bin/su".to_vec(),
            arguments: vec![b"su".to_vec(), b"".to_vec(), b"-c".to_vec()],
            environment: vec![b"A=b".to_vec()],
            place: [7, 0o22],
            below_proc: b"".to_vec(),
            group: [3, 2],
            signals: [1, 2],
            attributes: [20, 0, 0, 1, 0, 0, 5, 7],
            alarm: [5, 6],
            limits: (0..LIMITS as u64).map(|index| [index, index + 1]).collect(),
            terminal: Some([9; DESCRIPTOR_WORDS]),
            descriptors: vec![(0, [1, 2, 3, 4, 5, 6, 7, 8, 9]), (2, [1, 2, 3, 0, 5, 6, 7, 8, 0])],
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = some().to_bytes();
        assert_eq!(ExecState::from_bytes(&bytes), Ok(some()));
        assert_eq!(some().nodes(), [4, 9, 7]);
        let without = ExecState { terminal: None, ..some() };
        assert_eq!(ExecState::from_bytes(&without.to_bytes()), Ok(without));
    }

    /// FAULTS.md row 98: whatever stands there is an error or a bundle, and takes no more memory than it has bytes.
    #[test]
    fn fault_98_bytes_that_mean_nothing_are_refused() {
        let bytes = some().to_bytes();
        assert!((0..bytes.len()).all(|length| ExecState::from_bytes(&bytes[..length]) == Err(Errno::EIO)));
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut changed = bytes.clone();
            for _ in 0..1 + seed % 3 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (seed >> 33) as usize % changed.len();
                changed[at] = (seed >> 20) as u8;
            }
            if let Ok(read) = ExecState::from_bytes(&changed) {
                assert!(read.arguments.len() + read.descriptors.len() < bytes.len(), "seed {seed}");
            }
        }
    }
}
