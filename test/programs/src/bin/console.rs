//! The console as a device of an environment: its interrupt raises event bits of the environment that holds its key.
//! Each refusal of its rows has its error and changes nothing: wrong keys, pointers and states.
#![no_std]
#![no_main]

extern crate alloc;

use abi::capability::{DEVICE, HOST_CHANNEL, Rights};
use abi::device::{DeviceInfo, TransferRow, kind};
use abi::host_channel::{HEADER, Header, Kind, PAYLOAD};
use abi::upcall;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::upcall::{Context, set_handler};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, UserAddress, area, exposed, key, syscall, time_slice};
use test_programs::child::{eventually, launch, prepare};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here its_interrupt_raises_event_bits;
    Here bindings_that_make_no_sense;
    Here frames_that_make_no_sense;
    Here it_takes_no_descriptors_of_programs;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// The bit that the test binds.
const BIT: u64 = 1 << 9;
/// An address of the kernel, and one that no program can have.
const WRONG: [u64; 2] = [0xffff_ffff_8000_0000, u64::MAX - 8];
/// Event bits that came.
static CAME: AtomicU64 = AtomicU64::new(0);
/// A frame of log, of the largest size.
static FRAME: [AtomicU64; (HEADER + PAYLOAD).div_ceil(8)] =
    [const { AtomicU64::new(0) }; (HEADER + PAYLOAD).div_ceil(8)];

extern "C" fn note(context: &mut Context) {
    CAME.fetch_or(context.frame.detail, SeqCst);
}

extern "C" fn idle(_: u64) {
    loop {
        time_slice::yield_now();
    }
}

fn console() -> Result<(u64, &'static DeviceInfo), alloc::string::String> {
    Ok(exposed::device(kind::CHANNEL, 0).ok_or("no host channel")?)
}

/// The binding, as the record of the device shows it.
fn binding(info: &DeviceInfo) -> [u64; 2] {
    [&info.bound, &info.bits].map(|word| word.load(SeqCst))
}

fn send(key: KeyIndex, address: u64, bytes: u64) -> Result<(), Failure> {
    // SAFETY: the kernel reads the frame, or refuses the address.
    unsafe { syscall::channel_send(key, UserAddress(address), bytes) }
}

/// Room comes free when the host has read: the console interrupts, and the bits come.
fn its_interrupt_raises_event_bits(_: &World) -> Outcome {
    let (device, info) = console()?;
    set_handler(upcall::kind::EVENT, note);
    let header = Header { kind: Kind::Log as u8, length: PAYLOAD as u32 }.to_bytes();
    FRAME[0].store(u64::from_le_bytes(header), SeqCst);
    granted!(syscall::device_bind(KEY, device, 0, area::number(), BIT));
    check!(binding(info) == [area::number().0, BIT], "the record shows {:?}", binding(info));
    let sends = || {
        let _ = send(KEY, FRAME.as_ptr() as u64, (HEADER + PAYLOAD) as u64);
        CAME.load(SeqCst) & BIT != 0
    };
    check!(eventually(sends), "no event came of the console");
    granted!(syscall::device_bind(KEY, device, 0, EnvironmentId::NONE, 0));
    check!(binding(info) == [0, 0], "a binding that was ended shows {:?}", binding(info));
    Ok(())
}

