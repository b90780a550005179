//! Requests that contain a plan: converts them to the input of intake.

use super::overlays;
use super::policy::{asked_in_doubt, read_policy};
use super::repository;
use crate::call::MAX_REQUEST_ID;
use crate::intake::{self, Fork, NewPlan, RunRequest};
use crate::plan::patch::{apply_patch, parse_patch};
use crate::plan::{
    Clipped, PlanState, clip_plan, normalise_owned_plan, parse_plan, parse_plan_clipped,
    replace_plan,
};
use crate::runs::{Confirmation, Extension, Granted};
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::domain::check::{AcceptCheck, Author, Owner, normalise_checks, validate_check};
use surety_common::domain::check_inputs::{InputRules, assumptions};
use surety_common::domain::decision::Usage;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::grant::{MAX_TTL_S, MAX_USES};
use surety_common::domain::identity::Role;
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan;
use surety_common::domain::planning::ReplanCause;
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::{Code, Problem, Warning, WarningCode};
use surety_common::domain::run::{DriverKind, InDoubt, MAX_NAMESPACE, Policy, RunRecord};
use surety_common::domain::verification::{Sight, check_verifications};
use surety_common::wire::error::MessageError;
use surety_common::wire::v1::{self, create_run_request, submit_plan_request};
use surety_common::wire::value::{seconds, sha256_of};

/// The longest path of a folder in bytes, Linux's limit.
const MAX_WORKSPACE: usize = 4095;
/// The most labels of a run, and the most bytes of their names and values.
const MAX_LABELS: usize = 64;
const MAX_LABEL_NAME: usize = 200;
const MAX_LABEL_TEXT: usize = 2000;
/// The id of the only step of a run without planning.
const GOAL_STEP: &str = "goal";
/// The longest title that is taken from a goal, in bytes.
const MAX_TITLE: usize = 100;
/// The longest comment of an answer, in bytes.
const MAX_COMMENT: usize = 2000;
/// The longest answer to a question, in bytes.
const MAX_ANSWER: usize = 64 << 10;

/// Who sends a plan or its checks.
pub(super) struct Sender {
    /// The name of the identity.
    pub(super) name: String,
    /// Whose words its checks are.
    pub(super) author: Author,
    /// What the namespace asks of every run.
    policy: Arc<NamespacePolicy>,
    /// Whether a model of the service can drive runs.
    has_model: bool,
}

impl Sender {
    /// The sender of a call that a role allows. What a driver sends counts as a model's words.
    pub(super) fn new(name: &str, role: Role, policy: Arc<NamespacePolicy>) -> Self {
        let author = match role {
            Role::Operator => Author::Operator,
            Role::Submitter => Author::Submitter,
            Role::Driver | Role::Worker | Role::Viewer | Role::Approver | Role::Service => {
                Author::Model
            }
        };
        Self { name: name.to_owned(), author, policy, has_model: false }
    }

    /// The same sender, whose runs a model of the service can drive.
    pub(super) fn with_model(self, has_model: bool) -> Self {
        Self { has_model, ..self }
    }

    /// The owner of a check that names none.
    const fn owner(&self) -> v1::CheckOwner {
        match self.author {
            Author::Operator => v1::CheckOwner::Operator,
            Author::Submitter => v1::CheckOwner::User,
            Author::Model | Author::Service => v1::CheckOwner::Plan,
        }
    }

    /// The same plan, whose checks belong to the sender where they name no owner.
    fn own(&self, mut plan: v1::Plan) -> v1::Plan {
        let steps = plan.steps.iter_mut().flat_map(|step| step.verify.iter_mut());
        steps.chain(plan.verify.iter_mut()).for_each(|check| self.own_check(check));
        plan
    }

    fn own_check(&self, check: &mut v1::AcceptCheck) {
        if check.owner == i32::from(v1::CheckOwner::Unspecified) {
            check.owner = self.owner().into();
        }
    }

    /// Refuses commands of the runner from a driver: what checks of others run is theirs to say.
    fn check_commands(&self, policy: &v1::Policy) -> Result<(), Problem> {
        if matches!(self.author, Author::Submitter | Author::Operator) {
            return Ok(());
        }
        let refused = |field: &str, what: &str| {
            let message = format!("only a user or an operator {what}; leave it out");
            Err(Problem::at(Code::PolicyExceeded, field, message))
        };
        if !policy.prepare.is_empty() {
            return refused("policy.prepare", "prepares the view of checks");
        }
        if !policy.verify_tools.is_empty() {
            return refused("policy.verify_tools", "names verification commands");
        }
        if !policy.secrets.is_empty() {
            return refused("policy.secrets", "lets tools use secrets");
        }
        Ok(())
    }

