//! Which sites are rewritten, and what the bytes do.

use exos::rewriter::site::{self, MOVE_BYTES, STUB_STRIDE, Site};

fn page(at: usize, before: &[u8], number: u32) -> Vec<u8> {
    let mut page = vec![0x90; 4096];
    page[at - 5 - before.len()..at - 5].copy_from_slice(before);
    page[at - 5] = 0xb8;
    page[at - 4..at].copy_from_slice(&number.to_le_bytes());
    page[at..at + 2].copy_from_slice(&[0x0f, 0x05]);
    page
}

#[test]
fn the_common_form_is_rewritten() {
    assert_eq!(site::decide(&page(100, &[], 39), 100, 39), Some(Site { offset: 95, number: 39 }));
}

#[test]
fn another_rax_a_prefix_or_another_form_keeps_the_gate() {
    assert_eq!(site::decide(&page(100, &[], 39), 100, 40), None);
    for prefix in (0x40..=0x4f).chain([0x66]) {
        assert_eq!(site::decide(&page(100, &[prefix], 1), 100, 1), None, "prefix {prefix:#x}");
    }
    let mut other = page(100, &[], 39);
    other[95] = 0xb9;
    assert_eq!(site::decide(&other, 100, 39), None);
    assert_eq!(site::decide(&page(100, &[], 39), 99, 39), None);
}

#[test]
fn what_does_not_lie_in_one_page_keeps_the_gate() {
    assert_eq!(site::decide(&page(5, &[], 1), 5, 1), None);
    assert!(site::decide(&page(6, &[], 1), 6, 1).is_some());
    assert!(site::decide(&page(4094, &[], 1), 4094, 1).is_some());
    assert_eq!(site::decide(&page(4094, &[], 1)[..4095], 4094, 1), None);
    assert_eq!(site::decide(&[], usize::MAX, 1), None);
}

#[test]
fn calls_that_come_back_elsewhere_keep_the_gate() {
    for number in [15, 56, 58, 59, 322, 435] {
        assert_eq!(site::decide(&page(100, &[], number), 100, u64::from(number)), None, "call {number}");
    }
}

/// Where a jump or a lea with a 32-bit displacement leads.
fn target(after: u64, displacement: &[u8]) -> u64 {
    after.wrapping_add_signed(i64::from(i32::from_le_bytes(displacement.try_into().expect("4 bytes"))))
}

#[test]
fn jump_and_stub_lead_where_they_should() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..1000 {
        let site = random.u64(0x1_0000_0000..0x7000_0000_0000);
        let stub = site.wrapping_add_signed(random.i64(-0x7fff_0000..0x7fff_0000));
        let jump = site::jump(site, stub).expect("it reaches");
        assert_eq!((jump[0], target(site + 5, &jump[1..])), (0xe9, stub));
        let number = random.u32(..);
        let back = site + MOVE_BYTES as u64 + 2;
        let bytes = site::stub(stub, number, back, 0xf88).expect("it reaches");
        assert_eq!((bytes[0], &bytes[1..5]), (0xb8, &number.to_le_bytes()[..]));
        assert_eq!((&bytes[5..8], target(stub + 12, &bytes[8..12])), (&[0x48, 0x8d, 0x0d][..], back));
        assert_eq!(&bytes[12..20], &[0x65, 0xff, 0x24, 0x25, 0x88, 0x0f, 0, 0]);
        assert_eq!(bytes.len(), STUB_STRIDE);
    }
    assert_eq!(site::jump(0, 1 << 32), None);
    assert_eq!(site::stub(0x1000, 1, 0x2_0000_0000, 0), None);
}

#[test]
fn random_text_is_never_rewritten_outside_the_rule() {
    let seed = 84;
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..20_000 {
        let mut text = vec![0; 32];
        let likely = [0xb8, 0x0f, 0x05, 0x48, 0x01, 0];
        text.iter_mut().for_each(|byte| *byte = likely[random.usize(..likely.len())]);
        let (offset, rax) = (random.usize(..40), random.u64(..3));
        let Some(found) = site::decide(&text, offset, rax) else { continue };
        assert_eq!(found.offset + 5, offset, "seed {seed}, round {round}");
        assert_eq!(text[offset..offset + 2], [0x0f, 0x05]);
        assert_eq!(text[found.offset], 0xb8);
        assert_ne!(text[found.offset - 1] & 0xf0, 0x40);
        assert_eq!(u64::from(found.number), rax);
    }
}
