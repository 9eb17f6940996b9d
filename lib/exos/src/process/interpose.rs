//! Objects that a process wants loaded before its program begins, to replace calls of ExOS (`link/preload.h`).
//!
//! `EXOS_PRELOAD` in the environment names them, with colons between, as `LD_PRELOAD` does for the C library. They lie
//! in the memory of the program, which fork copies and `execve` forgets.

use super::Process;
use super::call::Call;
use super::exec::map_object;
use super::exec_file::{open, read_from};
use super::exec_request::PreloadedObject;
use crate::hw::{preload_abi, usercopy};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use program::elf::Image;

const VARIABLE: &[u8] = b"EXOS_PRELOAD=";
/// Tags of the dynamic section, and the one kind of relocation that an object on its own needs (System V ABI, AMD64).
const DT_NULL: u64 = 0;
const DT_RELA: u64 = 7;
const DT_RELA_BYTES: u64 = 8;
const R_X86_64_RELATIVE: u64 = 8;
const RELOCATION_BYTES: u64 = 24;

/// Opens the objects that an environment names. An object that is none is the error of `execve`, and told to the host.
pub(super) fn find(environment: &[Vec<u8>]) -> Result<Vec<PreloadedObject>> {
    let names = environment.iter().find_map(|entry| entry.strip_prefix(VARIABLE)).unwrap_or_default();
    let mut objects = Vec::new();
    for name in names.split(|byte| *byte == b':').filter(|name| !name.is_empty()) {
        match find_one(name) {
            Ok(object) => objects.push(object),
            Err(error) => {
                objects.iter().for_each(PreloadedObject::close);
                return Err(explain(name, error));
            }
        }
    }
    Ok(objects)
}

fn find_one(name: &[u8]) -> Result<PreloadedObject> {
    let (file, head) = open(name, false)?;
    match Image::read(&head, read_from(&file)) {
        Ok(image) if image.is_sound && image.movable && image.interpreter.is_none() => {
            Ok(PreloadedObject { file, image })
        }
        _ => {
            file.close();
            Err(Errno::ENOEXEC)
        }
    }
}

/// One line for people.
fn explain(name: &[u8], error: Errno) -> Errno {
    let name: Cow<'_, str> = String::from_utf8_lossy(name);
    runtime::error_line!("exos: EXOS_PRELOAD: {name} cannot be loaded: error {}", error.number());
    error
}

impl PreloadedObject {
    /// Maps the object and has it begin.
    pub(super) fn load(&self) -> Result<()> {
        self.try_load().map_err(|error| explain(&self.file.path, error))
    }

    fn try_load(&self) -> Result<()> {
        let bias = map_object(&self.file, &self.image)?;
        if let Some(dynamic) = self.image.dynamic {
            relocate(bias, dynamic)?;
        }
        preload_abi::begin::<Call<'static>>(self.image.entry.wrapping_add(bias))
    }
}

/// Makes addresses in the object's data right for where it lies; `dynamic` is the address of its dynamic section.
fn relocate(bias: u64, dynamic: u64) -> Result<()> {
    let at = |address: u64| bias.checked_add(address).ok_or(Errno::ENOEXEC);
    let (mut table, mut bytes) = (0, 0);
    let mut entry = at(dynamic)?;
    loop {
        let [tag, value] = usercopy::read_words(entry)?;
        match tag {
            DT_NULL => break,
            DT_RELA => table = at(value)?,
            DT_RELA_BYTES => bytes = value,
            _ => {}
        }
        entry += 16;
    }
    for index in 0..bytes / RELOCATION_BYTES {
        let [offset, kind, addend] = usercopy::read_words(table + index * RELOCATION_BYTES)?;
        if kind != R_X86_64_RELATIVE {
            return Err(Errno::ENOEXEC);
        }
        usercopy::write_word(at(offset)?, bias.wrapping_add(addend))?;
    }
    Ok(())
}

/// Functions of objects, by the number of the call that they replace.
#[derive(Debug, Default)]
pub(crate) struct Functions(pub(crate) BTreeMap<u64, u64>);

/// Nothing is replaced any more.
pub(super) fn forget(process: &Process) {
    process.calls.reset();
    process.with_extension(|functions: &mut Functions| functions.0.clear());
}
