//! Requests for runs and for forks of runs.

use super::fields::{bounded, check_open, missing, named, read_workspace};
use super::limits::read_limits;
use super::plan_texts::{MAX_STEP_ID, check_plan_texts};
use super::sender::Sender;
use crate::call::MAX_REQUEST_ID;
use crate::intake::{Fork, RunRequest};
use crate::plan::{normalise_owned_plan, parse_plan_in, standing_inside};
use crate::service::policy::{asked_in_doubt, read_policy};
use crate::service::{overlays, repository};
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;
use surety_common::domain::check::{Look, Standing, normalise_checks};
use surety_common::domain::check_inputs::{InputRules, assumptions};
use surety_common::domain::execution::Counters;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::json::sha256_hex;
use surety_common::domain::labels::check_labels;
use surety_common::domain::plan::Plan;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::{Code, Problem, Warning};
use surety_common::domain::run::{DriverKind, InDoubt, Policy};
use surety_common::domain::text::{MAX_GOAL, read_text};
use surety_common::domain::verification::{Sight, check_verifications};
use surety_common::domain::workspace::{Reserved, check_within, check_workspace};
use surety_common::wire::v1::{self, create_run_request};
use surety_common::wire::value::sha256_of;

/// The id of the only step of a run without planning.
const GOAL_STEP: &str = "goal";
/// The longest title that is taken from a goal, in bytes.
const MAX_TITLE: usize = 100;

/// A request for a run, and the corrections of its plan's reader.
///
/// # Errors
/// The codes of `CreateRun`.
pub(in crate::service) fn read_run_request(
    request: v1::CreateRunRequest,
    sender: &Sender,
    caller_trace: Option<String>,
) -> Result<(Box<RunRequest>, Vec<Warning>), Fault> {
    let request_digest = digest_of(&request, &request.request_id, &sender.name);
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
        interactive,
        without_plan,
        repository,
    } = request;
    let namespace = named(namespace)?;
    check_open(&namespace)?;
    let goal = read_text("goal", &goal, MAX_GOAL)?;
    let repository = repository::read(repository, &workspace, sender.author)?;
    let limits = limits.unwrap_or_default();
    let limits = match repository {
        Some(_) => read_limits(repository::one_at_a_time(limits)?, &sender.policy)?,
        None => read_limits(limits, &sender.policy)?,
    };
    let policy = policy.unwrap_or_default();
    sender.check_commands(&policy)?;
    let policy = read_run_policy(policy, interactive, &sender.policy)?;
    let driver = read_driver(driver, sender.has_model)?;
    let plan_source = match without_plan {
        true => Some(goal_as_plan(&goal, plan_source, driver)?),
        false => plan_source,
    };
    let (plan, mut warnings) =
        read_plan(plan_source, verify, sender, (limits.max_plan_steps, &workspace))?;
    // Checks without a plan are of the first plan to come.
    let (plan, checks) = match plan {
        Some(plan) if plan.steps.is_empty() => (None, plan),
        plan => (plan, Plan::default()),
    };
    let checked = plan.as_ref().unwrap_or(&checks);
    check_plan_texts(checked)?;
    overlays::check(checked, None, &policy)?;
    check_verifications(checked, &policy)?;
    sender.policy.admit_checks(checked, &policy)?;
    warnings.extend(assumptions(checked.placed_checks(), &InputRules::of(&policy)?));
    let goal = goal_of(&goal, plan.as_ref())?;
    let order = Box::new(RunRequest {
        namespace,
        submitter: sender.name.clone(),
        request_id: bounded("request_id", request_id, MAX_REQUEST_ID)?,
        request_digest,
        goal,
        driver,
        plan,
        checks: checks.verify,
        without_plan,
        limits,
        workspace: read_workspace(workspace)?,
        repository,
        policy,
        labels: checked_labels(labels)?,
        priority: i16::try_from(priority).map_err(|_| {
            Problem::at(Code::LimitOutOfRange, "priority", "is outside -32768..32767")
        })?,
        counters: Counters::default(),
        forked_from: None,
        caller_trace,
    });
    Ok((order, warnings))
}

/// The digest of a request as this caller sent it: the same request of another one is another. Without an id a request is
/// compared with none, so it has none.
fn digest_of(request: &impl Message, request_id: &str, submitter: &str) -> String {
    if request_id.is_empty() {
        return String::new();
    }
    sha256_hex(format!("{} {submitter}", sha256_of(request)).as_bytes())
}

/// A request for a fork of a run.
///
/// # Errors
/// `field_missing` without a step, `too_large`, `type_mismatch`.
pub(in crate::service) fn read_fork(
    request: v1::ForkRunRequest,
    submitter: &str,
    sight: Sight,
    caller_trace: Option<String>,
) -> Result<Fork, Problem> {
    let request_digest = digest_of(&request, &request.request_id, submitter);
    let v1::ForkRunRequest { request_id, run_id: _, from_step, workspace } = request;
    let step_id = read_text("from_step", &from_step, MAX_STEP_ID)?;
    if step_id.is_empty() {
        return Err(missing("from_step"));
    }
    Ok(Fork {
        submitter: submitter.to_owned(),
        sight,
        request_id: bounded("request_id", request_id, MAX_REQUEST_ID)?,
        request_digest,
        step_id,
        workspace: read_workspace(workspace)?,
        caller_trace,
    })
}

