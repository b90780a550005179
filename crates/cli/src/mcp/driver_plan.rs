//! The tools of an agent that drives runs with which it makes their plans.
//!
//! ```text
//!   surety_lease_plan  --> LeasePlan    a run that needs a plan, or a patch of its plan
//!   surety_submit_plan --> SubmitPlan   the plan with its checks, or the patch
//!                          HeartbeatPlan while it is held
//! ```

use std::time::Duration;

use serde_json::json;
use surety_common::wire::v1;
use surety_common::wire::v1::submit_plan_request::PlanSource;
use tokio_util::sync::CancellationToken;

use super::arguments::{Lease, Release, SubmitPlan, within};
use super::driver::Driver;
use super::leases::{HeldPlan, LONGEST_WAIT, Planner, bounded, interval, is_meant, within_time};
use super::observer::Answer;
use crate::failure::{Code, Failure};
use crate::output::note;
use crate::text::{one_line, step_state};
use crate::wire_json;

/// Errors after which the plan is still leased.
const PASSING: &[&str] = &[
    "connection_lost",
    "database_unavailable",
    "deadline_exceeded",
    "overloaded",
    "service_unreachable",
];
/// What an agent does with a leased plan, and after it.
const ANSWER: &str = "Answer with surety_submit_plan.";
const STORED: &str = "Call surety_lease for its first step.";
/// The longest plan in bytes.
const MOST_PLAN: usize = 256 << 10;

impl Driver {
    /// Waits for a run that needs a plan, and leases the making of it.
    pub(super) async fn lease_plan(
        &self,
        asked: Lease,
        cancel: &CancellationToken,
    ) -> Result<Answer, Failure> {
        asked.check()?;
        let mut held = self.held_plan()?;
        if held.as_ref().is_some_and(|held| held.beating.is_finished()) {
            // The heartbeats end by themselves only where the lease is lost.
            *held = None;
        }
        if let Some(held) = held.as_ref() {
            let message = format!("the plan of run {} is leased", one_line(&held.fence.run_id));
            let advice = "Make it with surety_submit_plan, or give it back with surety_release.";
            return Err(Failure::new(Code::ValueInvalid, message, advice));
        }
        let seconds = asked.wait_seconds.min(LONGEST_WAIT);
        let wait = i64::try_from(seconds).unwrap_or_default();
        let request = v1::LeasePlanRequest {
            planner_id: self.name().to_owned(),
            namespace: asked.namespace,
            run_id: asked.run_id,
            wait: Some(prost_types::Duration { seconds: wait, nanos: 0 }),
            namespaces: asked.namespaces,
            labels: asked.labels,
        };
        let planner = self.planner();
        let request = within_time(request, Duration::from_secs(seconds));
        let (mut leasing, giver) = (planner.clone(), planner.clone());
        let leasing = async move { leasing.lease_plan(request).await };
        let give_back = |leased| give_back(giver, leased);
        let url = self.planner_url();
        let leased = self.unless_given_up(cancel, url, leasing, give_back).await?;
        let (Some(lease), Some(context)) = (leased.lease, leased.context) else {
            let text = "no run needs a plan now; call surety_lease_plan again".to_owned();
            let value = json!({"leased": false, "what_next": text});
            return Ok(Answer { text, value });
        };
        let fence = v1::PlanFence { run_id: lease.run_id.clone(), lease_epoch: lease.lease_epoch };
        let every = interval(lease.expires_at.as_ref());
        let beating = tokio::spawn(beat(planner, self.name().to_owned(), fence.clone(), every));
        *held = Some(HeldPlan { fence, revision: context.expected_revision, beating });
        let value = json!({
            "leased": true,
            "lease": wire_json::message("PlanLease", &lease).to_serde(),
            "context": wire_json::message("PlanContext", &context).to_serde(),
            "what_next": ANSWER,
        });
        // A client may show its model this text alone.
        let text = format!("{}\nlease_epoch {}", context_text(&context), lease.lease_epoch);
        Ok(Answer { text: bounded(text), value })
    }

    /// Submits the leased plan. A refused one ends the lease, and is corrected after another one.
    pub(super) async fn submit_plan(
        &self,
        submitted: SubmitPlan,
        cancel: &CancellationToken,
    ) -> Result<Answer, Failure> {
        let source = submitted.into_source(MOST_PLAN)?;
        let mut held = self.held_plan()?;
        let Some(plan) = held.as_ref() else {
            let advice = "Lease one with surety_lease_plan.";
            return Err(Failure::new(Code::ValueInvalid, "no plan is leased", advice));
        };
        let request = v1::SubmitPlanRequest {
            run_id: plan.fence.run_id.clone(),
            expected_revision: plan.revision,
            plan_source: Some(source),
            lease_epoch: plan.fence.lease_epoch,
            ..v1::SubmitPlanRequest::default()
        };
        let mut planner = self.planner();
        let submitting = planner.submit_plan(within_time(request, Duration::ZERO));
        let answer = self.unless_ended(cancel, self.planner_url(), submitting).await;
        // Where no answer says what became of it, it is sent again under the same lease.
        let may_be_sent_again =
            matches!(&answer, Err(Failure::Said(said)) if PASSING.contains(&said.code.as_str()));
        if !may_be_sent_again {
            *held = None;
        }
        let answer = answer?;
        let (title, revision) = match &answer.plan {
            Some(plan) => (plan.title.as_str(), plan.revision),
            None => ("", 0),
        };
        let mut text = format!("revision {revision} of the plan is stored: {}", one_line(title));
        for warning in &answer.warnings {
            text.push_str(&format!("\n{}: {}", warning.code, one_line(&warning.message)));
        }
        text.push_str(&format!("\n{STORED}"));
        let mut value = wire_json::message("SubmitPlanResponse", &answer).to_serde();
        value["what_next"] = json!(STORED);
        Ok(Answer { text: bounded(text), value })
    }

