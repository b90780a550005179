//! The current state of a run as text.

mod checks;
mod grants;
mod history;
mod repository;
mod rows;
mod waits;

use surety_common::wire::v1;

use crate::text::{
    between, columns, count, day_and_time, driver, harmless, one_line, run_state, shortened,
    step_state, stop_reason, strength, waiting_on,
};

pub use grants::{grants, terms};
pub use history::{Extent, Journal};
pub use waits::{
    acceptance, call, digest_of_question, is_answered_in_words, plan_to_approve, waits,
};

use crate::lines::fork_line;
use rows::{push, push_inline};

/// The most characters of a goal or a description on one line.
const LONGEST_TEXT: usize = 100;

/// The full report of a run.
#[must_use]
pub fn whole(run: &v1::Run, journal: &Journal<'_>, extent: Extent) -> String {
    let sections = [
        head(run),
        section("Steps", &steps(run)),
        section("Timeline", &journal.timeline()),
        section("Turns", &journal.turns()),
        section("Intents", &journal.intents()),
        section("Receipts", &journal.receipts()),
        section("Outputs", &journal.outputs(extent)),
        section("Answers", &journal.answers()),
        evidence(run, journal),
        section("Verdict", &run.verdict.as_ref().map(verdict).unwrap_or_default()),
        section("Answer", &harmless(&run.final_answer)),
        section("Ended", &run.terminal.as_ref().map(terminal).unwrap_or_default()),
        section("Waits", &waits_for(run)),
        section("Grants", &grants::open_grants(run, chrono::Utc::now())),
    ];
    let filled: Vec<_> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    filled.join("\n\n")
}

/// What the signatures of a run say, on one line.
#[must_use]
pub fn signatures(report: &v1::SignatureReport) -> String {
    let detail = one_line(&report.detail);
    match report.state() {
        v1::SignatureState::Signed => "  signed".to_owned(),
        v1::SignatureState::Unsigned => format!("  unsigned: {detail}"),
        v1::SignatureState::Broken => format!("  broken: {detail}"),
        v1::SignatureState::Unspecified => "  not checked".to_owned(),
    }
}

/// The end of a followed run: the verdict with every check, and the stop reason.
#[must_use]
pub fn ending(run: &v1::Run) -> String {
    let parts = [
        run.verdict.as_ref().map(verdict).unwrap_or_default(),
        run.terminal.as_ref().map(terminal).unwrap_or_default(),
        format!(
            "run {} is {} after {}",
            run.id,
            run_state(run.state()),
            between(run.created_at.as_ref(), run.updated_at.as_ref())
        ),
    ];
    let filled: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    filled.join("\n")
}

/// What the runner found for each check of the verdict's round; empty where the steps' receipts decided.
#[must_use]
pub fn evidence(run: &v1::Run, journal: &Journal<'_>) -> String {
    let probes = run.verdict.as_ref().map(|verdict| checks::probes(journal, verdict.round));
    section("Checks", &probes.unwrap_or_default())
}

/// Runs, one per line; with what each waits for where one waits, and with the run that each is a fork of where one is.
#[must_use]
pub fn table(runs: &[v1::Run]) -> String {
    let any_fork = runs.iter().any(|run| run.forked_from.is_some());
    let any_wait = runs.iter().any(|run| run.blocked.is_some());
    let row = |run: &v1::Run| {
        let done = run.steps.iter().filter(|step| step.state() == v1::StepState::Done).count();
        let mut cells = vec![
            run.id.clone(),
            run_state(run.state()).to_owned(),
            format!("{done}/{}", run.steps.len()),
            day_and_time(run.created_at.as_ref()),
            one_line(&run.namespace),
            shortened(&run.goal, 60),
        ];
        let waits = run.blocked.as_ref().map(|blocked| waiting_on(blocked.waiting_on()).to_owned());
        cells.extend(any_wait.then(|| waits.unwrap_or_default()));
        let fork = run.forked_from.as_ref().map(|fork| one_line(&fork.run_id));
        cells.extend(any_fork.then(|| fork.unwrap_or_default()));
        cells
    };
    let mut header = vec!["RUN", "STATE", "STEPS", "CREATED", "NAMESPACE", "GOAL"];
    header.extend(any_wait.then_some("WAITS ON"));
    header.extend(any_fork.then_some("FORK OF"));
    columns(&header, runs.iter().map(row).collect())
}

