//! A tool prepared for one call: its access, its time limit, and its outcome.

use super::call_rights::CallRights;
use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::resource_wait::wait_for_resources;
use super::snapshots::{self, Watched};
use crate::blocking::blocking;
use crate::fuse::timeout::{CallEnd, Timing};
use crate::snapshot::Snapshots;
use crate::tool::builtin::{forge_push, run_command, verify};
use crate::tool::{
    Effect, ErrorCode, Probe, Tool, ToolContext, ToolError, ToolOutcome, WriteScope, timing,
};
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::check::Match;
use surety_common::domain::command::CommandLine;
use surety_common::domain::execution::OpenCall;
use surety_common::domain::json::{self, Value};
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::Command;
use surety_common::domain::receipt::{EvidenceSource, Fact};
use surety_common::domain::scope::scope_globs;
use surety_common::telemetry;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

/// A call with its id, which is its idempotency key in every repetition.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: Uuid,
    pub(super) tool_call: ToolCall,
}

/// A call and its outcome.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) call: Call,
    pub(super) outcome: ToolOutcome,
    pub(super) started_at: DateTime<Utc>,
    pub(super) finished_at: DateTime<Utc>,
    /// Who saw it, where that was not the runner.
    pub(super) source: Option<EvidenceSource>,
    /// The worker whose words it is; empty for what the runner saw.
    pub(super) reporter: String,
    /// What it wrote outside the scope of its step, in words, which fails the step for every driver; empty where nothing.
    pub(super) violation: String,
}

impl Done {
    /// An outcome that took no time.
    pub(super) fn now(run: &LeasedRun, call: Call, outcome: ToolOutcome) -> Self {
        let done = Self::since(run.engine.now(), run, call, outcome);
        Self { finished_at: done.started_at, ..done }
    }

    /// An outcome that the runner saw just now.
    pub(super) fn since(
        started_at: DateTime<Utc>,
        run: &LeasedRun,
        call: Call,
        outcome: ToolOutcome,
    ) -> Self {
        let finished_at = run.engine.now();
        Self {
            call,
            outcome,
            started_at,
            finished_at,
            source: None,
            reporter: String::new(),
            violation: String::new(),
        }
    }
}

/// A tool, with the access and the time limit of its call.
pub(super) struct CallSetup {
    index: usize,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) context: ToolContext,
    timing: Timing,
    /// The time limit of the call, without the wait for resources.
    budget: Duration,
    /// The deadline of the step.
    until: Instant,
}

impl CallSetup {
    /// Prepares a tool for one call of a step.
    ///
    /// # Errors
    /// The failure that the call itself would have.
    pub(super) async fn set_up(
        run: &LeasedRun,
        index: usize,
        call: &Call,
    ) -> Result<Self, ToolError> {
        let name = &call.tool_call.name;
        let Some(tool) = run.tools().get(name) else {
            // The flow validation knows the same tools, so this is a stored call of another program
            // version.
            return Err(ToolError::new(
                ErrorCode::ProgramNotFound,
                format!("this executor has no tool named {name:?}"),
            ));
        };
        // No call outlives its step.
        let left = run.time_left(index).await;
        let timing = timing(tool.as_ref(), &call.tool_call);
        let budget_s = run.timeouts().budget_s(&timing);
        let CallRights { sandbox, verify_tools, secrets, forge } =
            run.rights.get_or_init(|| CallRights::new(&run.engine, &run.spec));
        let is_verify = name == verify::NAME;
        let named = is_verify.then(|| verify::time_limit(verify_tools, &call.tool_call.arguments));
        let budget = named.flatten().unwrap_or(Duration::from_secs(budget_s));
        let bound_s = run.spec.limits.command_timeout_s;
        let bound_s = bound_s.filter(|_| is_verify || name == run_command::NAME);
        let budget = bound_s.map_or(budget, |bound_s| budget.min(Duration::from_secs(bound_s)));
        let until = Instant::now() + left;
        let context = ToolContext {
            folder: Arc::clone(&run.folder),
            write_scope: Arc::new(write_scope(run, index, tool.as_ref()).await?),
            environment: Arc::clone(&run.engine.environment),
            sandbox: Arc::clone(sandbox),
            view: None,
            call_id: call.id,
            shell_allowed: false,
            verify_tools: Arc::clone(verify_tools),
            secrets: Arc::clone(secrets),
            servers: run.servers.clone(),
            forge: forge.clone(),
            deadline: until.min(Instant::now() + budget),
            cancel: run.lease.calls.child_token(),
            kill: run.lease.kill.clone(),
        };
        Ok(Self { index, tool, context, timing, budget, until })
    }

    /// The effect of the call.
    pub(super) async fn intend(&self, run: &LeasedRun, call: &Call) -> Result<Effect, ToolError> {
        wait_for_resources(run, self.time_left(), || async {
            let (tool, context) = (Arc::clone(&self.tool), self.context.clone());
            let arguments = call.tool_call.arguments.clone();
            blocking(move || tool.intend(&context, &arguments)).await?
        })
        .await
    }

    fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The result of a recorded effect.
    pub(super) async fn probe(&self, effect: Effect) -> Probe {
        let (tool, context) = (Arc::clone(&self.tool), self.context.clone());
        blocking(move || tool.probe(&context, &effect)).await.unwrap_or(Probe::Unknown)
    }

