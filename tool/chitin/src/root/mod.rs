//! The root file system that ExOS starts with: from a directory, a tar, an image of a container, or built in.
//!
//! Every source becomes one [`Tree`]: a directory is walked, a tar is read, an image is its layers one on the other.

mod built_in;
mod compression;
pub mod debian;
pub mod digest;
mod directory;
mod image;
#[cfg(test)]
mod image_tests;
mod layer_cache;
mod resolve;
mod store;
mod tar_file;
mod tar_watch;
mod tar_writer;
mod tree;
pub mod user;

use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::size;
use crate::workspace::Workspace;

use compression::Compression;
use image::Image;
use layer_cache::LayerCache;
use store::Store;

pub use built_in::fetched as busybox;
pub use directory::load as load_folder;
pub use image::Configuration;
pub use tar_file::{add_package, add_to as add_tar, names as names_in_tar};
pub use tree::{Contents, Kind, Node, Tree};

/// A root file system, and how an image wants to be run.
#[derive(Debug)]
pub struct Root {
    pub tree: Tree,
    pub configuration: Configuration,
}

impl Root {
    /// The same with names of the machine.
    #[must_use]
    pub fn with_names(mut self) -> Self {
        add_names(&mut self.tree);
        self
    }
}

/// Names the machine itself, as an installer would and no package and no image does.
pub fn add_names(tree: &mut Tree) {
    for (path, contents) in NAMES {
        if tree.get(path.as_bytes()).is_none() {
            let file = tree.add_contents(Contents::Bytes(contents.into()));
            tree.insert(path.as_bytes(), Node::of_root(Kind::File(file), 0o644));
        }
    }
}

/// The files that name the machine itself, and their contents.
const NAMES: [(&str, &str); 2] =
    [("etc/hostname", "chitin\n"), ("etc/hosts", "127.0.0.1\tlocalhost chitin\n::1\tlocalhost\n")];

impl From<Tree> for Root {
    fn from(tree: Tree) -> Self {
        Self { tree, configuration: Configuration::default() }
    }
}

/// The built-in root file system.
///
/// # Errors
/// When its package cannot be had.
pub fn built_in(workspace: &Workspace) -> Result<Root> {
    built_in::load(&workspace.cache()).map(|tree| Root::from(tree).with_names())
}

/// Reads the root file system at `path`, which `option` names in error lines. `PATH:TAG` is one of several images.
///
/// # Errors
/// When there is none, it is of an unknown kind, or cannot be read.
pub fn load(workspace: &Workspace, option: &str, path: &Path) -> Result<Root> {
    let what = format!("{option} {}", path.display());
    let cache = LayerCache::new(&workspace.cache(), size::host_memory());
    let (path, tag) = split_tag(path);
    if path.is_dir() {
        let store = Store::Folder(path.clone());
        return match image::find(&store, tag.as_deref()).context(&what)? {
            Some(image) => of_image(&image, &cache, &what),
            None => directory::load(&path).map(plain),
        };
    }
    if !path.metadata().context(&what)?.is_file() {
        return Err(Failure::new(format!("{what}: neither a directory nor a file")));
    }
    of_file(&path, tag.as_deref(), &cache, &what)
}

fn of_file(path: &Path, tag: Option<&str>, cache: &LayerCache, what: &str) -> Result<Root> {
    let tar = match compression::of_file(path)? {
        Compression::None => path.to_owned(),
        Compression::Foreign(tool) => {
            return Err(Failure::new(format!("{what}: compressed; unpack it with {tool} first")));
        }
        Compression::Gzip | Compression::Zstd => {
            cache.file(path, &mut Progress::step("unpacking the root")).context(what)?
        }
    };
    if let Some(image) = image::find(&Store::of_tar(&tar)?, tag).context(what)? {
        return of_image(&image, cache, what);
    }
    let mut tree = Tree::new();
    match tar_file::add_to(&mut tree, &tar, what)? {
        0 => Err(Failure::new(format!("{what}: the tar is empty"))),
        _ => Ok(plain(tree)),
    }
}

/// A root that no image describes. A few programs without `/etc` stay as they are.
fn plain(tree: Tree) -> Root {
    let is_system = tree.get(b"etc").is_some();
    let root = Root::from(tree);
    if is_system { root.with_names() } else { root }
}

fn of_image(image: &Image, cache: &LayerCache, what: &str) -> Result<Root> {
    let mut tree = Tree::new();
    let mut progress = Progress::step("unpacking the layers of the image");
    for layer in &image.layers {
        let named = format!("{what}: the layer {}", layer.name);
        let tar = cache.layer(&layer.blob, &layer.expected, &mut progress).context(&named)?;
        tar_file::add_layer(&mut tree, &tar, &named)?;
    }
    Ok(Root { tree, configuration: image.configuration.clone() }.with_names())
}

/// The path and the tag in `PATH:TAG`, where there is no file of the whole name.
fn split_tag(given: &Path) -> (PathBuf, Option<String>) {
    let text = given.to_string_lossy();
    let mut colons = text.match_indices(':').filter(|(at, _)| Path::new(&text[..*at]).exists());
    match colons.next() {
        Some((at, _)) if !given.exists() => (text[..at].into(), Some(text[at + 1..].to_owned())),
        _ => (given.to_owned(), None),
    }
}