/// What a run waits for and how to continue it; empty where it waits for nothing outside.
#[must_use]
pub fn waits_for(run: &v1::Run) -> String {
    let Some(blocked) = &run.blocked else { return String::new() };
    let since = day_and_time(blocked.since.as_ref());
    // What keeps a run outside of BLOCKED from going on is no wait that a call ends.
    let is_blocked = run.state() == v1::RunState::Blocked || !blocked.wait_id.is_empty();
    let how = if is_blocked { "BLOCKED" } else { "waits" };
    let mut text = format!("{how} on {} since {since}", waiting_on(blocked.waiting_on()));
    push(&mut text, "question", &harmless(&blocked.question));
    push(&mut text, "unblocks", &harmless(&blocked.unblocks));
    if blocked.kind() == v1::WaitKind::Budget {
        push(&mut text, "extend", &format!("surety budget extend {}", run.id));
        push(&mut text, "stop", &format!("surety budget stop {}", run.id));
    } else if is_answered_in_words(blocked.waiting_on(), &blocked.question) {
        push(&mut text, "answer", &format!("surety answer {} TEXT", blocked.wait_id));
    } else if blocked.waiting_on() == v1::WaitingOn::Approver {
        push(&mut text, "approve", &format!("surety approve {}", blocked.wait_id));
        push(&mut text, "deny", &format!("surety deny {}", blocked.wait_id));
    } else if blocked.waiting_on() == v1::WaitingOn::Operator && is_blocked {
        push(&mut text, "resume", &format!("surety resume {}", run.id));
    }
    push(&mut text, "watch", &format!("surety watch {}", run.id));
    push(&mut text, "cancel", &format!("surety cancel {}", run.id));
    text
}

/// Whether a user must act.
#[must_use]
pub const fn needs_a_person(waiting_on: v1::WaitingOn) -> bool {
    match waiting_on {
        v1::WaitingOn::User | v1::WaitingOn::Approver | v1::WaitingOn::Operator => true,
        v1::WaitingOn::Unspecified
        | v1::WaitingOn::Worker
        | v1::WaitingOn::Model
        | v1::WaitingOn::Timer
        | v1::WaitingOn::Driver
        | v1::WaitingOn::Workspace => false,
    }
}

fn head(run: &v1::Run) -> String {
    let mut text = format!("Run {}  {}", run.id, run_state(run.state()));
    if let Some(terminal) = &run.terminal {
        push_inline(&mut text, &format!(" [{}]", stop_reason(terminal.stop_reason())));
    }
    let counters = run.counters.unwrap_or_default();
    let plan = match run.plan_revision {
        0 => "none yet".to_owned(),
        revision => format!("revision {revision}, digest {}", one_line(&run.plan_digest)),
    };
    let used = [
        count(counters.rounds, "turn"),
        count(counters.tool_calls, "tool call"),
        count(counters.receipts, "receipt"),
        count(counters.replans, "replan"),
        count(counters.repairs, "repair"),
    ];
    let created = format!(
        "{}, last change {} later",
        day_and_time(run.created_at.as_ref()),
        between(run.created_at.as_ref(), run.updated_at.as_ref())
    );
    let labels: Vec<_> =
        run.labels.iter().map(|(key, value)| one_line(&format!("{key}={value}"))).collect();
    let rows = [
        ("goal", shortened(&run.goal, 2 * LONGEST_TEXT)),
        ("namespace", one_line(&run.namespace)),
        ("driver", driver(run.driver())),
        ("workspace", one_line(&run.workspace)),
        ("repository", run.repository.as_ref().map(repository::named).unwrap_or_default()),
        ("labels", labels.join(", ")),
        ("created", created),
        ("plan", plan),
        ("fork of", run.forked_from.as_ref().map(fork_line).unwrap_or_default()),
        ("used", used.join(", ")),
        ("budgets", budgets(run)),
        ("trace", one_line(&run.trace_id)),
    ];
    for (name, value) in rows {
        push(&mut text, name, &value);
    }
    text
}

