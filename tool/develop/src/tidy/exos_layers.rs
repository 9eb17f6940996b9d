//! Rule: the layers of ExOS. A module of `lib/exos/src` imports its own layer and those below it. An import against
//! that stands in a list, as a file and the module that it imports. The list only shrinks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, UseTree, Visibility};

use chitin::failure::{Context, Result};

use super::tree::Tree;
use super::{Finding, Subject};

/// Where the list stands.
pub const FILE: &str = "tool/develop/exos-layers.toml";
pub(super) const ROOT: &str = "lib/exos/src/";
/// The layers from below, each with its modules. The longest name that begins a path says its layer.
const LAYERS: [&[&str]; 10] = [
    &["hw"],
    &["server::client", "loader", "attributes"],
    &["budget"],
    &["wait", "process_table", "upcalls", "signal"],
    &["pipe", "descriptor::exported_pages", "descriptor::poll_event", "descriptor::shared_record"],
    &["descriptor", "terminal"],
    &["process"],
    &["procfs"],
    &["syscalls"],
    &["entry", "override_tables"],
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    imports: BTreeSet<String>,
}

pub fn check(subject: &Subject) -> Vec<Finding> {
    let allowed = read(Path::new(&subject.tree.root)).unwrap_or_default();
    let found = upward(&subject.tree);
    let more = found.difference(&allowed).map(|import| {
        let (file, module) = import.split_once(" -> ").unwrap_or((import, ""));
        Finding::new(format!("{ROOT}{file}"), format!("imports {module}, which lies in a layer above it"))
    });
    let fewer = allowed.difference(&found).map(|import| {
        Finding::new(FILE, format!("`{import}` is not imported any more: ./chitin tidy --write takes it out"))
    });
    more.chain(fewer).collect()
}

/// Takes out of the list what is not imported any more. Without a list, all that there is goes in.
///
/// # Errors
/// When the list cannot be read or written.
pub fn write(tree: &Tree) -> Result<()> {
    let root = Path::new(&tree.root);
    let found = upward(tree);
    let left: BTreeSet<String> =
        if root.join(FILE).exists() { read(root)?.intersection(&found).cloned().collect() } else { found };
    let head = "# Imports of ExOS against its layers (tool/develop/src/tidy/exos_layers.rs). This list may only shrink;\n\
                # ./chitin tidy --write takes out what is gone.\n\n";
    let rows: String = left.iter().map(|import| format!("    \"{import}\",\n")).collect();
    fs::write(root.join(FILE), format!("{head}imports = [\n{rows}]\n")).context(FILE)
}

fn read(root: &Path) -> Result<BTreeSet<String>> {
    let file = root.join(FILE);
    if !file.exists() {
        return Ok(BTreeSet::new());
    }
    let list: List = toml::from_str(&fs::read_to_string(&file).context(FILE)?).context(FILE)?;
    Ok(list.imports)
}

/// Every import of a higher layer, as `file -> module`.
fn upward(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in tree.rust() {
        let Some(name) = file.path.strip_prefix(ROOT) else { continue };
        let Some(own) = layer(&module_of(name)) else { continue };
        let Ok(parsed) = syn::parse_file(&file.source) else { continue };
        let mut imports = Imports { module: module_of(name), found: Vec::new() };
        imports.visit_file(&parsed);
        let above = imports.found.into_iter().filter(|path| layer(path).is_some_and(|layer| layer > own));
        found.extend(above.map(|path| format!("{name} -> {}", module_named(&path))));
    }
    found
}

/// The path of the module in a file: `server/client/mod.rs` is `server`, `client`.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// The number of the layer that a path lies in, from below; nothing for the crate itself and for what has no layer.
fn layer(path: &[String]) -> Option<usize> {
    let begins = |module: &str| {
        let names: Vec<&str> = module.split("::").collect();
        (path.len() >= names.len() && names.iter().zip(path).all(|(name, part)| name == part)).then_some(names.len())
    };
    let fits = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, modules)| modules.iter().filter_map(move |module| Some((begins(module)?, layer))));
    fits.max().map(|(_, layer)| layer)
}

