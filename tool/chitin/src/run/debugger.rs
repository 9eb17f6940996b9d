//! `--gdb`: a script that loads the symbols of the kernel, of ExOS and of the program, and what to type.
//!
//! Script, symbols and the socket are in a folder of this run: several runs can wait at once, and no other user of the
//! host can connect.

use std::fs;
use std::path::{Path, PathBuf};

use crate::answer;
use crate::build::Images;
use crate::failure::{Context, Result};
use crate::root::{Kind, Root};
use crate::scratch::{self, Folder};

/// The image that all processes of ExOS share, and the program that starts ExOS.
const IMAGES: [&str; 2] = ["exos", INIT];
const INIT: &str = "init";
/// Where ExOS loads a position-independent program (`address_map::MOVABLE_BASE`).
const MOVABLE_BASE: u64 = 0x55_5555_0000;

/// What a debugger needs of this run.
#[derive(Debug)]
pub struct Debugger {
    place: Folder,
}

impl Debugger {
    /// Writes the script and says how to use it. `program` is a path in the root.
    ///
    /// # Errors
    /// When the script cannot be written.
    pub fn prepare(images: &Images, root: &Root, program: &str) -> Result<Self> {
        let debugger = Self { place: scratch::folder()? };
        let folder = debugger.place.path();
        let program = write_program(root, program, &folder.join("program"))?;
        let script = folder.join("script");
        let text = text(images, program.as_deref(), &debugger.socket());
        fs::write(&script, text).context(script.display())?;
        answer::remark(format_args!(
            "chitin: the machine waits for a debugger; in another terminal, type:\n    gdb -x {}\n    continue\n",
            script.display()
        ));
        Ok(debugger)
    }

    /// Where the machine listens for the debugger.
    pub fn socket(&self) -> PathBuf {
        self.place.path().join("socket")
    }
}

fn write_program(root: &Root, program: &str, place: &Path) -> Result<Option<PathBuf>> {
    let Some((_, node)) = root.tree.follow(program.as_bytes()) else { return Ok(None) };
    let Kind::File(file) = node.kind else { return Ok(None) };
    let bytes = root.tree.read(file, u64::MAX)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    fs::write(place, bytes).context(place.display())?;
    Ok(Some(place.to_owned()))
}

/// Every image is linked at the address where it is loaded, except a program that is position-independent.
///
/// A program that is not has the addresses of `init`. A breakpoint in it would stop there first, so `init` is left out.
fn text(images: &Images, program: Option<&Path>, socket: &Path) -> String {
    let has_own_addresses = program.is_some_and(is_fixed);
    let mut text = String::from("set pagination off\nset confirm off\nset architecture i386:x86-64\n");
    text += &format!("file {}\n", images.kernel.display());
    let loaded = |name: &&&str| !(has_own_addresses && **name == INIT);
    for file in IMAGES.iter().filter(loaded).filter_map(|name| images.file(name)) {
        text += &format!("add-symbol-file {}\n", file.display());
    }
    if let Some(program) = program {
        let distance = if has_own_addresses { 0 } else { MOVABLE_BASE };
        text += &format!("add-symbol-file {} -o {distance:#x}\n", program.display());
    }
    text + &format!("target remote {}\n", socket.display())
}

/// Whether a program is linked at fixed addresses (`ET_EXEC`).
fn is_fixed(program: &Path) -> bool {
    fs::read(program).is_ok_and(|bytes| bytes.get(16..18) == Some(&[2, 0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{Contents, Node, Tree};

    #[test]
    fn only_an_elf_has_symbols() {
        let mut tree = Tree::new();
        for (name, bytes) in [("elf", &b"\x7fELF..."[..]), ("script", b"#!/bin/sh")] {
            let file = tree.add_contents(Contents::Bytes(bytes.to_vec()));
            tree.insert(name.as_bytes(), Node::of_root(Kind::File(file), 0o755));
        }
        let root = Root::from(tree);
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("program");
        assert_eq!(write_program(&root, "/script", &place).unwrap(), None);
        assert_eq!(write_program(&root, "/none", &place).unwrap(), None);
        assert_eq!(write_program(&root, "/elf", &place).unwrap(), Some(place.clone()));
        assert_eq!(fs::read(place).unwrap(), b"\x7fELF...");
    }
}
