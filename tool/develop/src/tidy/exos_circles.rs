//! Rule: circles of imports in ExOS. Files of `lib/exos/src` that import each other, directly or by way of others, form
//! a circle: no file of it can be read or changed alone. A circle has at most [`MOST`] files.
//!
//! An import is a path that leads to an item of another file. A path by way of `pub use` leads to the file that has the
//! item. The name of a module alone is no import. The order of the layers (`exos_layers`) keeps each circle in a layer.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Ident, Item, ItemMod, ItemUse, UseTree, Visibility};

use super::exos_layers::{ROOT, is_for_tests};
use super::tree::Tree;
use super::{Finding, Subject};

/// Files of a circle, at most.
const MOST: usize = 25;
/// Re-exports that a path may lead through.
const STEPS: usize = 8;

pub fn check(subject: &Subject) -> Vec<Finding> {
    let circles = circles(&imports(&subject.tree)).into_iter().filter(|circle| circle.len() > MOST);
    let found = circles.map(|circle| {
        let message = format!("{} files import each other, and {MOST} may: {}", circle.len(), circle.join(", "));
        Finding::new(format!("{ROOT}{}", circle[0]), message)
    });
    found.collect()
}

/// A path in the crate, from its root on.
type Names = Vec<String>;
/// For each file the files that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of two files and more, the files of each in order.
fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reached_from(file, imports))).collect();
    let reaches = |from: &String, to: &String| reached.get(from).is_some_and(|files| files.contains(to));
    let mut circles: Vec<Vec<String>> = Vec::new();
    for file in imports.keys().filter(|file| reaches(file, file)) {
        if !circles.iter().any(|circle| circle.contains(file)) {
            circles
                .push(imports.keys().filter(|other| reaches(file, other) && reaches(other, file)).cloned().collect());
        }
    }
    circles
}

fn reached_from<'a>(file: &String, imports: &'a Imports) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = imports.get(file).into_iter().flatten().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(imports.get(file).into_iter().flatten());
        }
    }
    reached
}

fn imports(tree: &Tree) -> Imports {
    let mut modules = BTreeMap::new();
    for file in tree.rust() {
        let Some(name) = file.path.strip_prefix(ROOT).filter(|name| !name.starts_with("bin/")) else { continue };
        let Ok(parsed) = syn::parse_file(&file.source) else { continue };
        let mut module = Module { file: name.to_owned(), inner: module_of(name), ..Module::default() };
        module.visit_file(&parsed);
        modules.insert(module_of(name), module);
    }
    let of = |(at, module): (&Names, &Module)| {
        let targets = module.paths.iter().filter_map(|path| target(&modules, &module.whole(at, path), STEPS));
        (module.file.clone(), targets.filter(|file| *file != module.file).collect())
    };
    modules.iter().map(of).collect()
}

