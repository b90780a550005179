//! The runner's verification before the gate decides: it runs the commands of required checks,
//! reads the files that they name, and records what it observes. Then it calls the gate.
//!
//! A verification can be repeated after a crash.

use super::blocking::blocking;
use super::call_setup::{Call, Done, called_off};
use super::ended::Ended;
use super::evidence::{Place, Record, keep, record_as};
use super::leased_run::LeasedRun;
use super::resource_wait::wait_for_resources;
use super::slots::Slot;
use super::snapshots;
use crate::gate::Moved;
use crate::snapshot::Reach;
use crate::tool::builtin::run_command::outcome;
use crate::tool::process::{self, CommandRequest};
use crate::tool::{
    Environment, ErrorCode, RelPath, ToolContext, ToolError, ToolOutcome, Workspace, WriteScope,
    observe, project,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::check::{Owner, changed_fact};
use surety_common::domain::command::{Program, needs_shell, programs};
use surety_common::domain::execution::Wait;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::fault::{Fault, FaultClass};
use surety_common::domain::journal::{Entry, Intent};
use surety_common::domain::json::Value;
use surety_common::domain::manifest::Manifest;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{CheckProbe, Command, EvidenceSource, Fact};
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::domain::verification::{
    Observation, PROJECT_TESTS, Probe, ProjectTests, probes,
};
use tokio::time::Instant;
use uuid::Uuid;

/// The name of the runner's own observations.
const OBSERVE: &str = "observe";
/// The name of the runner's commands for checks.
const VERIFY: &str = "verify_command";

/// Observes, unless that is already stored, and calls the gate. Other runs use the slot in the
/// meantime; a run that is not accepted is left without a slot.
pub(super) async fn verify(run: &LeasedRun, slot: &mut Slot) -> Result<(), Ended> {
    if !ensure_in_place(run).await? {
        return Ok(());
    }
    let observed = run.execution().await.counters.observed;
    let complete = observed || observe_all(run).await?;
    if !observed && !ensure_in_place(run).await? {
        return Ok(());
    }
    run.settle().await?;
    let execution = run.execution().await;
    // The gate refuses to decide over less.
    if !complete || execution.is_pausing() {
        return Ok(());
    }
    unless_called_away(run, slot.release_slot()).await?;
    let verdict = run.engine.gate.evaluate_run(run.spec.id, execution.lease_epoch);
    match unless_called_away(run, verdict).await? {
        // The verdict ended the run and its lease: there is nothing left to read.
        Ok(Moved::Done) => {
            run.lease.end();
            Err(Ended::NotHeld)
        }
        Ok(Moved::Elsewhere) => {
            run.catch_up().await?;
            Ok(())
        }
        // The run moved on, or was taken over: the row decides.
        Err(fault)
            if matches!(fault.class, FaultClass::Aborted | FaultClass::FailedPrecondition) =>
        {
            let before = execution.version;
            run.catch_up().await?;
            if run.execution().await.version == before { Err(Ended::Gate(fault)) } else { Ok(()) }
        }
        Err(fault) if fault.class == FaultClass::Internal => leave_to_operator(run, &fault).await,
        Err(fault) => Err(Ended::Gate(fault)),
    }
}

/// Waits for work outside this process, unless the work on this run ends or must start again from
/// the row.
pub(super) async fn unless_called_away<T>(
    run: &LeasedRun,
    awaited: impl Future<Output = T>,
) -> Result<T, Ended> {
    tokio::select! {
        biased;
        came = awaited => Ok(came),
        ended = run.called_away() => Err(ended),
    }
}

/// Pauses a run for which the gate always fails with an internal error. The run itself is valid, so
/// it is not ended, and endless retries would occupy a slot.
async fn leave_to_operator(run: &LeasedRun, fault: &Fault) -> Result<(), Ended> {
    tracing::error!(run_id = %run.spec.id, %fault, "verify: the gate failed for the run repeatedly; the run is paused until an operator resumes it");
    let cause = format!("the gate failed for it: {fault}");
    run.change(|draft| {
        let wait = Wait {
            id: Uuid::now_v7(),
            waiting_on: WaitingOn::Operator,
            since: draft.now(),
            unblocks: format!("call ResumeRun once this is repaired: {cause}"),
            question: String::new(),
            choices: Vec::new(),
            step_index: None,
        };
        draft.pause(&run.graph, wait, &cause)?;
        draft.end_leases(&run.graph, &cause)
    })
    .await
}

/// Observes and records. Answers whether the observation is complete.
async fn observe_all(run: &LeasedRun) -> Result<bool, Ended> {
    let wanted = wanted(run).await;
    // Without observations there is nothing to store, and they cost nothing.
    if wanted.is_empty() {
        return Ok(true);
    }
    let mut records = Vec::new();
    let mut whole = true;
    let round = run.execution().await.counters.verification_round;
    let before = before_checks(run, &wanted).await?;
    for probe in wanted {
        if run.engine.drain.is_cancelled() {
            return Err(Ended::Draining);
        }
        match carry_out(run, probe, round).await {
            Ok(record) => records.push(record),
            // Another process changed the run, for example to pause it: the observations so far are
            // kept.
            Err(Ended::Overtaken) => {
                whole = false;
                break;
            }
            Err(ended) => return Err(ended),
        }
    }
    if let Some(before) = before.filter(|_| whole) {
        records.extend(made_by_checks(run, &before).await?);
    }
    run.insist(|draft| {
        for record in &records {
            draft.receipt(record.receipt.clone());
            record.output.iter().for_each(|output| draft.journal(Entry::Output(output.clone())));
        }
        // A pause in between began another round.
        let same_round = draft.execution().counters.verification_round == round;
        draft.set_observed(whole && same_round);
        Ok(())
    })
    .await?;
    Ok(run.execution().await.counters.observed)
}

/// The workspace before the checks' own commands, where a check asks what the run changed.
async fn before_checks(run: &LeasedRun, wanted: &[Probe]) -> Result<Option<Arc<Manifest>>, Ended> {
    let mut observations = wanted.iter().map(|probe| &probe.observation);
    let asks = observations.clone().any(|it| matches!(it, Observation::Change(_)));
    let runs =
        observations.any(|it| matches!(it, Observation::Command(_) | Observation::ProjectTests));
    if !(asks && runs && snapshots::has_base(run).await) {
        return Ok(None);
    }
    match snapshots::snapshot(run, Reach::NotIgnored).await {
        Ok(before) => Ok(Some(before)),
        Err(error) => {
            called_off(run, &error.clone().into())?;
            // Each check that needs it says so.
            tracing::warn!(run_id = %run.spec.id, %error, "verify: no snapshot before the checks");
            Ok(None)
        }
    }
}

/// The record of what the checks' own commands wrote; none when they wrote nothing.
async fn made_by_checks(run: &LeasedRun, before: &Manifest) -> Result<Option<Record>, Ended> {
    let outcome = match snapshots::observe_made(run, before).await {
        Ok(facts) if facts.is_empty() => return Ok(None),
        Ok(facts) => ToolOutcome::done("the checks' own commands wrote files", Vec::new(), facts),
        Err(error) => error.into(),
    };
    called_off(run, &outcome)?;
    record(run, Done::now(run, call(OBSERVE, Vec::new()), outcome)).await.map(Some)
}

/// Compares the workspace with what it was before the run.
async fn observe_change(run: &LeasedRun, globs: &[String]) -> Result<Record, Ended> {
    let receipts = run.receipts().await?;
    let outcome = match snapshots::observe(run, globs, &receipts).await {
        Ok(facts) => ToolOutcome::done("compared with the start of the run", Vec::new(), facts),
        Err(error) => {
            // What could not be compared is not known to be another.
            ToolOutcome::failed(error, Vec::new(), vec![changed_fact(globs, false)])
        }
    };
    called_off(run, &outcome)?;
    record(run, Done::now(run, call(OBSERVE, Vec::new()), outcome)).await
}

/// Ends the run when its workspace is another folder than at its start: whatever is seen there is not
/// what the run did. Answers whether the verification may go on.
async fn ensure_in_place(run: &LeasedRun) -> Result<bool, Ended> {
    let error = match snapshots::check_in_place(run).await {
        Err(error) if error.code == ErrorCode::WorkspaceMoved => error,
        // Another failure shows in what is observed.
        Ok(()) | Err(_) => return Ok(true),
    };
    run.change(|draft| {
        draft.stop(
            &run.graph,
            Ending {
                stop_reason: StopReason::AcceptCheckFailed,
                user_message: error.to_string(),
                internal_reason: error.code.as_str().to_owned(),
            },
        )
    })
    .await?;
    Ok(false)
}

async fn wanted(run: &LeasedRun) -> Vec<Probe> {
    let policy = run.spec.policy.verify_commands;
    probes(&run.plan.verify, policy, run.wrote_files().await)
}

/// Makes one observation and its record, which names the check that it decides.
async fn carry_out(run: &LeasedRun, probe: Probe, round: u32) -> Result<Record, Ended> {
    let Probe { check_id, owner, observation } = probe;
    let mut record = match observation {
        Observation::Change(globs) => observe_change(run, &globs).await?,
        Observation::Command(line) => verify_command(run, line, owner).await?,
        Observation::ProjectTests => project_tests(run).await?,
        Observation::File(path) => {
            let seen = seen(run, move |workspace| observe::observe_file(workspace, &path)).await;
            observed(run, seen).await?
        }
        Observation::Content { path, needle } => {
            let seen =
                seen(run, move |workspace| observe::observe_content(workspace, &path, &needle))
                    .await;
            observed(run, seen).await?
        }
    };
    record.receipt.probe_of = Some(CheckProbe { check_id, round });
    Ok(record)
}

async fn seen(
    run: &LeasedRun,
    observation: impl Fn(&Workspace) -> Result<Fact, ToolError> + Clone + Send + 'static,
) -> Result<Fact, ToolError> {
    wait_for_resources(run, patience(run), || async {
        let (workspace, observation) = (run.folder.workspace()?, observation.clone());
        blocking(move || observation(&workspace)).await?
    })
    .await
}

async fn observed(run: &LeasedRun, seen: Result<Fact, ToolError>) -> Result<Record, Ended> {
    let outcome = match seen {
        Ok(fact) => ToolOutcome::done(summary(&fact), Vec::new(), vec![fact]),
        Err(error) => error.into(),
    };
    called_off(run, &outcome)?;
    record(run, Done::now(run, call(OBSERVE, Vec::new()), outcome)).await
}

fn summary(fact: &Fact) -> String {
    match fact {
        Fact::FileObserved { path, exists: true } => format!("{path} exists"),
        Fact::FileObserved { path, exists: false } => format!("{path} does not exist"),
        Fact::Content { path, found: true, .. } => format!("{path} contains the text"),
        Fact::Content { path, found: false, .. } => format!("{path} does not contain the text"),
        Fact::FileWritten { .. }
        | Fact::Command { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. } => "observed".to_owned(),
    }
}

/// Runs a check's command.
async fn verify_command(run: &LeasedRun, line: String, owner: Owner) -> Result<Record, Ended> {
    let call = call(VERIFY, vec![("command", line.clone())]);
    write_down(run, &call).await?;
    let started_at = run.engine.now();
    let running = wait_for_resources(run, patience(run), || run_line(run, call.id, &line, owner));
    let outcome = match running.await {
        Ok(outcome) => outcome,
        Err(error) => error.into(),
    };
    called_off(run, &outcome)?;
    let done = Done { call, outcome, started_at, finished_at: run.engine.now(), source: None };
    record(run, done).await
}

/// Runs a check's line. The fact has the line as it was written, and its exit code.
///
/// A line of a plan gets no shell: its programs run one after another while each succeeds. The author of a
/// user's or an operator's line is trusted, so what needs a shell gets one.
async fn run_line(
    run: &LeasedRun,
    call_id: Uuid,
    line: &str,
    owner: Owner,
) -> Result<ToolOutcome, ToolError> {
    if owner != Owner::Plan && needs_shell(line) {
        return run_in_shell(run, call_id, line).await;
    }
    let Some(programs) = programs(line) else {
        return Err(ToolError::new(
            ErrorCode::ShellNotAllowed,
            format!("{line:?} needs a shell, which the policy does not allow; name a program"),
        ));
    };
    let context = context(run, call_id)?;
    let _begun = run.begin_call(true).await.ok_or_else(ToolError::called_off)?;
    let mut output = Vec::new();
    let mut last = None;
    for program in programs {
        let mut outcome = run_program(&context, line, program).await?;
        output.append(&mut outcome.output);
        let failed = !outcome.success;
        last = Some(outcome);
        if failed {
            break;
        }
    }
    let mut outcome = last.ok_or_else(|| {
        ToolError::new(ErrorCode::ProgramNotFound, format!("{line:?} names no program"))
    })?;
    outcome.output = output;
    Ok(outcome)
}

async fn run_in_shell(
    run: &LeasedRun,
    call_id: Uuid,
    line: &str,
) -> Result<ToolOutcome, ToolError> {
    let context = context(run, call_id)?;
    let _begun = run.begin_call(true).await.ok_or_else(ToolError::called_off)?;
    let shell = ["sh", "-c", line].map(str::to_owned);
    let request = CommandRequest {
        command: Command::Argv(shell.to_vec()),
        folder: context.workspace()?.folder(&RelPath::root())?,
        environment: Environment::clone(&context.environment),
    };
    let finished = process::run(&context, &request).await?;
    Ok(outcome(Command::Line(line.to_owned()), finished))
}

async fn run_program(
    context: &ToolContext,
    line: &str,
    program: Program,
) -> Result<ToolOutcome, ToolError> {
    let added: BTreeMap<String, String> = program.environment.into_iter().collect();
    let request = CommandRequest {
        command: Command::Argv(program.argv),
        folder: context.workspace()?.folder(&RelPath::root())?,
        environment: context.environment.with(&added)?,
    };
    let finished = process::run(context, &request).await?;
    Ok(outcome(Command::Line(line.to_owned()), finished))
}

/// Runs the project's own tests; missing tests are recorded as skipped, never as passed.
async fn project_tests(run: &LeasedRun) -> Result<Record, Ended> {
    let call = call(PROJECT_TESTS, Vec::new());
    write_down(run, &call).await?;
    let started_at = run.engine.now();
    let running = wait_for_resources(run, patience(run), || run_project_tests(run, call.id));
    let outcome = match running.await {
        Ok(outcome) => outcome,
        Err(error) => error.into(),
    };
    called_off(run, &outcome)?;
    record(run, Done { call, outcome, started_at, finished_at: run.engine.now(), source: None })
        .await
}

async fn run_project_tests(run: &LeasedRun, call_id: Uuid) -> Result<ToolOutcome, ToolError> {
    let context = context(run, call_id)?;
    let (workspace, environment) = (context.workspace()?, Arc::clone(&context.environment));
    let found = blocking(move || project::test_command(&workspace, &environment)).await?;
    let Some(argv) = found else {
        let mut outcome = ToolOutcome::done(
            "skipped: the project names no test command",
            Vec::new(),
            vec![ProjectTests::skipped()],
        );
        // No test ran, so nothing is proven.
        outcome.success = false;
        return Ok(outcome);
    };
    let _begun = run.begin_call(true).await.ok_or_else(ToolError::called_off)?;
    let request = CommandRequest {
        command: Command::Argv(argv),
        folder: context.workspace()?.folder(&RelPath::root())?,
        environment: Environment::clone(&context.environment),
    };
    let finished = process::run(&context, &request).await?;
    Ok(outcome(request.command, finished))
}

fn context(run: &LeasedRun, call_id: Uuid) -> Result<ToolContext, ToolError> {
    Ok(ToolContext {
        folder: Arc::clone(&run.folder),
        write_scope: Arc::new(WriteScope::whole()),
        environment: Arc::clone(&run.engine.environment),
        sandbox: Arc::new(run.engine.sandbox.under(&run.spec.policy)),
        call_id,
        shell_allowed: false,
        deadline: Instant::now() + patience(run),
        cancel: run.lease.calls.child_token(),
        kill: run.lease.kill.clone(),
    })
}

/// The intent of a command, committed before it starts.
async fn write_down(run: &LeasedRun, call: &Call) -> Result<(), Ended> {
    run.change_now(|draft| {
        draft.journal(Entry::Intent(Intent {
            step_id: String::new(),
            call_id: call.id,
            tool: call.tool_call.name.clone(),
            arguments_json: call.tool_call.arguments.to_compact(),
        }));
        Ok(())
    })
    .await
}

fn call(name: &str, arguments: Vec<(&str, String)>) -> Call {
    let arguments =
        arguments.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
    Call {
        id: Uuid::now_v7(),
        tool_call: ToolCall { name: name.to_owned(), arguments: Value::Object(arguments) },
    }
}

async fn record(run: &LeasedRun, done: Done) -> Result<Record, Ended> {
    let make = |done: &Done| record_as(run, Place::of_run(run), EvidenceSource::Probe, done);
    let (_, record) = keep(run, done, patience(run), make).await?;
    Ok(record)
}

/// The time limit of a verification is that of a step.
fn patience(run: &LeasedRun) -> Duration {
    Duration::from_secs(run.spec.limits.step_deadline_s)
}
