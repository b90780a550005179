//! Requests that contain a plan: converts them to the input of intake.

use crate::intake::{NewPlan, RunRequest};
use crate::plan::patch::{apply_patch, parse_patch};
use crate::plan::{PlanState, normalise_plan, parse_plan, replace_plan};
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::domain::check::{AcceptCheck, Author, normalise_checks, validate_check};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan;
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::domain::run::{DriverKind, MAX_NAMESPACE, Policy, RunRecord, VerifyCommands};
use surety_common::wire::error::MessageError;
use surety_common::wire::v1::{self, create_run_request, submit_plan_request};
use surety_common::wire::value::sha256_of;

/// The longest request id, in bytes.
const MAX_REQUEST_ID: usize = 200;
/// The longest path of a folder in bytes, Linux's limit.
const MAX_WORKSPACE: usize = 4095;
/// The most labels of a run, and the most bytes of their names and values.
const MAX_LABELS: usize = 64;
const MAX_LABEL_NAME: usize = 200;
const MAX_LABEL_TEXT: usize = 2000;

/// A request for a run, and the corrections of its plan's reader.
///
/// # Errors
/// The codes of `CreateRun`.
pub(super) fn read_run_request(
    request: v1::CreateRunRequest,
    caller_trace: Option<String>,
) -> Result<(RunRequest, Vec<Warning>), Fault> {
    let request_digest = sha256_of(&request);
    let v1::CreateRunRequest {
        request_id,
        namespace,
        goal,
        plan_source,
        limits,
        workspace,
        policy,
        driver,
        labels,
        verify,
        priority,
    } = request;
    let limits = Limits::try_from(limits.unwrap_or_default())?;
    let (plan, warnings) = read_plan(plan_source, verify, limits.max_plan_steps)?;
    let goal = goal_of(goal, plan.as_ref())?;
    let order = RunRequest {
        namespace: named(namespace)?,
        request_id: bounded("request_id", request_id, MAX_REQUEST_ID)?,
        request_digest,
        goal,
        driver: read_driver(driver)?,
        plan,
        limits,
        workspace: read_workspace(workspace)?,
        policy: read_policy(policy.unwrap_or_default())?,
        labels: read_labels(labels)?,
        priority: i16::try_from(priority).map_err(|_| {
            Problem::at(Code::LimitOutOfRange, "priority", "is outside -32768..32767")
        })?,
        caller_trace,
    };
    Ok((order, warnings))
}

/// A plan for a run that waits for one, with the reader's corrections.
pub(super) struct ReadPlan {
    /// The plan.
    pub(super) new: NewPlan,
    /// Whether the last added steps of a patch were dropped.
    pub(super) truncated_add: bool,
    /// The reader's corrections.
    pub(super) warnings: Vec<Warning>,
}

/// Reads a plan, or a patch, for a run.
///
/// # Errors
/// The codes of `SubmitPlan`.
pub(super) fn read_new_plan(
    request: v1::SubmitPlanRequest,
    record: &RunRecord,
) -> Result<ReadPlan, Fault> {
    use submit_plan_request::PlanSource;
    let v1::SubmitPlanRequest { run_id: _, expected_revision, plan_source, reason } = request;
    let most = record.spec.limits.max_plan_steps;
    let state = record.plan.clone().map(|plan| PlanState {
        plan: Arc::unwrap_or_clone(plan),
        statuses: record.execution.step_states().collect(),
    });
    let mut read = ReadPlan {
        new: NewPlan {
            run_id: record.spec.id,
            expected_revision,
            plan: Plan::default(),
            reason: storable("reason", reason.trim().to_owned())?,
        },
        truncated_add: false,
        warnings: Vec::new(),
    };
    match plan_source.ok_or_else(|| missing("plan"))? {
        PlanSource::Plan(plan) => {
            let plan = normalise_plan(&Plan::try_from(plan)?, Author::Submitter, most)?;
            read.take_plan(plan, state, most)?;
        }
        PlanSource::PlanText(text) => {
            read.take_plan(parse_plan(&text, Author::Submitter, most)?, state, most)?;
        }
        PlanSource::PatchText(text) => read.take_patch(&text, state, most)?,
    }
    Ok(read)
}

impl ReadPlan {
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
        self.warnings = warnings;
        Ok(())
    }

    fn take_patch(&mut self, text: &str, state: Option<PlanState>, most: u32) -> Result<(), Fault> {
        let state = state.ok_or_else(|| {
            Fault::new(FaultCode::PlanNotFound, "the run has no plan yet; submit a whole one")
        })?;
        let (patch, warnings) = parse_patch(text, Author::Submitter)?;
        if self.new.reason.is_empty() {
            self.new.reason = storable("reason", patch.reason.clone())?;
        }
        let patched = apply_patch(&state, patch, most)?;
        self.new.plan = patched.state.plan;
        self.truncated_add = patched.truncated_add;
        self.warnings = warnings;
        self.warnings.extend(patched.warnings);
        Ok(())
    }
}

