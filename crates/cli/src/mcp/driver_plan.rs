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

use super::arguments::{Lease, SubmitPlan, within};
use super::driver::Driver;
use super::leases::{HeldPlan, LONGEST_WAIT, Planner, bounded, interval, within_time};
use super::observer::Answer;
use crate::failure::{Code, Failure};
use crate::output::note;
use crate::text::one_line;
use crate::wire_json;

/// Errors after which the plan is still leased.
const PASSING: &[&str] = &[
    "connection_lost",
    "database_unavailable",
    "deadline_exceeded",
    "overloaded",
    "service_unreachable",
];
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
        if let Some(held) = held.as_ref() {
            let message = format!("the plan of run {} is leased", one_line(&held.fence.run_id));
            let advice = "Make it with surety_submit_plan.";
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
        let mut planner = self.planner();
        let leasing = planner.lease_plan(within_time(request, Duration::from_secs(seconds)));
        let leased = self.unless_ended(cancel, self.planner_url(), leasing).await?;
        let (Some(lease), Some(context)) = (leased.lease, leased.context) else {
            let text = "no run needs a plan now; call surety_lease_plan again".to_owned();
            return Ok(Answer { text, value: json!({"leased": false}) });
        };
        let fence = v1::PlanFence { run_id: lease.run_id.clone(), lease_epoch: lease.lease_epoch };
        let every = interval(lease.expires_at.as_ref());
        let beating = tokio::spawn(beat(planner, self.name().to_owned(), fence.clone(), every));
        *held = Some(HeldPlan { fence, revision: context.expected_revision, beating });
        let value = json!({
            "leased": true,
            "lease": wire_json::message("PlanLease", &lease).to_serde(),
            "context": wire_json::message("PlanContext", &context).to_serde(),
        });
        Ok(Answer { text: bounded(context_text(&context)), value })
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
        text.push_str("\nCall surety_lease for its first step.");
        let value = wire_json::message("SubmitPlanResponse", &answer).to_serde();
        Ok(Answer { text: bounded(text), value })
    }

    /// Gives the leased plan back when the connection ends.
    pub(super) async fn give_plan_back(&self) {
        let Some(plan) = self.plan().lock().await.take() else { return };
        let reason = "the connection of the agent ended".to_owned();
        let request = v1::ReleasePlanRequest { fence: Some(plan.fence.clone()), reason };
        match self.planner().release_plan(within_time(request, Duration::ZERO)).await {
            Ok(_) => note("surety: the connection ended; the leased plan was released"),
            Err(status) => note(&Failure::from_service(self.planner_url(), &status).to_text()),
        }
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
            // The submission says it.
            Ok(answer) if !answer.get_ref().lost.is_empty() => return,
            // A passing error; the lease lasts longer than one interval.
            Ok(_) | Err(_) => {}
        }
    }
}

fn context_text(context: &v1::PlanContext) -> String {
    let mut lines = vec![format!("goal: {}", context.goal)];
    if !context.reason.is_empty() {
        lines.push(format!("another plan is needed: {}", context.reason));
    }
    if let Some(problem) = &context.correction {
        lines.push(format!("the last one was refused, {}: {}", problem.code, problem.message));
    }
    lines.push(match &context.plan {
        Some(plan) => format!("revision {} of the plan stands in the context", plan.revision),
        None => "there is no plan yet".to_owned(),
    });
    lines.push(format!("refusals before the run ends: {}", context.attempts_left));
    lines.push("Answer with surety_submit_plan.".to_owned());
    lines.join("\n")
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
