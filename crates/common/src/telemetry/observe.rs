//! Logs, traces and counts an applied change.

use super::transition::{EvaluationRecord, Subject, TransitionRecord};
use super::{record_evaluation, record_step_duration, record_transition};
use crate::domain::execution::draft::Write;
use crate::domain::journal::{self, Entry, VerdictRecord};
use crate::domain::stop::StopReason;
use std::borrow::Cow;
use tracing::Span;

/// What telemetry has in place of a cause with the words of a participant or a user, or with values.
const IN_JOURNAL: &str = "the journal has the cause: surety watch RUN_ID";

/// Records each transition, each verdict and each end of a step of a stored change once, in the span of the work that
/// led to it. Call it after the commit.
pub fn observe(write: &Write, span: &Span) {
    let run_id = write.execution.run_id.to_string();
    for ended in &write.ended_attempts {
        record_step_duration(ended.state.as_str(), ended.time);
    }
    let first = write.first_sequence();
    for (sequence, entry) in (first..).zip(&write.entries) {
        match entry {
            Entry::Transition(transition) => {
                let sequence = u64::try_from(sequence).unwrap_or_default();
                record_transition(span, &transition_record(&run_id, sequence, transition));
            }
            Entry::Verdict(record) => record_evaluation(span, &evaluation_record(&run_id, record)),
            Entry::Plan(_)
            | Entry::Turn(_)
            | Entry::Intent(_)
            | Entry::Receipt(_)
            | Entry::Output(_)
            | Entry::Answer(_)
            | Entry::Forked(_) => {}
        }
    }
}

fn transition_record<'a>(
    run_id: &'a str,
    sequence: u64,
    transition: &'a journal::Transition,
) -> TransitionRecord<'a> {
    let (subject, step_id) = match &transition.subject {
        journal::Subject::Run => (Subject::Run, None),
        journal::Subject::Step(id) => (Subject::Step, Some(id.as_str())),
    };
    TransitionRecord {
        subject,
        run_id,
        step_id,
        from: transition.from.clone(),
        to: transition.to.clone(),
        event: &transition.event,
        cause: cause_of(transition),
        actor: &transition.actor.0,
        sequence,
        stop_reason: transition.stop_reason.map(StopReason::as_str),
    }
}

/// The phrase of the code; of every other cause, where it is.
fn cause_of(transition: &journal::Transition) -> &'static str {
    match transition.cause {
        Cow::Borrowed(phrase) => phrase,
        Cow::Owned(_) => IN_JOURNAL,
    }
}

fn evaluation_record<'a>(run_id: &'a str, record: &'a VerdictRecord) -> EvaluationRecord<'a> {
    let failed = record.verdict.results.iter().filter(|result| !result.passed && !result.optional);
    EvaluationRecord {
        run_id,
        plan_revision: record.plan_revision.into(),
        accepted: record.verdict.accepted,
        stop_reason: record.verdict.stop_reason.as_str(),
        failed_checks: u64::try_from(failed.count()).unwrap_or(u64::MAX),
    }
}
