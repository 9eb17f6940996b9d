//! Every interleaving of control transfers by the fast way of `entry.s` with each other and with two events. One is a
//! change of a callee's entry; the other is its destruction, after which its slot and its page serve another
//! environment (FAULTS 44).
//!
//! The steps are those of the macro `transfer`, one for each access to what several CPUs share. A test asserts that
//! the macro has the same ones in the same order, each once. Accesses are taken to happen one after the other. x86
//! may exchange a store and a later load; of two such accesses one is a locked instruction here, or both are of words
//! of this CPU. Each step that is left out or taken out of its place, in [`Weakness`], must be found.

use std::collections::HashSet;
use std::vec::Vec;

/// What a transfer does, in this order; with the instruction that does it.
const STEPS: [(Step, &str); 8] = [
    (Step::Find, "mov r11, [r11 * 8 + chitin_contexts]"),
    (Step::Claim, "lock bts qword ptr [r11 + {CLAIM}], 0"),
    (Step::Compare, "cmp [r11 + {CALLEE}], rcx"),
    (Step::Show, "mov gs:[{CURRENT}], r11"),
    (Step::Ready, "cmp qword ptr [rcx + {READY}], 0"),
    (Step::LetGo, "mov qword ptr [rsp + 8 + {CLAIM}], 0"),
    (Step::NameCaller, "mov [rcx + {CALLER}], rsp"),
    (Step::Enter, "mov rcx, [rcx + \\entry]"),
];
const SHARED_WORDS: [&str; 6] = ["chitin_contexts", "{CLAIM}", "{CALLEE}", "{READY}", "{CALLER}", "\\entry"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Find,
    Claim,
    Compare,
    Show,
    Ready,
    LetGo,
    NameCaller,
    Enter,
}

/// What could be wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weakness {
    None,
    /// The claim of a callee is not looked at.
    NoClaim,
    /// It is compared first and claimed then.
    ComparedTooEarly,
    /// It is not compared.
    NotCompared,
    /// The caller may be entered while this CPU still shows it.
    CallerLetGoFirst,
    /// The entry is looked at, and read again.
    EntryReadTwice,
    /// An environment that is destroyed is not marked before its claim is free.
    NotMarked,
    /// Its page is used again at once.
    NoWaiting,
}

const WEAKNESSES: [Weakness; 7] = [
    Weakness::NoClaim,
    Weakness::ComparedTooEarly,
    Weakness::NotCompared,
    Weakness::CallerLetGoFirst,
    Weakness::EntryReadTwice,
    Weakness::NotMarked,
    Weakness::NoWaiting,
];

impl Weakness {
    fn steps(self) -> Vec<Step> {
        let mut steps: Vec<Step> = STEPS.iter().map(|(step, _)| *step).collect();
        match self {
            Self::ComparedTooEarly => steps.swap(1, 2),
            Self::NotCompared => drop(steps.remove(2)),
            Self::CallerLetGoFirst => steps.swap(3, 5),
            _ => {}
        }
        steps
    }
}

/// Pages of contexts, by what lies there in the beginning: the callers, one of each CPU, and the callee.
const CALLEE: usize = 2;
const CPUS: usize = 2;
const USER_ENTRY: u64 = 0x1000;
const KERNEL_ENTRY: u64 = 1 << 63 | 0x2000;
const USER_HALF: u64 = (1 << 47) - 1;
/// The number of the environment that comes into the callee's slot after it.
const NEXT: u8 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Free,
    Held,
    Condemned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Context {
    number: u8,
    claim: Claim,
    /// It is being destroyed.
    dying: bool,
    /// The kernel holds its registers.
    whole: bool,
    /// How often the page was given to another.
    life: u8,
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// A program executes, the one that it shows.
    Program,
    /// This step of a transfer is next.
    Kernel(u8),
    /// Nothing any more: it schedules, with the lock, another environment.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cpu {
    doing: Doing,
    /// The page of the context that it shows to run.
    shows: usize,
    caller: usize,
    /// The callee's page, and its life when it was found.
    found: Option<(usize, u8)>,
    /// This transfer began when the callee was being destroyed.
    late: bool,
    /// The first look at the entry, if it is read twice.
    looked: Option<u64>,
    /// Transfers that it has made.
    made: u8,
    /// The CPU that destroys the callee waits for this one to leave the kernel.
    asked: bool,
}

