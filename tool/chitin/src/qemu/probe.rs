//! The smallest guest there is: it turns paging and long mode on, as every
//! kernel must, and stops the machine through the debug-exit port. A host that
//! runs it within the time limit runs guests.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use abi::host_channel::stop;

use crate::children::GuardedChild;
use crate::failure::{Context, Result};
use crate::scratch;

use super::Accelerator;
use super::arguments::PROGRAM;

/// Far more than it takes: under emulation it is done in a tenth of a second.
const LIMIT: Duration = Duration::from_secs(5);
/// Where the image is loaded, whole, headers included.
const ADDRESS: u32 = 0x10_0000;
/// Where its page tables are put: a table of one entry at each of the first
/// two levels, and a 2 MiB page at the third.
const TABLES: u32 = 0x20_0000;

/// Whether the probe guest runs under `accelerator`.
///
/// # Errors
/// When QEMU cannot be started at all.
pub fn runs(accelerator: Accelerator) -> Result<bool> {
    let place = scratch::folder()?;
    let image = place.path().join("probe");
    fs::write(&image, probe_image()).context("cannot write the probe guest")?;
    let accelerator = match accelerator {
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg => "tcg",
    };
    let mut command = Command::new(PROGRAM);
    command
        .args(["-no-user-config", "-nodefaults", "-display", "none", "-no-reboot", "-machine", "q35"])
        .args(["-accel", accelerator, "-cpu", "max", "-m", "64M", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"])
        .arg("-kernel")
        .arg(&image)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = GuardedChild::spawn(&mut command)?;
    let expected = i32::try_from(stop::IN_ORDER << 1 | 1).ok();
    Ok(child.wait(LIMIT)?.is_some_and(|status| status.code() == expected))
}

/// A 64-bit ELF with one loaded segment, which is all of it, and the PVH note.
fn probe_image() -> Vec<u8> {
    const HEADERS: u32 = 64 + 2 * 56;
    const NOTE: u32 = 20;
    let entry = ADDRESS + HEADERS + NOTE;
    let code = code();
    let size = u64::from(HEADERS + NOTE) + code.len() as u64;

    let mut image = b"\x7fELF\x02\x01\x01".to_vec();
    image.resize(16, 0);
    image.extend([2_u16, 62].into_iter().flat_map(u16::to_le_bytes));
    image.extend(1_u32.to_le_bytes());
    image.extend([u64::from(entry), 64, 0].into_iter().flat_map(u64::to_le_bytes));
    image.extend(0_u32.to_le_bytes());
    image.extend([64_u16, 56, 2, 64, 0, 0].into_iter().flat_map(u16::to_le_bytes));
    segment(&mut image, 1, 0, size);
    segment(&mut image, 4, u64::from(HEADERS), u64::from(NOTE));
    image.extend([4_u32, 4, 18].into_iter().flat_map(u32::to_le_bytes));
    image.extend(b"Xen\0");
    image.extend(entry.to_le_bytes());
    image.extend(code);
    image
}

/// A program header for `size` bytes from `offset`.
fn segment(image: &mut Vec<u8>, kind: u32, offset: u64, size: u64) {
    let address = u64::from(ADDRESS) + offset;
    image.extend([kind, 7].into_iter().flat_map(u32::to_le_bytes));
    image.extend([offset, address, address, size, size, 4].into_iter().flat_map(u64::to_le_bytes));
}

/// 32-bit code, entered with paging off.
fn code() -> Vec<u8> {
    let mut code = Vec::new();
    for (slot, value) in
        [(TABLES, TABLES + 0x1000 + 3), (TABLES + 0x1000, TABLES + 0x2000 + 3), (TABLES + 0x2000, 0x83)]
    {
        // mov dword [slot], value
        code.extend([0xc7, 0x05]);
        code.extend(slot.to_le_bytes());
        code.extend(value.to_le_bytes());
    }
    // mov eax, TABLES; mov cr3, eax
    code.push(0xb8);
    code.extend(TABLES.to_le_bytes());
    code.extend([0x0f, 0x22, 0xd8]);
    // mov eax, cr4; or eax, PAE; mov cr4, eax
    code.extend([0x0f, 0x20, 0xe0, 0x83, 0xc8, 0x20, 0x0f, 0x22, 0xe0]);
    // mov ecx, EFER; rdmsr; or eax, LME; wrmsr
    code.extend([0xb9, 0x80, 0x00, 0x00, 0xc0, 0x0f, 0x32, 0x0d, 0x00, 0x01, 0x00, 0x00, 0x0f, 0x30]);
    // mov eax, cr0; or eax, PG; mov cr0, eax
    code.extend([0x0f, 0x20, 0xc0, 0x0d, 0x00, 0x00, 0x00, 0x80, 0x0f, 0x22, 0xc0]);
    // mov al, IN_ORDER; out 0xf4, al; hlt
    code.extend([0xb0, stop::IN_ORDER as u8, 0xe6, 0xf4, 0xf4]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf;

    #[test]
    fn the_probe_is_a_kernel_and_runs_under_emulation() {
        elf::check_kernel(&probe_image(), "the probe").unwrap();
        assert!(runs(Accelerator::Tcg).unwrap());
    }
}
