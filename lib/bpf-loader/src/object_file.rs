//! Reading of an ELF object: its sections, symbols and relocations, checked one by one.

use std::collections::HashMap;

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Rel, SectionHeader, SectionTable, Sym, SymbolTable};

use crate::btf::{self, DebugInfo};
use crate::refusal::{Reason, Refusal};

/// The largest object that is looked into, in bytes.
pub const OBJECT_MAX: usize = 4 << 20;

/// The longest name of a section or symbol, in bytes. (Rust's mangled names have some hundreds.)
const NAME_MAX: usize = 4096;

/// The most relocations of all sections together: as many as an object has room for.
/// (Hostile sections may lie over each other.)
const RELOCATIONS_MAX: usize = OBJECT_MAX / 16;

/// How a file of LLVM bitcode begins.
const BITCODE: &[u8] = b"BC\xc0\xde";

/// Section of that number or symbol's place in its table.
pub(crate) type Index = usize;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Instructions.
    Code,
    /// Bytes that never change.
    Constants,
    /// Bytes that do.
    Variables,
    /// What only tools read.
    Other,
}

#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) bytes: &'a [u8],
    /// Relocations, sorted by place.
    pub(crate) relocations: Vec<Relocation>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    /// Bytes from the start of the section.
    pub(crate) offset: u64,
    /// The ELF number of its type.
    pub(crate) number: u32,
    pub(crate) symbol: Index,
}

#[derive(Debug)]
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    /// The section it lies in; `None` when the object does not define it.
    pub(crate) section: Option<Index>,
    /// Bytes from the start of that section.
    pub(crate) value: u64,
    pub(crate) size: u64,
    pub(crate) is_function: bool,
    pub(crate) is_global: bool,
}

/// An object that was read. It borrows the bytes.
#[derive(Debug)]
pub struct Object<'a> {
    pub(crate) sections: Vec<Section<'a>>,
    pub(crate) symbols: Vec<Symbol<'a>>,
    /// The function that begins at a place of a section.
    pub(crate) function_at: HashMap<(Index, u64), Index>,
    pub(crate) debug: DebugInfo<'a>,
}

type Header = FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

fn malformed(error: object::read::Error) -> Refusal {
    Refusal::whole(Reason::Malformed(error.to_string()))
}

impl<'a> Object<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// It is too large, no BPF object, or damaged.
    pub fn parse(bytes: &'a [u8]) -> Result<Object<'a>, Refusal> {
        let header = check_header(bytes)?;
        let table = header.sections(ENDIAN, bytes).map_err(malformed)?;
        let names = header.shstrndx(ENDIAN, bytes).map_err(malformed)?;
        let names = strings(&table, object::SectionIndex(names as usize), bytes)?;
        let mut sections = read_sections(&table, names, bytes)?;
        let symbols = table.symbols(ENDIAN, bytes, elf::SHT_SYMTAB).map_err(malformed)?;
        read_relocations(&table, bytes, &symbols, &mut sections)?;
        let names = strings(&table, symbols.string_section(), bytes)?;
        let symbols = read_symbols(&symbols, names, sections.len())?;
        let function_at = functions(&symbols);
        let debug = btf::read(&sections)?;
        Ok(Object { sections, symbols, function_at, debug })
    }

    /// The names of the functions that can be an entry, in the order of the object.
    pub fn entries(&self) -> Vec<&'a str> {
        let global = |symbol: &&Symbol<'a>| symbol.is_function && symbol.is_global && symbol.section.is_some();
        self.symbols.iter().filter(global).map(|symbol| symbol.name).collect()
    }

    /// The symbol of the function `name`, or of the only one that can be an entry.
    pub(crate) fn entry(&self, name: Option<&str>) -> Result<Index, Refusal> {
        let known = || self.entries().into_iter().map(String::from).collect();
        let found = |wanted: &str| {
            let fits = |symbol: &Symbol<'_>| symbol.is_function && symbol.section.is_some() && symbol.name == wanted;
            let global = self.symbols.iter().position(|symbol| symbol.is_global && fits(symbol));
            global.or_else(|| self.symbols.iter().position(fits))
        };
        let chosen = match (name, self.entries().as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, []) => return Err(Refusal::whole(Reason::NoFunctions)),
            (None, _) => return Err(Refusal::whole(Reason::SeveralFunctions(known()))),
        };
        found(chosen).ok_or_else(|| Refusal::whole(Reason::NoSuchFunction(chosen.into(), known())))
    }
}

fn check_header(bytes: &[u8]) -> Result<&Header, Refusal> {
    if bytes.len() > OBJECT_MAX {
        return Err(Refusal::whole(Reason::TooLarge));
    }
    if bytes.starts_with(BITCODE) {
        return Err(Refusal::whole(Reason::Bitcode));
    }
    let header = Header::parse(bytes).map_err(|_| Refusal::whole(Reason::NotElf))?;
    if header.e_ident.data != elf::ELFDATA2LSB || header.e_ident.class != elf::ELFCLASS64 {
        return Err(Refusal::whole(Reason::NotElf));
    }
    match (header.e_machine(ENDIAN), header.e_type(ENDIAN)) {
        (elf::EM_BPF, elf::ET_REL) => Ok(header),
        (elf::EM_BPF, _) => Err(Refusal::whole(Reason::NotRelocatable)),
        (machine, _) => Err(Refusal::whole(Reason::NotBpf(machine.0))),
    }
}