/// How far the destruction of the callee has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Destruction {
    Mark,
    Condemn,
    Unpublish,
    Ask,
    Wait,
    UseAgain,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    contexts: [Context; 3],
    /// What transfers find in the callee's slot.
    published: Option<usize>,
    /// Words of every callee, which it may change at any time.
    entry: u64,
    ready: bool,
    cpus: [Cpu; CPUS],
    destruction: Destruction,
}

type Found = Result<(), &'static str>;

impl State {
    fn new() -> Self {
        let context = |number, claim| Context { number, claim, dying: false, whole: false, life: 0 };
        let cpu = |page| Cpu {
            doing: Doing::Program,
            shows: page,
            caller: page,
            found: None,
            late: false,
            looked: None,
            made: 0,
            asked: false,
        };
        Self {
            contexts: [context(0, Claim::Held), context(1, Claim::Held), context(2, Claim::Free)],
            published: Some(CALLEE),
            entry: USER_ENTRY,
            ready: true,
            cpus: [cpu(0), cpu(1)],
            destruction: Destruction::Mark,
        }
    }

    /// Every state that one step of any CPU, or of the destruction, leads to.
    fn next(self, weakness: Weakness) -> Result<Vec<Self>, &'static str> {
        let mut all = Vec::new();
        for cpu in 0..CPUS {
            match self.cpus[cpu].doing {
                Doing::Program => {
                    all.push(self.call(cpu));
                    all.push(self.forced_out(cpu));
                }
                Doing::Kernel(step) => {
                    let mut next = self;
                    next.transfer(cpu, weakness.steps()[usize::from(step)], weakness)?;
                    all.push(next);
                }
                Doing::Gone => {}
            }
        }
        all.push(Self { entry: self.entry ^ USER_ENTRY ^ KERNEL_ENTRY, ..self });
        all.push(Self { ready: !self.ready, ..self });
        all.extend(self.destroy(weakness));
        Ok(all)
    }

    /// The program on a CPU calls: the callee, or the program that called it. After two transfers it has done enough.
    fn call(mut self, cpu: usize) -> Self {
        let own = &mut self.cpus[cpu];
        own.doing = if own.made < 2 { Doing::Kernel(0) } else { Doing::Gone };
        if own.doing == Doing::Gone {
            let shown = own.shows;
            self.let_go(shown);
        }
        self.cpus[cpu].caller = self.cpus[cpu].shows;
        self
    }

    /// The program on a CPU is switched out with all its registers.
    fn forced_out(mut self, cpu: usize) -> Self {
        let shown = self.cpus[cpu].shows;
        self.contexts[shown].whole = true;
        self.cpus[cpu].doing = Doing::Gone;
        self.let_go(shown);
        self
    }

    fn let_go(&mut self, page: usize) {
        if self.contexts[page].claim == Claim::Held {
            self.contexts[page].claim = Claim::Free;
        }
    }

    /// The callee's page and context; its page must not have become another's meanwhile.
    fn callee(&mut self, cpu: usize) -> Result<(usize, &mut Context), &'static str> {
        let (page, life) = self.cpus[cpu].found.ok_or("no callee")?;
        let context = &mut self.contexts[page];
        if context.life != life {
            return Err("a context was used after its page had become another's");
        }
        Ok((page, context))
    }

    fn wanted(&self, cpu: usize) -> u8 {
        if self.cpus[cpu].caller == CALLEE { cpu as u8 } else { CALLEE as u8 }
    }

    /// Continues in Rust: the caller runs again.
    fn refused(&mut self, cpu: usize) {
        let caller = self.cpus[cpu].caller;
        self.left_kernel(cpu, caller);
        self.cpus[cpu].made = 2;
    }

    fn left_kernel(&mut self, cpu: usize, page: usize) {
        let made = self.cpus[cpu].made;
        self.cpus[cpu] = Cpu {
            doing: Doing::Program,
            shows: page,
            caller: page,
            found: None,
            late: false,
            looked: None,
            made,
            asked: false,
        };
    }

    fn transfer(&mut self, cpu: usize, step: Step, weakness: Weakness) -> Found {
        let Doing::Kernel(at) = self.cpus[cpu].doing else { return Err("not in the kernel") };
        self.cpus[cpu].doing = Doing::Kernel(at + 1);
        let wanted = self.wanted(cpu);
        match step {
            Step::Find => {
                let page = if wanted == CALLEE as u8 { self.published } else { Some(usize::from(wanted)) };
                let Some(page) = page else {
                    self.refused(cpu);
                    return Ok(());
                };
                self.cpus[cpu].found = Some((page, self.contexts[page].life));
                self.cpus[cpu].late = wanted == CALLEE as u8 && self.destruction != Destruction::Mark;
            }
            Step::Claim => {
                let (_, context) = self.callee(cpu)?;
                if context.claim == Claim::Free {
                    context.claim = Claim::Held;
                } else if weakness != Weakness::NoClaim {
                    self.refused(cpu);
                }
            }
            Step::Compare => {
                let (page, context) = self.callee(cpu)?;
                if context.number != wanted || context.dying || context.whole {
                    if weakness != Weakness::ComparedTooEarly {
                        self.let_go(page);
                    }
                    self.refused(cpu);
                }
            }
            Step::Show => self.cpus[cpu].shows = self.callee(cpu)?.0,
            Step::Ready => {
                let (page, _) = self.callee(cpu)?;
                if !self.ready {
                    self.let_go(page);
                    self.refused(cpu);
                }
            }
            Step::LetGo => self.let_go(self.cpus[cpu].caller),
            Step::NameCaller => {
                self.callee(cpu)?;
            }
            Step::Enter => return self.enter(cpu, weakness),
        }
        Ok(())
    }

    fn enter(&mut self, cpu: usize, weakness: Weakness) -> Found {
        let wanted = self.wanted(cpu);
        if self.cpus[cpu].late {
            return Err("a transfer entered one whose destruction had begun before");
        }
        let (page, context) = self.callee(cpu)?;
        if context.claim != Claim::Held {
            return Err("somebody was entered whom nobody held");
        }
        if context.number != wanted {
            return Err("another one was entered");
        }
        if context.whole {
            return Err("one was entered whose registers the kernel holds");
        }
        let entry = match self.cpus[cpu].looked {
            None if weakness == Weakness::EntryReadTwice => {
                self.cpus[cpu].looked = Some(self.entry & USER_HALF);
                let Doing::Kernel(at) = self.cpus[cpu].doing else { return Err("not in the kernel") };
                self.cpus[cpu].doing = Doing::Kernel(at - 1);
                return Ok(());
            }
            None => self.entry & USER_HALF,
            Some(_) => self.entry,
        };
        if entry > USER_HALF {
            return Err("the entry is the kernel's");
        }
        self.cpus[cpu].made += 1;
        self.left_kernel(cpu, page);
        Ok(())
    }

    /// The next step of the callee's destruction, if it need not wait.
    fn destroy(mut self, weakness: Weakness) -> Option<Self> {
        let running = self.cpus.iter().position(|cpu| cpu.doing == Doing::Program && cpu.shows == CALLEE);
        let next = match self.destruction {
            Destruction::Mark => {
                self.contexts[CALLEE].dying |= weakness != Weakness::NotMarked;
                Destruction::Condemn
            }
            // A callee that runs is interrupted, and condemned by the CPU that holds it.
            Destruction::Condemn if self.contexts[CALLEE].claim == Claim::Free || running.is_some() => {
                self.contexts[CALLEE].claim = Claim::Condemned;
                running.into_iter().for_each(|cpu| self.cpus[cpu].doing = Doing::Gone);
                Destruction::Unpublish
            }
            Destruction::Unpublish => {
                self.published = None;
                Destruction::Ask
            }
            Destruction::Ask => {
                for cpu in &mut self.cpus {
                    cpu.asked = matches!(cpu.doing, Doing::Kernel(_)) && weakness != Weakness::NoWaiting;
                }
                Destruction::Wait
            }
            Destruction::Wait if self.cpus.iter().all(|cpu| !cpu.asked) => Destruction::UseAgain,
            Destruction::UseAgain => {
                let life = self.contexts[CALLEE].life + 1;
                self.contexts[CALLEE] = Context { number: NEXT, claim: Claim::Free, dying: false, whole: false, life };
                self.published = Some(CALLEE);
                Destruction::Done
            }
            Destruction::Condemn | Destruction::Wait | Destruction::Done => return None,
        };
        Some(Self { destruction: next, ..self })
    }

    /// Invariants.
    fn check(&self) -> Found {
        let runs =
            |page: usize| self.cpus.iter().filter(|cpu| cpu.doing == Doing::Program && cpu.shows == page).count();
        for (page, context) in self.contexts.iter().enumerate() {
            if runs(page) > 1 {
                return Err("an environment runs twice");
            }
            if runs(page) == 1 && context.claim != Claim::Held {
                return Err("an environment runs that is not held");
            }
        }
        Ok(())
    }

    /// What holds when every CPU is done.
    fn check_end(&self) -> Found {
        let is_held = |context: &Context| context.claim == Claim::Held;
        if self.cpus.iter().all(|cpu| cpu.doing == Doing::Gone) && self.contexts.iter().any(is_held) {
            return Err("a claim was lost");
        }
        if self.cpus.iter().all(|cpu| cpu.doing == Doing::Gone) && self.destruction == Destruction::Wait {
            let waits = self.cpus.iter().any(|cpu| cpu.asked);
            return if waits { Err("who destroys waits for ever") } else { Ok(()) };
        }
        Ok(())
    }
}

