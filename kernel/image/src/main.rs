//! The linked kernel.
//!
//! To try it by hand:
//!
//! ```text
//! RUSTFLAGS="-Crelocation-model=static -Ccode-model=kernel -Cforce-frame-pointers=yes" \
//!     cargo build --release --target x86_64-unknown-none -p image
//! qemu-system-x86_64 -M q35 -cpu max -m 256M -accel tcg -nodefaults -display none -no-reboot \
//!     -serial file:/dev/stderr -device isa-debug-exit,iobase=0xf4,iosize=4 \
//!     -device virtio-serial-pci,disable-legacy=on -chardev stdio,id=channel,signal=off \
//!     -device virtserialport,chardev=channel,nr=1 \
//!     -kernel target/x86_64-unknown-none/release/image -initrd ARCHIVE
//! ```
//! On `-M microvm` the console is `-global virtio-mmio.force-legacy=false -device virtio-serial-device`. A
//! `virtconsole` port serves too, but QEMU drops its output while the reader is slow. QEMU's exit status is 33 when
//! stopped in order, 35 after a kernel panic, 37 after a boot failure.

#![cfg_attr(target_os = "none", no_std, no_main)]

/// Called by `machine` once the bootstrap CPU is set up.
#[cfg(target_os = "none")]
// SAFETY: the only definition of the symbol that `machine::boot` declares, with the same signature.
#[unsafe(no_mangle)]
fn kernel_main(mut boot: machine::boot::Boot) -> ! {
    driver::start(&mut boot);
    exokernel::start(boot)
}

/// Called by `machine` on every other CPU once it is released.
#[cfg(target_os = "none")]
// SAFETY: the only definition of the symbol that `machine::processor_start` declares, with the same signature.
#[unsafe(no_mangle)]
fn processor_main(_cpu: usize) -> ! {
    exokernel::start_secondary()
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("image: build the kernel with --target x86_64-unknown-none");
}
