//! The runner's verification before the gate decides: it carries out a round of probes, and records
//! what each observed. Then it calls the gate.
//!
//! A verification can be repeated after a crash.

use super::call_setup::{Call, Done, called_off};
use super::ended::Ended;
use super::evidence::{Record, keep, of_run, record_as};
use super::leased_run::LeasedRun;
use super::resource_wait::wait_for_resources;
use super::slots::Slot;
use super::snapshots;
use crate::gate::Moved;
use crate::round::{Round, Setup, call_of, observing, runs_command};
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::execution::Wait;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::fault::{Fault, FaultClass};
use surety_common::domain::journal::{Entry, Intent};
use surety_common::domain::manifest::Manifest;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{CheckProbe, EvidenceSource};
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::domain::verification::{Observation, Probe, probes};
use surety_common::telemetry;
use tracing::{Instrument, Span};
use uuid::Uuid;

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
    let number = run.execution().await.counters.verification_round;
    let round = begin(run, &wanted).await?;
    let before = before_checks(run, &round, &wanted).await?;
    for probe in wanted {
        if run.engine.drain.is_cancelled() {
            return Err(Ended::Draining);
        }
        match carry_out(run, &round, probe, number).await {
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
        records.extend(made_by_checks(run, &round, &before).await?);
    }
    if let Some(latest) = round.latest() {
        run.history.remember(&latest);
    }
    run.insist(|draft| {
        for record in &records {
            draft.receipt(record.receipt.clone());
            record.output.iter().for_each(|output| draft.journal(Entry::Output(output.clone())));
        }
        // A pause in between began another round.
        let same_round = draft.execution().counters.verification_round == number;
        draft.set_observed(whole && same_round);
        Ok(())
    })
    .await?;
    Ok(run.execution().await.counters.observed)
}

/// The round, with the workspace before the run where a probe compares with it.
async fn begin(run: &LeasedRun, wanted: &[Probe]) -> Result<Round, Ended> {
    let compares = asks_for_change(wanted) && snapshots::has_base(run).await;
    let start = if compares { snapshots::start(run).await.map(Some) } else { Ok(None) };
    if let Err(error) = &start {
        called_off(run, &error.clone().into())?;
    }
    Ok(Round::new(Setup {
        folder: Arc::clone(&run.folder),
        environment: Arc::clone(&run.engine.environment),
        sandbox: Arc::new(run.engine.sandbox.under(&run.spec.policy)),
        start,
        latest: run.history.latest(),
        receipts: if compares { run.receipts().await? } else { Vec::new() },
        time_limit: patience(run),
        cancel: run.lease.calls.clone(),
        kill: run.lease.kill.clone(),
    }))
}

fn asks_for_change(wanted: &[Probe]) -> bool {
    wanted.iter().any(|probe| matches!(probe.observation, Observation::Change(_)))
}

/// The workspace before the checks' own commands, where a check asks what the run changed.
async fn before_checks(
    run: &LeasedRun,
    round: &Round,
    wanted: &[Probe],
) -> Result<Option<Arc<Manifest>>, Ended> {
    let runs = wanted.iter().any(runs_command);
    if !(asks_for_change(wanted) && runs && snapshots::has_base(run).await) {
        return Ok(None);
    }
    match wait_for_resources(run, patience(run), || round.snapshot()).await {
        Ok(before) => Ok(before),
        Err(error) => {
            called_off(run, &error.clone().into())?;
            // Each check that needs it says so.
            tracing::warn!(run_id = %run.spec.id, %error, "verify: no snapshot before the checks");
            Ok(None)
        }
    }
}

/// The record of what the checks' own commands wrote; none when they wrote nothing.
async fn made_by_checks(
    run: &LeasedRun,
    round: &Round,
    before: &Manifest,
) -> Result<Option<Record>, Ended> {
    let made = wait_for_resources(run, patience(run), || round.made_since(before)).await;
    let outcome = match made {
        Ok(facts) if facts.is_empty() => return Ok(None),
        Ok(facts) => ToolOutcome::done("the checks' own commands wrote files", Vec::new(), facts),
        Err(error) => error.into(),
    };
    called_off(run, &outcome)?;
    record(run, Done::now(run, call(observing()), outcome)).await.map(Some)
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
async fn carry_out(
    run: &LeasedRun,
    round: &Round,
    probe: Probe,
    number: u32,
) -> Result<Record, Ended> {
    let call = call(call_of(&probe));
    let runs = runs_command(&probe);
    if runs {
        write_down(run, &call).await?;
    }
    let started_at = run.engine.now();
    let attempt = || async {
        let _begun = match runs.then(|| run.begin_call(true)) {
            Some(beginning) => match beginning.await {
                Some(begun) => Some(begun),
                None => return ToolError::called_off().into(),
            },
            None => None,
        };
        round.probe(&probe, call.id).await
    };
    let call_id = call.id.to_string();
    let span = telemetry::probe_span(&run.present_span(), &probe.check_id, &call_id);
    let probing = wait_for_resources(run, patience(run), attempt);
    let outcome: ToolOutcome = probing.instrument(span.clone()).await;
    describe(&span, &outcome);
    called_off(run, &outcome)?;
    let done = Done { call, outcome, started_at, finished_at: run.engine.now(), source: None };
    let mut record = record(run, done).await?;
    record.receipt.probe_of = Some(CheckProbe { check_id: probe.check_id, round: number });
    Ok(record)
}

/// Adds to the span of a probe how it ended.
fn describe(span: &Span, outcome: &ToolOutcome) {
    if let Some(exit_code) = outcome.exit_code() {
        span.record("surety.exit_code", exit_code);
    }
    if !outcome.sandbox.is_empty() {
        span.record("surety.sandbox", outcome.sandbox.as_str());
    }
    if let Some(code) = outcome.error_code {
        span.record("error.type", code.as_str());
    }
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

fn call(tool_call: ToolCall) -> Call {
    Call { id: Uuid::now_v7(), tool_call }
}

async fn record(run: &LeasedRun, done: Done) -> Result<Record, Ended> {
    let make = |done: &Done| record_as(of_run(run), EvidenceSource::Probe, done);
    let (_, record) = keep(run, done, patience(run), make).await?;
    Ok(record)
}

/// The time limit of a verification is that of a step.
fn patience(run: &LeasedRun) -> Duration {
    Duration::from_secs(run.spec.limits.step_deadline_s)
}
