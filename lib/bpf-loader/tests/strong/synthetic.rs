//! Objects built by hand, so that they can be wrong in one chosen way.

use object::write::{Object, Relocation, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

pub(crate) const ADDRESS: u32 = 1;
pub(crate) const CALL: u32 = 10;

pub(crate) const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];
pub(crate) const NOTHING: [u8; 8] = [0xb7, 0, 0, 0, 0, 0, 0, 0];
pub(crate) const WIDE_LOAD: [u8; 8] = [0x18, 1, 0, 0, 0, 0, 0, 0];
pub(crate) const SECOND_HALF: [u8; 8] = [0; 8];
pub(crate) const CALL_FUNCTION: [u8; 8] = [0x85, 0x10, 0, 0, 0xff, 0xff, 0xff, 0xff];

/// An object with one section of code and the global function `handle` at its start.
pub(crate) struct Synthetic {
    pub(crate) object: Object<'static>,
    pub(crate) text: object::write::SectionId,
}

impl Synthetic {
    pub(crate) fn new(code: &[[u8; 8]]) -> Synthetic {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
        object.append_section_data(text, &code.concat(), 8);
        let mut made = Synthetic { object, text };
        made.function("handle", 0, 8 * code.len() as u64, SymbolScope::Dynamic);
        made
    }

    pub(crate) fn symbol(&mut self, name: &str, section: SymbolSection, value: u64, kind: SymbolKind) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value,
            size: 0,
            kind,
            scope: SymbolScope::Dynamic,
            weak: false,
            section,
            flags: SymbolFlags::None,
        })
    }

    pub(crate) fn function(&mut self, name: &str, value: u64, size: u64, scope: SymbolScope) -> SymbolId {
        let id = self.symbol(name, SymbolSection::Section(self.text), value, SymbolKind::Text);
        self.object.symbol_mut(id).size = size;
        self.object.symbol_mut(id).scope = scope;
        id
    }

    pub(crate) fn data(&mut self, name: &str, kind: SectionKind, bytes: &[u8]) -> SymbolId {
        let section = self.object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
        self.object.append_section_data(section, bytes, 8);
        self.symbol("datum", SymbolSection::Section(section), 0, SymbolKind::Data)
    }

    pub(crate) fn undefined(&mut self, name: &str) -> SymbolId {
        self.symbol(name, SymbolSection::Undefined, 0, SymbolKind::Unknown)
    }

    pub(crate) fn relocate(&mut self, offset: u64, number: u32, symbol: SymbolId) {
        let flags = RelocationFlags::Elf { r_type: object::elf::RelocationType(number) };
        self.object.add_relocation(self.text, Relocation { offset, symbol, addend: 0, flags }).expect("written");
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.object.write().expect("an object")
    }
}
