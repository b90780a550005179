//! The output of events.

use surety_common::wire::v1;

use super::live::Live;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::lines::{event_line, progress_line};
use crate::output::{Output, note};
use crate::wire_json;

/// The output of events: one JSON object per line, one line of text each, or a live view.
pub enum Screen {
    /// For a script or a file.
    Lines(Output),
    /// For a user at a terminal.
    Live(Box<Live>),
}

impl Screen {
    /// The form that suits the output. A terminal without keys has lines.
    #[must_use]
    pub fn of(output: Output, connection: &Connection, run: &v1::Run) -> Self {
        if !output.is_live() {
            return Self::Lines(output);
        }
        match Live::open(connection, run) {
            Ok(live) => Self::Live(Box::new(live)),
            Err(error) => {
                note(&format!("surety: the terminal has no live view: {error}"));
                Self::Lines(output)
            }
        }
    }

    pub(super) fn event(&mut self, event: &v1::Event) -> Result<(), Failure> {
        match self {
            Self::Lines(output) => {
                output.either(&wire_json::message("Event", event), || event_line(event))
            }
            Self::Live(live) => {
                live.event(event);
                Ok(())
            }
        }
    }

    /// Whether reports of workers are shown as they arrive. JSON has the events of the journal only, and the live view
    /// reads the waits of the run, which have them too.
    pub(super) const fn shows_progress(&self) -> bool {
        match self {
            Self::Lines(output) => !output.json,
            Self::Live(_) => false,
        }
    }

    pub(super) fn progress(&mut self, report: &v1::CallProgress) -> Result<(), Failure> {
        match self {
            Self::Lines(output) => output.line(&progress_line(report)),
            Self::Live(_) => Ok(()),
        }
    }

    /// Whether a person at the terminal can answer what the run waits for.
    pub(super) const fn has_a_person(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    pub(super) fn notice(&mut self, text: &str) {
        match self {
            Self::Lines(_) => note(&format!("surety: {text}")),
            Self::Live(live) => live.notice(text),
        }
    }

    /// Serves the person at the terminal, until that one stops watching.
    ///
    /// # Errors
    /// The terminal is gone, or a panic gave it back.
    pub(super) async fn left(&mut self) -> Result<(), Failure> {
        match self {
            Self::Lines(_) => std::future::pending().await,
            Self::Live(live) => live.turn().await,
        }
    }

    /// Ends the output, and answers what is written after it.
    ///
    /// # Errors
    /// The output is closed.
    pub(super) fn finish(self, run: Option<&v1::Run>) -> Result<Output, Failure> {
        match self {
            Self::Lines(output) => Ok(output),
            Self::Live(live) => {
                live.finish(run)?;
                Ok(Output { json: false })
            }
        }
    }
}
