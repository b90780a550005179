//! A contract for people and for scripts.

use serde_json::{Value, json};
use surety_common::domain::check::AcceptCheck;

use super::file::Contract;
use super::proposal::{Next, next_step};
use crate::failure::Failure;
use crate::text::{columns, harmless, one_line};

/// Events that are shown.
const SHOWN: usize = 20;

/// Who a contract is shown to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A person: every check, a hidden one with its name and its line.
    Person,
    /// The agent that is held to it: of hidden checks their number only.
    Agent,
}

impl Reader {
    fn sees(self, check: &AcceptCheck) -> bool {
        match self {
            Self::Person => true,
            Self::Agent => !check.is_hidden(),
        }
    }
}

/// The contract for scripts and agents.
///
/// # Errors
/// The contract's file was changed.
pub fn as_json(contract: &Contract, reader: Reader) -> Result<Value, Failure> {
    let proposed = contract.proposed()?;
    let users = contract.users()?;
    let own = proposed.iter().flat_map(|plan| &plan.verify);
    let all: Vec<_> = users.plan.verify.iter().chain(own).collect();
    let hidden = all.iter().filter(|check| check.is_hidden()).count();
    let shown = all.iter().filter(|check| reader.sees(check));
    let checks: Vec<Value> = shown.map(|it| check(it)).collect();
    let step = |step: &surety_common::domain::plan::PlanStep| {
        let report = contract.reports.get(&step.id);
        json!({
            "id": step.id,
            "description": step.description,
            "dependencies": step.dependencies,
            "reported": report.map(|report| report.outcome.as_str()),
            "note": report.map(|report| report.note.as_str()),
        })
    };
    let steps: Vec<Value> = proposed.iter().flat_map(|plan| &plan.steps).map(step).collect();
    let next = match next_step(proposed.as_ref(), &contract.reports) {
        Next::Propose if all.is_empty() => json!({"do": "surety_propose_plan"}),
        Next::Propose => json!({"do": "work, then surety_check"}),
        Next::Work(step) => json!({"do": "work", "step": step.id, "description": step.description}),
        Next::Verdict => json!({"do": "surety_verdict"}),
    };
    Ok(json!({
        "workspace": contract.workspace,
        "base": {
            "revision": contract.commit.is_some().then_some(&contract.base),
            "commit": contract.commit,
        },
        "opened_at": contract.opened_at,
        "opened_by": contract.opened_by,
        "checks": checks,
        "hidden_checks": hidden,
        "unused_checks": contract.unused_checks(),
        "plan_revision": contract.proposal.as_ref().map(|proposal| proposal.revision),
        "title": proposed.as_ref().map(|plan| plan.title.as_str()),
        "goal": proposed.as_ref().map(|plan| plan.goal.as_str()),
        "steps": steps,
        "next": next,
        "waits": contract.questions,
        "rounds": contract.rounds,
        "verdict": contract.verdict,
        "events": contract.events.iter().rev().take(SHOWN).collect::<Vec<_>>(),
    }))
}

fn check(check: &AcceptCheck) -> Value {
    json!({
        "name": check.name(),
        "kind": check.kind.as_str(),
        "target": check.target,
        "owner": check.owner.as_str(),
        "required": check.required,
        "hidden": check.is_hidden(),
    })
}

/// The contract as text.
///
/// # Errors
/// The contract's file was changed.
pub fn as_text(contract: &Contract, reader: Reader) -> Result<String, Failure> {
    let users = contract.users()?;
    let proposed = contract.proposed()?;
    let mut lines = vec![
        format!("contract of {}", one_line(&contract.workspace)),
        format!("  opened   {} by {}", contract.opened_at, one_line(&contract.opened_by)),
        format!("  base     {}", one_line(&contract.start())),
    ];
    let own = proposed.iter().flat_map(|plan| &plan.verify);
    let (shown, concealed): (Vec<_>, Vec<_>) =
        users.plan.verify.iter().chain(own).partition(|check| reader.sees(check));
    for check in shown {
        let name = [check.name(), &check.target].map(one_line).join("  ");
        let optional = if check.required { "" } else { "  (optional)" };
        lines.push(format!("  check    {}  {name}{optional}", check.owner.as_str()));
    }
    match concealed.len() {
        0 => {}
        1 => lines.push("  check    user  a hidden check".to_owned()),
        count => lines.push(format!("  check    user  {count} hidden checks")),
    }
    if let Some(why) = contract.unused_checks() {
        lines.push(format!("  unused   {}", one_line(&why)));
    }
    for step in proposed.iter().flat_map(|plan| &plan.steps) {
        let report = contract.reports.get(&step.id).map_or("-", |report| report.outcome.as_str());
        lines.push(format!(
            "  step     {}  {report}  {}",
            one_line(&step.id),
            one_line(&step.description)
        ));
    }
    for question in &contract.questions {
        let answer = question.answer.as_deref().map_or_else(
            || format!("waits: surety contract answer {} TEXT", question.id),
            |answer| {
                let by = question.answered_by.as_deref().unwrap_or_default();
                format!("{} (by {})", one_line(answer), one_line(by))
            },
        );
        lines.push(format!(
            "  question {}  {}  {answer}",
            question.id,
            one_line(&question.question)
        ));
    }
    lines.push(match &contract.verdict {
        Some(verdict) => format!(
            "  verdict  {}  {}  {}",
            verdict.at,
            one_line(&verdict.stop_reason),
            one_line(&verdict.file)
        ),
        None => format!("  verdict  none; {} rounds were carried out", contract.rounds),
    });
    let surplus = contract.events.len().saturating_sub(SHOWN);
    let events = contract.events.iter().skip(surplus);
    let rows = events.map(|event| {
        vec![format!("  {}", event.at), event.what.as_str().to_owned(), one_line(&event.detail)]
    });
    lines.push(columns(&[], rows.collect()));
    Ok(harmless(&lines.join("\n")))
}
