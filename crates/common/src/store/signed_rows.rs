//! The rows of a run that are signed, besides its journal: as they are stored, and what they say.

use super::StoreError;
use super::execution::{Progress, SignedPhase};
use super::plan::StoredPlan;
use super::signing::plan_columns;
use super::stored_time::StoredTime;
use crate::domain::execution::Counters;
use crate::domain::journal::VerdictRecord;
use crate::domain::machine::run::RunState;
use crate::domain::receipt::ChainEnd;
use crate::domain::signature::{
    Digest, KeyId, PlanColumns, RangeProof, RunColumns, SIGNATURE_BYTES, SignedVerdict,
    StoredState, VerdictAnchor, instant,
};
use crate::domain::stop::Terminal;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The columns of a run as they are signed.
#[derive(sqlx::FromRow)]
pub(super) struct SignedRunRow {
    created_at: StoredTime,
    driver: String,
    forked_from: Option<String>,
    goal: String,
    limits: String,
    namespace: String,
    policy: String,
    repository: Option<String>,
    submitter: String,
    workspace: String,
    labels: String,
    state: String,
    plan_revision: i32,
    sequence: i64,
    progress: String,
    blocked_from: Option<String>,
    pub(super) step_states: String,
    terminal: Option<String>,
}

/// What the mutable row of a run says, as far as it reads.
pub(super) struct MutableRow {
    pub(super) state: StoredState,
    /// The receipts that it counts, and the digest of the last.
    pub(super) counted: ChainEnd,
    /// The columns that do not read.
    pub(super) unread: Vec<String>,
}

/// What a run's rows say of it that reads whatever else was rewritten.
#[derive(Debug, Clone)]
pub struct RunOutline {
    /// The namespace.
    pub namespace: String,
    /// The goal.
    pub goal: String,
    /// The state; none for a text that is no state.
    pub state: Option<RunState>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
}

#[derive(sqlx::FromRow)]
pub(super) struct SignedPlanRow {
    revision: i32,
    pub(super) body: String,
    created_at: StoredTime,
    pub(super) digest: String,
    parent_digest: String,
    reason: String,
}

#[derive(sqlx::FromRow)]
pub(super) struct VerdictRow {
    pub(super) sequence: i64,
    plan_revision: i32,
    accepted: bool,
    #[sqlx(try_from = "StoredTime")]
    pub(super) decided_at: DateTime<Utc>,
    pub(super) key_id: Option<Vec<u8>>,
    pub(super) signature: Option<Vec<u8>>,
    first_leaf: Option<i32>,
    nodes: Option<Vec<u8>>,
    leaf_count: Option<i32>,
    token: Option<Vec<u8>>,
}

impl SignedRunRow {
    pub(super) fn columns(self) -> RunColumns {
        let text = |text: Option<String>| text.unwrap_or_default();
        RunColumns::of([
            &instant(self.created_at.nearest()),
            &self.driver,
            &text(self.forked_from),
            &self.goal,
            &self.limits,
            &self.namespace,
            &self.policy,
            &text(self.repository),
            &self.submitter,
            &self.workspace,
        ])
    }

    pub(super) fn outline(&self) -> RunOutline {
        RunOutline {
            namespace: self.namespace.clone(),
            goal: self.goal.clone(),
            state: RunState::from_text(&self.state, self.blocked_from.as_deref()),
            created_at: self.created_at.nearest(),
        }
    }

