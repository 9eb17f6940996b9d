//! Which sites are rewritten, and what the bytes do.

use program::patch_site::{self, MOVE_BYTES, STUB_STRIDE, Site};

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
    assert_eq!(
        patch_site::decide(&page(100, &[], 39), 100, 39),
        Some(Site { offset: 95, first: [0xb8, 39, 0, 0, 0], hop: None })
    );
}

#[test]
fn another_rax_a_prefix_or_another_form_keeps_the_gate() {
    assert_eq!(patch_site::decide(&page(100, &[], 39), 100, 40), None);
    for prefix in (0x40..=0x4f).chain([0x66]) {
        assert_eq!(patch_site::decide(&page(100, &[prefix], 1), 100, 1), None, "prefix {prefix:#x}");
    }
    let mut other = page(100, &[], 39);
    other[95] = 0xb9;
    assert_eq!(patch_site::decide(&other, 100, 39), None);
    assert_eq!(patch_site::decide(&page(100, &[], 39), 99, 39), None);
}

#[test]
fn what_does_not_lie_in_one_page_keeps_the_gate() {
    assert_eq!(patch_site::decide(&page(5, &[], 1), 5, 1), None);
    assert!(patch_site::decide(&page(6, &[], 1), 6, 1).is_some());
    assert!(patch_site::decide(&page(4094, &[], 1), 4094, 1).is_some());
    assert_eq!(patch_site::decide(&page(4094, &[], 1)[..4095], 4094, 1), None);
    assert_eq!(patch_site::decide(&[], usize::MAX, 1), None);
}

#[test]
fn calls_that_come_back_elsewhere_keep_the_gate() {
    for number in [15, 56, 58, 59, 322, 435] {
        assert_eq!(patch_site::decide(&page(100, &[], number), 100, u64::from(number)), None, "call {number}");
    }
}

/// `read` as the GNU C library has it, from the branch on, and where its `syscall` stands.
const READ: ([u8; 25], usize) = (
    [
        0x74, 0x17, 0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77, 0x5b, 0xc3, 0x66, 0x2e, 0x0f,
        0x1f, 0x84, 0, 0, 0, 0, 0,
    ],
    4,
);

#[test]
fn read_is_rewritten_in_the_padding_behind_its_end() {
    let (code, syscall) = READ;
    let mut page = vec![0x90; 4096];
    page[0x8e7..][..code.len()].copy_from_slice(&code);
    let site = patch_site::decide(&page, 0x8e7 + syscall, 0).expect("a site");
    assert_eq!(site, Site { offset: 0x8f6, first: [0xb8, 0, 0, 0, 0], hop: Some(0x8e9) });
    assert_eq!(patch_site::short_jump(0x8e9, 0x8f6), Some([0xeb, 0x0b]));
    assert_eq!(patch_site::decide(&page, 0x8e7 + syscall, 1), None, "another number");
    // Whatever else stands at any place of it, but for how far the branch for errors goes.
    for (place, byte) in
        (0..code.len()).filter(|place| *place != 13).flat_map(|place| (0..=255).map(move |byte| (place, byte)))
    {
        let mut other = page.clone();
        other[0x8e7 + place] = byte;
        let is_same = byte == code[place]
            || place == 0 && byte == 0x75
            || place == 15 && byte == 0x2e
            || place == 16 && byte == 0x66;
        assert_eq!(patch_site::decide(&other, 0x8e7 + syscall, 0).is_some(), is_same, "byte {byte:#x} at {place}");
    }
    assert_eq!(
        patch_site::decide(&page[..0x8e7 + code.len() - 1], 0x8e7 + syscall, 0),
        None,
        "padding that goes on in the next page"
    );
}

#[test]
fn the_function_syscall_is_rewritten_whatever_it_is_called_with() {
    let mut page = vec![0x90; 4096];
    page[100..110].copy_from_slice(&[0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05]);
    for number in [0, 56, 202] {
        let site = patch_site::decide(&page, 108, number).expect("a site");
        assert_eq!(site, Site { offset: 103, first: [0x4c, 0x8b, 0x4c, 0x24, 0x08], hop: None });
    }
    page[102] = 0x66;
    assert_eq!(patch_site::decide(&page, 108, 202), None);
}

#[test]
fn a_short_jump_reaches_as_far_as_a_byte() {
    assert_eq!(patch_site::short_jump(10, 139), Some([0xeb, 127]));
    assert_eq!(patch_site::short_jump(10, 140), None);
    assert_eq!(patch_site::short_jump(200, 74), Some([0xeb, 128]));
    assert_eq!(patch_site::short_jump(200, 73), None);
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
        let jump = patch_site::jump(site, stub).expect("it reaches");
        assert_eq!((jump[0], target(site + 5, &jump[1..])), (0xe9, stub));
        let first = core::array::from_fn(|_| random.u8(..));
        let back = site + MOVE_BYTES as u64 + 2;
        let bytes = patch_site::stub(stub, first, back, 0xf88).expect("it reaches");
        assert_eq!(bytes[..5], first);
        assert_eq!((&bytes[5..8], target(stub + 12, &bytes[8..12])), (&[0x48, 0x8d, 0x0d][..], back));
        assert_eq!(&bytes[12..20], &[0x65, 0xff, 0x24, 0x25, 0x88, 0x0f, 0, 0]);
        assert_eq!(bytes.len(), STUB_STRIDE);
    }
    assert_eq!(patch_site::jump(0, 1 << 32), None);
    assert_eq!(patch_site::stub(0x1000, [0; 5], 0x2_0000_0000, 0), None);
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
        let Some(found) = patch_site::decide(&text, offset, rax) else { continue };
        assert_eq!(found.offset + 5, offset, "seed {seed}, round {round}");
        assert_eq!(text[offset..offset + 2], [0x0f, 0x05]);
        assert_eq!(text[found.offset], 0xb8);
        assert_ne!(text[found.offset - 1] & 0xf0, 0x40);
        assert_eq!((u64::from(u32::from_le_bytes(found.first[1..].try_into().unwrap())), found.hop), (rax, None));
    }
}
