//! The tree of filters against a model of it: who lies in whom, whose it is, and what is left when it is gone.

mod support;

use abi::budget::Resource;
use abi::limits::{FILTER_DEPTH, FILTER_OWNERS};
use abi::packet_filter::{FilterSpecification, ROOT};
use abi::{EnvironmentId, Error, Failure, KeyIndex};
use packet_filter::{Atom, Builder, Classifier, Keeper, Node, Progress, Request, Size, Sizes, Step, Tree};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use support::{Memory, Random, cases, seed};

/// Filters that the tree has room for.
const ROOM: usize = FILTER_OWNERS + 2;

/// What stands in for the kernel: which lists the inserters own, and the records that it was told of.
#[derive(Default)]
struct Lists {
    owned: BTreeSet<u64>,
    changed: RefCell<BTreeSet<u32>>,
}

impl Keeper<u64> for Lists {
    fn may_overlap(&self, _: EnvironmentId, _: KeyIndex, other: &u64) -> bool {
        self.owned.contains(other)
    }

    fn changed(&self, _: &Tree<'_, u64>, index: u32) {
        self.changed.borrow_mut().insert(index);
    }
}

/// A tree with room for [`ROOM`] filters.
fn tree() -> Tree<'static, u64> {
    let sizes = Sizes::for_filters(FILTER_OWNERS, ROOM);
    let memory: &'static mut Memory = Box::leak(Box::new(Memory::new(sizes)));
    let classifier = Box::leak(Box::new(Classifier::new(memory.storage(), 7).expect("the sizes fit")));
    while classifier.step(&mut |_, _| false) == Progress::Commit {}
    Tree::new(classifier, vec![Node::default(); ROOM + 1].leak(), vec![0; sizes.filters].leak())
}

/// Does all that is under way; the filters that are gone.
fn finish(tree: &mut Tree<'_, u64>, keeper: &Lists) -> Vec<u64> {
    let mut gone = vec![];
    while tree.is_busy() {
        if let Step::Gone(node) = tree.step(keeper) {
            gone.push(node.number);
        }
    }
    gone
}

/// Frames of interface 1 that begin with these bytes.
fn prefix(bytes: &[u8]) -> Vec<Atom> {
    let mut space = [Atom::default(); 16];
    let each = (8..).zip(bytes);
    let first = Builder::new(&mut space).equal(Size::Two, 0, 1);
    let builder = each.fold(first, |all, (at, byte)| all.equal(Size::One, at, u32::from(*byte)));
    builder.finish().expect("there is room").to_vec()
}

/// A filter of interface 1.
fn child_of(tree: &Tree<'_, u64>, parent: u64, owner: u64) -> Result<Node<u64>, Failure> {
    let wanted = FilterSpecification { interface: 1, parent, ..FilterSpecification::default() };
    let parent = if parent == ROOT { None } else { Some(tree.node(tree.installed(parent)?)) };
    Node::new(&wanted, parent, EnvironmentId(owner), owner)
}

/// Inserts one to its end.
fn insert(
    tree: &mut Tree<'_, u64>,
    keeper: &Lists,
    parent: u64,
    owner: u64,
    atoms: Option<&[Atom]>,
) -> Result<u64, Failure> {
    let (node, owner) = (child_of(tree, parent, owner)?, EnvironmentId(owner));
    let Some(atoms) = atoms else { return tree.insert(&node, None).map(|index| tree.node(index).number) };
    let account = tree.account_for(owner, |_| true)?;
    tree.insert(&node, Some(&Request { atoms, account, limit: 100, key: KeyIndex(1) }))?;
    finish(tree, keeper);
    tree.take_outcome(owner).expect("it has ended")
}

fn remove(tree: &mut Tree<'_, u64>, keeper: &Lists, number: u64) {
    let index = tree.installed(number).expect("it is installed");
    tree.remove(index);
    assert!(tree.is_removing(index) && tree.installed(number) == Err(Error::Gone.about(number)));
    assert_eq!(finish(tree, keeper), [number]);
}

/// What the model knows of a filter: parent, owner, the bytes that its frames begin with, none if it receives nothing.
type Known = BTreeMap<u64, (u64, u64, Option<Vec<u8>>)>;

fn agrees(tree: &Tree<'_, u64>, model: &Known) {
    for (number, (parent, owner, _)) in model {
        let node = tree.node(tree.installed(*number).expect("it is installed"));
        assert_eq!((node.number, node.parent, node.owner.0), (*number, *parent, *owner));
    }
}