    /// A check in the list `verify` of a request.
    fn read_check(&self, mut check: v1::AcceptCheck, path: &str) -> Result<AcceptCheck, Problem> {
        self.own_check(&mut check);
        let check = AcceptCheck::try_from(check)
            .map_err(|error: MessageError| error.under(path))?
            .normalised();
        let check = match self.author {
            Author::Model | Author::Service => AcceptCheck { owner: Owner::Plan, ..check },
            Author::Submitter | Author::Operator => check,
        };
        validate_check(&check, path)?;
        match (self.author, check.owner) {
            (Author::Submitter, Owner::Operator) => Err(Problem::at(
                Code::TypeMismatch,
                format!("{path}.owner"),
                "only an operator may write a check for the operator; leave the owner out",
            )),
            (_, _) => Ok(check),
        }
    }
}

/// A request for a run, and the corrections of its plan's reader.
///
/// # Errors
/// The codes of `CreateRun`.
pub(super) fn read_run_request(
    request: v1::CreateRunRequest,
    sender: &Sender,
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
        interactive,
        without_plan,
        repository,
    } = request;
    let namespace = named(namespace)?;
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
    let (plan, mut warnings) = read_plan(plan_source, verify, sender, limits.max_plan_steps)?;
    // Checks without a plan are of the first plan to come.
    let (plan, checks) = match plan {
        Some(plan) if plan.steps.is_empty() => (None, plan),
        plan => (plan, Plan::default()),
    };
    let checked = plan.as_ref().unwrap_or(&checks);
    overlays::check(checked, None, &policy)?;
    check_verifications(checked, &policy)?;
    warnings.extend(assumptions(&checked.verify, &InputRules::of(&policy)?));
    let goal = goal_of(goal, plan.as_ref())?;
    let order = RunRequest {
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
        labels: read_labels(labels)?,
        priority: i16::try_from(priority).map_err(|_| {
            Problem::at(Code::LimitOutOfRange, "priority", "is outside -32768..32767")
        })?,
        forked_from: None,
        caller_trace,
    };
    Ok((order, warnings))
}

/// A request for a fork of a run.
///
/// # Errors
/// `field_missing` without a step, `too_large`, `type_mismatch`.
pub(super) fn read_fork(
    request: v1::ForkRunRequest,
    submitter: &str,
    sight: Sight,
    caller_trace: Option<String>,
) -> Result<Fork, Problem> {
    let request_digest = sha256_of(&request);
    let v1::ForkRunRequest { request_id, run_id: _, from_step, workspace } = request;
    let step_id = storable("from_step", from_step.trim().to_owned())?;
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

/// A plan for a run that waits for one, with the reader's corrections.
pub(super) struct ReadPlan {
    /// The plan.
    pub(super) new: NewPlan,
    /// Whether the last added steps of a patch were dropped.
    pub(super) truncated_add: bool,
    /// The reader's corrections.
    pub(super) warnings: Vec<Warning>,
}

/// Why a caller asks for another plan.
///
/// # Errors
/// `type_mismatch` for a cause that only the service gives, and for none.
pub(super) fn read_replan_cause(number: i32) -> Result<ReplanCause, Problem> {
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
/// `field_missing`, `type_mismatch`.
pub(super) fn check_submission(request: &v1::SubmitPlanRequest) -> Result<(), Problem> {
    if request.plan_source.is_none() {
        return Err(missing("plan"));
    }
    storable("reason", request.reason.clone()).map(drop)
}

/// Reads a plan, or a patch, for a run.
///
/// # Errors
/// The codes of `SubmitPlan`.
pub(super) fn read_new_plan(
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
            reason: storable("reason", reason.trim().to_owned())?,
            model: None,
            // What a person submits is approved by that.
            is_asked: record.spec.policy.approve_plan && sender.author == Author::Model,
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
                let whole = last.then(|| parse_plan(&text, author, most));
                let Some(Ok(plan)) = whole else { return Err(refused) };
                read.take_plan(plan, state, most).map_err(|_| refused)?;
            }
        }
    }
    overlays::check(&read.new.plan, record.plan.as_deref(), &record.spec.policy)?;
    check_verifications(&read.new.plan, &record.spec.policy)?;
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

