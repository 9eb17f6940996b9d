//! What can be said of the emitted code by reading it: rows 55 and 90 of the fault matrix. (It is run under guard
//! pages by `test/native`.)

mod support;

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use packet_filter::{Atom, Builder, Patch, Size, Sizes};
use support::{CodeMemory, Driver, Memory, Random, cases, endpoint, seed, small_filter, tcp_filter};

/// Every piece of code that was ever committed.
#[derive(Default)]
struct Pieces(Vec<Vec<u8>>);

impl CodeMemory for Pieces {
    fn commit(&mut self, patch: Patch<'_>) {
        self.0.push(patch.bytes.to_vec());
    }
}

/// The pieces for some filters, each as instructions from its first byte to its last.
fn pieces(filters: &[Vec<Atom>], secret: u64) -> Vec<Vec<u8>> {
    let mut memory = Memory::new(Sizes::for_filters(1, 200));
    let mut driver = Driver::with_code(&mut memory, secret, Pieces::default());
    for atoms in filters {
        let _ = driver.insert(0, atoms, false);
    }
    driver.code.0
}

fn decode(piece: &[u8]) -> Vec<Instruction> {
    let instructions: Vec<_> = Decoder::with_ip(64, piece, 0, DecoderOptions::NONE).into_iter().collect();
    assert!(instructions.iter().all(|instruction| instruction.code() != Code::INVALID), "{piece:02x?}");
    instructions
}

/// The constants that stand in an instruction: immediates and displacements. Targets of jumps do not count. Nor do
/// places in the classifier's tables (from rdx): no filter chooses them, and they may equal one of its constants by
/// chance.
fn constants(instruction: &Instruction) -> Vec<u64> {
    let in_tables = instruction.memory_base() == Register::RDX;
    let mut found = Vec::new();
    for operand in 0..instruction.op_count() {
        match instruction.op_kind(operand) {
            OpKind::Memory if in_tables => {}
            OpKind::Memory => found.push(instruction.memory_displacement64()),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 | OpKind::Register => {}
            _ => found.push(instruction.immediate(operand)),
        }
    }
    found
}

/// A filter with constants of two and of four bytes in every role: value, mask, bounds, offset, length.
struct Chosen {
    atoms: Vec<Atom>,
    constants: Vec<u32>,
}

fn chosen(random: &mut Random) -> Chosen {
    let mut draw = |bits: u32| random.next() as u32 >> (32 - bits) | 1 << (bits - 1) | 1;
    let (value, mask, low, long_mask, long_low) = (draw(32), draw(15), draw(14), draw(30), draw(30));
    let (width, long_width, far, key) = (draw(12), draw(29), draw(15), draw(16));
    let mut atoms = [Atom::default(); 8];
    let filter = Builder::new(&mut atoms)
        .equal(Size::Four, 0, value)
        .equal_masked(Size::Two, 4, mask, mask)
        .equal_masked(Size::Four, 6, long_mask, long_mask)
        .within(Size::Two, 10, low, low + width)
        .within(Size::Four, 12, long_low, long_low + long_width)
        .equal(Size::Two, far, key);
    let constants = vec![value, mask, low, width, long_mask, long_low, long_width, far, far + 2, key];
    Chosen { atoms: filter.finish().expect("eight are enough").to_vec(), constants }
}

/// Whether a constant stands in the code, in either order of its bytes.
fn stands(constant: u32, pieces: &[Vec<u8>]) -> bool {
    let swapped = [constant.swap_bytes(), u32::from((constant as u16).swap_bytes())];
    let forms = [constant, swapped[0], if constant <= 0xffff { swapped[1] } else { swapped[0] }];
    let instructions = pieces.iter().flat_map(|piece| decode(piece));
    let mut found = instructions.flat_map(|instruction| constants(&instruction));
    found.any(|found| forms.contains(&(found as u32)) && (found as u32) > 0xff)
}

