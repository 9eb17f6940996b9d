//! How a run came out: the program's status, or one line on why the machine failed.

use std::process::ExitCode;

use crate::channel::session::{SessionEnd, StreamEnd};
use crate::failure::{Failure, Result};
use crate::qemu::Stop;

/// The exit status of a run: only a final record and an orderly stop together
/// mean that the program ended.
///
/// # Errors
/// What failed, where that is not so.
pub fn verdict(end: &SessionEnd, stop: &Stop, serial: &str) -> Result<ExitCode> {
    if let (Some(record), Stop::InOrder) = (end.record, stop) {
        return Ok(ExitCode::from(record.status()));
    }
    Err(Failure::new(what_failed(end, stop, serial)))
}

/// One line on why a machine did not bring its program to an end.
pub fn what_failed(end: &SessionEnd, stop: &Stop, serial: &str) -> String {
    let last = serial.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)").trim();
    match stop {
        Stop::KernelPanic => format!("the kernel panicked: {}", record_of_panic(serial).unwrap_or_else(|| last.into())),
        Stop::BootFailure => format!("the machine could not boot: {last}"),
        Stop::Reset => format!("the machine reset itself (a triple fault); last on its serial line: {last}"),
        Stop::Emulator(said) => format!("QEMU failed: {said}"),
        Stop::Killed if end.record.is_some() => "the program ended, but the machine did not stop".into(),
        Stop::Killed | Stop::InOrder => match &end.stream {
            StreamEnd::Broken(reason) => reason.clone(),
            StreamEnd::TimedOut => format!("the time limit passed; last on its serial line: {last}"),
            StreamEnd::Closed => {
                format!("the machine stopped without saying how the program ended; last on its serial line: {last}")
            }
        },
    }
}

/// What a dying kernel wrote on its serial line: why, where, and the frames that led there.
fn record_of_panic(serial: &str) -> Option<String> {
    let lines = serial.lines().skip_while(|line| !line.contains("kernel panic on CPU"));
    let lines = lines.take_while(|line| !line.contains("end of record")).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::session::FinalRecord;

    fn end(record: Option<FinalRecord>) -> SessionEnd {
        SessionEnd { record, stream: StreamEnd::Closed }
    }

    #[test]
    fn a_status_counts_only_with_an_orderly_stop() {
        let done = end(Some(FinalRecord::Exited(0)));
        assert!(verdict(&done, &Stop::InOrder, "").is_ok());
        for stop in [Stop::Reset, Stop::KernelPanic, Stop::BootFailure, Stop::Killed, Stop::Emulator(String::new())] {
            assert!(verdict(&done, &stop, "").is_err(), "{stop:?}");
        }
        assert!(verdict(&end(None), &Stop::InOrder, "").is_err());
    }

    #[test]
    fn a_failure_says_the_last_words() {
        let said = what_failed(&end(None), &Stop::KernelPanic, "boot\nassertion failed\n\n");
        assert_eq!(said, "the kernel panicked: assertion failed");
        let record = "boot\nchitin: kernel panic on CPU 1: why\nchitin: rip 0x1\n\nchitin: end of record\n";
        let said = what_failed(&end(None), &Stop::KernelPanic, record);
        assert_eq!(said, "the kernel panicked: chitin: kernel panic on CPU 1: why; chitin: rip 0x1");
        assert!(what_failed(&end(None), &Stop::Reset, "").contains("triple fault"));
    }
}