    /// Gives the leased plan back when the connection ends.
    pub(super) async fn give_plan_back(&self) {
        let Some(plan) = self.plan().lock().await.take() else { return };
        match self.release_held(&plan, "the connection of the agent ended".to_owned()).await {
            Ok(()) => note("surety: the connection ended; the leased plan was released"),
            Err(failure) => note(&failure.to_text()),
        }
    }

    /// Whether a plan is leased under this lease.
    pub(super) fn holds_plan(&self, lease_epoch: u64) -> bool {
        let held = self.held_plan().ok();
        held.is_some_and(|held| {
            held.as_ref().is_some_and(|plan| plan.fence.lease_epoch == lease_epoch)
        })
    }

    /// Gives the leased plan back. Answers whether one was leased.
    pub(super) async fn release_plan(
        &self,
        release: Release,
        is_anyones: bool,
    ) -> Result<Option<Answer>, Failure> {
        let mut held = self.held_plan()?;
        let Some(plan) = held.as_ref() else { return Ok(None) };
        is_meant(plan.fence.lease_epoch, release.lease_epoch, is_anyones)?;
        let Some(plan) = held.take() else { return Ok(None) };
        self.release_held(&plan, release.reason).await?;
        let text = format!("the plan of run {} is released", one_line(&plan.fence.run_id));
        Ok(Some(Answer { text, value: json!({"released": true}) }))
    }

    async fn release_held(&self, plan: &HeldPlan, reason: String) -> Result<(), Failure> {
        let request = v1::ReleasePlanRequest { fence: Some(plan.fence.clone()), reason };
        let released = self.planner().release_plan(within_time(request, Duration::ZERO)).await;
        released.map(drop).map_err(|status| Failure::from_service(self.planner_url(), &status))
    }
}

/// Gives a plan back that a call leased after its client gave it up.
async fn give_back(mut planner: Planner, leased: v1::LeasePlanResponse) {
    let Some(v1::PlanLease { run_id, lease_epoch, .. }) = leased.lease else { return };
    let fence = Some(v1::PlanFence { run_id, lease_epoch });
    let reason = "the call of the agent was cancelled".to_owned();
    let request = v1::ReleasePlanRequest { fence, reason };
    if let Err(status) = planner.release_plan(within_time(request, Duration::ZERO)).await {
        note(&format!("surety: a plan was leased for a cancelled call and not released: {status}"));
    }
}

async fn beat(mut planner: Planner, planner_id: String, fence: v1::PlanFence, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        let request = v1::HeartbeatPlanRequest {
            planner_id: planner_id.clone(),
            fences: vec![fence.clone()],
        };
        match planner.heartbeat_plan(within_time(request, Duration::ZERO)).await {
            // The next call says it.
            Ok(answer) if !answer.get_ref().lost.is_empty() => return,
            // A passing error; the lease lasts longer than one interval.
            Ok(_) | Err(_) => {}
        }
    }
}

/// What an agent needs for a plan: a client may show its model this text alone.
fn context_text(context: &v1::PlanContext) -> String {
    let mut lines = vec![format!("goal: {}", context.goal)];
    if !context.reason.is_empty() {
        lines.push(format!("another plan is needed: {}", context.reason));
    }
    if let Some(problem) = &context.correction {
        lines.push(format!("the last one was refused, {}: {}", problem.code, problem.message));
    }
    match &context.plan {
        Some(plan) => lines.extend(plan_lines(plan, &context.statuses)),
        None => lines.push("there is no plan yet".to_owned()),
    }
    for check in &context.checks {
        lines.push(format!("fixed check: {}", check_line(check)));
    }
    for tool in &context.tools {
        let description = one_line(&tool.description);
        lines.push(format!("tool {}: {description}", one_line(&tool.name)));
        if !tool.input_schema_json.is_empty() {
            lines.push(format!("  arguments {}", one_line(&tool.input_schema_json)));
        }
    }
    if let Some(limits) = &context.limits {
        lines.push(format!("limits: {}", wire_json::message("Limits", limits).to_compact()));
    }
    let budgets =
        [("tokens", context.turn_tokens), ("cost in millionths", context.turn_cost_micros)];
    for (name, left) in budgets.iter().filter_map(|(name, left)| left.map(|left| (name, left))) {
        lines.push(format!("{name} reserved for this plan: {left}"));
    }
    lines.push(format!("refusals before the run ends: {}", context.attempts_left));
    lines.push(format!("replans left: {}", context.replans_left));
    lines.push(ANSWER.to_owned());
    lines.join("\n")
}

