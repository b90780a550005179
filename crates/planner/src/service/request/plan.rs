//! Plans and patches for runs that wait for one.

use super::fields::{missing, read_reason};
use super::plan_texts::check_plan_texts;
use super::sender::Sender;
use crate::intake::{self, NewPlan};
use crate::plan::patch::{apply_patch, parse_patch};
use crate::plan::{
    Clipped, PlanState, clip_plan, is_whole_plan, keep_step_rules, normalise_owned_plan,
    parse_plan, parse_plan_clipped, replace_plan,
};
use crate::service::overlays;
use std::sync::Arc;
use surety_common::domain::check::Author;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::plan::Plan;
use surety_common::domain::planning::ReplanCause;
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::run::RunRecord;
use surety_common::domain::verification::check_verifications;
use surety_common::wire::v1::{self, submit_plan_request};

/// A plan for a run that waits for one, with the reader's corrections.
pub(in crate::service) struct ReadPlan {
    /// The plan.
    pub(in crate::service) new: NewPlan,
    /// Whether the last added steps of a patch were dropped.
    pub(in crate::service) truncated_add: bool,
    /// The reader's corrections.
    pub(in crate::service) warnings: Vec<Warning>,
}

/// Why a caller asks for another plan.
///
/// # Errors
/// `type_mismatch` for a cause that only the service gives, and for none.
pub(in crate::service) fn read_replan_cause(number: i32) -> Result<ReplanCause, Problem> {
    let refused = |message: &str| Err(Problem::at(Code::TypeMismatch, "cause", message));
    match v1::ReplanCause::try_from(number) {
        Ok(v1::ReplanCause::Unspecified | v1::ReplanCause::Requested) => Ok(ReplanCause::Requested),
        Ok(v1::ReplanCause::EnvironmentChanged) => Ok(ReplanCause::EnvironmentChanged),
        Ok(v1::ReplanCause::StepFailed) => {
            refused("is given by the service itself; use requested or environment_changed")
        }
        Err(_) => refused("is no value of this enum"),
    }
}

/// Refuses a submission without a plan, which counts as no refused plan.
///
/// # Errors
/// `field_missing`, `too_large`, `type_mismatch`.
pub(in crate::service) fn check_submission(request: &v1::SubmitPlanRequest) -> Result<(), Problem> {
    if request.plan_source.is_none() {
        return Err(missing("plan"));
    }
    read_reason(&request.reason).map(drop)
}

/// Reads a plan, or a patch, for a run.
///
/// # Errors
/// The codes of `SubmitPlan`.
pub(in crate::service) fn read_new_plan(
    request: v1::SubmitPlanRequest,
    record: &RunRecord,
    sender: &Sender,
) -> Result<ReadPlan, Fault> {
    use submit_plan_request::PlanSource;
    let v1::SubmitPlanRequest { expected_revision, plan_source, reason, lease_epoch, .. } = request;
    let most = record.spec.limits.max_plan_steps;
    let state = record.plan.clone().map(|plan| PlanState {
        plan: Arc::unwrap_or_clone(plan),
        statuses: record.execution.step_states().collect(),
    });
    // A person's submission is never the last one.
    let last =
        lease_epoch != 0 && intake::attempts_left(&record.execution, &record.spec.limits) == 1;
    let mut read = ReadPlan {
        new: NewPlan {
            run_id: record.spec.id,
            expected_revision,
            lease_epoch: i64::try_from(lease_epoch).unwrap_or(i64::MAX),
            plan: Plan::default(),
            reason: read_reason(&reason)?,
            model: None,
            usage: None,
            of_driver: sender.author == Author::Model,
        },
        truncated_add: false,
        warnings: Vec::new(),
    };
    let author = sender.author;
    match plan_source.ok_or_else(|| missing("plan"))? {
        PlanSource::Plan(plan) => {
            let mut plan = Plan::try_from(sender.own(plan))?;
            if last && state.is_none() {
                read.clip(clip_plan(plan.clone(), most)?, &mut plan);
            }
            read.take_plan(normalise_owned_plan(&plan, author, most)?, state, most)?;
        }
        // The last attempt at a first plan may be too long: its first steps are taken.
        PlanSource::PlanText(text) if last && state.is_none() => {
            let (clipped, warnings) = parse_plan_clipped(&text, author, most)?;
            read.take_plan((clipped.plan, warnings), state, most)?;
        }
        PlanSource::PlanText(text) => {
            read.take_plan(parse_plan(&text, author, most)?, state, most)?;
        }
        PlanSource::PatchText(text) => {
            let patched = read.take_patch(&text, author, state.clone(), most);
            if let Err(refused) = patched {
                // What is no patch in the last attempt may be a whole plan.
                if !last || !is_whole_plan(&text) {
                    return Err(refused);
                }
                read.take_plan(parse_plan(&text, author, most)?, state, most)?;
            }
        }
    }
    if let Some(old) = record.plan.as_deref().filter(|_| read.new.of_driver) {
        let written = read.new.plan.clone();
        keep_step_rules(old, &mut read.new.plan, &record.execution.counters.planned_steps)?;
        if read.new.plan == *old && written != *old {
            let message = "what the plan changes is a rule of a step of a user or an operator, which stays; change \
                           something else";
            return Err(Problem::new(Code::PatchIsNoop, message).into());
        }
    }
    check_plan_texts(&read.new.plan)?;
    overlays::check(&read.new.plan, record.plan.as_deref(), &record.spec.policy)?;
    check_verifications(&read.new.plan, &record.spec.policy)?;
    sender.policy.admit_checks(&read.new.plan, &record.spec.policy)?;
    if expected_revision == 0 {
        let own = std::mem::take(&mut read.new.plan.verify);
        let mut all = intake::fixed_checks(&record.execution.planning())?;
        all.extend(own);
        read.new.plan.verify = sender.policy.with_checks(all);
    }
    Ok(read)
}

impl ReadPlan {
    /// Takes the first steps of a plan that is too long.
    fn clip(&mut self, clipped: Clipped, plan: &mut Plan) {
        if !clipped.cut.is_empty() {
            let cut = Warning::at(WarningCode::PlanClipped, clipped.cut.join(","));
            self.warnings.push(cut);
        }
        *plan = clipped.plan;
    }

    /// A whole plan; done steps of the plan before it are kept.
    fn take_plan(
        &mut self,
        (plan, warnings): (Plan, Vec<Warning>),
        state: Option<PlanState>,
        most: u32,
    ) -> Result<(), Fault> {
        self.new.plan = match state {
            Some(state) => replace_plan(&state, plan, most)?.plan,
            None => plan,
        };
        self.warnings.extend(warnings);
        Ok(())
    }

    fn take_patch(
        &mut self,
        text: &str,
        author: Author,
        state: Option<PlanState>,
        most: u32,
    ) -> Result<(), Fault> {
        let state = state.ok_or_else(|| {
            Fault::new(FaultCode::PlanNotFound, "the run has no plan yet; submit a whole one")
        })?;
        let (patch, warnings) = parse_patch(text, author)?;
        if self.new.reason.is_empty() {
            self.new.reason = read_reason(&patch.reason)?;
        }
        let patched = apply_patch(&state, patch, most)?;
        self.new.plan = patched.state.plan;
        self.truncated_add = patched.truncated_add;
        self.warnings = warnings;
        self.warnings.extend(patched.warnings);
        Ok(())
    }
}
