//! One event of a run's journal as one line: the stable format of plain output.
//!
//! `SEQUENCE TIME KIND DETAILS`, separated by blanks; the details of a kind keep their order.

use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_common::wire::v1::fact;

use crate::text::{
    action, count, one_line, outcome, run_state, shortened, step_state, stop_reason, time_of_day,
};

/// The most characters of a free text on a line.
const LONGEST_TEXT: usize = 160;

/// The line.
#[must_use]
pub fn event_line(event: &v1::Event) -> String {
    let (kind, details) = match &event.kind {
        Some(Kind::Transition(transition)) => moved(transition),
        Some(Kind::Turn(turn)) => ("turn", turn_line(turn)),
        Some(Kind::Intent(intent)) => ("intent", intent_line(intent)),
        Some(Kind::Receipt(receipt)) => ("receipt", receipt_line(receipt)),
        Some(Kind::Verdict(verdict)) => ("verdict", verdict_line(verdict)),
        Some(Kind::PlanStored(plan)) => ("plan", plan_line(plan)),
        Some(Kind::Output(output)) => {
            ("output", format!("{} {} bytes", shortened(&output.call_id, 40), output.bytes))
        }
        Some(Kind::Answer(answer)) => {
            ("answer", format!("by {}: {}", one_line(&answer.by), free(&answer.text)))
        }
        Some(Kind::Forked(fork)) => ("forked", fork_line(fork)),
        // A kind of a later version: its number and its time are known.
        None => ("other", String::new()),
    };
    let time = time_of_day(event.at.as_ref());
    format!("{:>4} {time} {kind:<7} {details}", event.sequence).trim_end().to_owned()
}

/// A report of a worker. It is no event, so it has no number and no time.
#[must_use]
pub fn progress_line(report: &v1::CallProgress) -> String {
    format!("   - progress {} {}", one_line(&report.step_id), call_progress(report))
}

/// What a worker reports of its call.
pub(crate) fn call_progress(report: &v1::CallProgress) -> String {
    let percent = report.percent.map(|percent| format!("{percent} %, ")).unwrap_or_default();
    format!("{}: {percent}{}", one_line(&report.tool), free(&report.message))
}

/// What a fork has from which run.
pub(crate) fn fork_line(fork: &v1::ForkedFrom) -> String {
    let v1::ForkedFrom { run_id, step_id, plan_revision, receipt_count, chain_digest, .. } = fork;
    let end = match chain_digest.as_str() {
        "" => String::new(),
        digest => format!(" up to {}", one_line(digest)),
    };
    let inherited = match fork.inherited_steps.as_slice() {
        [] => "no step".to_owned(),
        steps => one_line(&steps.join(", ")),
    };
    format!(
        "run {} at step {}, plan revision {plan_revision}, {}{end}; inherited as done: {inherited}",
        one_line(run_id),
        one_line(step_id),
        count(*receipt_count, "receipt"),
    )
}

fn moved(transition: &v1::Transition) -> (&'static str, String) {
    use v1::transition::Subject;
    let (kind, name, from, to) = match &transition.subject {
        Some(Subject::StepId(id)) => (
            "step",
            format!("{} ", one_line(id)),
            step_state(transition.step_from()),
            step_state(transition.step_to()),
        ),
        Some(Subject::RunId(_)) | None => (
            "run",
            String::new(),
            run_state(transition.run_from()).to_owned(),
            run_state(transition.run_to()).to_owned(),
        ),
    };
    let reason = if transition.stop_reason() == v1::StopReason::Unspecified {
        String::new()
    } else {
        format!(" [{}]", stop_reason(transition.stop_reason()))
    };
    let cause = match transition.cause.as_str() {
        "" => String::new(),
        cause => format!(": {}", free(cause)),
    };
    let event = one_line(&transition.event);
    (kind, format!("{name}{from} -> {to}{reason} ({event}){cause}"))
}

/// A turn: its step, its number, the decision and the outcome.
#[must_use]
pub fn turn_line(turn: &v1::Turn) -> String {
    let decided = match &turn.decision {
        Some(decision) => {
            let tool = decision.tool_call.as_ref().map(|call| format!(" {}", one_line(&call.name)));
            format!("{}{}", action(decision.action()), tool.unwrap_or_default())
        }
        None => "no decision".to_owned(),
    };
    let refused: Vec<_> = turn
        .validations
        .iter()
        .filter(|validation| !validation.passed)
        .map(|validation| format!("{} {}", one_line(&validation.name), one_line(&validation.code)))
        .collect();
    let refused = match refused.join(", ") {
        refused if refused.is_empty() => refused,
        refused => format!(" ({refused})"),
    };
    let step = one_line(&turn.step_id);
    format!(
        "{step} #{}.{} {decided}: {}{refused}",
        turn.attempt,
        turn.number,
        outcome(turn.outcome())
    )
}

/// An intent: its step, the tool and the arguments.
#[must_use]
pub fn intent_line(intent: &v1::Intent) -> String {
    let step = step_or_runner(&intent.step_id);
    format!("{step} {} {}", one_line(&intent.tool), free(&intent.arguments_json))
}

/// A receipt: its step, the tool, whether it succeeded, and its summary.
#[must_use]
pub fn receipt_line(receipt: &v1::EvidenceReceipt) -> String {
    let ended = if receipt.success { "ok" } else { "failed" };
    let step = step_or_runner(&receipt.step_id);
    format!("{step} {} {ended}: {}", one_line(&receipt.name), free(&receipt.summary))
}

