//! What the plugin `bench/plugin/events.c` saw between the marks of the
//! programs that were measured, and what that would cost on silicon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use chitin::failure::{Context, Failure, Result};
use chitin::workspace::Workspace;

const SOURCE: &str = "bench/plugin/events.c";
/// Cycles in addition to the instructions themselves, anchored on published figures of seL4 and of kernel entries. An
/// exception and the IRETQ that ends it take 800, half of it each.
const SYSCALL: u64 = 100;
const EXCEPTION: u64 = 400;
const RETURN: u64 = 400;
const ROOT: u64 = 200;
const INVALIDATION: u64 = 150;

/// One stretch between marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub syscalls: u64,
    /// Exceptions and interrupts.
    pub exceptions: u64,
    /// IRETQs.
    pub returns: u64,
    /// Loads of CR3.
    pub roots: u64,
    /// INVLPGs.
    pub invalidations: u64,
    /// Instructions that ran in the block of code at each address.
    pub blocks: BTreeMap<u64, u64>,
}

impl Window {
    /// Cycles on silicon in addition to one for each instruction.
    pub fn surcharge(&self) -> u64 {
        self.syscalls * SYSCALL
            + self.exceptions * EXCEPTION
            + self.returns * RETURN
            + self.roots * ROOT
            + self.invalidations * INVALIDATION
    }
}

/// Compiles the plugin into `folder`.
///
/// # Errors
/// When the compiler refuses it.
pub fn compile(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    let plugin = folder.join("events.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&plugin).arg(workspace.root().join(SOURCE));
    let output = compiler.output().context("cannot start cc, the C compiler")?;
    if output.status.success() {
        return Ok(plugin);
    }
    Err(Failure::new(format!("cc refuses {SOURCE}: {}", String::from_utf8_lossy(&output.stderr))))
}

/// The windows in what the plugin wrote, those of each figure together. Before a figure's own may stand those of a
/// program that died before its figure was made.
///
/// # Errors
/// When a line is not one of the plugin's.
pub fn parse(text: &str) -> Result<Vec<Vec<Window>>> {
    let mut figures = Vec::new();
    let mut windows: Vec<Window> = Vec::new();
    for line in text.lines() {
        if line == "figure" {
            figures.push(std::mem::take(&mut windows));
            continue;
        }
        let (kind, rest) = line.split_once(' ').unwrap_or_default();
        let base = if kind == "block" { 16 } else { 10 };
        let mut words = rest.split(' ').enumerate();
        let numbers: Option<Vec<u64>> = words.try_fold(Vec::new(), |mut all, (index, word)| {
            all.push(u64::from_str_radix(word, if index == 0 { base } else { 10 }).ok()?);
            Some(all)
        });
        match (kind, numbers.as_deref(), windows.last_mut()) {
            ("window", Some(&[syscalls, exceptions, returns, roots, invalidations]), _) => {
                windows.push(Window { syscalls, exceptions, returns, roots, invalidations, blocks: BTreeMap::new() });
            }
            ("block", Some(&[address, size, times]), Some(window)) => {
                *window.blocks.entry(address).or_default() += size * times;
            }
            _ => return Err(Failure::new(format!("the emulator's plugin wrote {line:?}"))),
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_with_their_blocks() {
        let text = "window 1 2 3 4 5\nblock ffffffff81000000 10 3\nblock 400000 2 1\nblock 400000 1 1\nfigure\nfigure\nwindow 0 0 0 0 0\n";
        let figures = parse(text).unwrap();
        assert_eq!(figures.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0], "the last figure was never made");
        let window = &figures[0][0];
        assert_eq!(window.blocks, BTreeMap::from([(0xffff_ffff_8100_0000, 30), (0x40_0000, 3)]));
        assert_eq!(window.surcharge(), 100 + 2 * 400 + 3 * 400 + 4 * 200 + 5 * 150);
        assert!(parse("block 1 1 1").is_err() && parse("window 1").is_err() && parse("what").is_err());
    }
}
