//! The three validations over a leased run.

use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::step_checks::{self, Checked};
use crate::decision::{self, Legal, RunView, Spent, StepView, ToolView};
use crate::fuse::limits::Used;
use crate::fuse::replies::remembered;
use crate::tool::{ALWAYS_ALLOWED, Registry, ToolSpec};
use std::sync::LazyLock;
use surety_common::domain::decision::{Action, ExecuteDecision, Usage};
use surety_common::domain::execution::{Execution, StepProgress};
use surety_common::domain::journal::Validation;
use surety_common::domain::plan::PlanStep;
use surety_common::domain::problem::{Code, Warning};
use surety_common::domain::verdict::CheckResult;

/// What stands in for a step that the plan does not have.
static NO_STEP: LazyLock<PlanStep> = LazyLock::new(PlanStep::default);
static NO_PROGRESS: LazyLock<StepProgress> = LazyLock::new(StepProgress::default);

/// A decision and the results of its validations.
#[derive(Debug, Clone)]
pub(super) struct Judgement {
    /// The decision to apply if all passed.
    pub(super) decision: ExecuteDecision,
    /// Flow, evidence, safety.
    pub(super) validations: Vec<Validation>,
    /// What was corrected in it before.
    pub(super) warnings: Vec<Warning>,
    correction: String,
}

impl Judgement {
    /// Whether the decision may be applied.
    pub(super) fn passed(&self) -> bool {
        self.validations.iter().all(|validation| validation.passed)
    }

    /// The correction for the driver when it may not be applied.
    pub(super) fn correction(&self) -> String {
        self.correction.clone()
    }

    /// Validates the decision that ends a step without checks of its own, which needs no further
    /// read.
    pub(super) fn closing(
        run: &LeasedRun,
        execution: &Execution,
        index: usize,
        decision: ExecuteDecision,
    ) -> Self {
        judge_over(run, execution, index, Read::plain(decision), &[])
    }
}

/// A decision as it was read from a reply.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) decision: ExecuteDecision,
    /// Whether it was read from a completion signal.
    pub(super) signalled: bool,
    /// What the reader corrected.
    pub(super) warnings: Vec<Warning>,
}

impl Read {
    /// A decision that needed no reading.
    pub(super) const fn plain(decision: ExecuteDecision) -> Self {
        Self { decision, signalled: false, warnings: Vec::new() }
    }
}

/// A decision that passed its validations, and what the reply that held it cost.
#[derive(Debug, Clone)]
pub(super) struct Passed {
    pub(super) judgement: Judgement,
    pub(super) usage: Usage,
}

/// Validates a decision over the current run.
pub(super) async fn judge(run: &LeasedRun, index: usize, read: Read) -> Result<Judgement, Ended> {
    let Read { decision, signalled, mut warnings } = read;
    let execution = run.execution().await;
    let ends = matches!(decision.action, Action::NextPlan | Action::Done);
    let checks = match run.plan.steps.get(index) {
        Some(step) if ends && !step.verify.is_empty() => {
            Box::pin(step_checks::results(run, index, step, &decision)).await?
        }
        Some(_) | None => Checked::default(),
    };
    let Checked { results, shown } = checks;
    let named = decision.tool_call.as_ref().map(|call| call.name.as_str());
    let (decision, alias) = run.tools_with(named).await.resolve(decision);
    warnings.extend(alias);
    let read = Read { decision, signalled, warnings };
    let judged = judge_over(run, &execution, index, read, &results);
    let is_unproven = |it: &Validation| it.code == Some(Code::StepCheckFailed);
    let correction = match judged.validations.iter().any(is_unproven) && !shown.is_empty() {
        true => format!("{shown}\n{}", judged.correction),
        false => judged.correction.clone(),
    };
    Ok(Judgement { correction, ..judged })
}