/// The answer of a request to a confirmation.
///
/// # Errors
/// `field_missing` without an answer, `type_mismatch` for an unknown one, for an approval with `stop`, for a denial with
/// `grant` and for a comment that cannot be stored, `too_large` for a long comment, `limit_out_of_range` for a grant.
pub(super) fn read_confirmation(
    request: v1::ResolveConfirmationRequest,
) -> Result<Confirmation, Problem> {
    let v1::ResolveConfirmationRequest { answer, call_digest, comment, stop, grant, .. } = request;
    let approved = match v1::ConfirmationAnswer::try_from(answer) {
        Ok(v1::ConfirmationAnswer::Approve) => true,
        Ok(v1::ConfirmationAnswer::Deny) => false,
        Ok(v1::ConfirmationAnswer::Unspecified) => return Err(missing("answer")),
        Err(_) => {
            let message = "is no value of this enum";
            return Err(Problem::at(Code::TypeMismatch, "answer", message));
        }
    };
    if approved && stop {
        let message = "an approval does not end the run; leave it out, or deny";
        return Err(Problem::at(Code::TypeMismatch, "stop", message));
    }
    if !approved && grant.is_some() {
        let message = "a denial grants nothing; leave it out, or approve";
        return Err(Problem::at(Code::TypeMismatch, "grant", message));
    }
    let comment = bounded("comment", comment.trim().to_owned(), MAX_COMMENT)?;
    let grant = grant.map(read_grant).transpose()?;
    Ok(Confirmation { approved, stop, digest: call_digest, comment, grant })
}

fn read_grant(terms: v1::GrantTerms) -> Result<Granted, Problem> {
    let v1::GrantTerms { arguments, uses, ttl } = terms;
    if !(1..=MAX_USES).contains(&uses) {
        let message = format!("is {uses}; a grant has 1 to {MAX_USES} uses");
        return Err(Problem::at(Code::LimitOutOfRange, "grant.uses", message));
    }
    let ttl_s = ttl.map(|ttl| seconds("grant.ttl", ttl)).transpose()?;
    if let Some(ttl_s) = ttl_s.filter(|ttl_s| !(1..=MAX_TTL_S).contains(ttl_s)) {
        let message = format!("is {ttl_s} s; a grant lasts 1 to {MAX_TTL_S} s");
        return Err(Problem::at(Code::LimitOutOfRange, "grant.ttl", message));
    }
    if let Some((name, _)) = arguments.iter().find(|(_, pattern)| pattern.contains('\0')) {
        let message = "contains the character U+0000, which cannot be stored; remove it";
        return Err(Problem::at(Code::TypeMismatch, format!("grant.arguments[{name}]"), message));
    }
    Ok(Granted { arguments, uses, ttl_s })
}

/// The answer of a request to a question.
///
/// # Errors
/// `field_missing` for a blank one, `too_large` for a long one, `type_mismatch` for one that cannot be stored.
pub(super) fn read_answer(answer: &str) -> Result<String, Problem> {
    let answer = bounded("answer", answer.trim().to_owned(), MAX_ANSWER)?;
    if answer.is_empty() {
        let message = "the answer is blank; write a text";
        return Err(Problem::at(Code::FieldMissing, "answer", message));
    }
    Ok(answer)
}

/// What a request adds to the budgets of a run.
///
/// # Errors
/// `field_missing` when nothing is added, `type_mismatch` for stop beside an amount.
pub(super) fn read_extension(request: &v1::ExtendBudgetRequest) -> Result<Extension, Problem> {
    let added = Usage { tokens: request.add_tokens, cost_micros: request.add_cost_micros };
    match (request.stop, added.is_zero()) {
        (true, true) => Ok(Extension::Stop),
        (false, false) => Ok(Extension::Add(added)),
        (true, false) => {
            let message = "is set beside an amount; choose one of both";
            Err(Problem::at(Code::TypeMismatch, "stop", message))
        }
        (false, true) => {
            let message = "nothing is added; set add_tokens, add_cost_micros or stop";
            Err(Problem::at(Code::FieldMissing, "add_tokens", message))
        }
    }
}

/// The limits that a request sets, and the defaults of the others.
///
/// # Errors
/// `limit_out_of_range`.
pub fn read_own_limits(asked: v1::Limits) -> Result<Limits, Problem> {
    Limits::try_from(asked).map_err(Into::into)
}

/// The limits of a run under its namespace's ceilings.
fn read_limits(asked: v1::Limits, policy: &NamespacePolicy) -> Result<Limits, Fault> {
    let limits = Limits::try_from(asked)?;
    Ok(policy.bound(limits, |name| is_set(&asked, name))?)
}