/// A path without the items in the module: at most a folder and a file.
fn module_named(path: &[String]) -> String {
    let is_module = |part: &&String| part.starts_with(|letter: char| letter.is_ascii_lowercase());
    path.iter().take(2).take_while(is_module).map(String::as_str).collect::<Vec<_>>().join("::")
}

/// The paths of the crate that a file names outside of its tests.
struct Imports {
    module: Vec<String>,
    found: Vec<Vec<String>>,
}

impl Imports {
    /// The path from the crate on, if it begins with `crate` or `super`.
    fn resolve(&self, path: &[String]) -> Option<Vec<String>> {
        let above = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "super" => {
                let kept = self.module.len().checked_sub(above)?;
                Some(self.module[..kept].iter().chain(&path[above..]).cloned().collect())
            }
            _ => None,
        }
    }

    fn add(&mut self, path: &[String]) {
        self.found.extend(self.resolve(path));
    }

    fn walk(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.walk(&with(path.ident.to_string()), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.walk(before, item)),
            UseTree::Name(name) => self.add(&with(name.ident.to_string())),
            UseTree::Rename(name) => self.add(&with(name.ident.to_string())),
            UseTree::Glob(_) => self.add(before),
        }
    }
}

impl<'a> Visit<'a> for Imports {
    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.walk(&[], &item.tree);
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if item.attrs.iter().any(is_for_tests) {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    /// `pub(super)` imports nothing.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        // The tokens of a macro are no syntax: a path in them is what stands behind `crate`.
        let tokens = call.tokens.to_string().replace(" :: ", "::");
        let words = tokens.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
        for word in words.filter(|word| word.starts_with("crate::")) {
            self.add(&word.split("::").map(str::to_owned).collect::<Vec<_>>());
        }
        visit::visit_macro(self, call);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.add(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }
}

pub(super) fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|argument| argument.is_ident("test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, source: &str) -> Vec<String> {
        let subject = Subject::planted(vec![(&format!("{ROOT}{file}"), source)]);
        upward(&subject.tree).into_iter().collect()
    }

    #[test]
    fn an_import_of_a_layer_above_is_found() {
        assert_eq!(found("hw/pager.rs", "use crate::process::fork::fork;"), ["hw/pager.rs -> process::fork"]);
        assert_eq!(found("budget.rs", "fn f() { crate::signal::send(); }"), ["budget.rs -> signal::send"]);
        let source = "core::arch::global_asm!(\"jmp {f}\", f = sym crate::entry::gate::refuse);";
        assert_eq!(found("hw/frame.rs", source), ["hw/frame.rs -> entry::gate"]);
        let source = "use super::super::{wait, syscalls::Call};";
        assert_eq!(found("process/exit.rs", source), ["process/exit.rs -> syscalls"]);
        let subject = Subject::planted(vec![(&format!("{ROOT}hw/mapping.rs"), "use crate::entry::gate;")]);
        assert_eq!(check(&subject).len(), 1);
    }

    #[test]
    fn what_lies_below_or_in_a_test_is_fine() {
        assert!(found("process/exit.rs", "use crate::hw::usercopy; use super::fork;").is_empty());
        assert!(found("process/exit.rs", "use crate::server::client::Client;").is_empty());
        assert!(found("hw/pager.rs", "#[cfg(test)] mod tests { use crate::process::fork; }").is_empty());
        assert!(found("lib.rs", "pub use crate::process::fork;").is_empty());
        assert!(found("descriptor/poll_event.rs", "pub(super) struct Event;").is_empty());
    }

    #[test]
    fn the_longest_name_says_the_layer() {
        let of = |path: &str| layer(&module_of(path));
        assert!(of("server/client/open.rs") < of("pipe/mod.rs") && of("syscalls/path.rs") < of("entry/gate.rs"));
        assert_eq!(of("lib.rs"), None);
    }
}
