//! Rule: no file over 800 lines of code and no function over 70, comments and
//! blanks not counted, except those on the shrinking list.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::exceptions::{self, Exception};
use super::tree::SourceFile;
use super::{Finding, Subject};

/// Lines of code in one file, at most.
const FILE_LIMIT: usize = 800;
/// Lines of code in one function, at most.
const FUNCTION_LIMIT: usize = 70;

/// Something with a size; a file has no name.
#[derive(Debug)]
struct Sized {
    path: String,
    name: String,
    line: usize,
    lines: usize,
}

pub fn check(subject: &Subject) -> Vec<Finding> {
    let files: Vec<Sized> = subject.tree.rust().map(whole).collect();
    let functions: Vec<Sized> = subject.tree.rust().flat_map(functions).collect();
    let mut findings = against(&files, FILE_LIMIT, &subject.exceptions.files);
    findings.extend(against(&functions, FUNCTION_LIMIT, &subject.exceptions.functions));
    findings
}

fn whole(file: &SourceFile) -> Sized {
    let lines = file.code_lines();
    Sized { path: file.path.clone(), name: String::new(), line: 1, lines }
}

fn against(things: &[Sized], limit: usize, exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = exceptions
        .iter()
        .filter(|exception| !things.iter().any(|thing| is_about(exception, thing)))
        .map(|exception| Finding::new(exceptions::FILE, format!("{exception} is not there")))
        .collect();
    for thing in things {
        let exception = exceptions.iter().find(|exception| is_about(exception, thing));
        findings.extend(judge(thing, limit, exception));
    }
    findings
}

fn is_about(exception: &Exception, thing: &Sized) -> bool {
    exception.path == thing.path && exception.name == thing.name
}

fn judge(thing: &Sized, limit: usize, exception: Option<&Exception>) -> Option<Finding> {
    let place = format!("{}:{}", thing.path, thing.line);
    let lines = thing.lines;
    match exception {
        None if lines > limit => {
            let name = if thing.name.is_empty() { "file" } else { &thing.name };
            Some(Finding::new(place, format!("{name} has {lines} lines of code, over {limit}")))
        }
        Some(listed) if lines <= limit => {
            Some(Finding::new(exceptions::FILE, format!("{listed} is not needed any more")))
        }
        Some(listed) if lines != listed.lines => {
            let change = format!("{listed} is listed with {}, has {lines}", listed.lines);
            Some(Finding::new(exceptions::FILE, change))
        }
        _ => None,
    }
}

impl std::fmt::Display for Exception {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.path, self.name)
    }
}

fn functions(file: &SourceFile) -> Vec<Sized> {
    let Ok(syntax) = syn::parse_file(&file.source) else { return Vec::new() };
    let mut collector = Collector { file, found: Vec::new() };
    collector.visit_file(&syntax);
    collector.found
}

struct Collector<'a> {
    file: &'a SourceFile,
    found: Vec<Sized>,
}

impl Collector<'_> {
    fn add(&mut self, name: String, body: &impl Spanned) {
        let (first, last) = (body.span().start().line, body.span().end().line);
        let lines = self.file.lines.iter().skip(first - 1).take(last + 1 - first);
        let lines = lines.filter(|line| line.is_code()).count();
        self.found.push(Sized { path: self.file.path.clone(), name, line: first, lines });
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(item.sig.ident.to_string(), &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(item.sig.ident.to_string(), &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(item.sig.ident.to_string(), body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    fn function_of(statements: usize) -> SourceFile {
        let body = "    work();\n    // why\n\n".repeat(statements);
        SourceFile::new("lib/a.rs", format!("impl A {{\nfn long() {{\n{body}}}\n}}\n"))
    }

    fn findings(file: SourceFile, functions: Vec<Exception>) -> Vec<Finding> {
        let mut subject = Subject::planted(vec![]);
        subject.tree = Tree { files: vec![file], ..Tree::default() };
        subject.exceptions.functions = functions;
        check(&subject)
    }

    fn exception(lines: usize) -> Exception {
        Exception { path: "lib/a.rs".into(), name: "long".into(), lines }
    }

    #[test]
    fn a_long_function_is_found_and_comments_do_not_count() {
        assert_eq!(findings(function_of(68), vec![]), []);
        let found = findings(function_of(69), vec![]);
        assert_eq!(found[0].place, "lib/a.rs:2");
        assert!(found[0].message.contains("long has 71 lines"), "{found:?}");
    }

    #[test]
    fn a_long_file_is_found() {
        let file = SourceFile::new("lib/b.rs", "const A: u8 = 1;\n".repeat(801));
        assert!(findings(file, vec![])[0].message.contains("file has 801 lines"));
    }

    #[test]
    fn exceptions_only_shrink() {
        assert_eq!(findings(function_of(78), vec![exception(80)]), []);
        assert!(findings(function_of(78), vec![exception(81)])[0].message.contains("has 80"));
        assert!(findings(function_of(78), vec![exception(79)])[0].message.contains("has 80"));
        assert!(findings(function_of(9), vec![exception(80)])[0].message.contains("not needed"));
        let gone = Exception { name: "gone".into(), ..exception(80) };
        assert!(findings(function_of(9), vec![gone])[0].message.contains("is not there"));
    }
}
