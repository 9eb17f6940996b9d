//! Programs of `test/programs/linux`: written for Linux in C, compiled by this host's
//! compiler as they are, and put into the root file system of a guest. The
//! same source runs on the host: what it prints there is what is expected.

use std::fs;
use std::path::Path;
use std::process::Command;

use chitin::failure::{Context, Failure, Result};
use chitin::root::{Contents, Kind, Node, Tree};
use chitin::scratch;
use chitin::workspace::Workspace;

/// Where the sources stand.
const FOLDER: &str = "test/programs/linux";
/// Where the programs stand in the root.
const PLACE: &str = "test";

/// What `lib/exos/link/preload.h` wants of an object.
const OBJECT_FLAGS: [&str; 7] = [
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-mgeneral-regs-only",
    "-mno-red-zone",
    "-fno-stack-protector",
    "-Wl,-e,exos_preload",
];
const PROGRAM_FLAGS: [&str; 2] = ["-static", "-pthread"];

/// What a source becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Product {
    /// A program on its own.
    Program,
    /// An object that ExOS loads before a program begins.
    Object,
}

/// Compiles one source, and adds the product to the tree.
///
/// # Errors
/// As [`build`].
pub fn add(workspace: &Workspace, source: &str, product: Product, tree: &mut Tree) -> Result<()> {
    put(tree, source, build(workspace, source, product)?);
    Ok(())
}

/// Compiles one source: the bytes of the product.
///
/// # Errors
/// When there is no such source, or the compiler refuses it.
pub fn build(workspace: &Workspace, source: &str, product: Product) -> Result<Vec<u8>> {
    let place = scratch::folder()?;
    let program = place.path().join("program");
    compile(workspace, &workspace.root().join(FOLDER).join(source), product, &program)?;
    fs::read(&program).context(program.display())
}

/// Puts what became of a source into the tree.
pub fn put(tree: &mut Tree, source: &str, product: Vec<u8>) {
    let file = tree.add_contents(Contents::Bytes(product));
    tree.insert(PLACE.as_bytes(), Node::of_root(Kind::Directory, 0o755));
    let name = format!("{PLACE}/{}", source.trim_end_matches(".c"));
    tree.insert(name.as_bytes(), Node::of_root(Kind::File(file), 0o755));
}

/// Compiles one source into a program or an object.
///
/// # Errors
/// As [`build`].
pub fn compile(workspace: &Workspace, source: &Path, product: Product, program: &Path) -> Result<()> {
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-I"]).arg(workspace.root().join("lib/exos/link"));
    match product {
        Product::Program => compiler.args(PROGRAM_FLAGS),
        Product::Object => compiler.args(OBJECT_FLAGS),
    };
    let output = compiler.arg("-o").arg(program).arg(source).output().context("cannot start cc, the C compiler")?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("cc refuses {}: {}", source.display(), String::from_utf8_lossy(&output.stderr))))
}
