//! A Linux call, and the tables of operations that a process works by.

use super::image::ImageTables;
use super::{Process, option};
use crate::hw::static_ref::StaticRef;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt::Write;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use runtime::Kind;
use runtime::lock::Lock;
use runtime::upcall::Context;
use unix_core::trace_format;

/// A call that is being performed.
#[derive(Debug)]
pub struct Call<'a> {
    /// Where the program was interrupted; `rax` gets the result. Of the registers that functions keep (rbx, rbp, r12 to
    /// r15) nothing is known, and nothing can be changed, but in the calls that are not [`quick`].
    pub context: &'a mut Context,
    /// The process.
    pub process: &'static Process,
    pub(crate) keep_registers: bool,
}

/// One operation of the table.
pub type Operation = fn(&mut Call<'_>) -> Result<u64>;
/// Numbers that the table has room for.
pub const NUMBERS: usize = 463;
/// Operations by number; `None` is answered with `ENOSYS`.
pub type Operations = [Option<Operation>; NUMBERS];

impl Call<'_> {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.context.registers.rax
    }

    /// The arguments, in the order of Linux: rdi rsi rdx r10 r8 r9.
    pub fn arguments(&self) -> [u64; 6] {
        let registers = &self.context.registers;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9]
    }

    /// The registers are as they are to be, `rax` included.
    pub fn keep_registers(&mut self) {
        self.keep_registers = true;
    }
}

/// Back to the `syscall`, behind the jump to the stub where there is one: the program repeats the call when it resumes.
#[cold]
pub(crate) fn make_again(context: &mut Context) {
    let frame = &mut context.frame;
    frame.rip = frame.rip.wrapping_sub(2);
    context.registers.rcx = frame.rip;
}

/// Of a table the calls that need not know every register: all but those that come back elsewhere, twice, or with all
/// of them changed.
pub const fn quick(table: &Operations) -> Operations {
    const WHOLE: [u32; 7] = [
        linux::__NR_rt_sigreturn,
        linux::__NR_clone,
        linux::__NR_fork,
        linux::__NR_vfork,
        linux::__NR_execve,
        linux::__NR_execveat,
        linux::__NR_clone3,
    ];
    let mut quick = *table;
    let mut index = 0;
    while index < WHOLE.len() {
        quick[WHOLE[index] as usize] = None;
        index += 1;
    }
    quick
}

/// The table of calls that a process works by: that of its image, unless an object was preloaded.
#[derive(Debug)]
pub struct CallTable {
    all: StaticRef<Operations>,
    /// Those of them that may be performed without all registers, and without more ado.
    quick: StaticRef<Operations>,
    /// Not 0 where ExOS's own operation performs the return from a handler, without more ado.
    returns: AtomicU32,
    is_watched: bool,
    /// A thread is confined to some calls: see `syscalls::seccomp`.
    confines: AtomicBool,
    image: &'static ImageTables,
}

static NO_CALLS: Operations = [None; NUMBERS];

impl CallTable {
    /// Where the word lies that is 0 where the return from a handler is a call as any other.
    pub const RETURNS: usize = offset_of!(Self, returns);

    /// That of the image; `is_watched`: each call gets further work.
    pub fn of_image(image: &'static ImageTables, is_watched: bool) -> Self {
        let returns = AtomicU32::new(Self::returns_of(image, is_watched));
        Self {
            all: StaticRef::new(&image.tables.calls),
            quick: StaticRef::new(Self::quick_of(image, is_watched)),
            returns,
            is_watched,
            confines: AtomicBool::new(false),
            image,
        }
    }

    const fn quick_of(image: &'static ImageTables, is_watched: bool) -> &'static Operations {
        if is_watched { &NO_CALLS } else { &image.quick }
    }

    const fn returns_of(image: &ImageTables, is_watched: bool) -> u32 {
        (!is_watched && image.tables.has_own_return) as u32
    }

    /// The tables of the image.
    pub fn image(&self) -> &'static ImageTables {
        self.image
    }

    /// The table.
    pub fn get(&self) -> &'static Operations {
        self.all.get()
    }

    /// What performs a call of this number, where that has nothing to do with registers that functions keep.
    #[inline]
    pub fn quick(&self, number: u64) -> Option<Operation> {
        self.quick.get().get(usize::try_from(number).ok()?).copied().flatten()
    }

    /// Whether it is that of the image.
    pub fn is_of_image(&self) -> bool {
        core::ptr::eq(self.get(), &self.image.tables.calls)
    }

    /// Another one from now on, which knows nothing of registers.
    pub fn set(&self, table: &'static Operations) {
        self.quick.set(&NO_CALLS);
        self.returns.store(0, Release);
        self.all.set(table);
    }

    /// Every call passes a check from now on, for as long as the process runs.
    pub fn confine(&self) {
        self.confines.store(true, Release);
        self.set(self.get());
    }

    /// Whether calls have to pass a check.
    pub fn confines(&self) -> bool {
        self.confines.load(Relaxed)
    }

    /// That of the image again.
    pub fn reset(&self) {
        let is_watched = self.is_watched || self.confines();
        self.all.set(&self.image.tables.calls);
        self.quick.set(Self::quick_of(self.image, is_watched));
        self.returns.store(Self::returns_of(self.image, is_watched), Release);
    }
}

/// Calls that were made and are not there.
#[derive(Debug, Default)]
pub struct Summary {
    counts: Lock<BTreeMap<u64, u64>>,
}

impl Summary {
    /// As `Lock::free_copy`.
    pub fn free_copy(&self) {
        self.counts.free_copy();
    }

    /// Counts one.
    pub fn count(&self, number: u64) {
        *self.counts.lock().entry(number).or_default() += 1;
    }

    /// Tells the host, if it asked.
    pub fn tell(&self, process: &Process) {
        if !process.has_option(option::SYSCALL_SUMMARY) {
            return;
        }
        let name = process.program.lock().name.clone();
        let name = String::from_utf8_lossy(&name);
        let counts = self.counts.lock();
        // Every program asks for rseq, and does without it.
        let told = counts.iter().filter(|(number, _)| **number != u64::from(linux::__NR_rseq));
        for (number, count) in told.clone() {
            let mut line = String::new();
            let _ = write!(line, "{name}: {} is not there, made {count} times", trace_format::name(*number));
            runtime::channel::send(Kind::Log, line.as_bytes());
        }
        let (total, kinds) = told.fold((0, 0), |(total, kinds), (_, count)| (total + count, kinds + 1));
        if kinds > 0 {
            let mut line = String::new();
            let _ = write!(line, "{name}: {total} calls of {kinds} kinds are not there");
            runtime::channel::send(Kind::Log, line.as_bytes());
        }
    }
}
