//! Campaigns: workloads, their crash states, and the judgement of each.
//!
//! For each state, the decoder finds no fault, and recovery gives a tree that the history permits. A second recovery
//! repairs nothing. The recovered volume can be used and closed, and its free map is exact. One state in ten is crashed
//! once more while it is recovered.

use super::decoder::marks;
use super::device::Recorder;
use super::oracle::{Known, grow, tree};
use super::workload::{Both, History, LONG, Operation, Persist};
use crate::decoder::Decoder;
use crate::disk::{Cell, Disk, Event};
use crate::random::Random;
use crate::states::{Seen, at_moment};
use cffs::arena::Arena;
use cffs::examine::examine;
use cffs::layout::inode::FILE;
use cffs::make::{Options, make};
use cffs::mount::Mount;
use cffs::name::New;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use xn::format::BLOCK_SIZE;

/// Blocks of a volume: 260 are fixed.
const BLOCKS: usize = 420;

/// What a campaign did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub workloads: u64,
    /// Distinct states by content and by what was acknowledged.
    pub states: u64,
    /// Of those, states of a crash during recovery.
    pub again: u64,
    /// States in which recovery had something to repair.
    pub repaired: u64,
}

/// What was acknowledged after each call.
#[derive(Clone)]
struct Mark {
    moment: usize,
    last: usize,
    synced: usize,
    fsynced: BTreeMap<usize, usize>,
}

/// A campaign: its base volume, and what it has seen.
pub struct Campaign {
    base: Vec<Cell>,
    history: History,
    arena: Arena,
    decoder: Decoder,
    random: Random,
    hashes: HashMap<*const u8, (Cell, u64)>,
    seen: HashSet<u64>,
    /// States of one moment.
    pub limit: usize,
    pub report: Report,
}

const SETUP: [Operation; 15] = [
    Operation::Mkdir(("", "A")),
    Operation::Mkdir(("", "B")),
    Operation::Create(("A", "foo")),
    Operation::Write(("A", "foo"), 0, 9_000),
    Operation::Create(("A", "bar")),
    Operation::Write(("A", "bar"), 0, 700),
    Operation::Create(("B", "foo")),
    Operation::Write(("B", "foo"), 0, 24_000),
    Operation::Create(("B", "bar")),
    Operation::Mkdir(("A", "E")),
    Operation::Link(("A", "bar"), ("B", "twin")),
    Operation::Create(("B", "old")),
    Operation::Rename(("B", "old"), ("A", "moved")),
    Operation::Create(("", LONG)),
    Operation::Write(("A", "moved"), 0, 5_000),
];

fn mount(now: i64) -> Mount {
    Mount { read_only: false, now }
}

impl Campaign {
    /// A volume with two directories and some files, closed.
    pub fn new(seed: u64) -> Self {
        let garbage = Rc::new([0xA5; BLOCK_SIZE]);
        let recorder = Recorder::new(vec![garbage; BLOCKS]);
        let mut arena = Arena::new(64, 192);
        let options = Options { volume: *b"ghosts and files", now: 1, owner: (0, 0, 0o755) };
        make(&mut recorder.clone(), &mut arena, &options).expect("it is large enough");
        let (mut system, _) = arena.mount(recorder.clone(), mount(5)).expect("it is new");
        let history = History { models: vec![Default::default()], ..History::default() };
        let numbers = BTreeMap::from([(0, system.root())]);
        let mut both = Both { system: &mut system, history, numbers, step: 0 };
        assert!(SETUP.into_iter().all(|operation| both.run(operation)));
        let history = History { models: vec![both.history.last().clone()], ..History::default() };
        system.unmount().expect("it can be closed");
        let decoder = Decoder::default();
        let random = Random(seed);
        let (hashes, seen, report) = (HashMap::new(), HashSet::new(), Report::default());
        Self { base: recorder.cells(), history, arena, decoder, random, hashes, seen, limit: 64, report }
    }

    /// Runs a workload and judges what a crash leaves at its flushes and at its end.
    pub fn workload(&mut self, steps: &[(Operation, Persist)]) {
        let recorder = Recorder::new(self.base.clone());
        let (history, marks) = self.run(&recorder, steps);
        self.report.workloads += 1;
        let disk = recorder.0.borrow().clone();
        let mut again = Vec::new();
        for moment in moments(&disk) {
            let mut states = Vec::new();
            let (random, mut seen) = (&mut self.random, Seen::default());
            at_moment(&disk, moment, self.limit, random, &mut seen, &mut |cells| states.push(cells));
            for cells in states {
                if !self.is_new(&cells, passed(&marks, moment)) {
                    continue;
                }
                if let Err(fault) = self.judge(&cells, &history, &marks, moment) {
                    panic!("{steps:?}, event {moment} of {}: {fault}", disk.log.len());
                }
                if self.random.one_in(10) {
                    again.push((cells, moment));
                }
            }
        }
        for (cells, moment) in again {
            self.crash_again(&cells, &history, &marks, moment, steps);
        }
        // They hold all blocks that were written.
        self.hashes.clear();
        self.decoder = Decoder::default();
    }