/// A verdict, with the required checks that do not hold.
#[must_use]
pub fn verdict_line(verdict: &v1::Verdict) -> String {
    if verdict.accepted {
        return format!("accepted: revision {}", verdict.plan_revision);
    }
    let failed: Vec<_> = verdict
        .results
        .iter()
        .filter(|result| !result.passed && !result.optional)
        .map(|result| format!("{} {}", one_line(&result.name), one_line(&result.reason)))
        .collect();
    format!("refused [{}]: {}", stop_reason(verdict.stop_reason()), failed.join(", "))
}

fn plan_line(plan: &v1::PlanStored) -> String {
    let digest = shortened(&plan.digest, 13);
    format!("revision {} {digest}: {}", plan.revision, free(&plan.reason))
}

/// The content of a fact, in words.
#[must_use]
pub fn fact_line(fact: &v1::Fact) -> String {
    match &fact.fact {
        Some(fact::Fact::FileWritten(written)) => {
            let digest = |digest: Option<&String>| {
                digest.map_or_else(|| "nothing".to_owned(), |digest| shortened(digest, 13))
            };
            let (before, after) =
                (digest(written.before_digest.as_ref()), digest(written.after_digest.as_ref()));
            format!("file_written {} {before} -> {after}", one_line(&written.path))
        }
        Some(fact::Fact::FileObserved(seen)) => {
            let there = if seen.exists { "exists" } else { "does not exist" };
            format!("file_observed {} {there}", one_line(&seen.path))
        }
        Some(fact::Fact::Command(command)) => {
            let cwd = command.cwd.as_deref().filter(|cwd| *cwd != ".");
            let place = cwd.map(|cwd| format!(" in {}", one_line(cwd))).unwrap_or_default();
            format!("command `{}`{place} exit {}", command_words(command), command.exit_code)
        }
        Some(fact::Fact::Content(content)) => {
            let found = if content.found { "contains" } else { "does not contain" };
            format!("content {} {found} {:?}", one_line(&content.path), free(&content.contains))
        }
        Some(fact::Fact::Verification(done)) => {
            let passed = if done.passed { "passed" } else { "failed" };
            format!("verification {} {} {passed}", one_line(&done.tool), one_line(&done.scope))
        }
        Some(fact::Fact::Output(output)) => {
            format!("output {} = {}", one_line(&output.key), free(&output.value))
        }
        Some(fact::Fact::Tests(tests)) => {
            let fact::Tests { runner, ran, failed, skipped, missing } = tests;
            format!(
                "tests {}: {ran} ran, {failed} failed, {skipped} skipped, {missing} missing",
                one_line(runner)
            )
        }
        None => "a fact of a later version".to_owned(),
    }
}

fn command_words(command: &v1::fact::Command) -> String {
    match &command.command {
        Some(fact::command::Command::Argv(argv)) => one_line(&argv.args.join(" ")),
        Some(fact::command::Command::CommandLine(line)) => one_line(line),
        None => String::new(),
    }
}

fn step_or_runner(step_id: &str) -> String {
    if step_id.is_empty() { "(runner)".to_owned() } else { one_line(step_id) }
}

fn free(text: &str) -> String {
    shortened(text, LONGEST_TEXT)
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn line(kind: Kind) -> String {
        event_line(&v1::Event {
            sequence: 7,
            at: Some(Timestamp { seconds: 36_000, nanos: 123_000_000 }),
            kind: Some(kind),
            ..v1::Event::default()
        })
    }

    #[test]
    fn plain_lines_keep_their_format() {
        let moved = || v1::Transition {
            event: "moved".to_owned(),
            cause: "a\nb".to_owned(),
            ..v1::Transition::default()
        };
        let step = v1::Transition {
            subject: Some(v1::transition::Subject::StepId("edit".to_owned())),
            step_from: v1::StepState::Pending.into(),
            step_to: v1::StepState::Ready.into(),
            ..moved()
        };
        let run = v1::Transition {
            subject: Some(v1::transition::Subject::RunId("0190".to_owned())),
            run_from: v1::RunState::Executing.into(),
            run_to: v1::RunState::Failed.into(),
            stop_reason: v1::StopReason::Aborted.into(),
            ..moved()
        };
        let turn = v1::Turn {
            step_id: "edit".to_owned(),
            number: 2,
            attempt: 1,
            validations: vec![v1::Validation {
                name: "flow".to_owned(),
                code: "unknown_tool".to_owned(),
                ..v1::Validation::default()
            }],
            outcome: v1::TurnOutcome::Corrected.into(),
            ..v1::Turn::default()
        };
        let receipt = v1::EvidenceReceipt {
            name: "grep".to_owned(),
            summary: "3 lines\u{1b}".to_owned(),
            success: true,
            ..v1::EvidenceReceipt::default()
        };
        let verdict = v1::Verdict {
            stop_reason: v1::StopReason::AcceptCheckFailed.into(),
            results: vec![v1::CheckResult {
                name: "tests".to_owned(),
                reason: "stale_after_write".to_owned(),
                ..v1::CheckResult::default()
            }],
            ..v1::Verdict::default()
        };
        let cases = [
            (Kind::Transition(step), "step    edit pending -> ready (moved): a b"),
            (Kind::Transition(run), "run     EXECUTING -> FAILED [aborted] (moved): a b"),
            (Kind::Turn(turn), "turn    edit #1.2 no decision: corrected (flow unknown_tool)"),
            (Kind::Receipt(receipt), "receipt (runner) grep ok: 3 lines\\u{1b}"),
            (
                Kind::Verdict(verdict),
                "verdict refused [accept_check_failed]: tests stale_after_write",
            ),
        ];
        for (kind, expected) in cases {
            assert_eq!(line(kind), format!("   7 10:00:00.123Z {expected}"));
        }
    }
}