#[test]
fn fault_53_filters_come_and_go_as_the_model_says() {
    let mut random = Random(seed(61));
    for _ in 0..cases(20, 1_000) {
        let (mut tree, mut model, keeper) = (tree(), Known::new(), Lists::default());
        for _ in 0..200 {
            let numbers: Vec<u64> = model.keys().copied().collect();
            let any = |random: &mut Random| numbers[random.below(numbers.len() as u64) as usize];
            if !numbers.is_empty() && random.chance(35) {
                let number = any(&mut random);
                keeper.changed.borrow_mut().clear();
                remove(&mut tree, &keeper, number);
                let (above, ..) = model.remove(&number).expect("it was known");
                for (child, (parent, ..)) in model.iter_mut().filter(|(_, (parent, ..))| *parent == number) {
                    *parent = above;
                    assert!(keeper.changed.borrow().contains(&(*child as u16).into()), "its exposed record is old");
                }
                assert!(keeper.changed.borrow().contains(&(number as u16).into()));
            } else {
                let parent = if numbers.is_empty() || random.chance(30) { ROOT } else { any(&mut random) };
                let above = model.get(&parent).map_or(Some(vec![]), |(_, _, bytes)| bytes.clone());
                let byte = random.below(4) as u8;
                let bytes: Option<Vec<u8>> =
                    above.as_ref().filter(|_| random.chance(80)).map(|above| [above.as_slice(), &[byte]].concat());
                let owner = 1 + random.below(3);
                let atoms = bytes.as_deref().map(prefix);
                match insert(&mut tree, &keeper, parent, owner, atoms.as_deref()) {
                    Ok(number) => assert_eq!(model.insert(number, (parent, owner, bytes)), None, "used twice"),
                    Err(Failure { error: Error::Overlap, detail }) => {
                        let (_, other, taken) = &model[&detail];
                        assert_ne!(*other, owner, "one's own filters never stand against one");
                        let (taken, wanted) = (taken.as_deref().expect("it receives"), bytes.expect("it receives"));
                        assert!(taken.starts_with(&wanted) || wanted.starts_with(taken), "{taken:?} and {wanted:?}");
                    }
                    Err(Failure { error: Error::TooMany, detail: FILTER_DEPTH }) => {}
                    Err(Failure { error: Error::Exhausted, .. }) => assert_eq!(model.len(), ROOM),
                    // The eight shapes of an owner.
                    Err(Failure { error: Error::OverBudget, .. }) => {}
                    Err(failure) => panic!("{failure:?}"),
                }
            }
            agrees(&tree, &model);
        }
        for owner in [1, 2, 3] {
            while model.values().any(|(_, of, _)| *of == owner) {
                if let Some(index) = tree.search(EnvironmentId(owner)) {
                    let number = tree.node(index).number;
                    assert_eq!(model.remove(&number).map(|(_, of, _)| of), Some(owner));
                    remove(&mut tree, &keeper, number);
                }
            }
        }
        assert!(tree.classifier().is_clean(), "something was left behind");
        for _ in 0..ROOM {
            insert(&mut tree, &keeper, ROOT, 1, None).expect("all records are free");
        }
    }
}

#[test]
fn fault_161_a_filter_is_refused_by_name_of_what_it_takes_from() {
    let (mut tree, mut keeper) = (tree(), Lists::default());
    let first = insert(&mut tree, &keeper, ROOT, 1, Some(&prefix(&[1]))).expect("free");
    let overlap = Err(Error::Overlap.about(first));
    assert_eq!(insert(&mut tree, &keeper, ROOT, 2, Some(&prefix(&[1, 2]))), overlap);
    keeper.owned.insert(1);
    let second = insert(&mut tree, &keeper, ROOT, 2, Some(&prefix(&[1, 2]))).expect("its list is owned");
    keeper.owned.clear();
    // The filters that it lies in are no others.
    let inner = insert(&mut tree, &keeper, second, 3, Some(&prefix(&[1, 2, 3])));
    assert_eq!(inner, Err(Error::Overlap.about(first)), "the first one does not contain the second");
    let inner = insert(&mut tree, &keeper, first, 3, Some(&prefix(&[1, 3]))).expect("contained");
    assert!(insert(&mut tree, &keeper, inner, 4, Some(&prefix(&[1, 3, 4]))).is_ok());
    let outside = insert(&mut tree, &keeper, first, 3, Some(&prefix(&[2, 3])));
    assert_eq!(outside, Err(Error::NotPermitted.about(256)));
    let odd = Atom { compare: 9, ..prefix(&[1])[0] };
    let garbage = insert(&mut tree, &keeper, first, 3, Some(&[prefix(&[1])[0], odd]));
    assert_eq!(garbage, Err(Error::BadArgument.about(256 + 1)));
    let silent = insert(&mut tree, &keeper, first, 3, None).expect("it only sends");
    assert_eq!(insert(&mut tree, &keeper, silent, 3, Some(&prefix(&[1]))), Err(Error::NotPermitted.about(256)));
}