#[test]
fn fault_55_no_chosen_constant_longer_than_a_byte_stands_in_the_code() {
    let mut random = Random(seed(43));
    for _ in 0..cases(60, 6_000) {
        let one = chosen(&mut random);
        // Once alone, where a tail holds its constants, and once with a neighbour, where code does.
        let mut other = one.atoms.clone();
        other.last_mut().expect("six").low ^= 0x55;
        let secret = random.next();
        for filters in [vec![one.atoms.clone()], vec![one.atoms.clone(), other]] {
            let (code, changed) = (pieces(&filters, secret), pieces(&filters, secret ^ 1));
            for constant in &one.constants {
                assert!(
                    !(stands(*constant, &code) && stands(*constant, &changed)),
                    "{constant:#x} stands in the code whatever the secret: {:#?}",
                    one.atoms
                );
            }
            assert_ne!(code, changed, "the secret changes the code");
        }
    }
}

/// `cmovb rdi, rdx`, or `cmovl` where the base was moved: on the path that is only speculated, the base becomes
/// harmless.
fn makes_harmless(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Cmovb | Mnemonic::Cmovl)
        && instruction.op0_register() == Register::RDI
        && instruction.op1_register() == Register::RDX
}

/// Checks one piece; says how many times the base was made harmless.
fn guarded(piece: &[u8]) -> usize {
    let (mut facts, mut pending, mut made) = (InstructionInfoFactory::new(), false, 0);
    for instruction in decode(piece) {
        let uses_base = instruction.memory_base() == Register::RDI && instruction.mnemonic() != Mnemonic::Lea;
        assert!(!(pending && uses_base), "`{instruction}` follows a comparison unguarded: {piece:02x?}");
        let compares_length = instruction.mnemonic() == Mnemonic::Cmp && instruction.op0_register() == Register::RSI;
        let info = facts.info(&instruction);
        let moves = |register| {
            let mut used = info.used_registers().iter();
            used.any(|used| used.register().full_register() == register && used.access() == OpAccess::Write)
        };
        let restores = instruction.mnemonic() == Mnemonic::Pop;
        if makes_harmless(&instruction) {
            assert!(pending, "flags of a comparison are at hand");
            (pending, made) = (false, made + 1);
        } else if compares_length || (moves(Register::RDI) && !restores) {
            pending = true;
        }
    }
    assert!(!pending, "a comparison is left unguarded: {piece:02x?}");
    made
}

#[test]
fn fault_90_behind_every_comparison_with_the_length_the_base_is_masked() {
    let mut random = Random(seed(44));
    let mut made = 0;
    for _ in 0..cases(60, 6_000) {
        let filters: Vec<_> = (0..1 + random.below(12)).map(|_| small_filter(&mut random)).collect();
        made += pieces(&filters, random.next()).iter().map(|piece| guarded(piece)).sum::<usize>();
        made += pieces(&[chosen(&mut random).atoms], random.next()).iter().map(|piece| guarded(piece)).sum::<usize>();
    }
    let tcp: Vec<_> = (0..50).map(|index| endpoint(support::Differ::Both, index)).collect();
    let tcp: Vec<_> = tcp.into_iter().map(|(address, port)| tcp_filter(address, port)).collect();
    made += pieces(&tcp, 7).iter().map(|piece| guarded(piece)).sum::<usize>();
    assert!(made > 100, "only {made} comparisons were seen");
}

/// Between a comparison and what depends on it nothing but the jump and moves that keep the flags: masks are data flow.
#[test]
fn fault_90_masks_use_the_flags_of_the_comparison_before_them() {
    let mut random = Random(seed(45));
    for _ in 0..cases(60, 6_000) {
        for piece in pieces(&[small_filter(&mut random), chosen(&mut random).atoms], random.next()) {
            let instructions = decode(&piece);
            for place in (0..instructions.len()).filter(|place| makes_harmless(&instructions[*place])) {
                let before = instructions[..place].iter().rev();
                let writer = before.take_while(|found| found.rflags_modified() == 0).count();
                let compared = &instructions[place - writer - 1];
                assert!(matches!(compared.mnemonic(), Mnemonic::Cmp | Mnemonic::Sub), "{compared}");
                assert_eq!(compared.op0_register(), Register::RSI, "{compared}");
            }
        }
    }
}
