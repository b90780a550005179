//! A transition or a verdict, recorded once: one span event, one log line, one count.

use std::borrow::Cow;
use tracing::Span;

use super::metric::{count_transition, count_verdict};
use super::names;

/// What changed its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A run.
    Run,
    /// A step.
    Step,
}

/// One transition, with the names of the state machine.
#[derive(Debug, Clone)]
pub struct TransitionRecord<'a> {
    /// What changed its state.
    pub subject: Subject,
    /// The run.
    pub run_id: &'a str,
    /// The step, when a step changed its state, or the run did because of one.
    pub step_id: Option<&'a str>,
    /// The state before.
    pub from: Cow<'static, str>,
    /// The state after.
    pub to: Cow<'static, str>,
    /// The event that caused it.
    pub event: &'a str,
    /// The reason in the words of the code. What participants and users say is in the journal only.
    pub cause: &'static str,
    /// The actor: an identity or a service.
    pub actor: &'a str,
    /// The event's number in the run, from 1.
    pub sequence: u64,
    /// Why the run ended, for a terminal state.
    pub stop_reason: Option<&'a str>,
}

/// One verdict of the gate.
#[derive(Debug, Clone, Copy)]
pub struct EvaluationRecord<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The plan revision that was evaluated.
    pub plan_revision: u64,
    /// Whether it was accepted.
    pub accepted: bool,
    /// The resulting stop reason: `accepted`, or why not.
    pub stop_reason: &'a str,
    /// Required checks that failed.
    pub failed_checks: u64,
}

impl Subject {
    /// The name in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Step => "step",
        }
    }
}

/// Records a stored transition in its span. Call it once, after the commit: it writes one span
/// event, one log line and one count.
///
/// One tracing event becomes both the line and the span event, each behind its own filter, so
/// nothing is formatted when both are off.
pub fn record_transition(span: &Span, record: &TransitionRecord<'_>) {
    count_transition(record.subject.as_str(), &record.from, &record.to);
    tracing::event!(
        name: names::EVENT_TRANSITION,
        target: names::TARGET_TRANSITION,
        parent: span,
        tracing::Level::INFO,
        surety.subject = record.subject.as_str(),
        surety.run.id = record.run_id,
        surety.step.id = record.step_id,
        surety.from = &*record.from,
        surety.to = &*record.to,
        surety.event = record.event,
        surety.cause = record.cause,
        surety.actor = record.actor,
        surety.sequence = record.sequence,
        surety.stop_reason = record.stop_reason,
    );
}

/// Records a stored verdict in the span of its evaluation, once.
pub fn record_evaluation(span: &Span, record: &EvaluationRecord<'_>) {
    count_verdict(record.stop_reason);
    tracing::event!(
        name: names::EVENT_EVALUATION,
        target: names::TARGET_TRANSITION,
        parent: span,
        tracing::Level::INFO,
        gen_ai.evaluation.name = "acceptgate",
        gen_ai.evaluation.score.label = if record.accepted { "pass" } else { "fail" },
        gen_ai.evaluation.score.value = f64::from(u8::from(record.accepted)),
        gen_ai.evaluation.explanation = record.stop_reason,
        surety.run.id = record.run_id,
        surety.plan.revision = record.plan_revision,
        surety.failed_checks = record.failed_checks,
    );
}
