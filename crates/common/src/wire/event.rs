//! Journal entries, as they are streamed. They are output only.

use super::run::{number, verdict_of};
use super::v1;
use super::value::{timestamp, wire_list};
use crate::domain::decision::UsageSource;
use crate::domain::journal::{
    Answer, Entry, Event, Intent, Output, PlanStored, Subject, Transition, Turn, TurnEnd,
};
use crate::domain::machine::run::RunState;
use crate::domain::model::ModelReply;
use crate::domain::step::StepState;
use chrono::{DateTime, Utc};
use uuid::Uuid;

/// One event of the run `run_id`, whose trace is `trace_id`.
pub fn event(run_id: Uuid, trace_id: &str, event: Event) -> v1::Event {
    let Event { sequence, at, span_id, entry } = event;
    v1::Event {
        sequence: number(sequence),
        at: Some(timestamp(at)),
        span_id: span_id.unwrap_or_default(),
        trace_id: trace_id.to_owned(),
        kind: Some(kind(run_id, at, entry)),
    }
}

fn kind(run_id: Uuid, at: DateTime<Utc>, entry: Entry) -> v1::event::Kind {
    use v1::event::Kind;
    match entry {
        Entry::Transition(transition) => Kind::Transition(moved(run_id, transition)),
        Entry::Plan(plan) => Kind::PlanStored(plan.into()),
        Entry::Turn(turn) => Kind::Turn((*turn).into()),
        Entry::Intent(intent) => Kind::Intent(intent.into()),
        Entry::Receipt(receipt) => Kind::Receipt((*receipt).into()),
        Entry::Output(output) => Kind::Output(output.into()),
        Entry::Verdict(record) => Kind::Verdict(verdict_of(run_id, at, *record)),
        Entry::Answer(answer) => Kind::Answer(answer.into()),
        Entry::Forked(fork) => Kind::Forked((*fork).into()),
    }
}

fn moved(run_id: Uuid, transition: Transition) -> v1::Transition {
    let Transition { subject, from, to, event, cause, actor, stop_reason } = transition;
    let moved = v1::Transition {
        event: event.into_owned(),
        cause: cause.into_owned(),
        actor: actor.0.to_string(),
        stop_reason: stop_reason.map_or(v1::StopReason::Unspecified, v1::StopReason::from).into(),
        ..v1::Transition::default()
    };
    match subject {
        Subject::Run => v1::Transition {
            subject: Some(v1::transition::Subject::RunId(run_id.to_string())),
            run_from: run_state_of(&from).into(),
            run_to: run_state_of(&to).into(),
            ..moved
        },
        Subject::Step(id) => v1::Transition {
            subject: Some(v1::transition::Subject::StepId(id)),
            step_from: step_state_of(&from).into(),
            step_to: step_state_of(&to).into(),
            ..moved
        },
    }
}

/// The state in a journal entry; one of a later version becomes unspecified.
fn run_state_of(word: &str) -> v1::RunState {
    let state = RunState::ALL.into_iter().find(|state| state.as_str() == word);
    state.map_or(v1::RunState::Unspecified, v1::RunState::from)
}

fn step_state_of(word: &str) -> v1::StepState {
    StepState::from_text(word).map_or(v1::StepState::Unspecified, v1::StepState::from)
}

impl From<PlanStored> for v1::PlanStored {
    fn from(plan: PlanStored) -> Self {
        let PlanStored { revision, digest, parent_digest, reason, model } = plan;
        let model = model.map(|model| (*model).into());
        Self { revision, digest, parent_digest, reason, model }
    }
}

impl From<ModelReply> for v1::ModelReply {
    fn from(reply: ModelReply) -> Self {
        let ModelReply { endpoint, model, prompt, prompt_digest, cut } = reply;
        Self { endpoint, model, prompt, prompt_digest, cut }
    }
}

impl From<Turn> for v1::Turn {
    fn from(turn: Turn) -> Self {
        let Turn {
            step_id,
            attempt,
            number,
            decision,
            validations,
            warnings,
            correction,
            usage,
            usage_source,
            reply,
            end,
        } = turn;
        let outcome = match (end, &decision, correction.is_empty()) {
            (Some(TurnEnd::RunEnded), ..) => v1::TurnOutcome::RunEnded,
            (Some(TurnEnd::StepFailed), ..) => v1::TurnOutcome::StepFailed,
            (Some(TurnEnd::StepDone), ..) => v1::TurnOutcome::StepDone,
            (Some(TurnEnd::Waiting), ..) => v1::TurnOutcome::Waiting,
            (None, None, _) => v1::TurnOutcome::NoDecision,
            (None, Some(_), false) => v1::TurnOutcome::Corrected,
            (None, Some(_), true) => v1::TurnOutcome::Applied,
        };
        Self {
            step_id,
            number,
            decision: decision.map(Into::into),
            validations: wire_list(validations),
            outcome: outcome.into(),
            correction,
            attempt,
            tokens: usage.tokens,
            cost_micros: usage.cost_micros,
            warnings: wire_list(warnings),
            model: reply.and_then(|mark| mark.model).map(|model| (*model).into()),
            usage_source: match usage_source {
                UsageSource::Free => v1::UsageSource::Unspecified,
                UsageSource::Reported => v1::UsageSource::Reported,
                UsageSource::Reserved => v1::UsageSource::Reserved,
                UsageSource::Measured => v1::UsageSource::Measured,
            }
            .into(),
        }
    }
}

impl From<crate::domain::journal::Validation> for v1::Validation {
    fn from(validation: crate::domain::journal::Validation) -> Self {
        let crate::domain::journal::Validation { name, passed, code, reason } = validation;
        let code = code.map(|code| code.as_str().to_owned()).unwrap_or_default();
        Self { name: name.into_owned(), passed, code, reason }
    }
}

impl From<Intent> for v1::Intent {
    fn from(intent: Intent) -> Self {
        let Intent { step_id, call_id, tool, arguments_json } = intent;
        Self {
            step_id,
            call_id: call_id.to_string(),
            idempotency_key: call_id.to_string(),
            tool,
            arguments_json,
        }
    }
}

impl From<Output> for v1::OutputStored {
    fn from(output: Output) -> Self {
        let Output { call_id, digest, bytes, text } = output;
        Self { call_id, digest, bytes, text }
    }
}

impl From<Answer> for v1::Answer {
    fn from(answer: Answer) -> Self {
        let Answer { wait_id, by, text } = answer;
        Self { wait_id: wait_id.to_string(), by: by.0.to_string(), text }
    }
}
