//! Filters in filters, against every packet of a small world: what is accepted in a parent takes nothing beyond it.

mod support;

use packet_filter::{Atom, Builder, Compare, Parent, Reason, Size, Sizes, reference};
use support::{Driver, Memory, Random, cases, seed, tiny_filter, tiny_packets};

/// Offers `child` in an installed `parent`; none if the parent is no filter.
fn offer(secret: u64, parent: &[Atom], child: &[Atom]) -> Option<Result<(), Reason>> {
    let mut memory = Memory::new(Sizes::for_filters(4, 16));
    let mut driver = Driver::new(&mut memory, secret);
    let parent = driver.insert(0, parent, false).ok()?;
    let outcome = driver.insert_in(Parent::Filter(parent), 1, child);
    if outcome.is_err() {
        driver.remove(parent);
        assert!(driver.classifier.is_clean(), "a refused filter has left something");
    }
    Some(outcome.map(|_| ()).map_err(|refusal| refusal.reason))
}

fn packets() -> impl Iterator<Item = Vec<u8>> {
    (0..=u8::MAX).map(|byte| vec![byte]).chain([vec![]]).chain(tiny_packets())
}

/// A packet that the child accepts and the parent does not.
fn stolen(parent: &[Atom], child: &[Atom]) -> Option<Vec<u8>> {
    packets().find(|packet| reference::accepts(child, packet).is_some() && reference::accepts(parent, packet).is_none())
}

/// Some atoms of one conjunction, then those of another filter's first.
fn narrowed(random: &mut Random, parent: &[Atom], shifts: bool) -> Vec<Atom> {
    let number = parent[random.below(parent.len() as u64) as usize].conjunction;
    let own = parent.iter().filter(|atom| atom.conjunction == number).copied();
    let more = tiny_filter(random, shifts).into_iter().filter(|atom| atom.conjunction == 0);
    own.chain(more).map(|atom| Atom { conjunction: 0, ..atom }).collect()
}

#[test]
fn fault_161_no_child_takes_what_its_parent_does_not() {
    let mut random = Random(seed(31));
    for shifts in [false, true] {
        let (mut contained, mut refused) = (0, 0);
        for _ in 0..cases(300, 20_000) {
            let parent = tiny_filter(&mut random, shifts);
            let child = if random.chance(50) {
                narrowed(&mut random, &parent, shifts)
            } else {
                tiny_filter(&mut random, shifts)
            };
            match offer(random.next(), &parent, &child) {
                Some(Ok(())) => {
                    contained += 1;
                    assert_eq!(stolen(&parent, &child), None, "{child:?} is not contained in {parent:?}");
                }
                Some(Err(Reason::NotContained)) => refused += 1,
                _ => {}
            }
        }
        println!("shifts {shifts}: {contained} contained, {refused} refused");
        assert!(contained > 30 && refused > 30, "the cases say something");
    }
}

/// Where the parent is one conjunction of equalities, a refusal is true, too.
#[test]
fn equalities_are_decided_exactly() {
    let mut random = Random(seed(32));
    let mut refused = 0;
    let is_equal = |atom: &Atom| atom.compare == Compare::Equal as u8 && atom.conjunction == 0;
    for _ in 0..cases(300, 20_000) {
        let parent: Vec<Atom> = tiny_filter(&mut random, false).into_iter().filter(is_equal).collect();
        if parent.is_empty() {
            continue;
        }
        let mut child = narrowed(&mut random, &parent, false);
        child.retain(is_equal);
        child.remove(random.below(child.len() as u64) as usize);
        let accepts_some = packets().any(|packet| reference::accepts(&child, &packet).is_some());
        if let Some(Err(Reason::NotContained)) = offer(random.next(), &parent, &child)
            && accepts_some
        {
            refused += 1;
            assert!(stolen(&parent, &child).is_some(), "{child:?} is contained in {parent:?}");
        }
    }
    println!("{refused} refused");
    assert!(refused > 20, "the cases say something");
}

fn atoms(build: impl for<'b> FnOnce(Builder<'b>) -> Builder<'b>) -> Vec<Atom> {
    let mut room = [Atom::default(); 16];
    build(Builder::new(&mut room)).finish().expect("there is room").to_vec()
}