/// The bytes of a section of names; none when there is no such section.
fn strings<'a>(
    table: &SectionTable<'a, Header>,
    index: object::SectionIndex,
    bytes: &'a [u8],
) -> Result<&'a [u8], Refusal> {
    match table.section(index) {
        Ok(section) => section.data(ENDIAN, bytes).map_err(malformed),
        Err(_) => Ok(&[]),
    }
}

/// The name at an offset; offset 0 is no name. Looks at [`NAME_MAX`] bytes at most.
fn name(strings: &[u8], offset: u32) -> Result<&str, Refusal> {
    if offset == 0 {
        return Ok("");
    }
    let rest = strings.get(offset as usize..).ok_or_else(|| bad("a name lies outside its table"))?;
    let limit = rest.len().min(NAME_MAX + 1);
    let end = rest[..limit].iter().position(|&byte| byte == 0);
    let end = end.ok_or_else(|| bad("a name is longer than 4,096 bytes, or does not end"))?;
    std::str::from_utf8(&rest[..end]).map_err(|_| bad("a name is no text"))
}

fn read_sections<'a>(
    table: &SectionTable<'a, Header>,
    names: &'a [u8],
    bytes: &'a [u8],
) -> Result<Vec<Section<'a>>, Refusal> {
    let read = |section: &elf::SectionHeader64<LittleEndian>| {
        let name = name(names, section.sh_name.get(ENDIAN))?;
        let bytes = section.data(ENDIAN, bytes).map_err(malformed)?;
        Ok(Section { name, kind: kind_of(section, name), bytes, relocations: Vec::new() })
    };
    table.iter().map(read).collect()
}

fn bad(what: &str) -> Refusal {
    Refusal::whole(Reason::Malformed(what.into()))
}

/// Where compilers put constants that hold addresses: writable only until a loader has filled these in.
const RELOCATED_CONSTANTS: &str = ".data.rel.ro";

fn kind_of(section: &elf::SectionHeader64<LittleEndian>, name: &str) -> Kind {
    let flags = section.sh_flags(ENDIAN);
    if !flags.contains(elf::SHF_ALLOC) {
        Kind::Other
    } else if flags.contains(elf::SHF_EXECINSTR) {
        Kind::Code
    } else if name.starts_with(RELOCATED_CONSTANTS) {
        Kind::Constants
    } else if flags.contains(elf::SHF_WRITE) || section.sh_type(ENDIAN) == elf::SHT_NOBITS {
        Kind::Variables
    } else {
        Kind::Constants
    }
}

/// Adds the relocations to the sections of code and constants they change; those of
/// other sections only matter to debuggers.
fn read_relocations(
    table: &SectionTable<'_, Header>,
    bytes: &[u8],
    symbols: &SymbolTable<'_, Header>,
    sections: &mut [Section<'_>],
) -> Result<(), Refusal> {
    let mut total = 0;
    for header in table.iter() {
        let target = header.sh_info(ENDIAN) as usize;
        let of_interest = |section: &Section<'_>| matches!(section.kind, Kind::Code | Kind::Constants);
        let Some(section) = sections.get_mut(target).filter(|section| of_interest(section)) else { continue };
        if header.sh_type(ENDIAN) == elf::SHT_RELA {
            return Err(bad("relocations carry addends, which BPF's do not"));
        }
        let Some((entries, link)) = header.rel(ENDIAN, bytes).map_err(malformed)? else { continue };
        if link != symbols.section() {
            return Err(bad("relocations name another table of symbols"));
        }
        total += entries.len();
        if total > RELOCATIONS_MAX {
            return Err(bad("it has more relocations than room for them: sections lie over each other"));
        }
        section.relocations.extend(entries.iter().map(|entry| Relocation {
            offset: entry.r_offset(ENDIAN),
            number: entry.r_type(ENDIAN).0,
            symbol: entry.r_sym(ENDIAN) as usize,
        }));
    }
    for section in sections {
        section.relocations.sort_by_key(|relocation| relocation.offset);
    }
    Ok(())
}

fn read_symbols<'a>(
    table: &SymbolTable<'a, Header>,
    names: &'a [u8],
    sections: usize,
) -> Result<Vec<Symbol<'a>>, Refusal> {
    let read = |(index, symbol): (object::read::SymbolIndex, &elf::Sym64<LittleEndian>)| {
        let name = name(names, symbol.st_name.get(ENDIAN))?;
        let section = table.symbol_section(ENDIAN, symbol, index).map_err(malformed)?;
        if section.is_some_and(|section| section.0 >= sections) {
            return Err(bad("a symbol lies in a section that does not exist"));
        }
        Ok(Symbol {
            name,
            section: section.map(|section| section.0),
            value: symbol.st_value(ENDIAN),
            size: symbol.st_size(ENDIAN),
            is_function: symbol.st_type() == elf::STT_FUNC,
            is_global: symbol.st_bind() != elf::STB_LOCAL,
        })
    };
    table.enumerate().map(read).collect()
}

/// Functions by place; of several at one place a global one, else the first.
fn functions(symbols: &[Symbol<'_>]) -> HashMap<(Index, u64), Index> {
    let mut found = HashMap::new();
    for wanted_global in [true, false] {
        for (index, symbol) in symbols.iter().enumerate() {
            let Some(section) = symbol.section.filter(|_| symbol.is_function) else { continue };
            if symbol.is_global == wanted_global {
                found.entry((section, symbol.value)).or_insert(index);
            }
        }
    }
    found
}
