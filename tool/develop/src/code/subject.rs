//! The program that a subcommand is about: read, linked, and verified in its
//! context.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bpf_loader::{Line, OBJECT_MAX, Object, Program, contexts, regions_with_constants};
use downloaded_code::context::{Context, Region};
use downloaded_code::program;
use downloaded_code::refusal::Refusal;
use downloaded_code::verifier::{Verdict, Verifier, storage_bound};

use chitin::failure::{Context as _, Failure, Result};

use super::REFUSED;
use chitin::developer::CodeOptions;

/// A linked program with the context it is to run in.
#[derive(Debug)]
pub struct Subject {
    /// The file's name, for messages.
    pub file: String,
    pub program: Program,
    context: &'static Context<'static>,
    /// The context's regions, the one of constants as long as this program's.
    regions: Vec<Region<'static>>,
}

/// What verification came to, with the words that tell the details.
#[derive(Debug)]
pub struct Verification {
    pub verdict: Verdict,
    pub words: Vec<u64>,
}

/// Reads a file, and of one that is too long (or has no end) only enough to see that.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(OBJECT_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Subject {
    /// Reads and links the program that the command line names.
    ///
    /// # Errors
    /// An unknown context, an unreadable file, an object that is refused.
    pub fn load(options: &CodeOptions) -> Result<Subject> {
        let file = options.file.display().to_string();
        let context = find_context(&options.context)?;
        let bytes = read(&options.file).context(&file)?;
        let refuse = |refusal| Failure::with_status(REFUSED, printable(&format!("{file}: {}", describe(&refusal))));
        let object = Object::parse(&bytes).map_err(refuse)?;
        let program = object.link(options.entry.as_deref(), context).map_err(refuse)?;
        let regions = regions_with_constants(context.regions, program.constants.len());
        Ok(Subject { file, program, context, regions })
    }

    /// The context as this program has it.
    pub fn context(&self) -> Context<'_> {
        Context { regions: &self.regions, ..*self.context }
    }

    /// The bytes as the verifier takes them.
    ///
    /// # Errors
    /// None that a linked program can have.
    pub fn code(&self) -> Result<program::Program<'_>> {
        program::Program::new(&self.program.bytes).context(&self.file)
    }

    /// Verifies the program.
    ///
    /// # Errors
    /// The verifier's refusal.
    pub fn verify(&self, code: program::Program<'_>) -> std::result::Result<Verification, Refusal> {
        let mut words = vec![0; storage_bound(code.slots())];
        let verdict = Verifier::run(code, &self.context(), &mut words)?;
        Ok(Verification { verdict, words })
    }

    /// An instruction's place: its function, and its slot counted from that function's start.
    pub fn place(&self, instruction: usize) -> String {
        match self.program.function_of(instruction) {
            Some(function) => format!("{}+{}", function.name, instruction - function.first),
            None => format!("instruction {instruction}"),
        }
    }

    /// The source line of an instruction, when the object has one; compilers write 0 for code that belongs to none.
    pub fn line(&self, instruction: usize) -> Option<&Line> {
        self.program.lines.line(instruction).filter(|line| line.number > 0)
    }
}

/// A line's file, without its folders, and number.
pub fn short(line: &Line) -> String {
    let file = line.file.rsplit('/').next().unwrap_or_default();
    format!("{file}:{}", line.number)
}

/// So many of something: "1 byte", "2 bytes".
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Text with names that an object brings along, in which nothing can command the terminal.
pub fn printable(text: &str) -> String {
    let commands = |letter: &char| letter.is_control() && *letter != '\n';
    let show = |letter: char| if commands(&letter) { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(show).collect()
}

fn find_context(name: &str) -> Result<&'static Context<'static>> {
    contexts::ALL.into_iter().find(|context| context.name == name).ok_or_else(|| {
        let names: Vec<&str> = contexts::ALL.iter().map(|context| context.name).collect();
        Failure::with_status(2, format!("there is no context {name:?}: choose one of {}", names.join(", ")))
    })
}

/// A loader's refusal on one line, with the text of the source line.
fn describe(refusal: &bpf_loader::Refusal) -> String {
    let text = refusal.place.as_ref().and_then(|place| place.line.as_ref()).map(|line| &line.text);
    match text.filter(|text| !text.is_empty()) {
        Some(text) => format!("{refusal} [{text}]"),
        None => refusal.to_string(),
    }
}
