//! A kernel that only tests `machine` and `driver`: what `test=` on its command line names is tried, and the machine
//! stops in order if it went well. Deliberate ends (a panic, a stack overflow) are cases too. test/machine boots it.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod kernel {
    use abi::PageNumber;
    use abi::page::PageKind;
    use abi::page_table::{PRESENT, WRITE};
    use core::fmt;
    use core::hint::{black_box, spin_loop};
    use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use driver::console;
    use machine::boot::Boot;
    use machine::entry::{self, Handlers, SyscallFrame, TrapFrame};
    use machine::layout::{DIRECT_MAP, IMAGE};
    use machine::memory::{self, Memory, state};
    use machine::memory_map::Use;
    use machine::page_table::walk;
    use machine::{apic, clock, cpu_control, exposed, handover, io_apic, log, processor_start, stop};

    const LARGEST_KERNEL: u64 = 8 << 20;
    const MILLISECOND: u64 = 1_000_000;

    static HANDLERS: Handlers = Handlers {
        system_calls: [no_program; entry::SYSTEM_CALLS],
        interrupt: no_program_either,
        interrupt_while_idle: interrupted,
        upcall_failed,
    };

    extern "C" fn no_program(_: &mut SyscallFrame) {
        panic!("a system call, and no program");
    }

    fn no_program_either(_: &mut TrapFrame) {
        panic!("a program was interrupted, and there is none");
    }

    fn upcall_failed(_: &mut TrapFrame) -> ! {
        panic!("an upcall failed, and there is no program");
    }

    /// Interrupts of each vector.
    static TAKEN: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

    fn interrupted(vector: u64) {
        TAKEN[vector as usize].fetch_add(1, Ordering::Relaxed);
        apic::acknowledge(vector);
    }

    fn taken(vector: u8) -> u64 {
        TAKEN[usize::from(vector)].load(Ordering::Relaxed)
    }

    // SAFETY: the only definition in this program of the symbol that `machine::boot` declares, with the same signature.
    #[unsafe(no_mangle)]
    fn kernel_main(mut boot: Boot) -> ! {
        driver::start(&mut boot);
        entry::install(&HANDLERS);
        let name = boot.start.command_line.value("test").unwrap_or("boot");
        log!("test {name} on {} CPUs", boot.cpus);
        match name {
            "boot" => check_boot(&boot),
            "panic" => panic!("on purpose"),
            "panic-in-panic" => panic!("{}", PanicsWhenShown),
            "stack-overflow" => log!("{}", descend(1)),
            "write-text" => write(kernel_main as *const () as u64),
            "write-text-alias" => write(kernel_main as *const () as u64 - IMAGE + DIRECT_MAP),
            "write-null" => write(8),
            "programs-null" => access_programs_null(&mut boot),
            "execute-data" => execute_data(),
            "echo" => echo(),
            "timer" => timer(),
            "vectors" => vectors(&mut boot),
            "lines" => lines(&mut boot),
            "entropy" => check_entropy(),
            "clock" => check_clock(&boot),
            "wait" => wait(&boot),
            "guards" => check_guards(&boot),
            other => panic!("no test is called {other}"),
        }
        stop::in_order()
    }

    /// Every CPU runs, memory adds up, the kernel is small, the date is this century's.
    fn check_boot(boot: &Boot) {
        let number = |name| boot.start.command_line.value(name).map(|value| value.parse::<u64>().expect("a number"));
        assert_eq!(Some(boot.cpus as u64), number("cpus"));
        let ranges = boot.start.memory.ranges();
        assert!(ranges.is_sorted_by(|one, other| one.end <= other.start));
        let kernel: u64 = ranges.iter().filter(|range| range.used == Use::Kernel).map(|range| range.pages()).sum();
        assert!(kernel * 4096 < LARGEST_KERNEL, "the kernel has {kernel} pages");
        let total = boot.start.memory.pages() >> 8;
        let expected = number("megabytes").expect("megabytes=");
        assert!((expected - 2..=expected).contains(&total), "{total} MiB of memory");
        assert!(boot.wall_clock >> 60 > 0, "date {}", boot.wall_clock);
        processor_start::release(boot.cpus);
        wait_for(boot.cpus);
    }

    struct PanicsWhenShown;

    impl fmt::Display for PanicsWhenShown {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("while a panic is shown");
        }
    }

    /// Calls itself through a pointer that the compiler cannot look through, so that it stays a recursion.
    fn descend(depth: u64) -> u64 {
        let mut space = [depth; 64];
        black_box(&mut space);
        let deeper: fn(u64) -> u64 = black_box(descend);
        deeper(depth + 1) + black_box(space)[1]
    }

    fn write(address: u64) {
        // SAFETY: none: that this faults is what is tested.
        unsafe { (address as *mut u8).write_volatile(0) };
    }

    fn execute_data() {
        static RETURN: [u8; 1] = [0xc3];
        // SAFETY: none: that this faults is what is tested.
        let function: extern "C" fn() = unsafe { core::mem::transmute(RETURN.as_ptr()) };
        function();
    }

    /// Touches address 8 while the address space of a program is loaded that has mapped page 0 with every right:
    /// reads, writes or executes, as `access=` says.
    fn access_programs_null(boot: &mut Boot) {
        map_page_zero(boot);
        match boot.start.command_line.value("access") {
            // SAFETY: none: that this faults is what is tested.
            Some("read") => log!("{}", unsafe { (black_box(8) as *const u8).read_volatile() }),
            Some("write") => write(8),
            _ => {
                // SAFETY: none: that this faults is what is tested.
                let function: extern "C" fn() = unsafe { core::mem::transmute(black_box(8usize)) };
                function();
            }
        }
        log!("the kernel reached page 0 of a program");
    }

    fn map_page_zero(boot: &mut Boot) {
        let cpus = boot.cpus;
        let mut memory = handover::hand_over(boot, cpus);
        let mut next = 0;
        let mut take = |memory: &mut Memory| {
            let is_free =
                |page: &PageNumber| memory::info(*page).is_some_and(|info| state(info).kind == PageKind::Free);
            let page = (next..).map(PageNumber).find(is_free).expect("a page is free");
            next = page.0 + 1;
            memory.take_free(page);
            page
        };
        let root = take(&mut memory);
        memory.create_table(root, 4);
        let slot = |level| walk(root, 0, level).expect("the tables above are linked").slot;
        for level in (1..=3).rev() {
            let table = take(&mut memory);
            memory.create_table(table, level);
            memory.link(slot(level + 1), table);
        }
        let page = take(&mut memory);
        memory.set_leaf(slot(1), page.address() | PRESENT | WRITE);
        cpu_control::load_address_space(root.address());
    }

    fn check_entropy() {
        let (mut one, mut other) = ([0; 64], [0; 64]);
        assert!(driver::entropy::fill(&mut one) && driver::entropy::fill(&mut other), "no entropy");
        assert_ne!(one, other);
    }

    /// Sends back what arrives, until a 0xff arrives.
    fn echo() -> ! {
        extern "C" fn again() -> ! {
            console::poll();
            let mut buffer = [0; 1000];
            loop {
                let room = buffer.len().min(console::room());
                let length = console::receive(&mut buffer[..room]);
                assert_eq!(console::send(&buffer[..length]), length);
                if buffer[..length].contains(&0xff) {
                    console::drain();
                    stop::in_order();
                }
                if length == 0 {
                    entry::halt(again);
                }
            }
        }
        again()
    }

    /// A hundred times the timer interrupts, never before its time.
    fn timer() -> ! {
        static DEADLINE: AtomicU64 = AtomicU64::new(0);
        static SEEN: AtomicU64 = AtomicU64::new(u64::MAX);
        extern "C" fn again() -> ! {
            let rounds = taken(apic::TIMER_VECTOR);
            if SEEN.swap(rounds, Ordering::Relaxed) == rounds {
                // Another interrupt woke this CPU, one of the console's.
                entry::halt(again);
            }
            let now = clock::now();
            let deadline = DEADLINE.load(Ordering::Relaxed);
            assert!(
                rounds == 0 || now + MILLISECOND / 10 >= deadline,
                "too early by {} ns in round {rounds} at {now} ns, {:?}",
                deadline.saturating_sub(now),
                clock::scale()
            );
            if rounds == 100 {
                stop::in_order();
            }
            DEADLINE.store(now + MILLISECOND, Ordering::Relaxed);
            clock::set_timer(now + MILLISECOND);
            entry::halt(again)
        }
        again()
    }

    /// A storm of a vector without an owner: each is taken and counted, and the clock runs on. A deadline in the past
    /// interrupts at once.
    fn vectors(boot: &mut Boot) -> ! {
        const NOBODY: u8 = 0x77;
        const STORM: u64 = 10_000;
        extern "C" fn again() -> ! {
            let strays = taken(NOBODY) + taken(apic::SPURIOUS_VECTOR);
            let counted = exposed::cpus()[entry::cpu()].stray_interrupts.load(Ordering::Relaxed);
            assert!(counted == strays, "{strays} interrupts that nobody asked for were counted as {counted}");
            if taken(NOBODY).min(taken(apic::TIMER_VECTOR)) >= STORM {
                stop::in_order();
            }
            apic::send(entry::cpu(), NOBODY);
            clock::set_timer(0);
            entry::halt(again)
        }
        let cpus = boot.cpus;
        handover::hand_over(boot, cpus);
        again()
    }

    /// The first channel of the interval timer, whose line leads to both kinds of interrupt controllers.
    mod interval_timer {
        use core::arch::asm;

        const COMMAND: u16 = 0x43;
        const COUNTER: u16 = 0x40;
        /// Channel 0, both bytes of the counter, a square wave.
        const SQUARE_WAVE: u8 = 0x36;
        /// Keeps the status of channel 0 for the next read.
        const STATUS: u8 = 0xe2;

        fn write(port: u16, value: u8) {
            // SAFETY: the ports of the timer, which nothing else here uses.
            unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
        }

        /// Turns its line on and off, a thousand times a second.
        pub fn start() {
            write(COMMAND, SQUARE_WAVE);
            1193u16.to_le_bytes().map(|byte| write(COUNTER, byte));
        }

        /// Whether its line is on.
        pub fn output() -> bool {
            write(COMMAND, STATUS);
            let status: u8;
            // SAFETY: as for `write`.
            unsafe { asm!("in al, dx", in("dx") COUNTER, out("al") status, options(nomem, nostack)) };
            status & 0x80 != 0
        }
    }

    /// A device that no driver owns raises its line all the while, and no CPU hears of it. Opened, the same line
    /// comes: the device does raise it.
    fn lines(boot: &mut Boot) -> ! {
        const OPENED: u8 = 0x78;
        /// Where the line comes out: the interval timer's is 2 by an override of the platform, else 0.
        const INTERRUPTS: [u32; 2] = [0, 2];
        static ROUNDS: AtomicU64 = AtomicU64::new(0);
        static SEEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
        extern "C" fn again() -> ! {
            SEEN[usize::from(interval_timer::output())].fetch_add(1, Ordering::Relaxed);
            let strays = exposed::cpus()[entry::cpu()].stray_interrupts.load(Ordering::Relaxed);
            assert_eq!(strays, taken(OPENED), "an interrupt came that nobody owns");
            let rounds = ROUNDS.fetch_add(1, Ordering::Relaxed);
            if rounds == 300 {
                assert_eq!(taken(OPENED), 0);
                assert!(
                    SEEN.each_ref().iter().all(|seen| seen.load(Ordering::Relaxed) > 0),
                    "the line does not change"
                );
                assert!(INTERRUPTS.map(|line| io_apic::open(line, OPENED, 0)).contains(&true), "there is no such line");
            } else if rounds > 300 && taken(OPENED) > 10 {
                stop::in_order();
            }
            assert!(rounds < 3000, "the opened line does not come");
            clock::set_timer(clock::now() + MILLISECOND / 3);
            entry::halt(again)
        }
        let cpus = boot.cpus;
        handover::hand_over(boot, cpus);
        interval_timer::start();
        again()
    }

    /// Bits of CR0 and CR4 that are set on every CPU.
    static CONTROL: [AtomicU64; 2] = [const { AtomicU64::new(u64::MAX) }; 2];

    fn note_control() {
        let (zero, four): (u64, u64);
        // SAFETY: reading control registers changes nothing.
        unsafe {
            core::arch::asm!("mov {}, cr0", "mov {}, cr4", out(reg) zero, out(reg) four, options(nomem, nostack))
        };
        CONTROL[0].fetch_and(zero, Ordering::SeqCst);
        CONTROL[1].fetch_and(four, Ordering::SeqCst);
    }

    /// What the CPU has to keep the kernel from programs' memory is on, on every one: WP in CR0; SMEP, SMAP and
    /// UMIP in CR4.
    fn check_guards(boot: &Boot) {
        const WRITE_PROTECT: u64 = 1 << 16;
        const GUARDS: u64 = 1 << 20 | 1 << 21 | 1 << 11;
        note_control();
        processor_start::release(boot.cpus);
        wait_for(boot.cpus);
        let [zero, four] = CONTROL.each_ref().map(|word| word.load(Ordering::SeqCst));
        assert!(zero & WRITE_PROTECT != 0 && four & GUARDS == GUARDS, "CR0 {zero:#x}, CR4 {four:#x}");
    }

    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    /// The latest time that any CPU has seen, in each of many rounds.
    static LATEST: AtomicU64 = AtomicU64::new(0);

    fn wait_for(cpus: usize) {
        while RUNNING.load(Ordering::Acquire) + 1 < cpus {
            spin_loop();
        }
    }

    /// A CPU that has seen a time published never reads an earlier one, beyond what the measuring allows.
    fn check_clock(boot: &Boot) {
        processor_start::release(boot.cpus);
        wait_for(boot.cpus);
        watch_clock();
    }

    fn watch_clock() {
        const DOUBT: u64 = 20_000;
        for _ in 0..20_000 {
            let published = LATEST.load(Ordering::SeqCst);
            let now = clock::now();
            assert!(now + DOUBT >= published, "time ran back by {} ns", published - now);
            LATEST.fetch_max(now, Ordering::SeqCst);
        }
    }

    /// Stays busy for some seconds, so that something can be done to the machine from outside.
    fn wait(boot: &Boot) {
        processor_start::release(boot.cpus);
        wait_for(boot.cpus);
        let end = clock::now() + 2_000 * MILLISECOND;
        assert_eq!(console::send(b"!"), 1);
        while clock::now() < end {
            spin_loop();
        }
    }

    // SAFETY: the only definition in this program of the symbol that `machine::processor_start` declares.
    #[unsafe(no_mangle)]
    fn processor_main(_cpu: usize) -> ! {
        extern "C" fn idle() -> ! {
            entry::halt(idle)
        }
        note_control();
        RUNNING.fetch_add(1, Ordering::AcqRel);
        watch_clock();
        idle()
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("machine-test: build it with --target x86_64-unknown-none");
}