/// Goes through every state; how many there are, or what is wrong in one.
fn explore(weakness: Weakness) -> Result<usize, &'static str> {
    let (mut seen, mut open) = (HashSet::from([State::new()]), Vec::from([State::new()]));
    while let Some(state) = open.pop() {
        state.check()?;
        state.check_end()?;
        open.extend(state.next(weakness)?.into_iter().filter(|next| seen.insert(*next)));
    }
    Ok(seen.len())
}

#[test]
fn fault_44_no_interleaving_of_transfers_enters_whom_it_should_not() {
    let states = explore(Weakness::None).expect("nothing is wrong");
    assert!(states > 2000, "only {states} states");
}

#[test]
fn fault_44_each_weakness_of_a_transfer_is_found() {
    for weakness in WEAKNESSES {
        assert!(explore(weakness).is_err(), "{weakness:?} is not found");
    }
}

#[test]
fn fault_44_a_transfer_touches_what_is_shared_in_the_order_of_the_model() {
    let source = include_str!("entry.s");
    let (_, transfer) = source.split_once(".macro transfer side, entry").expect("there is such a macro");
    let (granted, _) = transfer.split_once("\n    sysretq").expect("it ends so");
    let is_shared =
        |line: &&str| SHARED_WORDS.iter().any(|word| line.contains(word)) || line.contains("gs:[{CURRENT}], ");
    let found: Vec<&str> =
        granted.lines().map(str::trim).filter(|line| !line.starts_with('#')).filter(is_shared).collect();
    let wanted: Vec<&str> = STEPS.iter().map(|(_, line)| *line).collect();
    assert_eq!(found, wanted);
}
