//! Finds a program in a root file system as the machine would, and says at
//! once, before any machine is started, when it could not be executed.

use crate::elf;
use crate::failure::{CANNOT_EXECUTE, Failure, NOT_FOUND, Result};

use super::tree::{Kind, Node, Tree};

/// Symbolic links that are followed at most, as in Linux.
const LINKS: usize = 40;

impl Tree {
    /// The path of `program`: as given if it has a slash, else from the first
    /// of the folders in `search` (separated by colons) that has it.
    ///
    /// # Errors
    /// When there is none, or it is a directory, not executable, or made for
    /// another machine.
    pub fn find_program(&self, program: &str, search: &str, working_directory: &str) -> Result<String> {
        if program.is_empty() {
            return Err(Failure::with_status(NOT_FOUND, "the program has no name"));
        }
        let candidates: Vec<String> = if program.contains('/') {
            vec![program.to_owned()]
        } else {
            search.split(':').map(|folder| format!("{folder}/{program}")).collect()
        };
        for candidate in candidates {
            let Some((_, node)) = self.follow(&absolute(working_directory, &candidate)) else { continue };
            self.check_program(program, node)?;
            return Ok(candidate);
        }
        Err(Failure::with_status(NOT_FOUND, format!("{program}: no such program in the root file system")))
    }

    fn check_program(&self, program: &str, node: &Node) -> Result<()> {
        let fail = |reason: &str| Err(Failure::with_status(CANNOT_EXECUTE, format!("{program} {reason}")));
        match node.kind {
            Kind::Directory => fail("is a directory"),
            Kind::File(_) if node.permissions & 0o111 == 0 => fail("is not executable"),
            Kind::File(file) => {
                if self.read(file, 2)? == b"#!" {
                    return Ok(());
                }
                elf::check(&self.read(file, u64::MAX)?, program)
            }
            Kind::SymbolicLink(_) | Kind::Special { .. } => fail("is no program"),
        }
    }

    /// What stands at an absolute path, symbolic links followed.
    pub fn follow(&self, path: &[u8]) -> Option<(Vec<u8>, &Node)> {
        let mut todo: Vec<Vec<u8>> = components(path).rev().collect();
        let mut here: Vec<u8> = Vec::new();
        let mut links = 0;
        while let Some(component) = todo.pop() {
            if component == b".." {
                here.truncate(here.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                continue;
            }
            let next = join(&here, &component);
            match &self.get(&next)?.kind {
                Kind::SymbolicLink(target) => {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    if target.starts_with(b"/") {
                        here.clear();
                    }
                    todo.extend(components(target).rev());
                }
                _ => here = next,
            }
        }
        let node = self.get(&here)?;
        Some((here, node))
    }

    /// Where a name comes to stand: in the folder that a symbolic link on its way leads to, as tar unpacks it.
    pub fn place_of(&self, path: &[u8]) -> Vec<u8> {
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else { return path.to_vec() };
        let (folder, name) = (self.place_of(&path[..slash]), &path[slash + 1..]);
        match self.follow(&folder) {
            Some((there, node)) if node.kind == Kind::Directory => join(&there, name),
            _ => join(&folder, name),
        }
    }
}

fn absolute(working_directory: &str, path: &str) -> Vec<u8> {
    if path.starts_with('/') { path.into() } else { format!("{working_directory}/{path}").into() }
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

pub fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match (folder, name) {
        ([], name) => name.to_vec(),
        (folder, []) => folder.to_vec(),
        (folder, name) => [folder, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Contents;
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::new();
        let program = tree.add_contents(Contents::Bytes(std::fs::read("/proc/self/exe").unwrap()));
        let script = tree.add_contents(Contents::Bytes(b"#!/bin/sh\n".to_vec()));
        let text = tree.add_contents(Contents::Bytes(b"hello".to_vec()));
        tree.insert(b"usr/bin/busybox", Node::of_root(Kind::File(program), 0o755));
        tree.insert(b"usr/bin/script", Node::of_root(Kind::File(script), 0o755));
        tree.insert(b"usr/bin/text", Node::of_root(Kind::File(text), 0o755));
        tree.insert(b"usr/bin/data", Node::of_root(Kind::File(text), 0o644));
        for (name, target) in
            [("bin", "usr/bin"), ("usr/bin/sh", "/bin/busybox"), ("loop", "/loop"), ("up", "../../bin/../bin/sh")]
        {
            tree.insert(name.as_bytes(), Node::of_root(Kind::SymbolicLink(target.into()), 0o777));
        }
        tree
    }

    fn find(program: &str) -> Result<String> {
        tree().find_program(program, "/sbin:/bin", "/usr")
    }

    #[test]
    fn programs_are_found_as_a_shell_would() {
        for (asked, found) in [
            ("/bin/sh", "/bin/sh"),
            ("sh", "/bin/sh"),
            ("bin/script", "bin/script"),
            ("/up", "/up"),
            ("./bin/../bin/sh", "./bin/../bin/sh"),
        ] {
            assert_eq!(find(asked).unwrap(), found);
        }
    }

    #[test]
    fn names_behind_links_to_folders_stand_in_these() {
        let tree = tree();
        for (name, place) in [
            ("bin/new", "usr/bin/new"),
            ("bin", "bin"),
            ("bin/folder/new", "usr/bin/folder/new"),
            ("loop/new", "loop/new"),
            ("fresh/new", "fresh/new"),
        ] {
            assert_eq!(tree.place_of(name.as_bytes()), place.as_bytes(), "{name}");
        }
    }

    #[test]
    fn what_cannot_run_is_said_with_the_status_of_a_shell() {
        let cases = [
            ("/nothing", 127, "no such program"),
            ("", 127, "has no name"),
            ("nothing", 127, "no such program"),
            ("/loop", 127, "no such program"),
            ("/usr", 126, "is a directory"),
            ("data", 126, "is not executable"),
            ("text", 126, "is not an ELF program"),
        ];
        for (program, status, reason) in cases {
            let failure = find(program).unwrap_err();
            assert_eq!(failure.status, status, "{program}");
            assert!(failure.to_string().contains(reason), "{failure}");
        }
    }
}
