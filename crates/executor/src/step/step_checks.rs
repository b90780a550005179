//! A step's own checks: probes at the end of the step, in a view, which the step's calls have no part in.
//!
//! Nothing of an attempt is kept but its receipts: after a crash the driver ends the step again, and the
//! probes are repeated.

use super::ended::Ended;
use super::evidence::{Record, of_step};
use super::leased_run::LeasedRun;
use super::probing::{About, begin, carry_out};
use super::shown_failures;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::check::{self, Evidence, Reason};
use surety_common::domain::decision::ExecuteDecision;
use surety_common::domain::journal::{Entry, Output};
use surety_common::domain::plan::PlanStep;
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::run::{DriverKind, VerifyCommands};
use surety_common::domain::step_checks::{StepEvidence, next_attempt, step_result, step_results};
use surety_common::domain::verdict::CheckResult;
use surety_common::domain::verification::{Probe, probes};

/// How long probes wait until no call of another step runs. Calls that would begin wait meanwhile. After it
/// the probes run beside the calls, in copies of the workspace.
const CALLS_MAY_TAKE: Duration = Duration::from_secs(30);
/// The shortest time limit of a probe, even at the end of the step's deadline.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// What the checks of a step came to, and what the failed ones put out.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) results: Vec<CheckResult>,
    /// For the driver; empty where nothing is to be shown.
    pub(super) shown: String,
}

/// The results of a step's own checks, for the driver's decision to end it.
pub(super) async fn results(
    run: &LeasedRun,
    index: usize,
    step: &PlanStep,
    decision: &ExecuteDecision,
) -> Result<Checked, Ended> {
    // What the step did last may not be committed yet.
    run.settle().await?;
    let receipts = run.receipts().await?;
    let workspace_root = run.spec.workspace.as_str();
    // The gate looks at the same text. The rest of a script's words is written by the runner.
    let final_text = match run.spec.driver {
        DriverKind::Script => step.done_when.as_str(),
        DriverKind::Remote | DriverKind::Model => decision.last_word(),
    };
    match run.spec.policy.verify_commands {
        VerifyCommands::ReceiptsOnly => {
            let evidence = Evidence::new(workspace_root, &receipts, final_text);
            Ok(Checked { results: by_receipts(step, &evidence), shown: String::new() })
        }
        VerifyCommands::Runner => {
            let (own, outputs) = probe(run, index, step, &receipts).await?;
            let evidence = StepEvidence {
                workspace_root,
                probes: &own,
                receipts: &receipts,
                final_text,
                in_doubt: run.spec.policy.in_doubt,
            };
            let results = step_results(&step.verify, &evidence);
            let shown =
                shown_failures::of_step(run, &step.verify, &results, (&own, &outputs)).await?;
            Ok(Checked { results, shown })
        }
    }
}

/// The results by what the calls of the run recorded.
fn by_receipts(step: &PlanStep, evidence: &Evidence<'_>) -> Vec<CheckResult> {
    let result = |check: &check::AcceptCheck| {
        let answer = check::evaluate(check, evidence);
        step_result(check, answer.err().map_or("", Reason::as_str).to_owned())
    };
    step.verify.iter().map(result).collect()
}

/// Carries out a probe for each check, and records them with their outputs.
async fn probe(
    run: &LeasedRun,
    index: usize,
    step: &PlanStep,
    receipts: &[EvidenceReceipt],
) -> Result<(Vec<EvidenceReceipt>, Vec<Output>), Ended> {
    let wanted = probes(&step.verify, &run.spec.policy, false);
    if wanted.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let left = run.time_left(index).await;
    let alone = run.hold_calls(CALLS_MAY_TAKE.min(left / 2)).await?;
    if alone.is_some() {
        // No process of a call may change what the probes look at. The next call starts its server again.
        run.servers.end_writers(false).await;
    }
    let about = About {
        place: of_step(run, index),
        number: next_attempt(receipts, &step.id, run.plan_revision),
        patience: run.time_left(index).await.max(LEAST_PATIENCE),
        copies: alone.is_none(),
    };
    let records = observe(run, &wanted, &about).await?;
    drop(alone);
    crash::point("executor.after_step_checks");
    run.change(|draft| {
        for record in &records {
            draft.receipt(record.receipt.clone());
            record.output.iter().for_each(|output| draft.journal(Entry::Output(output.clone())));
        }
        Ok(())
    })
    .await?;
    let outputs = records.iter().filter_map(|record| record.output.clone()).collect();
    Ok((records.into_iter().map(|record| record.receipt).collect(), outputs))
}

async fn observe(run: &LeasedRun, wanted: &[Probe], about: &About) -> Result<Vec<Record>, Ended> {
    let round = begin(run, wanted, about).await?;
    let mut records = Vec::new();
    for probe in wanted {
        carry_out(run, &round, probe, about, &mut records).await?;
    }
    if let Some(latest) = round.latest() {
        run.known.history.remember(&latest);
    }
    Ok(records)
}