/// The path of the module in a file: `server/client/mod.rs` is `server`, `client`.
fn module_of(file: &str) -> Names {
    let path = file.trim_end_matches(".rs");
    let path = path.trim_end_matches("/mod");
    if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// The file with the item that a path leads to; nothing where that is a module.
fn target(modules: &BTreeMap<Names, Module>, path: &[String], steps: usize) -> Option<String> {
    let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
    let (at, rest) = path.split_at(length);
    let module = &modules[at];
    let (item, further) = rest.split_first()?;
    if module.items.contains(item) || steps == 0 {
        return Some(module.file.clone());
    }
    if let Some(exported) = module.uses.get(item) {
        return target(modules, &[exported, further].concat(), steps - 1);
    }
    let by_glob = |from: &Names| {
        let path = [from, rest].concat();
        let file = target(modules, &path, steps - 1)?;
        has(modules, from, item, steps - 1).then_some(file)
    };
    module.globs.iter().find_map(by_glob).or_else(|| Some(module.file.clone()))
}

/// Whether a module has a name: an item, a file, or what it exports.
fn has(modules: &BTreeMap<Names, Module>, at: &Names, name: &String, steps: usize) -> bool {
    let Some(module) = modules.get(at) else { return false };
    module.items.contains(name)
        || module.uses.contains_key(name)
        || modules.contains_key(&[at.clone(), vec![name.clone()]].concat())
        || steps > 0 && module.globs.iter().any(|from| has(modules, from, name, steps - 1))
}

/// What a file says of names.
#[derive(Default)]
struct Module {
    file: String,
    /// The module that is being read: the one of the file, or one inside it.
    inner: Names,
    /// Its items.
    items: BTreeSet<String>,
    /// Names that it imports or exports, with their paths.
    uses: BTreeMap<String, Names>,
    /// Modules of which it imports or exports everything.
    globs: Vec<Names>,
    /// The paths that it names, from the crate on where they begin with `crate`, `self` or `super`.
    paths: BTreeSet<Names>,
}

impl Module {
    /// A path of the file from the crate on: the first name may be one that the file imports, or a module below it.
    fn whole(&self, at: &Names, path: &Names) -> Names {
        match path.split_first() {
            Some((first, rest)) if first == "crate" => rest.to_vec(),
            Some((first, rest)) if self.uses.contains_key(first) => [&self.uses[first], rest].concat(),
            _ => [at, &path[..]].concat(),
        }
    }

    /// The path with `crate` in front, where it begins with `crate`, `self` or `super`.
    fn resolve(&self, path: &[String]) -> Names {
        let from = |kept: usize, rest: &[String]| [&["crate".to_owned()], &self.inner[..kept], rest].concat();
        let above = path.iter().take_while(|part| *part == "super").count();
        match path.first().map(String::as_str) {
            Some("self") => from(self.inner.len(), &path[1..]),
            Some("super") => from(self.inner.len().saturating_sub(above), &path[above..]),
            _ => path.to_vec(),
        }
    }

    fn walk(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.walk(&with(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.walk(before, item)),
            UseTree::Name(name) if name.ident == "self" => {
                self.import(before.last().cloned().unwrap_or_default(), before);
            }
            UseTree::Name(name) => self.import(name.ident.to_string(), &with(&name.ident)),
            UseTree::Rename(name) => self.import(name.rename.to_string(), &with(&name.ident)),
            UseTree::Glob(_) => {
                let whole = self.from_crate(before);
                self.globs.push(whole);
                self.paths.insert([self.resolve(before), vec!["*".to_owned()]].concat());
            }
        }
    }

    fn import(&mut self, name: String, path: &[String]) {
        let whole = self.from_crate(path);
        self.uses.insert(name, whole);
        self.paths.insert(self.resolve(path));
    }

    /// The path of an import from the crate on. One that begins with the name of another crate leads nowhere.
    fn from_crate(&self, path: &[String]) -> Names {
        let path = self.resolve(path);
        if path.first().is_some_and(|first| first == "crate") {
            path[1..].to_vec()
        } else {
            [&self.inner[..], &path].concat()
        }
    }

    fn add(&mut self, path: &[String]) {
        if path.len() > 1 {
            self.paths.insert(self.resolve(path));
        }
    }
}

impl<'a> Visit<'a> for Module {
    fn visit_item(&mut self, item: &'a Item) {
        let name = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            Item::Union(item) => Some(&item.ident),
            Item::Macro(item) => item.ident.as_ref(),
            Item::Mod(item) if item.content.is_some() => Some(&item.ident),
            _ => None,
        };
        self.items.extend(name.map(Ident::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if item.leading_colon.is_none() && !item.attrs.iter().any(is_for_tests) {
            self.walk(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if item.attrs.iter().any(is_for_tests) {
            return;
        }
        self.inner.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inner.pop();
    }

    /// `pub(super)` imports nothing.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        // The tokens of a macro are no syntax: a path in them is words with `::` in between.
        let tokens = call.tokens.to_string().replace(" :: ", "::");
        let words = tokens.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
        for word in words.filter(|word| word.contains("::")) {
            let path: Names = word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            self.add(&path);
        }
        visit::visit_macro(self, call);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.add(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Names>());
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(file, source)| (format!("{ROOT}{file}"), *source)).collect();
        let subject = Subject::planted(files.iter().map(|(file, source)| (file.as_str(), *source)).collect());
        circles(&imports(&subject.tree))
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let circle =
            [("a.rs", "use crate::b::f;"), ("b.rs", "fn f() { super::c::g(); }"), ("c.rs", "use crate::a::h;")];
        assert_eq!(found(&circle), [["a.rs", "b.rs", "c.rs"]]);
        assert!(found(&circle[..2]).is_empty());
    }

    #[test]
    fn a_re_export_is_an_import_of_the_file_with_the_item() {
        let parent = ("p/mod.rs", "pub mod a; mod b; pub use b::B; pub use a::*;");
        let (a, b) =
            (("p/a.rs", "use super::B; pub fn f() {}"), ("p/b.rs", "use crate::p; pub struct B; fn g() { p::f() }"));
        assert_eq!(found(&[parent, a, b]), [["p/a.rs", "p/b.rs"]]);
        assert!(found(&[parent, a, ("p/b.rs", "use crate::p; pub struct B;")]).is_empty());
    }

    #[test]
    fn a_test_and_another_crate_are_no_imports() {
        let a = ("a.rs", "use crate::b::f;");
        assert!(found(&[a, ("b.rs", "#[cfg(test)] mod tests { use crate::a::g; } fn f() {}")]).is_empty());
        assert!(found(&[a, ("b.rs", "use ::a::g; use alloc::a; fn f() { a::g() }")]).is_empty());
        assert_eq!(found(&[a, ("b.rs", "m!(crate::a::g); fn f() {}")]).len(), 1);
    }

    #[test]
    fn a_circle_above_the_bound_is_a_finding_that_names_its_files() {
        let findings = |count: usize| {
            let next = |index: usize| format!("use crate::f{:02}::x;", (index + 1) % count);
            let files: Vec<(String, String)> =
                (0..count).map(|index| (format!("{ROOT}f{index:02}.rs"), next(index))).collect();
            check(&Subject::planted(files.iter().map(|(file, source)| (&**file, &**source)).collect()))
        };
        assert!(findings(MOST).is_empty());
        let [finding] = &findings(MOST + 1)[..] else { panic!("one circle") };
        assert_eq!(finding.place, format!("{ROOT}f00.rs"));
        assert!(finding.message.starts_with("26 files") && finding.message.contains("f24.rs, f25.rs"));
    }
}
