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
use super::{repository, snapshots};
use crate::gate::Moved;
use crate::round::{
    Additions, Ended as RoundEnd, Place, Round, Setup, call_of, observing, runs_command,
};
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::acceptance::DIFFERENCE_CHECK;
use surety_common::domain::execution::Wait;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::fault::{Fault, FaultClass, FaultCode, Reason};
use surety_common::domain::journal::{Entry, Intent};
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{CheckProbe, EvidenceSource, Inputs};
use surety_common::domain::repository::REPOSITORY_CHECK;
use surety_common::domain::run::{InDoubt, VerifyCommands};
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::domain::verification::{
    Observation, Probe, WORKSPACE_CHECK, WORKSPACE_UNKNOWN, probes,
};
use surety_common::telemetry;
use tracing::{Instrument, Span};
use uuid::Uuid;

/// What probes are carried out for.
pub(super) struct About {
    /// Where their receipts stand.
    pub(super) place: Place,
    /// The number of the round, or of the attempt to end a step.
    pub(super) number: u32,
    /// The time limit of each.
    pub(super) patience: Duration,
    /// Whether their views are copies of the workspace, because calls of the run may write there meanwhile.
    pub(super) copies: bool,
}

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
        // Evidence that is not what was signed stays so, and says nothing about the work.
        Err(fault)
            if fault.class == FaultClass::Internal
                || fault.reason == Reason::Service(FaultCode::ReceiptsInvalid) =>
        {
            leave_to_operator(run, &fault).await
        }
        // The run moved on, or was taken over: the row decides.
        Err(fault)
            if matches!(fault.class, FaultClass::Aborted | FaultClass::FailedPrecondition) =>
        {
            let before = execution.version;
            run.catch_up().await?;
            if run.execution().await.version == before { Err(Ended::Gate(fault)) } else { Ok(()) }
        }
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

/// Pauses a run on which the gate cannot decide. The run itself is valid, so it is not ended, and endless retries would
/// occupy a slot.
async fn leave_to_operator(run: &LeasedRun, fault: &Fault) -> Result<(), Ended> {
    tracing::error!(run_id = %run.spec.id, %fault, "verify: the gate failed for the run repeatedly; the run is paused until an operator resumes it");
    let cause = format!("the gate failed for it: {fault}");
    run.change(|draft| {
        let wait = Wait::new(
            Uuid::now_v7(),
            WaitingOn::Operator,
            draft.now(),
            format!("call ResumeRun once this is repaired: {cause}"),
        );
        draft.pause(&run.graph, wait, &cause)?;
        draft.end_leases(&run.graph, &cause)
    })
    .await
}

/// Observes and records. Answers whether the observation is complete.
async fn observe_all(run: &LeasedRun) -> Result<bool, Ended> {
    let wanted = wanted(run).await;
    // Without observations there is nothing to store, and they cost nothing.
    if wanted.is_empty() && run.clone_folder().is_none() {
        return Ok(true);
    }
    let number = run.execution().await.counters.verification_round;
    let (mut records, mut whole, mut end) = observe_once(run, &wanted, number).await?;
    let why = match &end {
        Ok(Some(RoundEnd { moved, .. })) if !moved.is_empty() => {
            Some(format!("the workspace changed during the verification: {moved:?}"))
        }
        Ok(_) => None,
        Err(error) => Some(format!("the workspace could not be compared at the end: {error}")),
    };
    if let Some(why) = why {
        tracing::warn!(run_id = %run.spec.id, why, "verify: observing once more");
        (records, whole, end) = observe_once(run, &wanted, number).await?;
    }
    let outcome = match &end {
        Ok(end) => end.as_ref().map(RoundEnd::outcome),
        // It is not known that what was observed is about one state.
        Err(error) => {
            let message = format!("{WORKSPACE_UNKNOWN}: {}", error.message);
            Some(ToolError::new(error.code, message).into())
        }
    };
    if let Some(outcome) = outcome {
        records.push(record_of_end(run, outcome, number).await?);
    }
    let end = end.ok().flatten();
    let mut commit = None;
    if let Some(clone) = run.clone_folder().filter(|_| whole) {
        let Some((outcome, of)) = repository::record(run, clone, end.as_ref()).await? else {
            return Ok(false);
        };
        records.push(record_of_repository(run, outcome, number).await?);
        commit = Some(of);
    }
    // The change is journaled, and so signed, by what it records.
    if records.is_empty() {
        return Ok(whole);
    }
    let base = snapshots::known_base(run);
    run.insist(|draft| {
        base.iter().for_each(|base| base.refer(draft));
        for record in &records {
            draft.receipt(record.receipt.clone());
            record.output.iter().for_each(|output| draft.journal(Entry::Output(output.clone())));
        }
        commit.iter().for_each(|commit| draft.accept_work(commit.clone(), None));
        // A pause in between began another round.
        let same_round = draft.execution().counters.verification_round == number;
        draft.set_observed(whole && same_round);
        Ok(())
    })
    .await?;
    Ok(run.execution().await.counters.observed)
}

