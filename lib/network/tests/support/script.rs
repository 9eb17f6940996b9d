//! What an end of a test connection sends, expects and does, by a seed.

use super::random::Random;

#[derive(Clone, Debug)]
pub struct Script {
    /// What this end sends.
    pub text: Vec<u8>,
    /// What the other end sends.
    pub expected: Vec<u8>,
    pub written: usize,
    pub received: usize,
    random: Random,
    /// Chance in thousandths that the end reads at an opportunity: slow readers close windows.
    pub eagerness: u64,
    /// Sends nothing and closes nothing before it has read everything.
    pub is_polite: bool,
}

pub fn text(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.next() as u8).collect()
}

impl Script {
    pub fn new(text: Vec<u8>, expected: Vec<u8>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let eagerness = if random.chance(700) { 1000 } else { random.between(200, 1000) };
        Self { text, expected, written: 0, received: 0, random, eagerness, is_polite: false }
    }

    /// The next piece to write, up to `limit` bytes.
    pub fn piece(&mut self, limit: usize) -> &[u8] {
        let left = self.text.len() - self.written;
        if self.is_polite && self.received < self.expected.len() {
            return &[];
        }
        let most = if self.random.chance(300) { 100 } else { 4096 };
        let length = left.min(limit).min(self.random.between(1, most) as usize);
        &self.text[self.written..self.written + length]
    }

    pub fn has_written_all(&self) -> bool {
        self.written == self.text.len()
    }

    pub fn reads_now(&mut self) -> bool {
        let eagerness = self.eagerness;
        self.random.chance(eagerness)
    }

    /// Compares what came with what was sent.
    pub fn receive(&mut self, bytes: &[u8]) {
        let expected = self.expected.get(self.received..self.received + bytes.len());
        assert_eq!(expected, Some(bytes), "bytes from {} differ", self.received);
        self.received += bytes.len();
    }
}