    /// Starts the tool and waits for its end.
    pub(super) async fn perform(&self, run: &LeasedRun, call: Call) -> Done {
        let runs_code = self.tool.runs_code();
        let entered = if runs_code { run.enter_workspace().await } else { None };
        let _begun = if !runs_code {
            None
        } else if entered.is_none() {
            return Done::now(run, call, ToolError::called_off().into());
        } else {
            let repeated = self.may_repeat(run, &call);
            match run.begin_call(repeated).await {
                Some(begun) => Some(begun),
                None => return Done::now(run, call, ToolError::called_off().into()),
            }
        };
        let watched = match Box::pin(Watched::begin(run, self.index, self.tool.as_ref())).await {
            Ok(watched) => watched,
            Err(error) => return Done::now(run, call, error.into()),
        };
        let span = telemetry::tool_span(
            &tracing::Span::current(),
            &call.tool_call.name,
            &call.id.to_string(),
        );
        let started_at = run.engine.now();
        let calling = wait_for_resources(run, self.time_left(), || async {
            // The wait for resources does not count for the call.
            let deadline = self.until.min(Instant::now() + self.budget);
            let context = ToolContext { deadline, ..self.context.clone() };
            let arguments = &call.tool_call.arguments;
            // The clone of the run is the step loop's.
            match call.tool_call.name.as_str() {
                forge_push::NAME => {
                    Box::pin(super::forge_push::push(run, &context, arguments)).await
                }
                _ => self.tool.call(&context, arguments).await,
            }
        });
        let outcome = calling.instrument(span.clone()).await;
        let (outcome, violation) = match watched {
            Some(watched) => {
                let ended = Box::pin(watched.end(run, &self.context.write_scope, outcome)).await;
                (self.refuse_write_of_reader(ended.outcome), ended.violation)
            }
            None => (outcome, String::new()),
        };
        if let Some(code) = outcome.error_code {
            telemetry::fail(&span, code.as_str());
        }
        let end = if outcome.timed_out { CallEnd::DeadlinePassed } else { CallEnd::Returned };
        run.timeouts().record(&self.timing, end);
        let reporter = self.tool.witness().unwrap_or_default().to_owned();
        Done { reporter, violation, ..Done::since(started_at, run, call, outcome) }
    }

    /// A tool that is said to read only, and wrote, has failed whatever it answered.
    fn refuse_write_of_reader(&self, outcome: ToolOutcome) -> ToolOutcome {
        let wrote = outcome.facts.iter().any(|fact| matches!(fact, Fact::FileWritten { .. }));
        if !wrote || !self.tool.spec().annotations.read_only || !outcome.success {
            return outcome;
        }
        ToolOutcome {
            success: false,
            error_code: Some(ErrorCode::ReadOnlyWrote),
            summary: format!(
                "{}; it changed files, although the operator's configuration declares the tool read-only",
                outcome.summary
            ),
            ..outcome
        }
    }

    /// Whether the tool may be called again with the same idempotency key: by its annotations or,
    /// for a command, by the run's policy.
    pub(super) fn may_repeat(&self, run: &LeasedRun, call: &Call) -> bool {
        let annotations = self.tool.spec().annotations;
        annotations.may_repeat()
            || declared_repeatable(&call.tool_call, &run.spec.policy.repeatable_commands)
    }
}

/// What a tool may write for a step. Ignored paths are judged by the start of the run; of a tool that does not report its writes
/// they are left out when these are found.
///
/// # Errors
/// `write_scope_invalid`, and those of [`snapshots::base`].
async fn write_scope(
    run: &LeasedRun,
    index: usize,
    tool: &dyn Tool,
) -> Result<WriteScope, ToolError> {
    let globs = run.plan.steps.get(index).map_or(&[][..], |step| &step.write_scope);
    let scope = WriteScope::new(&scope_globs(globs))?;
    if globs.is_empty() || !tool.may_write() || !tool.reports_writes() {
        return Ok(scope);
    }
    let base = snapshots::base(run).await?;
    Ok(scope.beside(Arc::<Snapshots>::clone(&base.snapshots)))
}

/// Whether a command begins with all arguments of one that the submitter declared.
fn declared_repeatable(call: &ToolCall, declared: &[String]) -> bool {
    let Some(argv) = call.arguments.get("argv").and_then(Value::as_array) else { return false };
    let Some(argv) = argv.iter().map(|part| part.as_str().map(str::to_owned)).collect() else {
        return false;
    };
    let argv = Command::Argv(argv);
    declared
        .iter()
        .any(|line| CommandLine::of(&argv).matches(&CommandLine::parse(line), Match::Prefix))
}

/// A call that was interrupted here stays open, because its progress is unknown.
///
/// # Errors
/// [`Ended::NotHeld`], [`Ended::Draining`]
pub(super) fn called_off(run: &LeasedRun, outcome: &ToolOutcome) -> Result<(), Ended> {
    let cut = outcome.error_code == Some(ErrorCode::Cancelled) && run.engine.drain.is_cancelled();
    if cut || run.lease.lost.is_cancelled() { Err(run.called_off()) } else { Ok(()) }
}

/// The arguments of a stored call.
pub(super) fn stored_arguments(open: &OpenCall) -> Value {
    json::parse(&open.arguments_json)
        .map_or_else(|_| Value::Object(Vec::new()), |parsed| parsed.value)
}
