//! A run in the full view: what its rows say, and whether they are what was signed.

use super::work;
use crate::absent_hosts::blocked_by_absent_hosts;
use crate::planner::Planner;
use std::collections::VecDeque;
use std::sync::Arc;
use surety_common::domain::fault::Fault;
use surety_common::domain::journal::Entry;
use surety_common::domain::run::RunRecord;
use surety_common::domain::signature::{EvidenceReport, KeyId, SignatureStatus};
use surety_common::domain::verification::Sight;
use surety_common::store::{self, ReceiptProofs, RunOutline, SignedRow, StoreError};
use surety_common::wire::run::{DatedVerdict, run};
use surety_common::wire::v1;
use surety_common::wire::value::timestamp;
use uuid::Uuid;

/// The most receipts and turns in the full view.
const FULL_VIEW: usize = 1000;

/// The full view.
pub(super) async fn full_view(
    planner: &Planner,
    id: Uuid,
    sight: Sight,
) -> Result<v1::GetRunResponse, Fault> {
    // Read before the rows that are checked, so that nothing is shown which the check has not seen.
    let latest = match store::latest_work(&planner.pool, id, FULL_VIEW).await {
        // Its rows would be held until they are checked.
        Err(error @ StoreError::TooLarge { .. }) => return Err(error.into()),
        latest => latest,
    };
    let found = store::find_run(&planner.pool, id).await;
    let given = match &found {
        Ok(Some(record)) => verdict(planner, record).await,
        Ok(None) | Err(_) => Ok(None),
    };
    let signed = planner.signed(id).await?;
    let outline = signed.outline().clone();
    let keys = planner.keys.trust.as_ref().map(|trust| trust.trusted());
    let mut last = LastRows::default();
    let report = signed.check(keys.as_deref(), |row| last.add(row)).await?;
    let proofs = last.proofs(&id.to_string());
    let events = unless_rewritten(latest, &report)?.unwrap_or_default();
    let (mut receipts, mut turns) = (Vec::new(), Vec::new());
    for event in events {
        match event.entry {
            Entry::Receipt(receipt) => receipts.push(work::receipt_for(*receipt, sight, &proofs)),
            Entry::Turn(turn) => turns.push((*turn).into()),
            Entry::Transition(_)
            | Entry::Plan(_)
            | Entry::Intent(_)
            | Entry::Output(_)
            | Entry::Verdict(_)
            | Entry::Answer(_)
            | Entry::Forked(_) => {}
        }
    }
    let record = unless_rewritten(found, &report)?.flatten();
    let plan = record.as_ref().and_then(plan_of);
    let mut run = match record {
        Some(record) => {
            let verdict = unless_rewritten(given, &report)?.flatten();
            let signature = verdict.as_ref().and_then(|(_, signature)| signature.clone());
            let mut run = present(planner, record, verdict.map(|(verdict, _)| verdict)).await?;
            if let (Some(verdict), Some((key_id, signature))) = (&mut run.verdict, signature) {
                (verdict.key_id, verdict.signature) = (key_id.to_string(), signature);
            }
            run
        }
        None => outlined(id, outline),
    };
    run.steps.iter_mut().for_each(|step| count_turns(step, &turns));
    let signatures = Some(report.status.into());
    Ok(v1::GetRunResponse { run: Some(run), plan, receipts, turns, signatures })
}

/// The last rows of a journal: those with the receipts that are shown.
#[derive(Default)]
struct LastRows {
    rows: VecDeque<SignedRow>,
    receipts: usize,
}

impl LastRows {
    fn add(&mut self, row: SignedRow) {
        if row.commit.receipts.is_empty() {
            return;
        }
        self.receipts += row.commit.receipts.len();
        self.rows.push_back(row);
        while let Some(first) = self.rows.front().map(|first| first.commit.receipts.len())
            && self.receipts - first >= FULL_VIEW
        {
            self.receipts -= first;
            self.rows.pop_front();
        }
    }

    /// The proofs of their receipts.
    fn proofs(&self, run_id: &str) -> ReceiptProofs {
        self.rows.iter().flat_map(|row| row.commit.receipt_proofs(run_id)).collect()
    }
}

/// A run in its present state.
pub(super) async fn present(
    planner: &Planner,
    record: RunRecord,
    verdict: Option<DatedVerdict>,
) -> Result<v1::Run, Fault> {
    let id = record.spec.id;
    let mut absent = blocked_by_absent_hosts(planner, std::slice::from_ref(&record)).await?;
    let mut run = run(record, verdict);
    run.blocked = run.blocked.or_else(|| absent.remove(&id));
    Ok(run)
}

/// The latest verdict on a run, with its key and its signature.
async fn verdict(
    planner: &Planner,
    record: &RunRecord,
) -> Result<Option<(DatedVerdict, Option<(KeyId, Vec<u8>)>)>, StoreError> {
    let (id, sequence) = (record.spec.id, record.execution.counters.verdict_sequence);
    if sequence == 0 {
        return Ok(None);
    }
    let Some((at, verdict)) = store::verdict(&planner.pool, id, sequence).await? else {
        return Ok(None);
    };
    let signature = store::verdict_signature(&planner.pool, id, at).await?;
    Ok(Some(((at, verdict), signature)))
}

fn plan_of(record: &RunRecord) -> Option<v1::Plan> {
    let plan = Arc::unwrap_or_clone(record.plan.clone()?);
    let (revision, digest) = (record.execution.plan_revision, record.plan_digest.clone());
    Some(v1::Plan { revision, digest, ..plan.into() })
}

/// What rows say; none where one of them does not read and the check says that they are not what was signed: the rest is
/// shown, with the place.
fn unless_rewritten<T>(
    read: Result<T, StoreError>,
    report: &EvidenceReport,
) -> Result<Option<T>, Fault> {
    let is_broken = matches!(report.status, SignatureStatus::Broken(_));
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error @ StoreError::Corrupt { .. }) if is_broken => {
            tracing::warn!(%error, "planner: a row does not read, and is not what was signed; the rest of the run is shown");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// A run whose rows do not read.
fn outlined(id: Uuid, outline: RunOutline) -> v1::Run {
    let RunOutline { namespace, goal, state, created_at } = outline;
    let state = state.map_or(v1::RunState::Unspecified, v1::RunState::from);
    v1::Run {
        id: id.to_string(),
        namespace,
        goal,
        state: state.into(),
        created_at: Some(timestamp(created_at)),
        ..v1::Run::default()
    }
}

/// A settled step's counters are no longer in the run's row, so they are computed from the turns.
fn count_turns(step: &mut v1::StepProgress, turns: &[v1::Turn]) {
    let own =
        || turns.iter().filter(|turn| turn.step_id == step.id && turn.attempt == step.attempt);
    let rounds = own().count();
    let calls = own().filter(|turn| {
        let decision = turn.decision.as_ref();
        turn.correction.is_empty() && decision.is_some_and(|decision| decision.tool_call.is_some())
    });
    let tool_calls = calls.count();
    step.rounds = step.rounds.max(u32::try_from(rounds).unwrap_or(u32::MAX));
    step.tool_calls = step.tool_calls.max(u32::try_from(tool_calls).unwrap_or(u32::MAX));
}
