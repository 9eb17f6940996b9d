//! What `machine` and `driver` promise, on real boards: rows of the matrix of faults that need no program.

use machine_boots::{BOOT_FAILURE, IN_ORDER, Machine, PANIC, finish, full_serial_line, inject};
use std::io::{Read, Write};
use std::time::Duration;

#[test]
fn fault_93_boots_on_every_board_model_memory_and_number_of_cpus() {
    // Every two choices meet in one of these.
    let machines = [
        ("q35", "max", 1, "64M", 64),
        ("q35", "qemu64", 2, "256M", 256),
        ("q35", "max", 4, "6G", 6144),
        ("microvm", "qemu64", 1, "6G", 6144),
        ("microvm", "max", 2, "64M", 64),
        ("microvm", "qemu64", 4, "64M", 64),
        ("microvm,acpi=off", "max", 1, "256M", 256),
    ];
    for (board, model, cpus, memory, megabytes) in machines {
        let line = format!("test=boot cpus={cpus} megabytes={megabytes}");
        Machine { board, model, cpus, memory, ..Machine::new(&line) }.ends_with(IN_ORDER);
    }
}

#[test]
fn fault_93_more_cpus_than_the_kernel_can_use_stay_parked() {
    let machine = Machine { board: "q35", cpus: 18, ..Machine::new("test=boot cpus=16 megabytes=256") };
    assert!(machine.ends_with(IN_ORDER).contains("2 CPUs stay parked"));
}

#[test]
fn fault_93_what_is_missing_is_said() {
    let no_long_mode = Machine { board: "q35", model: "qemu32", ..Machine::new("") }.ends_with(BOOT_FAILURE);
    assert!(no_long_mode.contains("no long mode"), "{no_long_mode}");
    let no_clock = Machine { board: "microvm,pit=off", ..Machine::new("") }.ends_with(BOOT_FAILURE);
    assert!(no_clock.contains("no clock"), "{no_clock}");
}

#[test]
fn fault_05_kernel_text_is_not_writable_under_any_alias_and_data_not_executable() {
    for test in ["write-text", "write-text-alias", "execute-data", "write-null"] {
        let serial = Machine { cpus: 2, ..Machine::new(&format!("test={test}")) }.ends_with(PANIC);
        assert!(serial.contains("exception 14") && serial.contains("end of record"), "{test}: {serial}");
    }
}

#[test]
fn fault_12_the_kernels_own_null_is_no_programs_page_zero() {
    for access in ["read", "write", "execute"] {
        let line = format!("test=programs-null access={access}");
        let serial = Machine::new(&line).ends_with(PANIC);
        assert!(serial.contains("exception 14") && serial.contains("end of record"), "{access}: {serial}");
    }
    // A CPU without SMAP lets the kernel through: doc/caveats.md says so.
    for access in ["read", "write"] {
        let line = format!("test=programs-null access={access}");
        let serial = Machine { model: "qemu64", ..Machine::new(&line) }.ends_with(IN_ORDER);
        assert!(serial.contains("reached page 0 of a program"), "{access}: {serial}");
    }
}

#[test]
fn what_keeps_the_kernel_from_the_memory_of_programs_is_on_on_every_cpu() {
    for cpus in [1, 4] {
        Machine { board: "microvm", cpus, ..Machine::new("test=guards") }.ends_with(IN_ORDER);
    }
    let without = Machine { model: "qemu64", ..Machine::new("test=guards") }.ends_with(PANIC);
    assert!(without.contains("CR4"), "a CPU that has none of it showed {without}");
}

#[test]
fn fault_95_a_kernel_stack_that_overflows_meets_its_guard_page() {
    for model in ["max", "qemu64"] {
        let serial = Machine { model, ..Machine::new("test=stack-overflow") }.ends_with(PANIC);
        assert!(serial.contains("double fault") && serial.contains("end of record"), "{serial}");
    }
}

#[test]
fn fault_96_a_panic_leaves_a_record_with_frames() {
    let serial = Machine { board: "q35", cpus: 4, ..Machine::new("test=panic") }.ends_with(PANIC);
    assert!(serial.contains("on purpose") && serial.contains("frames 0xffffffff8"), "{serial}");
}

#[test]
fn fault_96_a_panic_inside_a_panic_still_ends() {
    let serial = Machine::new("test=panic-in-panic").ends_with(PANIC);
    assert!(serial.contains("panic inside a panic"), "{serial}");
}

#[test]
fn fault_96_a_serial_line_that_takes_nothing_keeps_no_kernel_from_ending() {
    for (test, status) in [("panic", PANIC), ("panic-in-panic", PANIC), ("boot cpus=1 megabytes=256", IN_ORDER)] {
        for board in ["q35", "microvm"] {
            let folder = std::env::temp_dir().join(format!("chitin-serial-{}", std::process::id()));
            std::fs::create_dir(&folder).expect("a folder");
            let (serial, full) = full_serial_line(&folder);
            let line = format!("test={test}");
            let end = finish(Machine { board, serial: &serial, ..Machine::new(&line) }.start());
            drop(full);
            std::fs::remove_dir_all(&folder).expect("the folder goes");
            assert_eq!(end.0, Some(status), "{test} on {board}: {}", end.1);
        }
    }
}