/// Whether a request sets a limit itself.
fn is_set(limits: &v1::Limits, name: &str) -> bool {
    match name {
        "max_plan_steps" => limits.max_plan_steps.is_some(),
        "planning_retry" => limits.planning_retry.is_some(),
        "max_step_tool_calls" => limits.max_step_tool_calls.is_some(),
        "max_step_rounds" => limits.max_step_rounds.is_some(),
        "max_run_rounds" => limits.max_run_rounds.is_some(),
        "max_replans" => limits.max_replans.is_some(),
        "max_repairs" => limits.max_repairs.is_some(),
        "max_consecutive_corrections" => limits.max_consecutive_corrections.is_some(),
        "max_missing_completion" => limits.max_missing_completion.is_some(),
        "max_thinking_only" => limits.max_thinking_only.is_some(),
        "max_repeat_cycle" => limits.max_repeat_cycle.is_some(),
        "max_parallel_steps" => limits.max_parallel_steps.is_some(),
        "step_deadline" => limits.step_deadline.is_some(),
        "run_deadline" => limits.run_deadline.is_some(),
        "confirm_ttl" => limits.confirm_ttl.is_some(),
        "command_timeout" => limits.command_timeout.is_some(),
        "token_budget" => limits.token_budget.is_some(),
        "cost_budget_micros" => limits.cost_budget_micros.is_some(),
        "max_turn_tokens" => limits.max_turn_tokens.is_some(),
        "max_turn_cost_micros" => limits.max_turn_cost_micros.is_some(),
        _ => false,
    }
}