/// Carries out every probe. Answers the records, whether they are complete, and the workspace after them or why it is not
/// known.
async fn observe_once(
    run: &LeasedRun,
    wanted: &[Probe],
    number: u32,
) -> Result<(Vec<Record>, bool, Result<Option<RoundEnd>, ToolError>), Ended> {
    let mut records = Vec::new();
    let about = About { place: of_run(run), number, patience: patience(run), copies: false };
    let round = begin(run, wanted, &about).await?;
    for probe in wanted {
        match carry_out(run, &round, probe, &about, &mut records).await {
            Ok(()) => {}
            // Another process changed the run, for example to pause it: the observations so far are
            // kept.
            Err(Ended::Overtaken) => return Ok((records, false, Ok(None))),
            Err(ended) => return Err(ended),
        }
    }
    let end = wait_for_resources(run, patience(run), || round.end()).await;
    if let Err(error) = &end {
        called_off(run, &error.clone().into())?;
    }
    let is_still = |end: &Option<RoundEnd>| end.as_ref().is_none_or(|end| end.moved.is_empty());
    if run.spec.policy.in_doubt == InDoubt::Ask && end.as_ref().is_ok_and(is_still) {
        records.extend(record_of_difference(run, &round, &about, &records).await?);
    }
    if let Some(latest) = round.latest() {
        run.known.history.remember(&latest);
    }
    Ok((records, true, end))
}

/// The record of the workspace at the end of a round. The gate refuses one that changed during the round, or that is not
/// known.
async fn record_of_end(run: &LeasedRun, outcome: ToolOutcome, round: u32) -> Result<Record, Ended> {
    let about = About { place: of_run(run), number: round, patience: patience(run), copies: false };
    let mut record = record(run, Done::now(run, call(observing()), outcome), &about).await?;
    let check_id = WORKSPACE_CHECK.to_owned();
    record.receipt.probe_of = Some(CheckProbe { check_id, round, inputs: Inputs::Unstated });
    Ok(record)
}

/// The record of the commit that the verdict will be about.
async fn record_of_repository(
    run: &LeasedRun,
    outcome: ToolOutcome,
    round: u32,
) -> Result<Record, Ended> {
    let about = About { place: of_run(run), number: round, patience: patience(run), copies: false };
    let mut record = record(run, Done::now(run, call(observing()), outcome), &about).await?;
    let check_id = REPOSITORY_CHECK.to_owned();
    record.receipt.probe_of = Some(CheckProbe { check_id, round, inputs: Inputs::Unstated });
    Ok(record)
}

/// The record of what the run did to check inputs, for a person who may be asked to accept it; none where the
/// round ran no command.
async fn record_of_difference(
    run: &LeasedRun,
    round: &Arc<Round>,
    about: &About,
    records: &[Record],
) -> Result<Option<Record>, Ended> {
    let needed = |record: &Record| {
        let inputs = record.receipt.probe_of.as_ref().map(|probe| probe.inputs);
        inputs == Some(Inputs::OriginalWithIgnored)
    };
    let with_ignored = records.iter().any(needed);
    let started_at = run.engine.now();
    let differing = wait_for_resources(run, patience(run), || async {
        let originals = snapshots::originals(run).await?;
        round.difference(originals, with_ignored).await
    });
    let outcome = match differing.await {
        Ok(Some(outcome)) => outcome,
        Ok(None) => return Ok(None),
        Err(error) => {
            called_off(run, &error.clone().into())?;
            // Without the record a doubt is refused.
            tracing::warn!(run_id = %run.spec.id, %error, "verify: the difference of the check inputs could not be made");
            return Ok(None);
        }
    };
    let finished_at = run.engine.now();
    let done = Done { finished_at, ..Done::since(started_at, run, call(observing()), outcome) };
    let mut record = record(run, done, about).await?;
    let (check_id, round) = (DIFFERENCE_CHECK.to_owned(), about.number);
    record.receipt.probe_of = Some(CheckProbe { check_id, round, inputs: Inputs::Unstated });
    Ok(Some(record))
}

