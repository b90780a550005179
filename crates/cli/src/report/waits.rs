//! Waits, and what their answers are about.

use surety_common::domain::execution::question_digest;
use surety_common::wire::v1;

use super::rows::{push, push_inline};
use crate::text::{day_and_time, harmless, one_line, waiting_on};

/// Waits, one paragraph each, with how to answer it.
#[must_use]
pub fn waits(waits: &[v1::Wait]) -> String {
    let paragraph = |wait: &v1::Wait| {
        let mut text = format!(
            "{}  {}  run {}  on {} since {}",
            wait.id,
            kind_of(wait.kind()),
            wait.run_id,
            waiting_on(wait.waiting_on()),
            day_and_time(wait.since.as_ref())
        );
        push(&mut text, "question", &harmless(&wait.question));
        if let Some(call) = &wait.tool_call {
            push(&mut text, "call", &called(call));
        }
        let percent = wait.progress_percent.map_or(String::new(), |it| format!("{it} %  "));
        push(&mut text, "progress", &one_line(&format!("{percent}{}", wait.progress)));
        push(&mut text, "choices", &harmless(&wait.choices.join(", ")));
        push(&mut text, "schema", &harmless(&wait.answer_schema_json));
        push(&mut text, "unblocks", &harmless(&wait.unblocks));
        push(&mut text, "digest", &one_line(&wait.call_digest));
        push(&mut text, "digest", &digest_of_question(wait));
        push(&mut text, "until", &day_and_time(wait.expires_at.as_ref()));
        if wait.kind() == v1::WaitKind::Budget {
            push(&mut text, "extend", &format!("surety budget extend {}", wait.run_id));
            push(&mut text, "stop", &format!("surety budget stop {}", wait.run_id));
        } else if is_answered_in_words(wait.waiting_on(), &wait.question) {
            push(&mut text, "answer", &format!("surety answer {} TEXT", wait.id));
        } else if !wait.call_digest.is_empty() {
            push(&mut text, "who", &approvers(wait, None));
            push(&mut text, "approve", &format!("surety approve {}", wait.id));
            push(&mut text, "deny", &format!("surety deny {}", wait.id));
        } else if wait.waiting_on() == v1::WaitingOn::Operator {
            push(&mut text, "resume", &format!("surety resume {}", wait.run_id));
        }
        text
    };
    let paragraphs: Vec<_> = waits.iter().map(paragraph).collect();
    paragraphs.join("\n\n")
}

/// The digest of the question that a wait shows, computed from its words: it stands for what the user reads, whatever the
/// service says of it. Empty for another wait.
#[must_use]
pub fn digest_of_question(wait: &v1::Wait) -> String {
    if wait.kind() != v1::WaitKind::Question {
        return String::new();
    }
    question_digest(&wait.question, &wait.choices, &wait.answer_schema_json)
}

/// What a person is asked to accept, with the whole difference.
#[must_use]
pub fn acceptance(wait: &v1::Wait, difference: &str, four_eyes: Option<bool>) -> String {
    let asked = wait.acceptance.clone().unwrap_or_default();
    let mut text = format!("{}\n", harmless(difference.trim_end()));
    for v1::Caution { code, check, detail } in &asked.cautions {
        let caution = format!("caution {code} of {check}: {detail}");
        push_inline(&mut text, &format!("\n{}", one_line(&caution)));
    }
    if !asked.not_shown.is_empty() {
        let hidden = one_line(&asked.not_shown);
        push_inline(&mut text, &format!("\nit can only be denied, because {hidden}"));
    }
    let rows = [
        ("run", wait.run_id.clone()),
        ("workspace", asked.workspace_digest),
        ("digest", wait.call_digest.clone()),
        ("who", approvers(wait, four_eyes)),
        ("until", day_and_time(wait.expires_at.as_ref())),
    ];
    for (name, value) in rows {
        push(&mut text, name, &one_line(&value));
    }
    text
}

/// The call that waits for a confirmation, exactly as it is made.
#[must_use]
pub fn call(wait: &v1::Wait, four_eyes: Option<bool>) -> String {
    let call = wait.tool_call.clone().unwrap_or_default();
    let mut text = format!("{}\n", called(&call));
    for (name, value) in [
        ("question", one_line(&wait.question)),
        ("run", wait.run_id.clone()),
        ("step", one_line(&wait.step_id)),
        ("digest", wait.call_digest.clone()),
        ("who", approvers(wait, four_eyes)),
        ("until", day_and_time(wait.expires_at.as_ref())),
    ] {
        push(&mut text, name, &value);
    }
    text
}

/// The plan that waits for an approval, whole, as JSON.
#[must_use]
pub fn plan_to_approve(wait: &v1::Wait, plan: &str, four_eyes: Option<bool>) -> String {
    let mut text = format!("{}\n", harmless(plan));
    for (name, value) in [
        ("question", one_line(&wait.question)),
        ("run", wait.run_id.clone()),
        ("digest", wait.call_digest.clone()),
        ("who", approvers(wait, four_eyes)),
        ("until", day_and_time(wait.expires_at.as_ref())),
    ] {
        push(&mut text, name, &value);
    }
    text
}

/// A call with its arguments as they are, in compact JSON.
fn called(call: &v1::ToolCall) -> String {
    harmless(&format!("{} {}", call.name, call.arguments_json))
}

/// Who may answer a confirmation.
fn approvers(wait: &v1::Wait, four_eyes: Option<bool>) -> String {
    let creator = match four_eyes {
        Some(true) => "not the run's creator (four_eyes)",
        Some(false) => "the run's creator",
        None => "the run's creator unless the namespace asks for four eyes",
    };
    one_line(&format!("approvers of namespace {}, {creator}", wait.namespace))
}

const fn kind_of(kind: v1::WaitKind) -> &'static str {
    match kind {
        v1::WaitKind::Unspecified => "wait",
        v1::WaitKind::Question => "question",
        v1::WaitKind::Confirmation => "confirmation",
        v1::WaitKind::Acceptance => "acceptance",
        v1::WaitKind::Plan => "plan",
        v1::WaitKind::Decision => "decision",
        v1::WaitKind::Tool => "tool",
        v1::WaitKind::Resume => "resume",
        v1::WaitKind::Timer => "timer",
        v1::WaitKind::Workspace => "workspace",
        v1::WaitKind::Budget => "budget",
    }
}

/// Whether a person answers it with a text.
#[must_use]
pub fn is_answered_in_words(waiting_on: v1::WaitingOn, question: &str) -> bool {
    let person = matches!(waiting_on, v1::WaitingOn::User | v1::WaitingOn::Operator);
    person && !question.is_empty()
}