/// A kind of packet, then past its header.
fn base(builder: Builder<'_>) -> Builder<'_> {
    builder.equal(Size::Two, 20, 0x800).equal(Size::One, 31, 6).shift(Size::One, 22, 0x0f, 2)
}

/// The shapes that a network needs: an address in a prefix, a port in a block, both behind a header of any length.
#[test]
fn what_networks_ask_for_is_contained() {
    let cases = [
        (
            atoms(|b| b.equal_masked(Size::Four, 34, 0xffff_ff00, 0x0a00_0200)),
            atoms(|b| b.equal(Size::Four, 34, 0x0a00_020f)),
            true,
        ),
        (
            atoms(|b| b.equal_masked(Size::Four, 34, 0xffff_ff00, 0x0a00_0200)),
            atoms(|b| b.equal(Size::Four, 34, 0x0a00_030f)),
            false,
        ),
        (atoms(|b| b.within(Size::Two, 4, 1024, 4095)), atoms(|b| b.equal_masked(Size::Two, 4, 0xfff0, 1040)), true),
        (atoms(|b| b.within(Size::Two, 4, 1024, 4095)), atoms(|b| b.equal_masked(Size::Two, 4, 0xf000, 4096)), false),
        (atoms(base), atoms(|b| base(b).equal(Size::Two, 24, 80)), true),
        (atoms(|b| base(b).within(Size::Two, 24, 32768, 60999)), atoms(|b| base(b).equal(Size::Two, 24, 40000)), true),
        (atoms(|b| base(b).within(Size::Two, 24, 32768, 60999)), atoms(|b| base(b).equal(Size::Two, 24, 80)), false),
        // Not behind the same header.
        (atoms(|b| base(b).equal(Size::Two, 24, 80)), atoms(|b| b.equal(Size::Two, 24, 80)), false),
        // Behind a header whose length stands elsewhere.
        (
            atoms(|b| b.shift(Size::One, 22, 0x0f, 2).equal(Size::Two, 24, 80)),
            atoms(|b| b.shift(Size::One, 23, 0x0f, 2).equal(Size::Two, 24, 80)),
            false,
        ),
        // One of two ways of the parent.
        (atoms(|b| b.equal(Size::One, 8, 1).or().equal(Size::One, 8, 2)), atoms(|b| b.equal(Size::One, 8, 2)), true),
        (atoms(|b| b.equal(Size::One, 8, 1)), atoms(|b| b.equal(Size::One, 8, 1).or().equal(Size::One, 8, 2)), false),
        (atoms(|b| b.reaches(60)), atoms(|b| b.equal(Size::Two, 58, 7)), true),
        (atoms(|b| b.reaches(61)), atoms(|b| b.equal(Size::Two, 58, 7)), false),
        (atoms(|b| b.not_equal(Size::Two, 4, 0xffff, 25)), atoms(|b| b.equal_masked(Size::One, 5, 1, 0)), true),
    ];
    for (parent, child, is_contained) in cases {
        let outcome = offer(7, &parent, &child).expect("the parent is a filter");
        let expected = if is_contained { Ok(()) } else { Err(Reason::NotContained) };
        assert_eq!(outcome, expected, "{child:?} in {parent:?}");
    }
}

#[test]
fn a_root_names_its_interface() {
    let mut memory = Memory::new(Sizes::for_filters(4, 16));
    let mut driver = Driver::new(&mut memory, 9);
    let interface = |number| Parent::Atom(atoms(|b| b.equal(Size::Two, 0, number))[0]);
    let two = atoms(|b| b.equal(Size::Two, 0, 2).equal(Size::One, 8, 1));
    assert!(driver.insert_in(interface(2), 0, &two).is_ok());
    let reason = |outcome: Result<_, packet_filter::Refusal>| outcome.map(|_| ()).map_err(|refusal| refusal.reason);
    assert_eq!(reason(driver.insert_in(interface(3), 0, &two)), Err(Reason::NotContained));
    let any = atoms(|b| b.equal(Size::One, 8, 1));
    assert_eq!(reason(driver.insert_in(interface(2), 0, &any)), Err(Reason::NotContained));
    let gone = driver.installed[0].0;
    driver.remove(gone);
    assert_eq!(reason(driver.insert_in(Parent::Filter(gone), 0, &two)), Err(Reason::NoSuchFilter));
    assert!(driver.classifier.is_clean());
}