    /// Runs a workload and cuts the power at one of its flushes. The result is a judged state, with the files that were
    /// acknowledged and not touched since.
    pub fn crash(&mut self, steps: &[(Operation, Persist)]) -> (Vec<Cell>, Vec<(String, Vec<u8>)>) {
        let recorder = Recorder::new(self.base.clone());
        let (history, marks) = self.run(&recorder, steps);
        let disk = recorder.0.borrow().clone();
        // Not before the volume was marked as mounted: else there is nothing to recover.
        let begun = marks.first().map_or(0, |mark| mark.moment);
        let moments: Vec<usize> = moments(&disk).into_iter().filter(|moment| *moment >= begun).collect();
        let moment = moments[self.random.below(moments.len())];
        let mut states = Vec::new();
        let mut seen = Seen::default();
        at_moment(&disk, moment, self.limit, &mut self.random, &mut seen, &mut |cells| states.push(cells));
        let cells = states.swap_remove(self.random.below(states.len()));
        self.judge(&cells, &history, &marks, moment)
            .unwrap_or_else(|fault| panic!("{steps:?}, event {moment}: {fault}"));
        let durable = known(&history, &marks, moment).unchanged();
        (cells, durable)
    }

    fn run(&mut self, recorder: &Recorder, steps: &[(Operation, Persist)]) -> (History, Vec<Mark>) {
        let (mut system, _) = self.arena.mount(recorder.clone(), mount(7_777)).expect("it is closed");
        let mut numbers = BTreeMap::new();
        let mut pending = vec![system.root()];
        while let Some(number) = pending.pop() {
            let inode = system.attributes(number).expect("it is there");
            numbers.insert(inode.uid as usize, number);
            if inode.is_directory() {
                pending.extend(system.list(number, 0, usize::MAX).expect("a directory").iter().map(|one| one.number));
            }
        }
        let mut both = Both { system: &mut system, history: self.history.clone(), numbers, step: 100 };
        let mut marks = Vec::new();
        let record = |both: &Both<'_, '_>, marks: &mut Vec<Mark>| {
            let (last, synced) = (both.history.models.len() - 1, both.history.synced);
            marks.push(Mark { moment: recorder.moment(), last, synced, fsynced: both.history.fsynced.clone() });
        };
        record(&both, &mut marks);
        for (operation, persist) in steps {
            if both.run(*operation) {
                record(&both, &mut marks);
                both.persist(*operation, *persist);
                record(&both, &mut marks);
            }
        }
        let history = both.history.clone();
        // What the user did not ask to be durable is written by the flusher.
        system.sync().expect("the disk works");
        (history, marks)
    }

    /// What is permitted before a call was acknowledged may be a fault afterwards.
    fn is_new(&mut self, cells: &[Cell], mark: &Mark) -> bool {
        let mut hasher = DefaultHasher::new();
        (mark.synced, &mark.fsynced).hash(&mut hasher);
        for cell in cells {
            let entry = self.hashes.entry(Rc::as_ptr(cell).cast()).or_insert_with(|| {
                let mut hasher = DefaultHasher::new();
                cell.hash(&mut hasher);
                (Rc::clone(cell), hasher.finish())
            });
            entry.1.hash(&mut hasher);
        }
        self.seen.insert(hasher.finish())
    }

    /// Judges one state.
    fn judge(&mut self, cells: &[Cell], history: &History, acknowledged: &[Mark], moment: usize) -> Result<(), String> {
        self.report.states += 1;
        marks(&mut self.decoder, cells)?;
        let known = known(history, acknowledged, moment);
        let recorder = Recorder::new(cells.to_vec());
        let (mut system, repairs) = self.arena.mount(recorder.clone(), mount(99_999)).map_err(fault("mount"))?;
        self.report.repaired += u64::from(!repairs.is_none());
        let found = tree(&mut system)?;
        known.judge(&found)?;
        drop(system);
        let (mut system, repairs) = self.arena.mount(recorder.clone(), mount(199_999)).map_err(fault("again"))?;
        if !repairs.is_none() {
            return Err(format!("a second recovery repairs {repairs:?}"));
        }
        let found = tree(&mut system)?;
        known.judge(&found)?;
        grow(&mut system, &found)?;
        let root = system.root();
        let file = system.create(root, b"later", &New { mode: FILE | 0o600, ..New::default() });
        let file = file.map_err(fault("create"))?;
        system.write(file, 10, &[9; 30_000]).map_err(fault("write"))?;
        system.fsync(file, false).map_err(fault("fsync"))?;
        system.unlink(root, b"later").map_err(fault("unlink"))?;
        system.unmount().map_err(fault("unmount"))?;
        // The examination costs as much as the rest.
        if self.report.states.is_multiple_of(4) {
            let found = examine(&mut recorder.clone()).map_err(fault("examine"))?;
            if let Some(damage) = found.damages.first() {
                return Err(format!("after a recovery: {damage:?}"));
            }
        }
        marks(&mut self.decoder, &recorder.cells()).map(|_| ())
    }

