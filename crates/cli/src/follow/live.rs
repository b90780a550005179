//! The live view on a terminal: a line for the run and one for each step.

use chrono::Utc;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use surety_common::wire::v1;

use super::view::{RunView, StepView};
use crate::lines::event_line;
use crate::text::elapsed;

/// The view and what it shows.
pub struct Live {
    view: RunView,
    began: chrono::DateTime<Utc>,
    lines: MultiProgress,
    head: ProgressBar,
    steps: Vec<ProgressBar>,
}

impl Live {
    pub(super) fn new(view: RunView) -> Self {
        let lines = MultiProgress::new();
        let head = lines.add(line());
        let mut live = Self { view, began: Utc::now(), lines, head, steps: Vec::new() };
        live.redraw();
        live
    }

    pub(super) fn event(&mut self, event: &v1::Event) {
        self.view.take(event);
        if matches!(event.kind, Some(v1::event::Kind::Verdict(_))) {
            self.say(&event_line(event));
        }
        self.redraw();
    }

    pub(super) fn progress(&mut self, report: &v1::CallProgress) {
        self.view.progress(report);
        self.redraw();
    }

    /// Prints a permanent line above the view.
    pub(super) fn say(&self, text: &str) {
        // A closed terminal shows nothing; the run is followed all the same.
        self.lines.println(text).ok();
    }

    pub(super) fn redraw(&mut self) {
        let now = Utc::now();
        self.head.set_message(format!("run {}  {}", self.view.id, self.view.state));
        self.head.set_prefix(elapsed(now - self.began));
        self.head.tick();
        for (at, step) in self.view.steps.iter().enumerate() {
            let bar = match self.steps.get(at) {
                Some(bar) => bar.clone(),
                None => {
                    let bar = self.lines.add(line());
                    self.steps.push(bar.clone());
                    bar
                }
            };
            if let Some(mark) = settled(step) {
                bar.set_style(style(mark));
            } else {
                bar.set_style(style("{spinner}"));
            }
            bar.set_message(step.line(now));
            if step.runs() {
                bar.tick();
            }
        }
    }

    pub(super) fn finish(&mut self) {
        self.redraw();
        self.head.set_style(style(match self.view.state.as_str() {
            "DONE" => "✓",
            "FAILED" | "CANCELLED" => "✗",
            _ => "·",
        }));
        for bar in std::iter::once(&self.head).chain(&self.steps) {
            bar.abandon();
        }
    }
}

/// The mark of a step that is not running.
fn settled(step: &StepView) -> Option<&'static str> {
    match step.state.as_str() {
        "running" => None,
        "done" => Some("✓"),
        "failed" | "blocked" | "cancelled" => Some("✗"),
        _ => Some("·"),
    }
}

fn line() -> ProgressBar {
    ProgressBar::new_spinner().with_style(style("{spinner}"))
}

fn style(mark: &str) -> ProgressStyle {
    // An invalid template would leave the plain spinner, which shows the message.
    ProgressStyle::with_template(&format!("{mark} {{wide_msg}} {{prefix}}"))
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}
