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
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{CheckProbe, EvidenceSource, Inputs};
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::domain::verification::{
    Observation, Probe, WORKSPACE_CHANGED, WORKSPACE_CHECK, probes,
};
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
    let number = run.execution().await.counters.verification_round;
    let (mut records, mut whole, mut moved) = observe_once(run, &wanted, number).await?;
    if whole && !moved.is_empty() {
        tracing::warn!(run_id = %run.spec.id, ?moved, "verify: the workspace changed during the verification; observing once more");
        (records, whole, moved) = observe_once(run, &wanted, number).await?;
    }
    if whole && !moved.is_empty() {
        records.push(record_of_move(run, &moved, number).await?);
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

/// Carries out every probe. Answers the records, whether they are complete, and the paths that changed in the
/// meantime.
async fn observe_once(
    run: &LeasedRun,
    wanted: &[Probe],
    number: u32,
) -> Result<(Vec<Record>, bool, Vec<String>), Ended> {
    let mut records = Vec::new();
    let round = begin(run, wanted).await?;
    for probe in wanted {
        match carry_out(run, &round, probe, number, &mut records).await {
            Ok(()) => {}
            // Another process changed the run, for example to pause it: the observations so far are
            // kept.
            Err(Ended::Overtaken) => return Ok((records, false, Vec::new())),
            Err(ended) => return Err(ended),
        }
    }
    let moved = wait_for_resources(run, patience(run), || round.moved_paths()).await;
    if let Err(error) = &moved {
        called_off(run, &error.clone().into())?;
    }
    if let Some(latest) = round.latest() {
        run.history.remember(&latest);
    }
    // What could not be compared failed each probe of a command already.
    Ok((records, true, moved.unwrap_or_default()))
}

/// The record of a workspace that changed during the verification, which the gate refuses.
async fn record_of_move(run: &LeasedRun, moved: &[String], round: u32) -> Result<Record, Ended> {
    let message = format!("{WORKSPACE_CHANGED}: {}", moved.join(", "));
    let outcome =
        ToolOutcome { success: false, ..ToolOutcome::done(message, Vec::new(), Vec::new()) };
    let mut record = record(run, Done::now(run, call(observing()), outcome)).await?;
    let check_id = WORKSPACE_CHECK.to_owned();
    record.receipt.probe_of = Some(CheckProbe { check_id, round, inputs: Inputs::Unstated });
    Ok(record)
}

/// The round, compared with the workspace before the run where a probe needs that.
async fn begin(run: &LeasedRun, wanted: &[Probe]) -> Result<Arc<Round>, Ended> {
    let needs =
        |probe: &Probe| runs_command(probe) || matches!(probe.observation, Observation::Change(_));
    let compares = wanted.iter().any(needs) && snapshots::has_base(run).await;
    let start = if compares { snapshots::start(run).await.map(Some) } else { Ok(None) };
    let rules = snapshots::rules(run);
    if let Err(error) = start.as_ref().map(drop).and(rules.as_ref().map(drop)) {
        called_off(run, &error.clone().into())?;
    }
    let round = Round::new(Setup {
        folder: Arc::clone(&run.folder),
        environment: Arc::clone(&run.engine.environment),
        sandbox: Arc::new(run.engine.sandbox.under(&run.spec.policy)),
        rules: rules.clone().unwrap_or_default(),
        start: rules.and(start),
        latest: run.history.latest(),
        time_limit: patience(run),
        cancel: run.lease.calls.clone(),
        kill: run.lease.kill.clone(),
    });
    let opening = wait_for_resources(run, patience(run), || round.open(wanted)).await;
    let opened = match opening {
        Ok(true) => match snapshots::originals(run).await {
            Ok(originals) => round.give(originals).await,
            Err(error) => Err(error),
        },
        Ok(false) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = opened {
        called_off(run, &error.clone().into())?;
        // Each check that needs it says so.
        tracing::warn!(run_id = %run.spec.id, %error, "verify: the workspace could not be compared with its start");
    }
    Ok(round)
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

/// Carries out a probe with each of the inputs that it needs, and makes the records, which name the check
/// that they decide.
async fn carry_out(
    run: &LeasedRun,
    round: &Arc<Round>,
    probe: &Probe,
    number: u32,
    records: &mut Vec<Record>,
) -> Result<(), Ended> {
    let mut so_far = Vec::new();
    while let Some(inputs) = round.next_inputs(probe, &so_far) {
        if run.engine.drain.is_cancelled() {
            return Err(Ended::Draining);
        }
        let mut record = carry_out_with(run, round, probe, inputs).await?;
        let check_id = probe.check_id.clone();
        record.receipt.probe_of = Some(CheckProbe { check_id, round: number, inputs });
        so_far.push((inputs, record.receipt.success));
        records.push(record);
    }
    Ok(())
}

async fn carry_out_with(
    run: &LeasedRun,
    round: &Arc<Round>,
    probe: &Probe,
    inputs: Inputs,
) -> Result<Record, Ended> {
    let call = call(call_of(probe));
    let runs = runs_command(probe);
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
        round.probe(probe, inputs, call.id).await
    };
    let call_id = call.id.to_string();
    let span = telemetry::probe_span(&run.present_span(), &probe.check_id, &call_id);
    let probing = wait_for_resources(run, patience(run), attempt);
    let outcome: ToolOutcome = probing.instrument(span.clone()).await;
    describe(&span, &outcome);
    called_off(run, &outcome)?;
    let done = Done { call, outcome, started_at, finished_at: run.engine.now(), source: None };
    record(run, done).await
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
