//! Back traces of programs that a fault ended.
//!
//! ExOS logs registers, mappings and the stack. The files of the root hold the unwind tables and the symbols.
//!
//! Invariant: a line of the log that is no part of a crash is handed on as it is.

use std::collections::BTreeMap;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::root::{Kind, Tree};

use super::unwind::{self, RETURN_ADDRESS, Registers, STACK_POINTER};

/// What a line of a crash begins with; the number of its process follows.
const MARK: &str = "crash ";
/// Names of the registers in the order of their DWARF numbers.
const NAMES: [&str; unwind::COUNT] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
];
/// Registers on a line.
const ON_A_LINE: usize = 4;
/// Bytes that a function of assembly without a size is taken for.
const UNSIZED: u64 = 64;
/// Frames of a back trace at most.
const FRAMES: usize = 64;

/// Executable pages of a file.
#[derive(Clone, Debug, PartialEq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// What has come of a crash so far.
#[derive(Clone, Debug, Default, PartialEq)]
struct Crash {
    registers: Vec<u64>,
    mappings: Vec<Mapping>,
    /// Words of the stack by address.
    stack: BTreeMap<u64, u64>,
}

/// A file of the root, read for a back trace.
struct Module {
    bytes: Vec<u8>,
}

/// Crashes in a machine with this root.
pub struct Crashes {
    root: Tree,
    begun: BTreeMap<u32, Crash>,
}

impl Crashes {
    pub fn of(root: Tree) -> Self {
        Self { root, begun: BTreeMap::new() }
    }

    /// What is shown in the place of a line of the log.
    pub fn shown(&mut self, line: &str) -> Vec<String> {
        let Some((number, record)) = line.strip_prefix(MARK).and_then(|rest| rest.split_once(' ')) else {
            return vec![line.to_owned()];
        };
        let Ok(number) = number.parse() else { return vec![line.to_owned()] };
        if record == "end" {
            return self.begun.remove(&number).map(|crash| self.report(&crash)).unwrap_or_default();
        }
        let understood = self.begun.entry(number).or_default().add(record);
        if understood.is_some() { Vec::new() } else { vec![line.to_owned()] }
    }

    fn report(&self, crash: &Crash) -> Vec<String> {
        let registers: Vec<String> =
            NAMES.iter().zip(&crash.registers).map(|(name, value)| format!("{name} {value:#x}")).collect();
        let lines = registers.chunks(ON_A_LINE).map(|some| format!("    {}", some.join("  ")));
        lines.chain(self.back_trace(crash)).collect()
    }

    /// A line for each frame, the innermost first.
    fn back_trace(&self, crash: &Crash) -> Vec<String> {
        let mut modules: BTreeMap<&str, Option<Module>> = BTreeMap::new();
        let Some(mut registers) = Registers::new(&crash.registers) else { return Vec::new() };
        let read = |address: u64| crash.stack.get(&address).copied();
        let mut lines = Vec::new();
        while let (Some(address), true) = (registers.get(RETURN_ADDRESS), lines.len() < FRAMES) {
            // The call stands before the address that a callee returns to, perhaps as the last of its function.
            let at = if lines.is_empty() { address } else { address.saturating_sub(1) };
            let mapping = crash.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&at));
            let module = mapping.and_then(|mapping| {
                modules.entry(&mapping.path).or_insert_with(|| Module::load(&self.root, &mapping.path)).as_ref()
            });
            lines.push(format!("    #{} {}", lines.len(), described(address, at, mapping, module)));
            let caller = match mapping {
                // A call to nowhere: the return address is the last thing that was pushed.
                None if lines.len() == 1 => registers.after_call(read),
                None => None,
                Some(mapping) => module.and_then(|module| module.caller(mapping.in_file(at), &registers, read)),
            };
            match caller {
                Some(next) if next.get(STACK_POINTER) > registers.get(STACK_POINTER) => registers = next,
                _ => break,
            }
        }
        lines
    }
}

impl Crash {
    /// Adds a record; `None` where it is none.
    fn add(&mut self, record: &str) -> Option<()> {
        let (kind, rest) = record.split_once(' ')?;
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        match kind {
            "registers" => self.registers = rest.split(' ').map(hex).collect::<Option<_>>()?,
            "map" => {
                let mut words = rest.splitn(4, ' ');
                let mut number = || words.next().and_then(hex);
                let (start, end, offset) = (number()?, number()?, number()?);
                self.mappings.push(Mapping { start, end, offset, path: words.next()?.to_owned() });
            }
            "stack" => {
                let mut words = rest.split(' ').map(hex);
                let start = words.next()??;
                for (place, word) in (start..).step_by(8).zip(words) {
                    self.stack.insert(place, word?);
                }
            }
            _ => return None,
        }
        Some(())
    }
}