fn judge_over(
    run: &LeasedRun,
    execution: &Execution,
    index: usize,
    read: Read,
    checks: &[CheckResult],
) -> Judgement {
    let Read { decision, signalled, warnings } = read;
    let step = run.plan.steps.get(index).unwrap_or(&NO_STEP);
    let progress = execution.step(index).unwrap_or(&NO_PROGRESS);
    let registry = run.tools();
    let expected = registry.expected(&step.tools_expected);
    let named = decision.tool_call.as_ref().map(|call| call.name.as_str());
    let tool = named.and_then(|name| registry.carried_as(name));
    let tool = tool.map(|carried| tool_view(&registry, run, step, carried));
    let decision = asked_for(run, tool, decision);
    let repeats = remembered(progress).is_some_and(|cycle| cycle.is_terminated());
    let fits_schema = |call: &surety_common::domain::plan::ToolCall| {
        registry.validate(&call.name, &call.arguments).map_err(|wrong| decision::faults(&wrong))
    };
    let other_steps_open = execution.is_other_step_open(index);
    let limits = execution.limits_of(&run.spec.limits);
    // What was reserved for this turn is there, whatever other steps used since.
    let spent = match progress.reserved.is_zero() {
        true => execution.counters.usage,
        false => Usage::default(),
    };
    let view = RunView {
        step: StepView {
            tools_expected: &expected,
            evidence: step.evidence,
            proven: progress.proofs > 0,
            checks,
        },
        signalled,
        other_steps_open,
        tools: tool.as_slice(),
        always_allowed: &ALWAYS_ALLOWED,
        pending_confirmation: progress.is_confirming(),
        limits: &limits,
        spent: Spent {
            used: Used::of(execution, index, run.engine.now()),
            tokens: spent.tokens,
            cost_micros: spent.cost_micros,
        },
        repeats,
        fits_schema: &fits_schema,
    };
    let judged = decision::judge(decision, &view);
    let refused = judged.refusal().and_then(|refusal| Some((refusal.code?, &refusal.reason)));
    let correction = refused
        .map(|(code, reason)| correction(run, execution, index, code, reason))
        .unwrap_or_default();
    Judgement {
        decision: judged.decision,
        validations: judged
            .validations
            .into_iter()
            .map(|validation| Validation {
                name: validation.name.as_str().into(),
                passed: validation.passed,
                code: validation.code,
                reason: validation.reason,
            })
            .collect(),
        warnings,
        correction,
    }
}

fn tools<'r>(registry: &'r Registry, run: &LeasedRun, step: &PlanStep) -> Vec<ToolView<'r>> {
    registry.carried().map(|carried| tool_view(registry, run, step, carried)).collect()
}

fn tool_view<'r>(
    registry: &Registry,
    run: &LeasedRun,
    step: &PlanStep,
    (spec, in_loop): (&'r ToolSpec, bool),
) -> ToolView<'r> {
    let policy = &run.spec.policy.confirm;
    ToolView {
        name: &spec.name,
        // What the step loop carries out has no effect that a person could be asked about.
        read_only: spec.annotations.read_only || in_loop,
        requires_confirmation: registry.needs_confirmation(spec, policy, &step.confirm_tools),
    }
}

/// A script cannot say confirm: its call asks for the confirmation that it needs.
fn asked_for(
    run: &LeasedRun,
    tool: Option<ToolView<'_>>,
    decision: ExecuteDecision,
) -> ExecuteDecision {
    let guarded = tool.is_some_and(|tool| tool.requires_confirmation);
    if run.spec.driver.thinks() || decision.action != Action::Continue || !guarded {
        return decision;
    }
    ExecuteDecision { action: Action::Confirm, ..decision }
}

/// The correction for a refused reply: the code, what was wrong, and what is legal now.
pub(super) fn correction(
    run: &LeasedRun,
    execution: &Execution,
    index: usize,
    code: Code,
    detail: &str,
) -> String {
    let step = run.plan.steps.get(index).unwrap_or(&NO_STEP);
    let registry = run.tools();
    let allowed = registry.allowed(&step.tools_expected);
    let tools = tools(&registry, run, step);
    let names = |confirmed: bool| {
        let wanted = |tool: &&ToolView<'_>| {
            (!confirmed || tool.requires_confirmation)
                && allowed.iter().any(|spec| spec.name == tool.name)
        };
        tools.iter().filter(wanted).map(|tool| tool.name).collect::<Vec<&str>>()
    };
    let legal = Legal {
        tools: &names(false),
        confirmed_tools: &names(true),
        other_steps_open: execution.is_other_step_open(index),
        pending_confirmation: execution.step(index).is_some_and(StepProgress::is_confirming),
    };
    decision::correct(code, detail, &legal)
}