fn bindings_that_make_no_sense(world: &World) -> Outcome {
    let (device, info) = console()?;
    let own = area::number();
    granted!(syscall::device_bind(KEY, device, 0, own, BIT));
    let bind = |key, device, queue, to, bits| syscall::device_bind(key, device, queue, to, bits);
    let weak = granted!(key::derive(KEY, Rights::WRITE, DEVICE));
    refused!(bind(weak, device, 0, own, 1), NotPermitted);
    granted!(key::discard(weak));
    refused!(bind(KeyIndex::WELL_KNOWN, device, 0, own, 1), NotPermitted);
    refused!(bind(KeyIndex(43), device, 0, own, 1), NoSuchKey);
    refused!(bind(KeyIndex(u64::MAX), device, 0, own, 1), NoSuchKey);
    refused!(bind(KEY, 99, 0, own, 1), Absent);
    refused!(bind(KEY, u64::MAX, 0, own, 1), Absent);
    refused!(bind(KEY, device, 1, own, 1), BadArgument);
    refused!(bind(KEY, device, u64::MAX, own, 1), BadArgument);
    refused!(bind(KEY, device, 0, EnvironmentId(1 << 40), 1), NoSuchEnvironment);
    let child = launch(prepare(world, idle, 0)?)?;
    refused!(bind(KEY, device, 0, child.number, 1 << 63), NotPermitted);
    let dead = child.number;
    granted!(child.destroy());
    refused!(bind(KEY, device, 0, dead, 1), NoSuchEnvironment);
    check!(binding(info) == [own.0, BIT], "a refusal changed the binding: {:?}", binding(info));
    granted!(bind(KEY, device, 0, EnvironmentId::NONE, 0));
    Ok(())
}

/// A frame is refused whole: its header, its length and its place are looked at before a byte of it is sent.
fn frames_that_make_no_sense(_: &World) -> Outcome {
    let (at, whole) = (FRAME.as_ptr() as u64, (HEADER + PAYLOAD) as u64);
    FRAME[0].store(u64::from_le_bytes(Header { kind: Kind::Log as u8, length: 8 }.to_bytes()), SeqCst);
    refused!(send(KeyIndex::WELL_KNOWN, at, HEADER as u64 + 8), NotPermitted);
    refused!(send(KeyIndex(43), at, HEADER as u64 + 8), NoSuchKey);
    let reader = granted!(key::derive(KEY, Rights::READ, DEVICE));
    let channel = granted!(key::derive(reader, Rights::READ, HOST_CHANNEL));
    refused!(send(channel, at, HEADER as u64 + 8), NotPermitted);
    granted!(key::discard(channel));
    granted!(key::discard(reader));
    for bytes in [0, HEADER as u64 - 1, whole + 1, u64::MAX, HEADER as u64 + 7, HEADER as u64 + 9] {
        refused!(send(KEY, at, bytes), BadArgument);
    }
    for address in WRONG {
        refused!(send(KEY, address, HEADER as u64 + 8), BadAddress);
    }
    FRAME[0].store(u64::MAX, SeqCst);
    refused!(send(KEY, at, HEADER as u64 + 8), BadArgument);
    let receive = |key, address, bytes| {
        // SAFETY: no frame is received, or the kernel refuses the key.
        unsafe { syscall::channel_receive(key, UserAddress(address), bytes) }
    };
    refused!(receive(KeyIndex::WELL_KNOWN, at, whole), NotPermitted);
    refused!(receive(KeyIndex(43), at, whole), NoSuchKey);
    Ok(())
}

/// Only the kernel writes descriptors of the console: the row of raw transfers takes disks alone.
fn it_takes_no_descriptors_of_programs(_: &World) -> Outcome {
    let (device, info) = console()?;
    let row = TransferRow::default();
    let submit = |key, queue, address, count| {
        // SAFETY: the kernel refuses the device before it reads a row.
        unsafe { syscall::device_submit(key, device, queue, UserAddress(address), count) }
    };
    let at = &raw const row as u64;
    for (queue, count) in [(0, 1), (1, 1), (u64::MAX, 1), (0, 0), (0, u64::MAX)] {
        let outcome = submit(KEY, queue, at, count).map_err(|failure| failure.error);
        check!(outcome == Err(Error::Absent), "queue {queue}, {count} rows: {outcome:?}");
    }
    for address in WRONG {
        check!(submit(KEY, 0, address, 1).is_err(), "the rows at {address:#x} passed");
    }
    refused!(submit(KeyIndex(43), 0, at, 1), NoSuchKey);
    check!(binding(info) == [0, 0], "the record shows {:?}", binding(info));
    Ok(())
}
