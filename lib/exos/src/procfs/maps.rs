//! `/proc/self/maps`: the areas of the program's memory.

use crate::loader::vdso;
use crate::process::current::process;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::address_map::STACK_TOP;
use vfs::handle::node_of;
use vm::address_space::AddressSpace;
use vm::vma::{Backing, Protection, Vma};

/// Column of the names.
const NAMES: usize = 73;

/// One line for each area.
pub(super) fn text() -> String {
    let process = process();
    let (areas, heap) = {
        let memory = process.memory.lock();
        (memory.space.areas.iter().copied().collect::<Vec<Vma>>(), heap_of(&memory.space))
    };
    let mut paths: BTreeMap<u64, String> = BTreeMap::new();
    let mut path_of = |node: u64| {
        let path = || lossy(process.files.lock().shown_path_of(node).unwrap_or_default());
        paths.entry(node).or_insert_with(path).clone()
    };
    let text: String = areas.iter().map(|area| line(area, heap, &mut path_of)).collect();
    let vdso = vdso::range();
    let left = format!("{:08x}-{:08x} r-xp 00000000 00:00 0 ", vdso.start, (vdso.end | 0xfff) + 1);
    format!("{text}{left:<NAMES$}[vdso]\n")
}

/// The areas that show files, as `map_files` calls them, and their nodes.
pub(super) fn files() -> Vec<(String, u64)> {
    let memory = process().memory.lock();
    let named = |area: &Vma| match area.backing {
        Backing::File { node, .. } => Some((format!("{:x}-{:x}", area.start, area.end), node)),
        _ => None,
    };
    memory.space.areas.iter().filter_map(named).collect()
}

fn heap_of(space: &AddressSpace) -> (u64, u64) {
    space.brk
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn line(area: &Vma, heap: (u64, u64), path_of: &mut impl FnMut(u64) -> String) -> String {
    let (offset, node) = match area.backing {
        Backing::File { node, offset, .. } => (offset, node),
        _ => (0, 0),
    };
    let name = match area.backing {
        Backing::File { .. } => path_of(node),
        Backing::Library => String::from("[exos]"),
        Backing::Anonymous if area.end == STACK_TOP => String::from("[stack]"),
        Backing::Anonymous if area.start >= heap.0 && area.end <= heap.1.next_multiple_of(4096) => {
            String::from("[heap]")
        }
        Backing::Zeros => String::from("/dev/zero (deleted)"),
        Backing::Anonymous | Backing::Nothing => String::new(),
    };
    let flag = |bit: Protection, letter: char| if area.protection.allows(bit) { letter } else { '-' };
    let flags: String = [
        flag(Protection::READ, 'r'),
        flag(Protection::WRITE, 'w'),
        flag(Protection::EXECUTE, 'x'),
        if area.shared { 's' } else { 'p' },
    ]
    .iter()
    .collect();
    let device = if node == 0 { "00:00" } else { "00:01" };
    let node = node_of(node);
    let left = format!("{:08x}-{:08x} {flags} {offset:08x} {device} {node} ", area.start, area.end);
    if name.is_empty() { format!("{left}\n") } else { format!("{left:<NAMES$}{name}\n") }
}