    /// Crashes while a state is recovered, and judges what that leaves.
    fn crash_again(
        &mut self,
        cells: &[Cell],
        history: &History,
        marks: &[Mark],
        moment: usize,
        steps: &[(Operation, Persist)],
    ) {
        let recorder = Recorder::new(cells.to_vec());
        let (system, _) = self.arena.mount(recorder.clone(), mount(55_555)).expect("it was mounted before");
        drop(system);
        let disk = recorder.0.borrow().clone();
        let mut seen = Seen::default();
        for inner in moments(&disk) {
            let mut states = Vec::new();
            at_moment(&disk, inner, 12, &mut self.random, &mut seen, &mut |cells| states.push(cells));
            for cells in states {
                if self.is_new(&cells, passed(marks, moment)) {
                    self.report.again += 1;
                    if let Err(fault) = self.judge(&cells, history, marks, moment) {
                        panic!("{steps:?}, event {moment}, in recovery at event {inner}: {fault}");
                    }
                }
            }
        }
    }
}

fn fault(what: &'static str) -> impl Fn(cffs::error::Error) -> String {
    move |error| format!("{what}: {error:?}")
}

/// Moments with the widest windows: before each flush completes, and at the end.
fn moments(disk: &Disk) -> Vec<usize> {
    let flushes = disk.log.iter().enumerate().filter(|(_, event)| matches!(event, Event::FlushCompleted { .. }));
    flushes.map(|(index, _)| index).chain([disk.log.len()]).collect()
}

/// What was acknowledged at a moment.
fn passed(marks: &[Mark], moment: usize) -> &Mark {
    marks.iter().rfind(|mark| mark.moment <= moment).unwrap_or(&marks[0])
}

fn known<'h>(history: &'h History, marks: &'h [Mark], moment: usize) -> Known<'h> {
    let passed = marks.iter().rposition(|mark| mark.moment <= moment).unwrap_or(0);
    let mark = &marks[passed];
    let last = marks.get(passed + 1).map_or(mark.last, |next| next.last);
    Known { history, synced: mark.synced, fsynced: &mark.fsynced, last }
}

/// All workloads' single operations.
pub fn operations() -> Vec<Operation> {
    use Operation::{
        Allocate, Chmod, Create, Fifo, Link, Mkdir, Punch, Rename, Rmdir, Symlink, Truncate, Unlink, Write,
    };
    let (foo, bar, large, moved) = (("A", "foo"), ("A", "bar"), ("B", "foo"), ("A", "moved"));
    let mut list = Vec::new();
    for directory in ["", "A", "A/E"] {
        let new = (directory, "new");
        list.extend([Create(new), Mkdir(new), Symlink(new, 9), Symlink(new, 90), Fifo(new)]);
        list.extend([foo, bar, large].map(|old| Link(old, new)));
    }
    for old in [foo, bar, large, moved, ("A", "E"), ("", "A"), ("", LONG)] {
        let news = [("A", "new"), ("B", "new"), ("", "new"), ("A", LONG), foo, bar, ("B", "bar"), ("A/E", "new")];
        list.extend(news.into_iter().filter(|new| *new != old).map(|new| Rename(old, new)));
    }
    list.extend([foo, bar, large, moved, ("B", "twin")].map(Unlink));
    list.push(Rmdir(("A", "E")));
    for file in [foo, large] {
        list.extend([0, 100, 4_096, 5_000, 17_000, 60_000].map(|size| Truncate(file, size)));
        list.extend([0, 3_000, 9_000, 24_000, 60_000, 2_100_000].map(|at| Write(file, at, 5_000)));
        list.extend([Allocate(file, 8_000, 30_000), Punch(file, 1_000, 9_000), Chmod(file, 0o600)]);
    }
    list
}

/// What follows an operation.
pub const PERSISTS: [Persist; 5] =
    [Persist::Nothing, Persist::Fsync, Persist::Fdatasync, Persist::Directory, Persist::Sync];
