//! The standard output, for people or for scripts.

use std::io::{self, IsTerminal, Write};

use surety_common::domain::json::Value;

use crate::failure::Failure;

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Whether to write JSON for a script.
    pub json: bool,
}

impl Output {
    /// Writes one or more lines.
    ///
    /// # Errors
    /// [`Failure::output`] when the output cannot be written.
    pub fn line(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::output)
    }

    /// Writes one JSON value on one line.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn value(self, value: &Value) -> Result<(), Failure> {
        self.line(&value.to_compact())
    }

    /// Writes the value for a script, or else the text for people.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn either(self, value: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { self.value(value) } else { self.line(&text()) }
    }

    /// Whether a user watches at a terminal, which allows a live view.
    #[must_use]
    pub fn is_live(self) -> bool {
        !self.json && io::stdout().is_terminal() && io::stderr().is_terminal()
    }
}

/// Writes a note to standard error. A failure is ignored, because there is no other output.
pub fn note(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}