#[test]
fn fault_53_an_outcome_is_told_to_the_one_that_asked() {
    let (mut tree, keeper) = (tree(), Lists::default());
    let first = insert(&mut tree, &keeper, ROOT, 1, Some(&prefix(&[1]))).expect("free");
    let [dead, next] = [EnvironmentId(2), EnvironmentId(3)];
    let begin = |tree: &mut Tree<'_, u64>, owner: EnvironmentId, bytes: &[u8]| {
        let account = tree.account_for(owner, |it| it != dead).expect("there are many");
        let node = child_of(tree, ROOT, owner.0).expect("it is one");
        let atoms = &prefix(bytes);
        tree.insert(&node, Some(&Request { atoms, account, limit: 100, key: KeyIndex(1) })).expect("it begins");
        assert_eq!(tree.take_outcome(owner), None, "it has not ended");
        finish(tree, &keeper);
        account
    };
    // Environment 2 dies before it hears that it was refused, and its account is that of the next one.
    let account = begin(&mut tree, dead, &[1, 2]);
    assert_eq!(begin(&mut tree, next, &[2]), account);
    let told = tree.take_outcome(next).expect("it has ended").expect("it was installed");
    assert_ne!(told, first);
    assert_eq!((tree.take_outcome(next), tree.take_outcome(dead)), (None, None));
    // One that lives keeps its outcome and its account.
    begin(&mut tree, EnvironmentId(4), &[1, 4]);
    begin(&mut tree, EnvironmentId(5), &[5]);
    assert_eq!(tree.take_outcome(EnvironmentId(4)), Some(Err(Error::Overlap.about(first))));
}

#[test]
fn accounts_are_used_up_and_come_back() {
    let (mut tree, keeper) = (tree(), Lists::default());
    let numbers: Vec<u64> = (0..FILTER_OWNERS as u64)
        .map(|owner| insert(&mut tree, &keeper, ROOT, 100 + owner, Some(&prefix(&[owner as u8]))).expect("free"))
        .collect();
    let more = insert(&mut tree, &keeper, ROOT, 1, Some(&prefix(&[200])));
    assert_eq!(more, Err(Error::Exhausted.about(Resource::Filter as u64)));
    remove(&mut tree, &keeper, numbers[7]);
    assert!(insert(&mut tree, &keeper, ROOT, 1, Some(&prefix(&[200]))).is_ok());
}

#[test]
fn a_refused_filter_leaves_no_record() {
    let (mut tree, keeper) = (tree(), Lists::default());
    let skips = Atom { conjunction: 1, ..prefix(&[1])[0] };
    for atoms in [[skips; 1].as_slice(), &[skips; 200], &[]] {
        let refused = insert(&mut tree, &keeper, ROOT, 1, Some(atoms));
        assert!(matches!(refused, Err(Failure { error: Error::BadArgument, .. })), "{refused:?}");
    }
    for _ in 0..ROOM {
        insert(&mut tree, &keeper, ROOT, 1, None).expect("all records are free");
    }
}

#[test]
fn filters_lie_in_so_many_others_at_most() {
    let (mut tree, keeper) = (tree(), Lists::default());
    let mut inmost = ROOT;
    for _ in 0..FILTER_DEPTH {
        inmost = insert(&mut tree, &keeper, inmost, 1, None).expect("not too deep");
    }
    assert_eq!(insert(&mut tree, &keeper, inmost, 1, None), Err(Error::TooMany.about(FILTER_DEPTH)));
}

#[test]
fn fault_52_a_template_is_as_strict_as_that_of_its_parent() {
    let mut random = Random(seed(62));
    let node = |mask, value, parent: Option<&Node<u64>>| {
        let wanted = FilterSpecification { send_mask: mask, send_value: value, ..FilterSpecification::default() };
        Node::new(&wanted, parent, EnvironmentId(1), 0)
    };
    for _ in 0..cases(300, 20_000) {
        let mask: [u64; 8] = core::array::from_fn(|_| random.next() & random.next());
        let value = mask.map(|mask| random.next() & mask);
        let parent = node(mask, value, None).expect("it is one");
        let (byte, bit) = (random.below(64) as usize, random.below(8));
        let (word, one) = (byte / 8, 1 << (byte % 8 * 8 + bit as usize));
        let is_fixed = mask[word] & one != 0;
        let (mut lax, mut other) = ((mask, value), value);
        lax.0[word] &= !one;
        lax.1[word] &= !one;
        other[word] ^= one;
        let refused = Error::NotPermitted.about(512 + byte as u64);
        assert_eq!(node(lax.0, lax.1, Some(&parent)).err(), is_fixed.then_some(refused));
        let odd = node(mask, other, Some(&parent)).err();
        assert_eq!(odd, Some(if is_fixed { refused } else { Error::BadArgument.about(1) }));
        let (mut tight, mut fixed) = (mask, value);
        tight[word] |= one;
        fixed[word] = value[word] & !one | one & random.next() | value[word] & mask[word] & one;
        let template = node(tight, fixed, Some(&parent)).map(|node| node.template);
        match template {
            Ok(template) => {
                assert!(template.fixes(byte) && template.end() > byte && template.end() <= 64);
                let header = |index: usize| fixed[index] | random.next() & !tight[index];
                assert!((0..8).map(header).enumerate().all(|(index, word)| template.differs(index, word) == 0));
                assert_eq!(template.differs(word, fixed[word] ^ one), one);
            }
            Err(failure) => assert!(is_fixed && failure == refused, "{failure:?}"),
        }
    }
}
