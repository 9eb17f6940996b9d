//! Crash states: what a disk may hold after a power cut.
//!
//! A state has the writes that a flush made durable, a subset of the others, and at most one torn write. Up to eight
//! others: all subsets; more: prefixes, all but one, one alone, pairs, and seeded random ones.

use crate::disk::{Cell, Disk, Event};
use crate::random::Random;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use xn::format::{SECTOR_SIZE, SECTORS};

/// The writes at one moment: the durable blocks, and the writes that may be lost, in order.
struct Window {
    durable: Vec<Cell>,
    open: Vec<(u64, Cell)>,
}

fn window(disk: &Disk, moment: usize) -> Window {
    let (mut writes, mut issued) = (Vec::new(), Vec::new());
    let mut durable_writes = Vec::new();
    let mut completed: Vec<usize> = Vec::new();
    for event in &disk.log[..moment] {
        match event {
            Event::Submitted { block, cell } => {
                writes.push((*block, Rc::clone(cell)));
                durable_writes.push(false);
            }
            Event::Completed { write } => completed.push(*write),
            Event::FlushIssued => issued.push(completed.len()),
            Event::FlushCompleted { flush } => {
                completed[..issued[*flush]].iter().for_each(|write| durable_writes[*write] = true);
            }
        }
    }
    let mut durable = disk.base.clone();
    let mut open = Vec::new();
    for ((block, cell), is_durable) in writes.into_iter().zip(durable_writes) {
        if is_durable {
            // What failed earlier, or was overwritten, cannot reach the disk any more.
            open.retain(|(other, _): &(u64, Cell)| *other != block);
            durable[block as usize] = cell;
        } else {
            open.push((block, cell));
        }
    }
    Window { durable, open }
}

fn subsets(count: usize, random: &mut Random) -> Vec<Vec<bool>> {
    if count <= 8 {
        return (0..1_u32 << count).map(|mask| (0..count).map(|bit| mask >> bit & 1 == 1).collect()).collect();
    }
    let pick = |chosen: &dyn Fn(usize) -> bool| (0..count).map(chosen).collect::<Vec<bool>>();
    let mut all: Vec<Vec<bool>> = (0..=count).map(|end| pick(&|index| index < end)).collect();
    for one in 0..count {
        all.push(pick(&|index| index != one));
        all.push(pick(&|index| index == one));
        let other = random.below(count);
        all.push(pick(&|index| index == one || index == other));
        let word = random.next();
        all.push(pick(&|index| word >> (index % 64) & 1 == 1));
    }
    all
}

/// Where a state is entered by its hash, so that it counts once.
#[derive(Default)]
pub struct Seen(HashSet<u64>);

impl Seen {
    fn is_new(&mut self, cells: &[Cell]) -> bool {
        let mut hasher = DefaultHasher::new();
        cells.iter().for_each(|cell| Rc::as_ptr(cell).hash(&mut hasher));
        self.0.insert(hasher.finish())
    }
}

/// Calls `judge` with each new state at `moment` (a number of events), at most `limit` of them.
pub fn at_moment(
    disk: &Disk,
    moment: usize,
    limit: usize,
    random: &mut Random,
    seen: &mut Seen,
    judge: &mut dyn FnMut(Vec<Cell>),
) {
    let window = window(disk, moment);
    let mut choices = subsets(window.open.len(), random);
    while choices.len() > limit {
        let index = random.below(choices.len());
        choices.swap_remove(index);
    }
    for chosen in choices {
        let mut cells = window.durable.clone();
        for ((block, cell), _) in window.open.iter().zip(&chosen).filter(|(_, chosen)| **chosen) {
            cells[*block as usize] = Rc::clone(cell);
        }
        let torn = (!window.open.is_empty() && random.one_in(3)).then(|| random.below(window.open.len()));
        if seen.is_new(&cells) {
            judge(cells.clone());
        }
        if let Some(index) = torn {
            judge(tear(&cells, &window.open[index], random));
        }
    }
}

/// Writes only some sectors of `write`.
fn tear(cells: &[Cell], write: &(u64, Cell), random: &mut Random) -> Vec<Cell> {
    let mut cells = cells.to_vec();
    let mut bytes = *cells[write.0 as usize];
    let mask = random.below(256);
    for sector in (0..SECTORS).filter(|sector| mask >> sector & 1 == 1) {
        let range = sector * SECTOR_SIZE..(sector + 1) * SECTOR_SIZE;
        bytes[range.clone()].copy_from_slice(&write.1[range]);
    }
    cells[write.0 as usize] = Rc::new(bytes);
    cells
}