#[test]
fn fault_94_a_storm_of_a_vector_that_nobody_owns_is_taken_and_counted() {
    for board in ["q35", "microvm"] {
        Machine { board, ..Machine::new("test=vectors") }.ends_with(IN_ORDER);
    }
}

#[test]
fn fault_94_a_line_that_no_driver_owns_interrupts_nobody() {
    for board in ["q35", "microvm"] {
        Machine { board, ..Machine::new("test=lines") }.ends_with(IN_ORDER);
    }
}

#[test]
fn the_trace_tells_the_last_entries_of_each_cpu_in_order_and_in_a_panic() {
    // Vector 0x77, again and again, and the clock.
    let serial = Machine::new("test=vectors").ends_with(IN_ORDER);
    let entries: Vec<Vec<&str>> = serial.lines().filter_map(|line| line.strip_prefix("trace ")).map(words).collect();
    let stamps: Vec<u64> = entries.iter().map(|words| words[1].parse().expect("a time stamp")).collect();
    assert_eq!(entries.len(), 1024);
    assert!(stamps.is_sorted() && entries.iter().all(|words| words[0] == "0"));
    assert!(entries.iter().filter(|words| words[2] == (0x100 + 0x77).to_string()).count() > 256);
    let serial = Machine { cpus: 2, ..Machine::new("test=write-text") }.ends_with(PANIC);
    assert!(serial.contains("end of record"), "{serial}");
}

fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

#[test]
fn fault_92_time_never_runs_back_and_timers_never_come_early() {
    for board in ["q35", "microvm"] {
        Machine { board, cpus: 4, ..Machine::new("test=clock") }.ends_with(IN_ORDER);
        Machine { board, ..Machine::new("test=timer") }.ends_with(IN_ORDER);
    }
}

#[test]
fn entropy_comes_from_the_cpu_a_device_the_host_or_the_clock() {
    let seed = format!("test=entropy entropy_seed={}", "0123456789abcdef".repeat(4));
    Machine::new("test=entropy").ends_with(IN_ORDER);
    Machine { model: "qemu64", ..Machine::new(&seed) }.ends_with(IN_ORDER);
    let device = ["-device", "virtio-rng-device"];
    Machine { model: "qemu64", extra: &device, ..Machine::new("test=entropy") }.ends_with(IN_ORDER);
    let bridged = ["-device", "pcie-root-port,id=bridge,chassis=1", "-device", "virtio-rng-pci,bus=bridge"];
    Machine { board: "q35", model: "qemu64", extra: &bridged, ..Machine::new("test=entropy") }.ends_with(IN_ORDER);
    Machine { model: "qemu64", ..Machine::new("test=entropy") }.ends_with(IN_ORDER);
}

#[test]
fn the_console_passes_every_byte() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 255) as u8
    })
    .take(1 << 20)
    .chain([0xff])
    .collect();
    for board in ["q35", "microvm", "microvm,acpi=off"] {
        let mut machine = Machine { board, ..Machine::new("test=echo") }.start();
        let (mut input, mut output) = (machine.stdin.take().expect("piped"), machine.stdout.take().expect("piped"));
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || {
            input.write_all(&sent).expect("the machine takes its input");
            input
        });
        let reader = std::thread::spawn(move || {
            // A reader that is slow at first fills every buffer on the way.
            std::thread::sleep(Duration::from_secs(2));
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).expect("the machine's output can be read");
            bytes
        });
        let (status, serial) = finish(machine);
        assert_eq!(status, Some(IN_ORDER), "{board}: {serial}");
        drop(writer.join());
        let back = reader.join().expect("no panic");
        let equal = back.iter().zip(&bytes).take_while(|(one, other)| one == other).count();
        assert!(back == bytes, "{board}: {} of {} bytes came back, the first {equal} right", back.len(), bytes.len());
    }
}

#[test]
fn fault_26_non_maskable_interrupts_at_any_time_are_survived() {
    for (board, cpus) in [("q35", 2), ("microvm", 1)] {
        let socket = std::env::temp_dir().join(format!("chitin-nmi-{}-{board}", std::process::id()));
        let monitor = format!("unix:{},server=on,wait=off", socket.display());
        let extra = ["-qmp", monitor.as_str()];
        let mut machine = Machine { board, cpus, extra: &extra, ..Machine::new("test=wait") }.start();
        let mut ready = [0];
        // Before it is ready it has no handlers, as every machine.
        machine.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("the machine says that it is ready");
        let injected = inject(&socket);
        let (status, serial) = finish(machine);
        // The machine is gone; its socket may be too.
        let _ = std::fs::remove_file(&socket);
        assert_eq!(status, Some(IN_ORDER), "{board}: {serial}");
        assert!(injected > 20, "{board}: only {injected} interrupts came through");
    }
}

#[test]
fn a_plain_console_port_serves_too() {
    let extra = ["-device", "virtconsole,chardev=channel"];
    let machine = Machine { extra: &extra, ..Machine::new("test=echo") };
    let mut machine = machine.start_with(&[]);
    machine.stdin.as_mut().expect("piped").write_all(b"hello\xff").expect("the machine takes its input");
    let mut output = machine.stdout.take().expect("piped");
    let (status, serial) = finish(machine);
    assert_eq!(status, Some(IN_ORDER), "{serial}");
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).expect("the machine's output can be read");
    assert_eq!(bytes, b"hello\xff");
}
