//! The host command: builds Chitin, runs programs on it, tests it. Reads the
//! command line, hands over to the module of the subcommand, and turns its
//! answer into an exit status and at most one line of complaint.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a program exports nothing: pub here means for other modules")]

mod answer;
mod archive;
mod bench;
mod boot_archive;
mod build;
mod cargo;
mod channel;
mod children;
mod clean;
mod code;
mod command_line;
mod command_record;
mod doctor;
mod elf;
mod failure;
mod fs;
mod interrupt;
mod kernel_interface;
mod kernel_rows;
mod kernel_trace;
mod kvm;
mod linux_compatibility;
mod memory_map;
mod metadata;
mod package;
mod progress;
mod qemu;
mod root;
mod run;
mod scratch;
mod seal;
mod size;
mod terminal;
mod test;
mod tidy;
mod toolchain;
mod version;
mod wire;
mod workspace;

use std::process::ExitCode;

use command_line::Command;
use failure::Result;
use workspace::Workspace;

fn main() -> ExitCode {
    let result = command_line::parse().and_then(|arguments| execute(&arguments.command));
    scratch::remove_all();
    result.unwrap_or_else(|failure| {
        answer::remark(format_args!("chitin: {failure}\n"));
        ExitCode::from(failure.status)
    })
}

fn execute(command: &Command) -> Result<ExitCode> {
    interrupt::watch()?;
    let workspace = Workspace::find()?;
    match command {
        Command::Completions { shell } => command_line::print_completions(*shell),
        Command::Clean(options) => clean::run(&workspace, options),
        Command::Doctor => doctor::run(&workspace),
        Command::Run(options) => run::run(&workspace, options),
        Command::Root(options) => package::run(&workspace, options),
        Command::Code(code) => code::run(code),
        Command::Fs(command) => fs::run(command),
        Command::Wire(options) => wire::run(options),
        Command::Bench(options) => bench::run(&workspace, options),
        Command::Tidy(options) => tidy::run(&workspace, options),
        Command::Test(options) => test::run(&workspace, options),
    }
}