fn read_plan(
    source: Option<create_run_request::PlanSource>,
    verify: Vec<v1::AcceptCheck>,
    max_plan_steps: u32,
) -> Result<(Option<Plan>, Vec<Warning>), Fault> {
    let (mut plan, mut warnings) = match source {
        None if verify.is_empty() => return Ok((None, Vec::new())),
        None => {
            let message = "checks need a plan; send both, or neither";
            return Err(Problem::at(Code::FieldMissing, "plan", message).into());
        }
        Some(create_run_request::PlanSource::Plan(plan)) => {
            normalise_plan(&Plan::try_from(plan)?, Author::Submitter, max_plan_steps)?
        }
        Some(create_run_request::PlanSource::PlanText(text)) => {
            parse_plan(&text, Author::Submitter, max_plan_steps)?
        }
    };
    let mut own = Vec::with_capacity(verify.len());
    for (index, check) in verify.into_iter().enumerate() {
        let path = format!("verify[{index}]");
        let check = AcceptCheck::try_from(check)
            .map_err(|error: MessageError| error.under(&path))?
            .normalised();
        validate_check(&check, &path)?;
        own.push(AcceptCheck { owner: surety_common::domain::check::Owner::User, ..check });
    }
    own.append(&mut plan.verify);
    let (checks, dropped) = normalise_checks(own, "verify");
    plan.verify = checks;
    warnings.extend(dropped);
    Ok((Some(plan), warnings))
}

fn goal_of(goal: String, plan: Option<&Plan>) -> Result<String, Problem> {
    let goal = goal.trim().to_owned();
    match (goal.is_empty(), plan) {
        (false, _) => storable("goal", goal),
        (true, Some(plan)) if plan.goal.is_empty() => storable("plan.title", plan.title.clone()),
        (true, Some(plan)) => storable("plan.goal", plan.goal.clone()),
        (true, None) => Err(missing("goal")),
    }
}

fn named(namespace: String) -> Result<String, Problem> {
    match namespace.trim() {
        "" => Ok("default".to_owned()),
        namespace => bounded("namespace", namespace.to_owned(), MAX_NAMESPACE),
    }
}

fn bounded(field: &str, text: String, bytes: usize) -> Result<String, Problem> {
    if text.len() <= bytes {
        return storable(field, text);
    }
    let message = format!("is longer than {bytes} bytes; shorten it");
    Err(Problem::at(Code::TooLarge, field, message))
}

/// A text that the database can store: Postgres accepts every character but U+0000.
pub(super) fn storable(field: &str, text: String) -> Result<String, Problem> {
    if !text.contains('\0') {
        return Ok(text);
    }
    let message = "contains the character U+0000, which cannot be stored; remove it";
    Err(Problem::at(Code::TypeMismatch, field, message))
}

fn read_labels(labels: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Problem> {
    if labels.len() > MAX_LABELS {
        let message = format!("has more than {MAX_LABELS} entries; remove some");
        return Err(Problem::at(Code::TooLarge, "labels", message));
    }
    let read = labels.into_iter().map(|(name, text)| {
        let name = bounded("labels", name, MAX_LABEL_NAME)?;
        let text = bounded(&format!("labels.{name}"), text, MAX_LABEL_TEXT)?;
        Ok((name, text))
    });
    read.collect()
}

fn read_workspace(workspace: String) -> Result<String, Problem> {
    if workspace.is_empty() || workspace.starts_with('/') {
        return bounded("workspace", workspace, MAX_WORKSPACE);
    }
    let message = format!("{workspace:?} is not an absolute path; begin it with /");
    Err(Problem::at(Code::TypeMismatch, "workspace", message))
}

fn read_driver(driver: i32) -> Result<DriverKind, Problem> {
    match v1::Driver::try_from(driver) {
        Ok(v1::Driver::Unspecified | v1::Driver::Script) => Ok(DriverKind::Script),
        Ok(v1::Driver::Model | v1::Driver::Remote) => {
            let message = "only the script driver is served yet; send a plan with scripts";
            Err(Problem::at(Code::TypeMismatch, "driver", message))
        }
        Err(_) => Err(Problem::at(Code::TypeMismatch, "driver", "is not a driver; use script")),
    }
}

fn read_policy(policy: v1::Policy) -> Result<Policy, Problem> {
    let v1::Policy { verify_commands, repeatable_commands, on_budget, confirm_tools } = policy;
    if !confirm_tools.is_empty() || on_budget == i32::from(v1::OnBudget::Fail) {
        // A rule that is accepted and not enforced would be worse than an error.
        let message = "confirmations and budgets are not served yet; remove these rules";
        return Err(Problem::at(Code::TypeMismatch, "policy", message));
    }
    let verify_commands = match v1::VerifyCommands::try_from(verify_commands) {
        Ok(v1::VerifyCommands::Unspecified | v1::VerifyCommands::Runner) => VerifyCommands::Runner,
        Ok(v1::VerifyCommands::ReceiptsOnly) => VerifyCommands::ReceiptsOnly,
        Err(_) => {
            let message = "is not a value of this enum";
            return Err(Problem::at(Code::TypeMismatch, "policy.verify_commands", message));
        }
    };
    Ok(Policy { verify_commands, repeatable_commands })
}

fn missing(field: &str) -> Problem {
    Problem::at(Code::FieldMissing, field, "is missing; set it")
}
