//! Rule: unsafe code lives behind a wall of a few folders; every crate outside
//! forbids it, and behind the wall each use has its reasons near.

use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::tree::SourceFile;
use super::{Finding, Subject};

/// Where unsafe code may stand. A path without a slash at its end also covers
/// the file of that name: `…/loader` is `…/loader.rs` and `…/loader/`.
const BEHIND: [&str; 11] = [
    "kernel/machine/",
    "kernel/image/",
    "lib/runtime/",
    "lib/exos/src/loader",
    "lib/exos/src/entry",
    "lib/exos/src/hw",
    "test/programs/",
    "test/native/",
    "bench/guest/",
    "lib/exos/build.rs",
    // Programs for the verifier to judge: built for BPF, never linked in here.
    "lib/bpf-loader/tests/corpus/",
];
/// Crates that stand on both sides, so that they cannot forbid it as a whole.
const BOTH_SIDES: [&str; 1] = ["lib/exos"];
/// How many lines above an unsafe block its reasons may start.
const NEAR: usize = 12;
const FORBID: &str = "#![forbid(unsafe_code)]";

pub fn check(subject: &Subject) -> Vec<Finding> {
    let mut findings = open_crates(subject);
    for file in subject.tree.rust() {
        findings.extend(in_file(file));
    }
    findings
}

fn is_behind(path: &str) -> bool {
    BEHIND.iter().any(|wall| {
        path.strip_prefix(wall)
            .is_some_and(|rest| wall.ends_with('/') || rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
    })
}

/// Crates that should forbid unsafe code and do not.
fn open_crates(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in subject.metadata.members() {
        let folder = relative(package.folder(), subject);
        if is_behind(&format!("{folder}/src/")) || BOTH_SIDES.contains(&folder.as_str()) {
            continue;
        }
        let is_root = |kind: &String| kind == "lib" || kind == "bin";
        for target in package.targets.iter().filter(|target| target.kind.iter().any(is_root)) {
            let path = relative(&target.src_path, subject);
            let file = subject.tree.rust().find(|file| file.path == path);
            if file.is_some_and(|file| !file.lines.iter().any(|line| line.code.trim() == FORBID)) {
                findings.push(Finding::new(path, format!("lacks {FORBID}")));
            }
        }
    }
    findings
}

fn relative(path: &Path, subject: &Subject) -> String {
    let root = &subject.metadata.workspace_root;
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn in_file(file: &SourceFile) -> Vec<Finding> {
    let Ok(syntax) = syn::parse_file(&file.source) else {
        return vec![Finding::new(&file.path, "does not parse as Rust")];
    };
    let mut collector = Collector::default();
    collector.visit_file(&syntax);
    let behind = is_behind(&file.path);
    let wrong = |use_of: &UnsafeUse| {
        let place = format!("{}:{}", file.path, use_of.line);
        if !behind {
            Some(Finding::new(place, format!("{} outside the wall", use_of.named())))
        } else if use_of.wants_reasons && !has_reasons(file, use_of.line) {
            Some(Finding::new(place, format!("{} without a SAFETY comment", use_of.named())))
        } else {
            None
        }
    };
    collector.found.iter().filter_map(wrong).collect()
}

/// Whether a comment on this line or shortly above says why it is sound.
fn has_reasons(file: &SourceFile, line: usize) -> bool {
    let lines = &file.lines[..line.min(file.lines.len())];
    lines.iter().rev().take(NEAR).any(|line| line.comment.contains("SAFETY:"))
}

struct UnsafeUse {
    what: &'static str,
    line: usize,
    /// Functions state their conditions in their documentation instead, and an attribute hands out no promise.
    wants_reasons: bool,
}

impl UnsafeUse {
    fn named(&self) -> String {
        ["unsafe", self.what].join(" ")
    }
}

#[derive(Default)]
struct Collector {
    found: Vec<UnsafeUse>,
}

impl Collector {
    fn add(&mut self, what: &'static str, token: &impl Spanned, wants_reasons: bool) {
        let line = token.span().start().line;
        self.found.push(UnsafeUse { what, line, wants_reasons });
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.add("block", &block.unsafe_token, true);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(token) = &item.unsafety {
            self.add("impl", token, true);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let syn::Safety::Unsafe(token) = &signature.safety {
            self.add("function", token, false);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("unsafe") {
            self.add("attribute", attribute, false);
        }
        visit::visit_attribute(self, attribute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, source: &str) -> Vec<String> {
        let found = check(&Subject::planted(vec![(path, source)]));
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn unsafe_code_outside_the_wall_is_found() {
        let block = "fn f() {\n// SAFETY: fine.\nunsafe { g() }\n}";
        for outside in ["kernel/exokernel/src/page.rs", "lib/exos/src/fork.rs"] {
            assert_eq!(found(outside, block), ["unsafe block outside the wall"]);
        }
        for inside in ["kernel/machine/src/trap.rs", "lib/exos/src/loader/elf.rs"] {
            assert_eq!(found(inside, block), Vec::<String>::new());
        }
        assert_eq!(found("abi/src/a.rs", "unsafe impl Send for A {}").len(), 1);
        assert_eq!(found("abi/src/a.rs", "unsafe fn f() {}").len(), 1);
        assert_eq!(found("abi/src/a.rs", "#[unsafe(no_mangle)] fn f() {}").len(), 1);
    }

    #[test]
    fn a_block_without_reasons_is_found() {
        let inside = "lib/runtime/src/stub.rs";
        assert_eq!(found(inside, "fn f() { unsafe { g() } }"), ["unsafe block without a SAFETY comment"]);
        assert_eq!(found(inside, "// SAFETY: word-sized.\nunsafe impl Send for A {}").len(), 0);
    }

    #[test]
    fn a_crate_that_does_not_forbid_it_is_found() {
        let mut subject = Subject::planted(vec![("abi/src/lib.rs", "//! Words.\n")]);
        subject.metadata = super::super::planted::metadata(&[("abi", &[])]);
        assert_eq!(check(&subject), [Finding::new("abi/src/lib.rs", format!("lacks {FORBID}"))]);
        let mut subject = Subject::planted(vec![("abi/src/lib.rs", FORBID)]);
        subject.metadata = super::super::planted::metadata(&[("abi", &[])]);
        assert_eq!(check(&subject), []);
    }
}
