//! The three validations of a decision: flow, evidence, safety.

use super::correction::quoted;
use crate::fuse::limits::{self, Next, Used};
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::{Evidence, ToolCall};
use surety_common::domain::problem::Code;
use surety_common::domain::receipt::PROVES_NOTHING;
use surety_common::domain::verdict::CheckResult;

/// The state of the run for the validations.
#[derive(Clone, Copy)]
pub struct RunView<'a> {
    /// The step that the driver works on.
    pub step: StepView<'a>,
    /// Whether the decision was read from a completion signal, which needs no goal check.
    pub signalled: bool,
    /// Whether another step is not done yet.
    pub other_steps_open: bool,
    /// The tool that the decision calls, if there is one. Others beside it change nothing.
    pub tools: &'a [ToolView<'a>],
    /// Names of tools that every step may call.
    pub always_allowed: &'a [&'a str],
    /// Whether a confirmation is open.
    pub pending_confirmation: bool,
    /// The limits of the run.
    pub limits: &'a Limits,
    /// The used part of the limits.
    pub spent: Spent,
    /// Whether the repeat-cycle limit is reached.
    pub repeats: bool,
    /// Validates arguments against the tool's JSON Schema; returns what does not match.
    pub fits_schema: &'a dyn Fn(&ToolCall) -> Result<(), String>,
}

/// The current step.
#[derive(Debug, Clone, Copy)]
pub struct StepView<'a> {
    /// Tools the step may call; empty allows every tool.
    pub tools_expected: &'a [String],
    /// Whether it must have a successful receipt.
    pub evidence: Evidence,
    /// Whether it has one that counts as evidence under the current plan revision.
    pub proven: bool,
    /// The results of its own checks.
    pub checks: &'a [CheckResult],
}

/// A tool and the run's policy for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it only reads.
    pub read_only: bool,
    /// Whether each call needs a confirmation.
    pub requires_confirmation: bool,
}

/// The usage before this decision is applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Turns, tool calls and time.
    pub used: Used,
    /// Tokens of the run.
    pub tokens: u64,
    /// Cost of the run in millionths of the billing currency.
    pub cost_micros: u64,
}

/// The result of one validation, recorded with the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// The validation.
    pub name: ValidationName,
    /// Whether it allows the decision.
    pub passed: bool,
    /// The refusal's code; none when it passed.
    pub code: Option<Code>,
    /// The refusal in words; empty when it passed.
    pub reason: String,
}

/// The three validations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValidationName {
    /// Whether the decision is legal now.
    Flow,
    /// Whether the claims of the decision are proven.
    Evidence,
    /// Whether it is within limits, budgets and schemas.
    Safety,
}

impl ValidationName {
    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Evidence => "evidence",
            Self::Safety => "safety",
        }
    }
}

/// A decision and the results of its validations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The decision to apply if all passed: a confirm of a tool that only reads has become a
    /// continue.
    pub decision: ExecuteDecision,
    /// Flow, evidence, safety.
    pub validations: [Validation; 3],
}

impl Judged {
    /// The first validation that refuses; none when the decision may be applied.
    pub fn refusal(&self) -> Option<&Validation> {
        self.validations.iter().find(|validation| !validation.passed)
    }
}

/// A code and its message.
type Refusal = (Code, String);

/// Runs the three validations.
pub fn judge(decision: ExecuteDecision, view: &RunView<'_>) -> Judged {
    let mut decision = decision;
    let tool = decision
        .tool_call
        .as_ref()
        .and_then(|call| view.tools.iter().find(|tool| tool.name == call.name));
    // The policy decides whether a call needs a confirmation, not the driver.
    if decision.action == Action::Confirm
        && tool.is_some_and(|tool| tool.read_only && !tool.requires_confirmation)
    {
        decision.action = Action::Continue;
    }
    let validations = [
        outcome(ValidationName::Flow, flow(&decision, tool, view)),
        outcome(ValidationName::Evidence, evidence(&decision, &view.step)),
        outcome(ValidationName::Safety, safety(&decision, tool, view)),
    ];
    Judged { decision, validations }
}

fn outcome(name: ValidationName, refused: Result<(), Refusal>) -> Validation {
    match refused {
        Ok(()) => Validation { name, passed: true, code: None, reason: String::new() },
        Err((code, reason)) => Validation { name, passed: false, code: Some(code), reason },
    }
}

fn refuse<T>(code: Code, reason: impl Into<String>) -> Result<T, Refusal> {
    Err((code, reason.into()))
}

