//! The journal of what a child that borrows memory writes.

use crate::machine::BASE;
use linux_abi::address_map::PAGE_SIZE;

#[test]
fn a_journal_tells_which_bytes_differ_and_only_those() {
    use vm::write_log::WriteLog;
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let before: Vec<u8> = (0..PAGE_SIZE).map(|_| random.u8(..4)).collect();
        let mut now = before.clone();
        for _ in 0..random.usize(..40) {
            let (at, length) = (random.usize(..now.len()), random.usize(1..60));
            let end = now.len().min(at + length);
            now[at..end].fill_with(|| random.u8(..4));
        }
        let mut journal = WriteLog::default();
        journal.note(BASE, before.clone());
        // What is noted later is not what was there at first.
        journal.note(BASE, now.clone());
        let mut target = before.clone();
        let mut written = 0;
        for change in journal.changes(BASE, &now) {
            let at = (change.address - BASE) as usize;
            target[at..at + change.bytes.len()].copy_from_slice(&change.bytes);
            written += change.bytes.len();
        }
        assert_eq!(target, now, "seed {seed}");
        assert_eq!(written, before.iter().zip(&now).filter(|(old, new)| old != new).count(), "seed {seed}");
    }
    assert_eq!(WriteLog::default().changes(BASE, &[1]), []);
}
