//! What is written to standard output, for a person or for a script.

use std::io::{self, IsTerminal, Write};

use surety_common::domain::json::Value;

use crate::failure::Failure;

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Whether a script reads it.
    pub json: bool,
}

impl Output {
    /// Writes one line, or several.
    ///
    /// # Errors
    /// [`Failure::OutputClosed`] when nobody reads any more.
    pub fn line(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::OutputClosed)
    }

    /// Writes one JSON value on one line.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn value(self, value: &Value) -> Result<(), Failure> {
        self.line(&value.to_compact())
    }

    /// Writes the value for a script, or else the text for a person.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn either(self, value: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json { self.value(value) } else { self.line(&text()) }
    }

    /// Whether a person looks on, who sees more than lines.
    #[must_use]
    pub fn is_live(self) -> bool {
        !self.json && io::stdout().is_terminal() && io::stderr().is_terminal()
    }
}

/// Says something on standard error that is no result. When nobody reads there either, there is
/// nobody left to tell.
pub fn note(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}
