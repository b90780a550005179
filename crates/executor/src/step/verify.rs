//! The runner's verification before the gate decides: it carries out a round of probes, and records
//! what each observed. Then it calls the gate.
//!
//! A verification can be repeated after a crash.

use super::call_setup::{Done, called_off};
use super::ended::Ended;
use super::evidence::Record;
use super::leased_run::LeasedRun;
use super::probing::{About, call, carry_out, record};
use super::resource_wait::wait_for_resources;
use super::slots::Slot;
use super::{repository, snapshots, unrecorded_changes};
use crate::gate::Moved;
use crate::round::{Ended as RoundEnd, Round, observing};
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::sync::Arc;
use surety_common::domain::acceptance::DIFFERENCE_CHECK;
use surety_common::domain::check_inputs::names_ignored;
use surety_common::domain::execution::Wait;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::fault::{Fault, FaultClass, FaultCode, Reason};
use surety_common::domain::journal::Entry;
use surety_common::domain::receipt::{CheckProbe, Inputs};
use surety_common::domain::repository::REPOSITORY_CHECK;
use surety_common::domain::run::InDoubt;
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::domain::verification::{WORKSPACE_CHECK, WORKSPACE_UNKNOWN};
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
        draft.pause(&run.graph, wait, cause.clone())?;
        draft.end_leases(&run.graph, cause.clone())
    })
    .await
}

/// Observes and records. Answers whether the observation is complete.
async fn observe_all(run: &LeasedRun) -> Result<bool, Ended> {
    // Without observations there is nothing to store, and they cost nothing.
    if run.clone_folder().is_none() && !unrecorded_changes::observes(run).await {
        return Ok(true);
    }
    let number = run.execution().await.counters.verification_round;
    let (mut records, mut whole, mut end) = observe_once(run, number).await?;
    let why = match &end {
        Ok(Some(RoundEnd { moved, .. })) if !moved.is_empty() => {
            Some(format!("the workspace changed during the verification: {moved:?}"))
        }
        Ok(_) => None,
        Err(error) => Some(format!("the workspace could not be compared at the end: {error}")),
    };
    if let Some(why) = why {
        tracing::warn!(run_id = %run.spec.id, why, "verify: observing once more");
        (records, whole, end) = observe_once(run, number).await?;
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
    number: u32,
) -> Result<(Vec<Record>, bool, Result<Option<RoundEnd>, ToolError>), Ended> {
    let about = About::of_run(run, number);
    let (round, wanted, mut records) = unrecorded_changes::begin_round(run, &about).await?;
    let is_about_workspace =
        run.clone_folder().is_some() || snapshots::is_read_for_receipts(run).await;
    if wanted.is_empty() && !is_about_workspace && round.is_compared() {
        return Ok((records, true, Ok(None)));
    }
    for probe in &wanted {
        match carry_out(run, &round, probe, &about, &mut records).await {
            Ok(()) => {}
            // Another process changed the run, for example to pause it: the observations so far are
            // kept.
            Err(Ended::Overtaken) => return Ok((records, false, Ok(None))),
            Err(ended) => return Err(ended),
        }
    }
    let end = wait_for_resources(run, about.patience, || round.end()).await;
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
    let about = About::of_run(run, round);
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
    let about = About::of_run(run, round);
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
    // A run that fails with the ignored files decides nothing by them.
    let needed = |record: &Record| {
        let inputs = record.receipt.probe_of.as_ref().map(|probe| probe.inputs);
        record.receipt.success
            && (inputs == Some(Inputs::OriginalWithIgnored) || names_ignored(&record.receipt.facts))
    };
    let with_ignored = records.iter().any(needed);
    let started_at = run.engine.now();
    let differing = wait_for_resources(run, about.patience, || async {
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