fn read_plan(
    source: Option<create_run_request::PlanSource>,
    verify: Vec<v1::AcceptCheck>,
    sender: &Sender,
    max_plan_steps: u32,
) -> Result<(Option<Plan>, Vec<Warning>), Fault> {
    let (mut plan, mut warnings) = match source {
        None if verify.is_empty() => return Ok((None, Vec::new())),
        None => (Plan::default(), Vec::new()),
        Some(create_run_request::PlanSource::Plan(plan)) => {
            normalise_owned_plan(&Plan::try_from(sender.own(plan))?, sender.author, max_plan_steps)?
        }
        Some(create_run_request::PlanSource::PlanText(text)) => {
            parse_plan(&text, sender.author, max_plan_steps)?
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
    let goal = goal.trim();
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

fn goal_of(goal: String, plan: Option<&Plan>) -> Result<String, Problem> {
    let goal = goal.trim().to_owned();
    match (goal.is_empty(), plan) {
        (false, _) => storable("goal", goal),
        (true, Some(plan)) if plan.goal.is_empty() => storable("plan.title", plan.title.clone()),
        (true, Some(plan)) => storable("plan.goal", plan.goal.clone()),
        (true, None) => Err(missing("goal")),
    }
}

pub(super) fn named(namespace: String) -> Result<String, Problem> {
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

pub(super) fn read_workspace(workspace: String) -> Result<String, Problem> {
    if workspace.is_empty() || workspace.starts_with('/') {
        return bounded("workspace", workspace, MAX_WORKSPACE);
    }
    let message = format!("{workspace:?} is not an absolute path; begin it with /");
    Err(Problem::at(Code::TypeMismatch, "workspace", message))
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

fn missing(field: &str) -> Problem {
    Problem::at(Code::FieldMissing, field, "is missing; set it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(owner: v1::CheckOwner) -> v1::AcceptCheck {
        let owner = owner.into();
        v1::AcceptCheck { kind: "output_only".to_owned(), owner, ..v1::AcceptCheck::default() }
    }

    fn request(owner: v1::CheckOwner) -> v1::CreateRunRequest {
        let (id, description) = ("a".to_owned(), "a".to_owned());
        let step = v1::PlanStep { id, description, ..v1::PlanStep::default() };
        let plan = v1::Plan {
            title: "t".to_owned(),
            steps: vec![step],
            verify: vec![check(owner)],
            ..v1::Plan::default()
        };
        let plan_source = Some(create_run_request::PlanSource::Plan(plan));
        v1::CreateRunRequest { plan_source, ..v1::CreateRunRequest::default() }
    }

    fn owners(role: Role, owner: v1::CheckOwner) -> Result<Vec<Owner>, Fault> {
        let sender = Sender::new("alice", role, Arc::default());
        let (order, _) = read_run_request(request(owner), &sender, None)?;
        Ok(order.plan.unwrap_or_default().verify.into_iter().map(|check| check.owner).collect())
    }

    #[test]
    fn a_check_belongs_to_the_class_of_its_sender_and_a_field_lowers_it_only() {
        use v1::CheckOwner as Sent;
        let cases = [
            (Role::Submitter, Sent::Unspecified, Some(Owner::User)),
            (Role::Submitter, Sent::Plan, Some(Owner::Plan)),
            (Role::Submitter, Sent::User, Some(Owner::User)),
            (Role::Submitter, Sent::Operator, None),
            (Role::Operator, Sent::Unspecified, Some(Owner::Operator)),
            (Role::Operator, Sent::User, Some(Owner::User)),
            (Role::Driver, Sent::Unspecified, Some(Owner::Plan)),
            (Role::Driver, Sent::Operator, Some(Owner::Plan)),
        ];
        for (role, sent, expected) in cases {
            let found = owners(role, sent).ok().map(|owners| owners.first().copied());
            assert_eq!(found, expected.map(Some), "{role} {sent:?}");
        }
    }

    #[test]
    fn a_driver_names_no_command_of_the_runner_and_no_network_twice() {
        let asks = |role: Role, policy: v1::Policy| {
            let mut request = request(v1::CheckOwner::Plan);
            request.policy = Some(policy);
            read_run_request(request, &Sender::new("alice", role, Arc::default()), None)
        };
        let prepare = || v1::Policy { prepare: vec!["npm ci".to_owned()], ..v1::Policy::default() };
        for role in [Role::Submitter, Role::Operator] {
            let (order, _) = asks(role, prepare()).expect("an order");
            assert_eq!(order.policy.prepare, ["npm ci"], "{role}");
        }
        let lint = v1::VerifyTool {
            name: "lint".to_owned(),
            argv: vec!["make".to_owned(), "lint".to_owned()],
            timeout: None,
        };
        let named = v1::Policy { verify_tools: vec![lint], ..v1::Policy::default() };
        let (order, _) = asks(Role::Submitter, named.clone()).expect("an order");
        assert_eq!(order.policy.verify_tools().count(), 1);
        let secrets = v1::Policy { secrets: vec!["npm".to_owned()], ..v1::Policy::default() };
        let (order, _) = asks(Role::Submitter, secrets.clone()).expect("an order");
        assert_eq!(order.policy.secrets, ["npm"]);
        for (policy, field) in [
            (prepare(), "policy.prepare"),
            (named, "policy.verify_tools"),
            (secrets, "policy.secrets"),
        ] {
            let refused = asks(Role::Driver, policy).expect_err("a refusal");
            assert_eq!(refused.field.as_deref(), Some(field));
        }
        let hosts = vec!["a.org".to_owned()];
        let network = |network: v1::NetworkPolicy| v1::Policy {
            network: network.into(),
            hosts: hosts.clone(),
            ..v1::Policy::default()
        };
        let (order, _) =
            asks(Role::Submitter, network(v1::NetworkPolicy::Hosts)).expect("an order");
        assert_eq!(v1::Policy::from(order.policy).hosts, ["a.org"]);
        let unsandboxed = v1::Policy {
            sandbox: v1::SandboxPolicy::None.into(),
            ..network(v1::NetworkPolicy::Hosts)
        };
        for (policy, why) in [
            (network(v1::NetworkPolicy::All), "hosts beside all"),
            (network(v1::NetworkPolicy::HostLoopback), "no port"),
            (unsandboxed, "nothing would bound it"),
        ] {
            let refused = asks(Role::Submitter, policy).expect_err(why);
            assert!(
                refused.field.is_some_and(|field| field.starts_with("policy.network")),
                "{why}"
            );
        }
    }

    #[test]
    fn a_check_beside_the_plan_is_treated_as_one_inside() {
        let verify = |role: Role, owner| {
            let request = v1::CreateRunRequest {
                verify: vec![check(owner)],
                ..request(v1::CheckOwner::Plan)
            };
            read_run_request(request, &Sender::new("alice", role, Arc::default()), None)
        };
        let refused = verify(Role::Submitter, v1::CheckOwner::Operator).expect_err("a refusal");
        assert_eq!(refused.field.as_deref(), Some("verify[0].owner"));
        let (order, _) = verify(Role::Operator, v1::CheckOwner::Unspecified).expect("an order");
        let owner = order.plan.and_then(|plan| plan.verify.first().map(|check| check.owner));
        assert_eq!(owner, Some(Owner::Operator));
    }
}