/// Whether an action claims that the step is complete.
fn claims_success(action: Action) -> bool {
    match action {
        Action::NextPlan | Action::Done => true,
        Action::Continue | Action::AskUser | Action::Confirm | Action::Abort => false,
    }
}

fn flow(
    decision: &ExecuteDecision,
    tool: Option<&ToolView<'_>>,
    view: &RunView<'_>,
) -> Result<(), Refusal> {
    if claims_success(decision.action) && decision.goal_check.is_empty() && !view.signalled {
        return refuse(
            Code::GoalCheckMissing,
            "goal_check is empty; state what shows that the goal is reached",
        );
    }
    if decision.action == Action::Done && view.other_steps_open {
        return refuse(
            Code::StepsRemaining,
            "other steps are not done; use next_plan when this step is done",
        );
    }
    if let Some(call) = &decision.tool_call {
        check_tool(decision.action, call, tool, view)?;
    }
    if view.pending_confirmation && decision.action != Action::Abort {
        return refuse(Code::PendingConfirmation, "a confirmation is open; wait for its answer");
    }
    Ok(())
}

fn check_tool(
    action: Action,
    call: &ToolCall,
    tool: Option<&ToolView<'_>>,
    view: &RunView<'_>,
) -> Result<(), Refusal> {
    let name = &call.name;
    let Some(tool) = tool else {
        return refuse(Code::UnknownTool, format!("no tool is named {}", quoted(name)));
    };
    let expected = view.step.tools_expected;
    let allowed = expected.is_empty()
        || expected.contains(name)
        || view.always_allowed.contains(&name.as_str());
    if !allowed {
        let expected = expected.join(", ");
        return refuse(
            Code::ToolNotAllowed,
            format!("this step may not call {name}; it may call {expected}"),
        );
    }
    if action == Action::Continue && tool.requires_confirmation {
        return refuse(
            Code::WriteRequiresConfirm,
            format!("{name} needs a confirmation; send the same call with the action confirm"),
        );
    }
    Ok(())
}

fn evidence(decision: &ExecuteDecision, step: &StepView<'_>) -> Result<(), Refusal> {
    if !claims_success(decision.action) {
        return Ok(());
    }
    if step.evidence == Evidence::Required && !step.proven {
        let others = PROVES_NOTHING.join(", ");
        return refuse(
            Code::EvidenceMissing,
            format!(
                "the step has no successful receipt of a tool that counts as evidence, which {others} do not; \
                 do the work with a tool first"
            ),
        );
    }
    let failed = step.checks.iter().find(|check| !check.passed && !check.optional);
    match failed {
        Some(check) => refuse(
            Code::StepCheckFailed,
            format!("the step's check {} does not hold: {}", check.name, check.reason),
        ),
        None => Ok(()),
    }
}

fn safety(
    decision: &ExecuteDecision,
    tool: Option<&ToolView<'_>>,
    view: &RunView<'_>,
) -> Result<(), Refusal> {
    check_fuses(decision, view)?;
    check_budgets(decision, view)?;
    if view.repeats {
        return refuse(Code::RepeatCycle, "the same turns were repeated after a reminder");
    }
    let known_call = decision.tool_call.as_ref().filter(|_| tool.is_some());
    known_call
        .map_or(Ok(()), |call| (view.fits_schema)(call))
        .map_err(|fault| (Code::ArgumentsInvalid, fault))
}

fn check_fuses(decision: &ExecuteDecision, view: &RunView<'_>) -> Result<(), Refusal> {
    let next = if decision.tool_call.is_some() { Next::Call } else { Next::Turn };
    match limits::reached(view.limits, &view.spent.used, next) {
        Some(limit) => refuse(Code::FuseReached, limit.to_string()),
        None => Ok(()),
    }
}

/// An exhausted budget forbids further spending; it does not undo finished work.
fn check_budgets(decision: &ExecuteDecision, view: &RunView<'_>) -> Result<(), Refusal> {
    let goes_on = match decision.action {
        Action::Continue | Action::AskUser | Action::Confirm => true,
        Action::NextPlan | Action::Done | Action::Abort => false,
    };
    let (spent, limits) = (view.spent, view.limits);
    let budgets = [
        ("token_budget", spent.tokens, limits.token_budget),
        ("cost_budget", spent.cost_micros, limits.cost_budget_micros),
    ];
    let used_up =
        |(_, used, budget): &(&str, u64, Option<u64>)| budget.is_some_and(|budget| *used >= budget);
    match budgets.into_iter().find(used_up) {
        Some((name, used, _)) if goes_on => {
            refuse(Code::BudgetExhausted, format!("the {name} is used up ({used} spent)"))
        }
        Some(_) | None => Ok(()),
    }
}