/// What was used and is reserved of each budget; empty for a run without one that used nothing.
#[must_use]
pub fn budgets(run: &v1::Run) -> String {
    let counters = run.counters.unwrap_or_default();
    let limits = run.limits.unwrap_or_default();
    let one = |unit: &str,
               (used, reported, charged): (u64, u64, u64),
               reserved: u64,
               budget: Option<u64>| {
        let of = budget.map(|budget| format!(" of {budget}")).unwrap_or_default();
        // What is left was counted by the services themselves.
        let parts = [(reported, "reported"), (charged, "charged at the reservation")];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(part, _)| *part > 0)
            .map(|(part, how)| format!("{part} {how}"))
            .collect();
        let parts = match parts.is_empty() {
            true => String::new(),
            false => format!(" ({})", parts.join(", ")),
        };
        let held = match reserved {
            0 => String::new(),
            reserved => format!(", {reserved} reserved"),
        };
        (used > 0 || budget.is_some()).then(|| format!("{used}{of} {unit} used{parts}{held}"))
    };
    let v1::RunCounters { tokens, reported_tokens, charged_tokens, .. } = counters;
    let v1::RunCounters { cost_micros, reported_cost_micros, charged_cost_micros, .. } = counters;
    let v1::RunCounters { reserved_tokens, reserved_cost_micros, .. } = counters;
    let of_tokens = (tokens, reported_tokens, charged_tokens);
    let of_cost = (cost_micros, reported_cost_micros, charged_cost_micros);
    let both = [
        one("tokens", of_tokens, reserved_tokens, limits.token_budget),
        one("millionths of cost", of_cost, reserved_cost_micros, limits.cost_budget_micros),
    ];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn steps(run: &v1::Run) -> String {
    let row = |step: &v1::StepProgress| {
        let used = [
            step.inherited.then(|| "inherited".to_owned()),
            (step.attempt > 0).then(|| format!("attempt {}", step.attempt)),
            (step.rounds > 0).then(|| count(step.rounds, "turn")),
            (step.tool_calls > 0).then(|| count(step.tool_calls, "call")),
        ];
        let attempts = used.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let reason = match step.reason.as_str() {
            "" => String::new(),
            reason => format!(" ({})", shortened(reason, LONGEST_TEXT)),
        };
        vec![
            one_line(&step.id),
            step_state(step.state()),
            attempts,
            format!("{}{reason}", shortened(&step.description, LONGEST_TEXT)),
        ]
    };
    columns(&[], run.steps.iter().map(row).collect())
}

/// The verdict with every check and its reason.
#[must_use]
pub fn verdict(verdict: &v1::Verdict) -> String {
    let mut text = if verdict.accepted {
        "accepted".to_owned()
    } else {
        format!("refused: {}", stop_reason(verdict.stop_reason()))
    };
    // A verdict on submitted evidence belongs to no plan.
    if verdict.plan_revision > 0 {
        let evidence = format!(
            " (plan revision {}, {} read)",
            verdict.plan_revision,
            count(verdict.receipt_count, "receipt")
        );
        push_inline(&mut text, &evidence);
    }
    if verdict.round > 0 {
        push_inline(&mut text, &format!("\n  round {}", verdict.round));
    }
    let name = match verdict.strength() {
        v1::VerdictStrength::Independent => Some("independent"),
        v1::VerdictStrength::SelfChecked => Some("self_checked"),
        v1::VerdictStrength::Unspecified => None,
    };
    if let Some(name) = name {
        push_inline(&mut text, &format!("\n  strength {}", strength(name)));
    }
    if !verdict.workspace_digest.is_empty() {
        push_inline(&mut text, &format!("\n  digest {}", one_line(&verdict.workspace_digest)));
    }
    if !verdict.sandbox.is_empty() {
        push_inline(&mut text, &format!("\n  sandbox {}", one_line(&verdict.sandbox)));
    }
    if let Some(outcome) = &verdict.repository {
        push_inline(&mut text, &repository::outcome(outcome));
    }
    for caution in &verdict.cautions {
        let [code, check, detail] =
            [&caution.code, &caution.check, &caution.detail].map(|text| one_line(text));
        push_inline(&mut text, &format!("\n  caution {code} {check}: {detail}"));
    }
    for v1::Approval { by, digest } in &verdict.approvals {
        let approved = format!("approved by {by}: digest {digest}");
        push_inline(&mut text, &format!("\n  {}", one_line(&approved)));
    }
    for result in &verdict.results {
        let mark = if result.passed { "passed" } else { "FAILED" };
        let optional = if result.optional { " (optional)" } else { "" };
        let name = one_line(&result.name);
        let line = format!("\n  {mark}  {name}{optional}  {}", one_line(&result.reason));
        push_inline(&mut text, line.trim_end());
    }
    text
}

fn terminal(terminal: &v1::Terminal) -> String {
    let mut text = format!(
        "{} [{}] at {}",
        run_state(terminal.status()),
        stop_reason(terminal.stop_reason()),
        run_state(terminal.stage()).to_ascii_lowercase()
    );
    push(&mut text, "code", &harmless(&terminal.abort_code));
    push(&mut text, "message", &harmless(&terminal.user_message));
    push(&mut text, "internal", &harmless(&terminal.internal_reason));
    text
}

fn section(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = body.lines().map(|line| format!("  {line}")).collect();
    format!("{title}\n{}", lines.join("\n"))
}

/// Adds a named line unless the value is empty.
#[cfg(test)]
mod tests;
