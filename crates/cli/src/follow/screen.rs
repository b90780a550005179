//! The output of events.

use surety_common::wire::v1;

use super::live::Live;
use super::view::RunView;
use crate::failure::Failure;
use crate::lines::{event_line, progress_line};
use crate::output::{Output, note};
use crate::report::waits_for;
use crate::wire_json;

/// The output of events: one JSON object per line, one line of text each, or a live view.
pub enum Screen {
    /// For a script or a file.
    Lines(Output),
    /// For a user at a terminal.
    Live(Box<Live>),
}

impl Screen {
    /// The form that suits the output.
    #[must_use]
    pub fn of(output: Output, run: &v1::Run) -> Self {
        if output.is_live() {
            Self::Live(Box::new(Live::new(RunView::of(run))))
        } else {
            Self::Lines(output)
        }
    }

    pub(super) fn output(&self) -> Output {
        match self {
            Self::Lines(output) => *output,
            Self::Live(_) => Output { json: false },
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

    /// Whether reports of workers are shown. JSON has the events of the journal only.
    pub(super) const fn shows_progress(&self) -> bool {
        match self {
            Self::Lines(output) => !output.json,
            Self::Live(_) => true,
        }
    }

    pub(super) fn progress(&mut self, report: &v1::CallProgress) -> Result<(), Failure> {
        match self {
            Self::Lines(output) => output.line(&progress_line(report)),
            Self::Live(live) => {
                live.progress(report);
                Ok(())
            }
        }
    }

    /// Reports that the run waits for a user. True when no user can answer.
    pub(super) fn blocked(&mut self, run: &v1::Run) -> bool {
        match self {
            Self::Lines(_) => true,
            Self::Live(live) => {
                live.say(&waits_for(run));
                false
            }
        }
    }

    pub(super) fn notice(&mut self, text: &str) {
        match self {
            Self::Lines(_) => note(&format!("surety: {text}")),
            Self::Live(live) => live.say(text),
        }
    }

    pub(super) fn redraw(&mut self) {
        match self {
            Self::Lines(_) => {}
            Self::Live(live) => live.redraw(),
        }
    }

    /// Keeps what was shown, and stops updating it.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Lines(_) => {}
            Self::Live(live) => live.finish(),
        }
    }
}
