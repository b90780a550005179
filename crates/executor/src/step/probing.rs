//! Rounds of probes, of a run or of a step, and the records of what they observed.

use super::call_setup::{Call, Done, called_off};
use super::ended::Ended;
use super::evidence::{Record, keep, of_run, record_as};
use super::leased_run::LeasedRun;
use super::resource_wait::wait_for_resources;
use super::snapshots;
use crate::round::{Additions, Place, Round, Setup, call_of, runs_command};
use crate::tool::{ToolError, ToolOutcome};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::journal::{Entry, Intent};
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{CheckProbe, EvidenceSource, Inputs};
use surety_common::domain::run::VerifyCommands;
use surety_common::domain::verification::{Observation, Probe};
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

impl About {
    /// A round of the whole run. The time limit of a verification is that of a step.
    pub(super) fn of_run(run: &LeasedRun, number: u32) -> Self {
        let patience = Duration::from_secs(run.spec.limits.step_deadline_s);
        Self { place: of_run(run), number, patience, copies: false }
    }
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
        VerifyCommands::ReceiptsOnly
            if !is_of_step && snapshots::is_read_for_receipts(run).await =>
        {
            true
        }
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
        span: run.present_span(),
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
        Err(error) => {
            round.not_opened(&error);
            Err(error)
        }
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
        telemetry::fail(span, code.as_str());
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

/// A call of the runner's own.
pub(super) fn call(tool_call: ToolCall) -> Call {
    Call { id: Uuid::now_v7(), tool_call }
}

/// The record of what the runner did or observed, with its output kept.
pub(super) async fn record(run: &LeasedRun, done: Done, about: &About) -> Result<Record, Ended> {
    let make = |done: &Done| record_as(about.place.clone(), EvidenceSource::Probe, done);
    let (_, record) = keep(run, done, about.patience, make).await?;
    Ok(record)
}