/// The round, compared with the workspace before the run where a probe needs that.
pub(super) async fn begin(
    run: &LeasedRun,
    wanted: &[Probe],
    about: &About,
) -> Result<Arc<Round>, Ended> {
    let needs =
        |probe: &Probe| runs_command(probe) || matches!(probe.observation, Observation::Change(_));
    let is_of_step = !about.place.step_id.is_empty();
    // The verdict names the workspace, so a round of the whole run always reads it.
    let compares = match run.spec.policy.verify_commands {
        VerifyCommands::Runner if !is_of_step => true,
        VerifyCommands::Runner | VerifyCommands::ReceiptsOnly => {
            wanted.iter().any(needs) && snapshots::has_base(run).await
        }
    };
    let start = if compares { snapshots::start(run).await.map(Some) } else { Ok(None) };
    let rules = snapshots::rules(run);
    if let Err(error) = start.as_ref().map(drop).and(rules.as_ref().map(drop)) {
        called_off(run, &error.clone().into())?;
    }
    let round = Round::new(Setup {
        folder: Arc::clone(&run.folder),
        environment: Arc::clone(&run.engine.environment),
        sandbox: Arc::new(run.engine.sandbox.under(&run.spec.policy)),
        secrets: Arc::new(run.engine.secrets.of_run(&run.spec.namespace, &[])),
        rules: rules.clone().unwrap_or_default(),
        additions: additions(run, wanted).await,
        start: rules.and(start),
        latest: run.known.history.latest(),
        time_limit: about.patience,
        copies: about.copies,
        cancel: run.lease.calls.clone(),
        kill: run.lease.kill.clone(),
    });
    let opening = wait_for_resources(run, about.patience, || round.open(wanted)).await;
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

async fn additions(run: &LeasedRun, wanted: &[Probe]) -> Additions {
    let overlays = snapshots::overlays(run, wanted).await;
    Additions { overlays, canary: run.spec.policy.canary }
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
    probes(&run.plan.verify, &run.spec.policy, run.wrote_files().await)
}

/// Carries out a probe with each of the inputs that it needs, and makes the records, which name the check
/// that they decide.
pub(super) async fn carry_out(
    run: &LeasedRun,
    round: &Arc<Round>,
    probe: &Probe,
    about: &About,
    records: &mut Vec<Record>,
) -> Result<(), Ended> {
    let mut so_far = Vec::new();
    while let Some(inputs) = round.next_inputs(probe, &so_far) {
        if run.engine.drain.is_cancelled() {
            return Err(Ended::Draining);
        }
        let mut record = carry_out_with(run, round, (probe, &so_far), inputs, about).await?;
        let check_id = probe.check_id.clone();
        record.receipt.probe_of = Some(CheckProbe { check_id, round: about.number, inputs });
        so_far.push((inputs, record.receipt.success));
        records.push(record);
    }
    Ok(())
}

async fn carry_out_with(
    run: &LeasedRun,
    round: &Arc<Round>,
    (probe, so_far): (&Probe, &[(Inputs, bool)]),
    inputs: Inputs,
    about: &About,
) -> Result<Record, Ended> {
    if inputs.is_at_start() && !round.has_originals() {
        give_originals(run, round).await?;
    }
    let call = call(call_of(probe));
    let runs = runs_command(probe);
    if runs {
        write_down(run, &call, about).await?;
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
        round.probe(probe, inputs, so_far, call.id).await
    };
    let call_id = call.id.to_string();
    let span = telemetry::probe_span(&run.present_span(), &probe.check_id, &call_id);
    let probing = wait_for_resources(run, about.patience, attempt);
    let outcome: ToolOutcome = probing.instrument(span.clone()).await;
    describe(&span, &outcome);
    called_off(run, &outcome)?;
    let done = Done::since(started_at, run, call, outcome);
    record(run, done, about).await
}

/// Takes the originals for a command that runs on the workspace of the start. Without them it is not run.
async fn give_originals(run: &LeasedRun, round: &Arc<Round>) -> Result<(), Ended> {
    let given = match snapshots::originals(run).await {
        Ok(originals) => round.give(originals).await,
        Err(error) => Err(error),
    };
    if let Err(error) = given {
        called_off(run, &error.clone().into())?;
        tracing::warn!(run_id = %run.spec.id, %error, "verify: the code of the start could not be read");
    }
    Ok(())
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
async fn write_down(run: &LeasedRun, call: &Call, about: &About) -> Result<(), Ended> {
    run.change_now(|draft| {
        draft.journal(Entry::Intent(Intent {
            step_id: about.place.step_id.clone(),
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

async fn record(run: &LeasedRun, done: Done, about: &About) -> Result<Record, Ended> {
    let make = |done: &Done| record_as(about.place.clone(), EvidenceSource::Probe, done);
    let (_, record) = keep(run, done, about.patience, make).await?;
    Ok(record)
}

/// The time limit of a verification is that of a step.
fn patience(run: &LeasedRun) -> Duration {
    Duration::from_secs(run.spec.limits.step_deadline_s)
}
