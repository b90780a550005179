//! The state of a run after its events, for a view of all steps. Pure.

use chrono::{DateTime, TimeDelta, Utc};
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_common::wire::v1::transition::Subject;

use crate::lines::call_progress;
use crate::text::{elapsed, moment, one_line, run_state, shortened, step_state};

/// The most characters of a tool's summary.
const LONGEST_SUMMARY: usize = 60;

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// The run.
    pub id: String,
    /// Its state, as the contract spells it.
    pub state: String,
    /// Its steps, in the plan's order.
    pub steps: Vec<StepView>,
}

/// The state of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepView {
    /// Its id.
    pub id: String,
    /// Its state, as the contract spells it.
    pub state: String,
    /// When it last started.
    pub began: Option<DateTime<Utc>>,
    /// How long it ran, once it has ended.
    pub took: Option<TimeDelta>,
    /// The last tool and its result.
    pub last: String,
}

impl RunView {
    /// The run before its events are applied.
    #[must_use]
    pub fn of(run: &v1::Run) -> Self {
        let step = |step: &v1::StepProgress| StepView::new(&step.id);
        Self {
            id: run.id.clone(),
            state: run_state(run.state()).to_owned(),
            steps: run.steps.iter().map(step).collect(),
        }
    }

    /// The run after one more event.
    pub fn take(&mut self, event: &v1::Event) {
        let at = moment(event.at.as_ref());
        match &event.kind {
            Some(Kind::Transition(moved)) => match &moved.subject {
                Some(Subject::StepId(id)) => self.step(id).moved(moved.step_to(), at),
                Some(Subject::RunId(_)) | None => {
                    run_state(moved.run_to()).clone_into(&mut self.state);
                }
            },
            Some(Kind::Intent(intent)) if !intent.step_id.is_empty() => {
                self.step(&intent.step_id).last = one_line(&intent.tool);
            }
            Some(Kind::Receipt(receipt)) if !receipt.step_id.is_empty() => {
                let mark = if receipt.success { "" } else { " failed" };
                let summary = shortened(&receipt.summary, LONGEST_SUMMARY);
                self.step(&receipt.step_id).last =
                    format!("{}{mark}: {summary}", one_line(&receipt.name));
            }
            Some(
                Kind::Intent(_)
                | Kind::Receipt(_)
                | Kind::Turn(_)
                | Kind::Verdict(_)
                | Kind::PlanStored(_)
                | Kind::Output(_)
                | Kind::Answer(_)
                | Kind::Forked(_),
            )
            | None => {}
        }
    }

    /// The run after a report of a worker.
    pub fn progress(&mut self, report: &v1::CallProgress) {
        self.step(&report.step_id).last = call_progress(report);
    }

    fn step(&mut self, id: &str) -> &mut StepView {
        let at = self.steps.iter().position(|step| step.id == id).unwrap_or_else(|| {
            self.steps.push(StepView::new(id));
            self.steps.len() - 1
        });
        // The line above found or created the index.
        &mut self.steps[at]
    }
}

impl StepView {
    fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            state: step_state(v1::StepState::Pending),
            began: None,
            took: None,
            last: String::new(),
        }
    }

    fn moved(&mut self, to: v1::StepState, at: Option<DateTime<Utc>>) {
        self.state = step_state(to);
        if self.runs() {
            (self.began, self.took) = (at, None);
        } else if self.took.is_none() {
            self.took = self.began.zip(at).map(|(began, at)| at - began);
        }
    }

    /// Whether the step is running.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.state == "running"
    }

    /// The step's line without its mark.
    #[must_use]
    pub fn line(&self, now: DateTime<Utc>) -> String {
        let time = if self.runs() { self.began.map(|began| now - began) } else { self.took };
        let time = time.map(elapsed).unwrap_or_default();
        let (id, state) = (shortened(&self.id, 24), one_line(&self.state));
        format!("{id:<24} {state:<9} {time:>12}  {}", self.last).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn event(seconds: i64, kind: Kind) -> v1::Event {
        v1::Event {
            at: Some(Timestamp { seconds, nanos: 0 }),
            kind: Some(kind),
            ..v1::Event::default()
        }
    }

    fn moved(id: &str, to: v1::StepState) -> Kind {
        Kind::Transition(v1::Transition {
            subject: Some(Subject::StepId(id.to_owned())),
            step_to: to.into(),
            ..v1::Transition::default()
        })
    }

    #[test]
    fn a_step_shows_its_state_its_time_and_its_last_tool() {
        let mut view = RunView::of(&v1::Run {
            steps: vec![v1::StepProgress { id: "read".to_owned(), ..v1::StepProgress::default() }],
            ..v1::Run::default()
        });
        let receipt = v1::EvidenceReceipt {
            step_id: "edit".to_owned(),
            name: "edit_file".to_owned(),
            summary: "1 place".to_owned(),
            success: true,
            ..v1::EvidenceReceipt::default()
        };
        let executing = Kind::Transition(v1::Transition {
            subject: Some(Subject::RunId(String::new())),
            run_to: v1::RunState::Executing.into(),
            ..v1::Transition::default()
        });
        view.take(&event(0, executing));
        view.take(&event(10, moved("edit", v1::StepState::Running)));
        view.take(&event(12, Kind::Receipt(receipt)));
        let now = DateTime::from_timestamp(15, 0).unwrap();
        let line = |view: &RunView| view.steps.last().unwrap().line(now);
        assert_eq!(view.state, "EXECUTING");
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(line(&view)), "edit running 5.0 s edit_file: 1 place");
        view.progress(&v1::CallProgress {
            step_id: "edit".to_owned(),
            tool: "deploy".to_owned(),
            message: "half of it".to_owned(),
            percent: Some(50),
            ..v1::CallProgress::default()
        });
        assert_eq!(words(line(&view)), "edit running 5.0 s deploy: 50 %, half of it");
        view.take(&event(13, moved("edit", v1::StepState::Done)));
        assert_eq!(words(line(&view)), "edit done 3.0 s deploy: 50 %, half of it");
        assert_eq!(words(view.steps[0].line(now)), "read pending");
    }
}
