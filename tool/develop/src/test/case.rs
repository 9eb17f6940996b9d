//! One test: what it is called, how it is run, and how it came out.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// How a test came out: nothing, or why it failed.
pub type Verdict = std::result::Result<(), String>;

/// A test that can be run any number of times.
pub struct Case {
    name: String,
    /// Long tests start first, so that none is left alone at the end.
    weight: Duration,
    /// Why it cannot be run on this host.
    skipped: Option<String>,
    body: Box<dyn Fn(File) -> Verdict + Send + Sync>,
}

impl Case {
    /// A test that writes its transcript into the file it is given.
    pub fn new(name: String, weight: Duration, body: impl Fn(File) -> Verdict + Send + Sync + 'static) -> Self {
        Self { name, weight, skipped: None, body: Box::new(body) }
    }

    /// A test that could not even be prepared.
    pub fn failed(name: &str, reason: String) -> Self {
        Self::new(name.to_owned(), Duration::ZERO, move |_| Err(reason.clone()))
    }

    /// A test that this host cannot run, and why: it counts neither as passed nor as failed.
    pub fn skipped(name: String, reason: String) -> Self {
        Self { skipped: Some(reason), ..Self::new(name, Duration::ZERO, |_| Ok(())) }
    }

    /// Why it is skipped, if it is.
    pub fn skip_reason(&self) -> Option<&str> {
        self.skipped.as_deref()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Roughly how long it takes: only the order in which tests start hangs on it.
    pub fn weight(&self) -> Duration {
        self.weight
    }

    /// Runs it with a fresh transcript.
    pub fn run(&self, transcript: &Path) -> Verdict {
        let file =
            File::create(transcript).map_err(|error| format!("cannot write {}: {error}", transcript.display()))?;
        (self.body)(file)
    }
}
