//! Progress on standard error. On a terminal each step that runs has a live line, elsewhere one plain line. A step that
//! had nothing to do prints nothing.

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::answer;

/// All live lines: steps that run at the same time do not draw over each other.
static LINES: LazyLock<MultiProgress> = LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));

/// One step of work and what it is busy with.
#[derive(Debug)]
pub struct Progress {
    step: String,
    bar: ProgressBar,
    plain: bool,
    announced: bool,
}

impl Progress {
    /// A step of unknown length.
    pub fn step(step: &str) -> Self {
        Self::with(step, ProgressBar::no_length(), "{spinner} {prefix} {msg}")
    }

    /// A step of `length` items.
    pub fn items(step: &str, length: u64) -> Self {
        let bar = ProgressBar::new(length);
        Self::with(step, bar, "{spinner} {prefix} [{bar:30}] {pos}/{len} {msg}")
    }

    fn with(step: &str, bar: ProgressBar, template: &str) -> Self {
        let bar = LINES.add(bar);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(step.to_owned());
        let plain = !std::io::stderr().is_terminal();
        Self { step: step.to_owned(), bar, plain, announced: false }
    }

    /// Says what is being worked on; the first time, also that the step runs.
    pub fn busy_with(&mut self, what: &str) {
        if !self.announced {
            self.announced = true;
            if self.plain {
                answer::remark(format_args!("chitin: {}\n", self.step));
            } else {
                self.bar.enable_steady_tick(Duration::from_millis(120));
            }
        }
        self.bar.set_message(what.to_owned());
    }

    /// One more item is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Whether there is no terminal to draw on.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Prints a line above the live line.
    pub fn line(&self, text: &str) {
        if self.plain {
            answer::remark(format_args!("{text}\n"));
        } else {
            LINES.suspend(|| answer::remark(format_args!("{text}\n")));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