/// The policy of a run, under that of its namespace. A person who follows the run is asked where the request
/// does not say what is done in doubt.
fn read_run_policy(
    policy: v1::Policy,
    interactive: bool,
    namespace: &NamespacePolicy,
) -> Result<Policy, Problem> {
    let asked = asked_in_doubt(policy.in_doubt)?;
    let mut policy = read_policy(policy)?;
    if asked.is_none() && interactive {
        policy.in_doubt = InDoubt::Ask;
    }
    namespace.admit(policy, asked)
}

/// What stands at a path of the workspace, where that is a folder of this machine in which a run may work.
fn standing_in(workspace: &str, policy: &NamespacePolicy, path: &str) -> Option<Standing> {
    let named = Path::new(workspace);
    let real = named.canonicalize().ok().filter(|_| named.is_absolute())?;
    let may_work = check_workspace(&real, &Reserved::default())
        .and_then(|()| check_within(&real, &policy.workspace_roots));
    may_work.ok().and_then(|()| standing_inside(named, path))
}

fn read_plan(
    source: Option<create_run_request::PlanSource>,
    verify: Vec<v1::AcceptCheck>,
    sender: &Sender,
    (max_plan_steps, workspace): (u32, &str),
) -> Result<(Option<Plan>, Vec<Warning>), Fault> {
    let (mut plan, mut warnings) = match source {
        None if verify.is_empty() => return Ok((None, Vec::new())),
        None => (Plan::default(), Vec::new()),
        Some(create_run_request::PlanSource::Plan(plan)) => {
            normalise_owned_plan(&Plan::try_from(sender.own(plan))?, sender.author, max_plan_steps)?
        }
        Some(create_run_request::PlanSource::PlanText(text)) => {
            let look = |path: &str| standing_in(workspace, &sender.policy, path);
            let look = (!workspace.is_empty()).then_some(&look as Look<'_>);
            parse_plan_in(&text, sender.author, max_plan_steps, look)?
        }
    };
    let mut own = Vec::with_capacity(verify.len());
    for (index, check) in verify.into_iter().enumerate() {
        own.push(sender.read_check(check, &format!("verify[{index}]"))?);
    }
    own.append(&mut plan.verify);
    let (checks, dropped) = normalise_checks(own, "verify");
    // A plan to come gets the checks of the namespace when it comes.
    let comes = plan.steps.is_empty();
    plan.verify = if comes { checks } else { sender.policy.with_checks(checks) };
    warnings.extend(dropped);
    Ok((Some(plan), warnings))
}

/// The plan of a run without planning: the goal is its only step.
fn goal_as_plan(
    goal: &str,
    plan_source: Option<create_run_request::PlanSource>,
    driver: DriverKind,
) -> Result<create_run_request::PlanSource, Problem> {
    let refused = |message: &str| Err(Problem::at(Code::TypeMismatch, "without_plan", message));
    if plan_source.is_some() {
        return refused("is set beside a plan; leave one of both out");
    }
    if driver == DriverKind::Script {
        return refused("needs the driver model or remote: a script has no calls for a goal");
    }
    let title = goal.lines().next().unwrap_or_default();
    let end = title.floor_char_boundary(MAX_TITLE);
    let step = v1::PlanStep {
        id: GOAL_STEP.to_owned(),
        description: goal.to_owned(),
        ..v1::PlanStep::default()
    };
    match goal {
        "" => Err(missing("goal")),
        _ => Ok(create_run_request::PlanSource::Plan(v1::Plan {
            title: title.get(..end).unwrap_or_default().to_owned(),
            goal: goal.to_owned(),
            steps: vec![step],
            ..v1::Plan::default()
        })),
    }
}

/// The goal of a run, which is that of its plan, or the plan's title, where the request names none.
fn goal_of(goal: &str, plan: Option<&Plan>) -> Result<String, Problem> {
    match (goal, plan) {
        ("", Some(plan)) if plan.goal.is_empty() => Ok(plan.title.clone()),
        ("", Some(plan)) => Ok(plan.goal.clone()),
        ("", None) => Err(missing("goal")),
        (goal, _) => Ok(goal.to_owned()),
    }
}

/// Labels within their bounds.
///
/// # Errors
/// `too_large`, `type_mismatch`.
pub(in crate::service) fn checked_labels(
    labels: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Problem> {
    check_labels("labels", &labels)?;
    Ok(labels)
}

fn read_driver(driver: i32, has_model: bool) -> Result<DriverKind, Fault> {
    match v1::Driver::try_from(driver) {
        Ok(v1::Driver::Unspecified | v1::Driver::Script) => Ok(DriverKind::Script),
        Ok(v1::Driver::Remote) => Ok(DriverKind::Remote),
        Ok(v1::Driver::Model) if has_model => Ok(DriverKind::Model),
        Ok(v1::Driver::Model) => {
            let message = "no model is configured, so the driver model is not served; set SURETY_MODEL_URL and \
                           SURETY_MODEL_NAME (and SURETY_MODEL_KEY_FILE) for the planner and the executors, or use \
                           `remote` with an agent that calls LeaseStep";
            Err(Fault::new(FaultCode::FeatureNotServed, message).with_field("driver"))
        }
        Err(_) => {
            let message = "is not a driver; use script, model or remote";
            Err(Problem::at(Code::TypeMismatch, "driver", message).into())
        }
    }
}
