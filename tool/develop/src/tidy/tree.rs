//! The text files of the checkout, read once for all rules.

use std::fs;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use chitin::failure::{Context, Result};

use super::scan::{self, Line};

/// What is not the project's own text: built, fetched, or version control's.
const OUTSIDE: [&str; 3] = ["target", "cache", ".git"];
/// Endings of the files that are read; so are files without any.
const TEXT: [&str; 14] = ["rs", "toml", "md", "sh", "c", "h", "s", "S", "ld", "x", "py", "txt", "json", "patch"];

/// One file, with its path from the root of the checkout.
#[derive(Debug)]
pub struct SourceFile {
    pub path: String,
    pub source: String,
    /// Taken apart; empty for what is not Rust.
    pub lines: Vec<Line>,
}

#[derive(Debug, Default)]
pub struct Tree {
    pub root: String,
    pub files: Vec<SourceFile>,
}

impl Tree {
    /// # Errors
    /// When a folder or file cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let inside = |entry: &DirEntry| entry.depth() != 1 || !is_outside(entry);
        for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(inside) {
            let entry = entry.context("cannot read the checkout")?;
            if !entry.file_type().is_file() || !is_text(entry.path()) {
                continue;
            }
            let bytes = fs::read(entry.path()).context(entry.path().display())?;
            let Ok(source) = String::from_utf8(bytes) else { continue };
            let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
            files.push(SourceFile::new(&path.to_string_lossy(), source));
        }
        Ok(Self { root: root.to_string_lossy().into_owned(), files })
    }

    /// The Rust sources among the files.
    pub fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }
}

impl SourceFile {
    pub fn new(path: &str, source: String) -> Self {
        let lines = if path.ends_with(".rs") { scan::scan(&source) } else { Vec::new() };
        Self { path: path.to_owned(), source, lines }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Lines that are neither blank nor comment.
    pub fn code_lines(&self) -> usize {
        self.lines.iter().filter(|line| line.is_code()).count()
    }
}

fn is_outside(entry: &DirEntry) -> bool {
    OUTSIDE.iter().any(|name| entry.file_name() == *name)
}

fn is_text(path: &Path) -> bool {
    path.extension().is_none_or(|ending| TEXT.iter().any(|text| ending == *text))
}
