//! Where the instructions of an operation go, by symbol: the blocks of code
//! that the plugin saw, put to the symbols of the files that they are of.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};

use super::cost;
use super::report::Figure;

/// Instructions of one operation in one symbol.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub symbol: String,
    pub instructions: f64,
}

/// The code of one file: where each symbol begins.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// First address, and a name.
    starts: BTreeMap<u64, String>,
}

impl Symbols {
    /// Adds the symbols of an executable that is loaded where it was linked; one without any adds nothing.
    pub fn add(&mut self, file: &Path) {
        let Ok(bytes) = fs::read(file) else { return };
        let Ok(object) = object::File::parse(bytes.as_slice()) else { return };
        for symbol in object.symbols() {
            // Labels of assembly have no kind.
            let is_code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown);
            let is_code = is_code && symbol.section_index().is_some();
            if let (true, Ok(name)) = (is_code && symbol.address() > 0, symbol.name()) {
                self.starts.entry(symbol.address()).or_insert_with(|| readable(name));
            }
        }
    }

    fn of(&self, address: u64) -> &str {
        let found = self.starts.range(..=address).next_back();
        found.filter(|(start, _)| *start >> 47 == address >> 47).map_or("unknown", |(_, name)| name)
    }
}

/// A name as it stands in the source, without hash and with its last two parts.
fn readable(name: &str) -> String {
    let mut whole = format!("{:#}", rustc_demangle::demangle(name));
    // A method of a trait: what it is implemented for says more than the trait.
    if let Some((owner, _)) = whole.strip_prefix('<').and_then(|rest| rest.split_once(" as ")) {
        whole = format!("{owner}{}", &whole[whole.rfind(">::").map_or(whole.len(), |at| at + 1)..]);
    }
    // Generic arguments and trait names make names long; the file is found by the rest.
    let mut depth = 0;
    let plain: String = whole
        .chars()
        .filter(|letter| {
            depth += i32::from(*letter == '<');
            let kept = depth == 0;
            depth -= i32::from(*letter == '>');
            kept
        })
        .collect();
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { whole } else { parts[parts.len().saturating_sub(3)..].join("::") }
}

/// The largest shares of one operation of `figure`, from its sample in the middle: so many `lines`, and one for the
/// rest.
pub fn of(figure: &Figure, symbols: &Symbols, lines: usize) -> Vec<Share> {
    let Some(window) = figure.windows.get(cost::middle(figure)) else { return Vec::new() };
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (address, instructions) in &window.blocks {
        *sums.entry(symbols.of(*address)).or_default() += instructions;
    }
    let mut all: Vec<(&str, u64)> = sums.into_iter().collect();
    all.sort_by_key(|(_, instructions)| std::cmp::Reverse(*instructions));
    let share = |symbol: &str, sum: u64| Share {
        symbol: symbol.to_owned(),
        instructions: sum as f64 / figure.operations as f64,
    };
    let mut shares: Vec<Share> = all.iter().take(lines).map(|(name, sum)| share(name, *sum)).collect();
    let rest: u64 = all.iter().skip(lines).map(|(_, sum)| sum).sum();
    if rest > 0 {
        shares.push(share(&format!("{} others", all.len() - lines), rest));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::super::events::Window;
    use super::*;

    #[test]
    fn blocks_are_put_to_the_symbols_that_they_lie_in() {
        let starts = [(0x1000, "first"), (0x2000, "second"), (0xffff_ffff_8000_0000, "kernel")];
        let symbols = Symbols { starts: starts.map(|(start, name)| (start, name.to_owned())).into() };
        let blocks =
            BTreeMap::from([(0x1000, 10), (0x1fff, 10), (0x2abc, 100), (0xffff_ffff_8000_0100, 40), (0x10, 2)]);
        let window = Window { blocks, ..Window::default() };
        let figure = Figure { operations: 2, samples: vec![1], windows: vec![window], ..Figure::default() };
        let told: Vec<(String, f64)> =
            of(&figure, &symbols, 14).into_iter().map(|it| (it.symbol, it.instructions)).collect();
        let expected = [("second", 50.0), ("kernel", 20.0), ("first", 10.0), ("unknown", 1.0)];
        assert_eq!(told, expected.map(|(name, share)| (name.to_owned(), share)));
        assert_eq!(symbols.of(0x8000_0000_0000), "unknown", "no user symbol reaches the kernel's half");
    }

    #[test]
    fn small_shares_are_summed_up() {
        let starts = (0..20_u64).map(|index| (index * 0x100 + 0x100, format!("f{index}"))).collect();
        let blocks = (0..20).map(|index| (index * 0x100 + 0x100, 1)).collect();
        let window = Window { blocks, ..Window::default() };
        let figure = Figure { operations: 1, samples: vec![1], windows: vec![window], ..Figure::default() };
        let shares = of(&figure, &Symbols { starts }, 14);
        assert_eq!(shares.len(), 15);
        assert_eq!((shares[14].symbol.as_str(), shares[14].instructions), ("6 others", 6.0));
    }

    /// A function that stands by itself in the program, whatever the compiler does with those of tests.
    #[inline(never)]
    fn stands_alone(number: u64) -> u64 {
        std::hint::black_box(number) + 1
    }

    #[test]
    fn the_symbols_of_a_program_are_found() {
        let mut symbols = Symbols::default();
        symbols.add(Path::new("/proc/self/exe"));
        assert_eq!(stands_alone(1), 2);
        assert!(symbols.starts.values().any(|name| name.ends_with("stands_alone")));
        assert_eq!(readable("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"), "fmt::Write::write_fmt");
        assert_eq!(readable("chitin_syscall_entry"), "chitin_syscall_entry");
    }
}