/// A plan that is to be patched: a patch names its steps by their ids.
fn plan_lines(plan: &v1::Plan, statuses: &[v1::StepStatus]) -> Vec<String> {
    let mut lines =
        vec![format!("revision {} of the plan: {}", plan.revision, one_line(&plan.title))];
    for step in &plan.steps {
        let status = statuses.iter().find(|status| status.step_id == step.id);
        let state = status.map(|status| step_state(status.state())).unwrap_or_default();
        let after = match step.dependencies.as_slice() {
            [] => String::new(),
            ids => format!(" (after {})", one_line(&ids.join(", "))),
        };
        let description = one_line(&step.description);
        lines.push(format!("step {} [{state}]{after}: {description}", one_line(&step.id)));
        let shown = step.verify.iter().filter(|check| check.overlay_digest.is_empty());
        let checks = shown.map(check_line);
        lines.extend(checks.map(|check| format!("  check: {check}")));
    }
    // Those of users and operators follow as fixed ones.
    let own = plan.verify.iter().filter(|check| {
        matches!(check.owner(), v1::CheckOwner::Unspecified | v1::CheckOwner::Plan)
    });
    lines.extend(own.map(|check| format!("check: {}", check_line(check))));
    lines
}

fn check_line(check: &v1::AcceptCheck) -> String {
    let optional = if check.required == Some(false) { "  (optional)" } else { "" };
    let parts = [&check.id, &check.kind, &check.target].map(|part| one_line(part));
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{}{optional}", parts.join("  "))
}

impl SubmitPlan {
    /// The plan or the patch as text, which the planner reads.
    fn into_source(self, most: usize) -> Result<PlanSource, Failure> {
        let (text, is_patch) = match (self.plan, self.patch) {
            (Some(plan), None) => (plan, false),
            (None, Some(patch)) => (patch, true),
            (Some(_), Some(_)) | (None, None) => {
                let message = "there is one of `plan` and `patch`";
                return Err(Failure::new(Code::ValueInvalid, message, "Name exactly one."));
            }
        };
        let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        if text.len() > most {
            let message = format!("it has {} bytes, and {most} are allowed", text.len());
            return Err(Failure::new(Code::ValueInvalid, message, "Make it shorter."));
        }
        Ok(if is_patch { PlanSource::PatchText(text) } else { PlanSource::PlanText(text) })
    }
}

/// Refuses texts of a lease that are too long.
impl Lease {
    pub(super) fn check(&self) -> Result<(), Failure> {
        within("run_id", &self.run_id)?;
        within("namespace", &self.namespace)?;
        self.namespaces.iter().try_for_each(|namespace| within("namespaces", namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_plan_that_is_to_be_patched_has_its_steps_its_checks_the_tools_and_the_limits()
    {
        let check = |id: &str, owner: v1::CheckOwner| v1::AcceptCheck {
            id: id.to_owned(),
            kind: "file_exists".to_owned(),
            target: "a.txt".to_owned(),
            owner: owner.into(),
            ..v1::AcceptCheck::default()
        };
        let hidden = v1::AcceptCheck {
            overlay_digest: "d".to_owned(),
            ..check("held-back", v1::CheckOwner::User)
        };
        let step = v1::PlanStep {
            id: "edit".to_owned(),
            description: "change it".to_owned(),
            dependencies: vec!["read".to_owned()],
            verify: vec![hidden.clone()],
            ..v1::PlanStep::default()
        };
        let users = check("users", v1::CheckOwner::User);
        let verify = vec![users.clone(), check("own", v1::CheckOwner::Plan), hidden];
        let mut status = v1::StepStatus { step_id: "edit".to_owned(), ..v1::StepStatus::default() };
        status.set_state(v1::StepState::Failed);
        let context = v1::PlanContext {
            goal: "g".to_owned(),
            reason: "a step failed".to_owned(),
            plan: Some(v1::Plan {
                title: "T".to_owned(),
                steps: vec![step],
                verify,
                revision: 3,
                ..v1::Plan::default()
            }),
            statuses: vec![status],
            checks: vec![users],
            tools: vec![v1::PlanTool {
                name: "write_file".to_owned(),
                description: "writes".to_owned(),
                input_schema_json: r#"{"type":"object"}"#.to_owned(),
                from_outside: false,
            }],
            limits: Some(v1::Limits { max_plan_steps: Some(7), ..v1::Limits::default() }),
            attempts_left: 2,
            ..v1::PlanContext::default()
        };
        let text = context_text(&context);
        for part in [
            "revision 3 of the plan: T",
            "step edit [failed] (after read): change it",
            "\ncheck: own  file_exists  a.txt",
            "fixed check: users  file_exists  a.txt",
            "tool write_file: writes\n  arguments {\"type\":\"object\"}",
            "\"max_plan_steps\":7",
        ] {
            assert!(text.contains(part), "no {part:?}: {text}");
        }
        assert!(!text.contains("held-back"), "{text}");
    }
}