impl Mapping {
    /// Where an address lies in the file.
    fn in_file(&self, address: u64) -> u64 {
        address - self.start + self.offset
    }
}

impl Module {
    fn load(root: &Tree, path: &str) -> Option<Self> {
        let (_, node) = root.follow(path.as_bytes())?;
        let Kind::File(file) = node.kind else { return None };
        let bytes = root.read(file, u64::MAX).ok()?;
        object::File::parse(bytes.as_slice()).is_ok().then_some(Self { bytes })
    }

    fn object(&self) -> Option<object::File<'_>> {
        object::File::parse(self.bytes.as_slice()).ok()
    }

    /// The address for which the file is linked, of a place in it.
    fn linked(&self, in_file: u64) -> Option<u64> {
        self.object()?.segments().find_map(|segment| {
            let (start, length) = segment.file_range();
            (start..start + length).contains(&in_file).then(|| in_file - start + segment.address())
        })
    }

    /// The function at a place in the file, and how far behind its beginning that is.
    fn function(&self, in_file: u64) -> Option<(String, u64)> {
        let (object, address) = (self.object()?, self.linked(in_file)?);
        let is_function = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text && symbol.is_definition();
        let begins_before = |symbol: &object::Symbol<'_, '_>| {
            let length = if symbol.size() == 0 { UNSIZED } else { symbol.size() };
            (symbol.address()..symbol.address() + length).contains(&address)
        };
        let all = object.symbols().chain(object.dynamic_symbols());
        let symbol = all.filter(is_function).filter(begins_before).max_by_key(ObjectSymbol::address)?;
        let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
        Some((name, address - symbol.address()))
    }

    fn caller(&self, in_file: u64, registers: &Registers, read: impl Fn(u64) -> Option<u64>) -> Option<Registers> {
        unwind::caller(&self.object()?, self.linked(in_file)?, registers, read)
    }
}

/// A frame in words: its address, its function if there are symbols, its file.
fn described(address: u64, at: u64, mapping: Option<&Mapping>, module: Option<&Module>) -> String {
    let Some(mapping) = mapping else { return format!("{address:#x} (no file)") };
    let function = module.and_then(|module| module.function(mapping.in_file(at)));
    let place = mapping.in_file(address);
    match function {
        Some((name, behind)) => format!("{address:#x} {name} + {:#x} ({})", behind + (address - at), mapping.path),
        None => format!("{address:#x} ({} + {place:#x})", mapping.path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_collected_and_other_lines_pass() {
        let mut crashes = Crashes::of(Tree::new());
        for line in ["booted", "crash of a car", "crash 7 nothing known", "crash 7"] {
            assert_eq!(crashes.shown(line), [line]);
        }
        let registers: Vec<String> = (0..17).map(|number| format!("{number:x}")).collect();
        assert!(crashes.shown(&format!("crash 7 registers {}", registers.join(" "))).is_empty());
        assert!(crashes.shown("crash 7 map 10 20 0 /a b").is_empty());
        assert!(crashes.shown("crash 7 stack 100 1 ff").is_empty());
        assert_eq!(crashes.begun[&7].stack.get(&0x108), Some(&0xff));
        assert_eq!(crashes.begun[&7].mappings[0].path, "/a b");
        let shown = crashes.shown("crash 7 end");
        assert_eq!(shown.len(), 6, "{shown:?}");
        assert!(shown[0].contains("rax 0x0  rdx 0x1") && shown[5] == "    #0 0x10 (/a b + 0x0)", "{shown:?}");
        assert!(crashes.begun.is_empty());
    }

    #[test]
    fn a_call_to_nowhere_has_a_caller() {
        let mut crash = Crash { registers: vec![0; 17], ..Crash::default() };
        crash.registers[7] = 0x100;
        crash.add("stack 100 15").unwrap();
        crash.add("map 10 20 0 /a").unwrap();
        let lines = Crashes::of(Tree::new()).back_trace(&crash);
        assert_eq!(lines, ["    #0 0x0 (no file)", "    #1 0x15 (/a + 0x5)"]);
    }
}