    /// A column that does not read says nothing that was signed, and is named. `execution` says whether the row reads for
    /// those that work on the run: a run that they cannot read is not what was signed.
    pub(super) fn mutable(
        &self,
        run_id: Uuid,
        execution: Result<(), StoreError>,
    ) -> Result<MutableRow, StoreError> {
        let mut unread = Vec::new();
        let mut named = |column: &str, why: serde_json::Error| {
            unread.push(format!("execution.{column}: it does not read: {why}"));
        };
        let progress: Option<Progress> =
            serde_json::from_str(&self.progress).map_err(|why| named("progress", why)).ok();
        let terminal: Option<Option<Terminal>> = match &self.terminal {
            None => Some(None),
            Some(text) => serde_json::from_str(text).map_err(|why| named("terminal", why)).ok(),
        };
        if self.plan_revision < 0 {
            let number = self.plan_revision;
            unread.push(format!("execution.plan_revision: it is {number}, which is no revision"));
        }
        match execution {
            Err(StoreError::Corrupt { what, why }) if unread.is_empty() => {
                let column = what.rsplit("column ").next().unwrap_or_default();
                unread.push(format!("execution.{column}: it does not read: {why}"));
            }
            Ok(()) | Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        // No signature covers the labels, which no verdict rests on.
        if let Err(why) = serde_json::from_str::<BTreeMap<String, String>>(&self.labels) {
            unread.push(format!("run.labels: it does not read: {why}"));
        }
        let steps = || self.step_states.clone();
        let phase = SignedPhase::of(&self.state, self.blocked_from.as_deref(), steps);
        let digest = match (&progress, &terminal) {
            (Some(progress), Some(terminal)) if unread.is_empty() => {
                progress.digest(phase, terminal.as_ref())?
            }
            // An export of the run is broken, too.
            (Some(_) | None, _) => Digest::default(),
        };
        let counters = progress.as_ref().map(Progress::counters);
        let state = StoredState {
            state: self.state.clone(),
            plan_revision: revision(self.plan_revision),
            sequence: self.sequence,
            history: counters.and_then(|counters| counters.history.as_deref().cloned()),
            progress: digest,
        };
        let counted = counted(run_id, counters.unwrap_or(&Counters::default()));
        Ok(MutableRow { state, counted, unread })
    }
}

impl SignedPlanRow {
    pub(super) fn columns(self) -> PlanColumns {
        let Self { revision: number, body, created_at, digest, parent_digest, reason } = self;
        let (revision, created_at) = (revision(number), created_at.nearest());
        let plan = StoredPlan { revision, digest, parent_digest, reason, body, created_at };
        plan_columns(&plan)
    }
}

impl VerdictRow {
    /// The verdict with the columns of this table in the place of the journal's: where they differ, the signature does
    /// not hold.
    pub(super) fn signed(self, mut record: VerdictRecord) -> SignedVerdict {
        let anchor = self.anchor();
        let Self { plan_revision, accepted, decided_at, key_id, signature, .. } = self;
        record.verdict.accepted = accepted;
        record.plan_revision = revision(plan_revision);
        let key_id = key_id.and_then(|bytes| Some(KeyId(bytes.try_into().ok()?)));
        let signed = key_id.zip(signature).map(|(key_id, bytes)| {
            let (signatures, odd) = bytes.as_chunks::<SIGNATURE_BYTES>();
            (key_id, if odd.is_empty() { signatures.to_vec() } else { Vec::new() })
        });
        SignedVerdict { at: decided_at, record, signed, anchor }
    }

    /// A row that does not read gives an anchor that does not fit, so that a check names it.
    fn anchor(&self) -> Option<VerdictAnchor> {
        let (nodes, _) = self.nodes.as_ref()?.as_chunks::<32>();
        let number = |number: Option<i32>| number.and_then(|it| it.try_into().ok());
        let leaf_count = number(self.leaf_count).unwrap_or_default();
        let first = number(self.first_leaf).unwrap_or(u32::MAX);
        let proof = RangeProof { leaf_count, first, nodes: nodes.to_vec() };
        Some(VerdictAnchor { proof, token: self.token.clone().unwrap_or_default() })
    }
}

/// A number that is no revision gives one that no plan has.
fn revision(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The receipts that a run's own row counts.
pub(super) fn counted(run_id: Uuid, counters: &Counters) -> ChainEnd {
    ChainEnd {
        run_id: run_id.to_string(),
        receipt_count: counters.receipts.into(),
        chain_digest: counters.last_receipt_digest.clone(),
    }
}
