//! The evidence for a verdict, read for many runs at once.

use super::StoreError;
use super::execution::signed_state;
use super::pages::{MAX_HELD, Pages};
use super::pool::within;
use super::query_batcher::QueryBatcher;
use super::run_row::RunRow;
use super::signed_rows::counted;
use super::signed_run::{AT_ONCE, PlansAndVerdicts, SignedRun};
use super::stored_time::StoredTime;
use super::task::{JudgedTask, judged_task};
use crate::domain::journal::{
    Entry, Evidence, Extent, StoredError, StoredRow, Turn, VerdictRecord, Wanted, read_changes,
};
use crate::domain::json::sha256;
use crate::domain::machine::run::RunState;
use crate::domain::receipt::EvidenceReceipt;
use crate::domain::run::RunRecord;
use crate::domain::signature::{
    CommitLine, EvidenceReport, FoundColumns, PlanColumns, Row, RowSignature, SignatureStatus,
    StoredState, TaskColumns, TrustedKeys, Verifier, instant,
};
use crate::domain::toolchain::is_task_namespace;
use sqlx::{FromRow, PgPool};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// Rows and bytes per journal that the statement over many runs reads. Most journals fit entirely;
/// 64 of them take 32 MiB at most.
const BEGINNING: (i64, i64) = (256, 512 * 1024);
/// A bundle that takes more than this fraction of its limit is large.
const LARGE_PART: usize = 16;
/// The number of large bundles that the process holds at once; others wait until a verdict is
/// written.
const LARGE_AT_ONCE: usize = 2;

/// One row of `bundles.sql`: the columns of the journal as arrays, one element per row.
#[derive(FromRow)]
struct BundleRow {
    #[sqlx(flatten)]
    run: RunRow,
    sequences: Vec<i64>,
    times: Vec<StoredTime>,
    actors: Vec<String>,
    entries: Vec<String>,
    signatures: Vec<Option<Vec<u8>>>,
    submitter: String,
    plan_created_at: Option<StoredTime>,
    plan_parent_digest: Option<String>,
    plan_reason: Option<String>,
}

/// A check of what a bundle has, as it is read.
struct Check<'k> {
    verifier: Verifier<'k>,
    beside: PlansAndVerdicts,
}

impl BundleRow {
    /// A check of the signatures of the rows in the bundle, with the plans and the verdicts beside them.
    fn verifier<'k>(
        &self,
        keys: &'k TrustedKeys,
        revision: u32,
        beside: PlansAndVerdicts,
        task: Option<TaskColumns>,
    ) -> Check<'k> {
        // What is judged is the plan in the bundle.
        let plan = self.run.plan().and_then(|(body, digest)| {
            let created_at = instant(self.plan_created_at?.nearest());
            let (parent, reason) =
                (self.plan_parent_digest.as_deref()?, self.plan_reason.as_deref()?);
            Some(PlanColumns::of(revision, [body, &created_at, digest, parent, reason]))
        });
        let run = self.run.signed_columns(&self.submitter);
        let earlier = beside.plans.iter().filter(|earlier| earlier.revision != revision);
        let plans = earlier.cloned().chain(plan).collect();
        let found = FoundColumns { run, task, plans };
        Check { verifier: Verifier::new(Some(keys), self.run.id().to_string(), found), beside }
    }

    /// The bundle of these rows, and the last of them with their bytes. Not a part of the async function, whose future
    /// would have room for each value in it.
    fn into_bundle(
        self,
        task: Option<JudgedTask>,
        wanted: fn(&Turn) -> bool,
        check: &mut Option<Box<Check<'_>>>,
    ) -> Result<(Box<EvidenceBundle>, (i64, usize)), StoreError> {
        let run_id = self.run.id();
        let mut evidence =
            if check.is_some() { Evidence::with_steps() } else { Evidence::default() };
        let mut signatures = self.signatures.iter();
        let bytes = evidence.read_on(self.rows(), wanted, |stored, extent, receipts| {
            let signature = signatures.next().and_then(Option::as_deref);
            check_row(check, (stored, extent), receipts, signature);
        });
        let bytes = bytes.map_err(|error| unread(run_id, error))?;
        let read = self.sequences.last().copied().unwrap_or_default();
        let run = self.run.into_record()?;
        let bundle = EvidenceBundle { run, evidence, task, signatures: None, permit: None };
        Ok((Box::new(bundle), (read, bytes)))
    }

    fn rows(&self) -> impl Iterator<Item = StoredRow<'_>> {
        let places = self.sequences.iter().zip(&self.times).zip(&self.actors).zip(&self.entries);
        places.map(|(((sequence, at), actor), text)| StoredRow {
            sequence: *sequence,
            at: at.nearest(),
            actor,
            text,
        })
    }
}

/// A run and the evidence in its journal, read from one snapshot.
#[derive(Debug, Clone)]
pub struct EvidenceBundle {
    /// The run.
    pub run: RunRecord,
    /// Its receipts, and the last turn of the requested kind.
    pub evidence: Evidence,
    /// Its task with the history; none of a run that is no task, or is not being verified.
    pub task: Option<JudgedTask>,
    /// What the signatures of its rows say; none where no keys are trusted.
    pub signatures: Option<EvidenceReport>,
    /// The permit for a large bundle, released when it is dropped.
    permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl EvidenceBundle {
    /// Whether its rows are not what was signed.
    fn is_broken(&self) -> bool {
        let status = self.signatures.as_ref().map(|report| &report.status);
        matches!(status, Some(SignatureStatus::Broken(_)))
    }
}

/// Where the trusted keys are read from: not from the database that is judged.
pub trait TrustSource: Send + Sync {
    /// The keys that are trusted now.
    fn trusted(&self) -> Arc<TrustedKeys>;
}

/// The process's single reader of evidence bundles. One statement reads all that are requested at a
/// time; the rest of a long journal is read separately. Clones share it.
#[derive(Clone)]
pub struct EvidenceBundles {
    /// By the run, and whether the signatures of its rows are checked.
    beginnings: QueryBatcher<(Uuid, bool)>,
    pool: PgPool,
    permit: Arc<Semaphore>,
    /// The limit of stored receipts in a bundle, in bytes.
    most: usize,
    trust: Option<Arc<dyn TrustSource>>,
}

impl EvidenceBundles {
    /// Starts the reader on a dedicated connection.
    pub fn start(pool: PgPool) -> Self {
        Self::holding(pool, MAX_HELD)
    }

    /// As [`Self::start`], with another limit of stored receipts in a bundle, in bytes.
    pub fn holding(pool: PgPool, most: usize) -> Self {
        let beginnings = QueryBatcher::start(pool.clone(), |runs: &[(Uuid, bool)]| {
            sqlx::query(include_str!("sql/bundles.sql"))
                .bind(runs.iter().map(|(run_id, _)| *run_id).collect::<Vec<_>>())
                .bind(RunState::Verifying.as_str())
                .bind(BEGINNING.0)
                .bind(BEGINNING.1)
                .bind(runs.iter().any(|(_, is_checked)| *is_checked))
        });
        let permit = Arc::new(Semaphore::new(LARGE_AT_ONCE));
        Self { beginnings, pool, permit, most, trust: None }
    }

    /// The same reader, which checks the signatures of what it reads against trusted keys.
    #[must_use]
    pub fn checked_against(self, trust: Option<Arc<dyn TrustSource>>) -> Self {
        Self { trust, ..self }
    }

    /// The bundle of a run, with the last of its turns that is `wanted`. For a run that is not
    /// being verified no evidence is read.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::TooLarge`] when its receipts exceed the limit; [`StoreError::Rewritten`] when a row
    /// does not read and keys are trusted.
    pub async fn find(
        &self,
        run_id: Uuid,
        wanted: fn(&Turn) -> bool,
    ) -> Result<Option<Box<EvidenceBundle>>, StoreError> {
        match (self.read(run_id, wanted).await, &self.trust) {
            (Err(unread @ StoreError::Corrupt { .. }), Some(trust)) => {
                Err(Box::pin(self.rewritten(run_id, trust.as_ref(), unread)).await?)
            }
            (found, _) => found,
        }
    }

    /// What a row that does not read is: rewritten, where the check of all rows of the run says so.
    async fn rewritten(
        &self,
        run_id: Uuid,
        trust: &dyn TrustSource,
        unread: StoreError,
    ) -> Result<StoreError, StoreError> {
        let Some(signed) = SignedRun::find(&self.pool, run_id).await? else { return Ok(unread) };
        // The keys come behind the rows: each was trusted before it signed.
        let keys = trust.trusted();
        match signed.check(Some(&keys), |_| ()).await?.status {
            SignatureStatus::Broken(place) => {
                tracing::warn!(%run_id, error = %unread, "store: a row does not read, and is not what was signed");
                Ok(StoreError::Rewritten { place })
            }
            SignatureStatus::Signed | SignatureStatus::Unsigned(_) => Ok(unread),
        }
    }

    async fn read(
        &self,
        run_id: Uuid,
        wanted: fn(&Turn) -> bool,
    ) -> Result<Option<Box<EvidenceBundle>>, StoreError> {
        let question = (run_id, self.trust.is_some());
        let Some(row) = self.beginnings.ask(question).await?.pop() else { return Ok(None) };
        let row = Box::new(BundleRow::from_row(&row)?);
        let keys = self.trust.as_ref().map(|trust| trust.trusted());
        // Only runs in these namespaces are tasks: other runs make no further query.
        let (task, unreadable) = match is_task_namespace(row.run.namespace()) {
            // On the heap, so that the futures of many other runs stay small.
            true => Box::pin(self.read_task(run_id)).await?,
            false => (None, None),
        };
        let columns = || task.as_ref().and_then(|task| task.signed.columns.clone());
        let (revision, sequence, last_verdict) = row.run.progress()?;
        // Most runs have one plan and no verdict yet: they make no further query.
        let beside = match keys.is_some() && (revision > 1 || last_verdict > 0) {
            true => Box::pin(self.beside(run_id)).await?.up_to(sequence, revision),
            false => PlansAndVerdicts::default(),
        };
        let verifier = |keys| Box::new(row.verifier(keys, revision, beside, columns()));
        let mut check = keys.as_deref().map(verifier);
        let (mut bundle, read) = row.into_bundle(task, wanted, &mut check)?;
        if bundle.run.execution.state != RunState::Verifying {
            return Ok(Some(bundle));
        }
        self.read_on(&mut bundle, read, wanted, &mut check).await?;
        let counters = &bundle.run.execution.counters;
        let counted = counted(run_id, counters);
        bundle.signatures = match (check, keys.as_deref()) {
            // No verdict follows: the check only says what was rewritten.
            (Some(_), Some(keys)) if unreadable.is_some() => {
                Box::pin(checked_as_a_whole(&self.pool, run_id, keys)).await?
            }
            (Some(check), Some(_)) => {
                let Check { verifier: mut check, beside } = *check;
                let entries = bundle.task.iter().flat_map(|task| &task.signed.entries);
                entries.for_each(|entry| check.entry(entry));
                beside.name_the_rest(&mut check);
                let execution = &bundle.run.execution;
                let plan = bundle.run.plan.iter().flat_map(|plan| &plan.steps);
                let ids = plan.map(|step| step.id.as_str());
                let journaled = bundle.evidence.steps.take().unwrap_or_default();
                check.steps(ids.zip(execution.step_states()), &journaled);
                let after = signed_state(execution)?;
                let state = StoredState {
                    state: after.state.as_str().to_owned(),
                    plan_revision: execution.plan_revision,
                    sequence: execution.sequence,
                    progress: after.progress,
                    history: counters.history.as_deref().cloned(),
                };
                Some(check.finish(&state, (counted.receipt_count, &counted.chain_digest)))
            }
            _ => None,
        };
        // A task that does not read was rewritten where its signature is broken, which the gate refuses.
        match unreadable.filter(|_| !bundle.is_broken()) {
            Some(error) => Err(error),
            None => Ok(Some(bundle)),
        }
    }

    async fn beside(&self, run_id: Uuid) -> Result<PlansAndVerdicts, StoreError> {
        within(async {
            // One snapshot: a verdict that is stored meanwhile is read with no plan that is not.
            let mut snapshot =
                self.pool.begin_with("begin isolation level repeatable read").await?;
            let beside = PlansAndVerdicts::read(&mut snapshot, run_id).await?;
            snapshot.commit().await?;
            Ok(beside)
        })
        .await
    }

    /// The task of a run, or why its rows do not read.
    async fn read_task(
        &self,
        run_id: Uuid,
    ) -> Result<(Option<JudgedTask>, Option<StoreError>), StoreError> {
        match judged_task(&self.pool, run_id).await {
            Ok(task) => Ok((task, None)),
            Err(error @ StoreError::Corrupt { .. }) => Ok((None, Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Reads the journal after the rows that the common statement returned, which were `read`
    /// bytes.
    async fn read_on(
        &self,
        bundle: &mut EvidenceBundle,
        (read, mut bytes): (i64, usize),
        wanted: fn(&Turn) -> bool,
        check: &mut Option<Box<Check<'_>>>,
    ) -> Result<(), StoreError> {
        let run_id = bundle.run.spec.id;
        // The journal only grows: this is its end when the run was read.
        let mut pages = Pages::new(self.pool.clone(), run_id, read, bundle.run.execution.sequence);
        while let Some(rows) = pages.next().await? {
            for rows in rows.chunks(AT_ONCE) {
                let mut signatures = rows.iter().map(|row| row.signature.as_deref());
                let stored = rows.iter().map(|row| row.stored());
                let more = bundle.evidence.read_on(stored, wanted, |stored, extent, receipts| {
                    check_row(check, (stored, extent), receipts, signatures.next().flatten());
                });
                bytes += more.map_err(|error| unread(run_id, error))?;
                tokio::task::yield_now().await;
            }
            if bytes > self.most {
                return Err(StoreError::TooLarge {
                    what: format!("the size of the receipts of run {run_id}"),
                    limit: self.most,
                    instead: "so it cannot be judged: divide its work among several runs",
                });
            }
            if bytes > self.most / LARGE_PART && bundle.permit.is_none() {
                let permit = Arc::clone(&self.permit).acquire_owned().await;
                bundle.permit = Some(Arc::new(permit.map_err(|_| StoreError::ShuttingDown)?));
            }
        }
        Ok(())
    }
}

/// Checks all rows of a run as they are stored now.
async fn checked_as_a_whole(
    pool: &PgPool,
    run_id: Uuid,
    keys: &TrustedKeys,
) -> Result<Option<EvidenceReport>, StoreError> {
    let Some(signed) = SignedRun::find(pool, run_id).await? else { return Ok(None) };
    signed.check(Some(keys), |_| ()).await.map(Some)
}

/// Checks the signature of one row.
fn check_row(
    check: &mut Option<Box<Check<'_>>>,
    (stored, extent): (StoredRow<'_>, Extent),
    receipts: &[EvidenceReceipt],
    signature: Option<&[u8]>,
) {
    let Some(Check { verifier: check, beside }) = check.as_deref_mut() else { return };
    let line = CommitLine {
        sequence: stored.sequence,
        entries: extent.entries,
        at: stored.at,
        actor: stored.actor.to_owned(),
        entries_digest: sha256(&[stored.text.as_bytes()]),
        verdicts: extent.verdicts,
        answers: extent.answers,
        change: None,
    };
    let read = signature.and_then(|column| RowSignature::of_row(column, extent.answers));
    let (unread, signature) = (signature.filter(|_| read.is_none()), read);
    let (line, uncounted_answers) = line.under(signature.as_ref());
    let receipts = receipts.iter().map(Ok).collect();
    let signature = signature.as_ref();
    check.commit(&Row { line: &line, receipts, uncounted_answers, signature, unread });
    if extent.verdicts > 0 {
        match verdicts(stored) {
            Ok(verdicts) => beside.take(verdicts).iter().for_each(|it| check.verdict(it)),
            Err(error) => {
                let sequence = line.sequence;
                check
                    .find(0, format!("journal row {sequence}: its verdict does not read: {error}"));
            }
        }
    }
}

/// The verdicts of a row, by the numbers of their entries.
fn verdicts(row: StoredRow<'_>) -> Result<Vec<(i64, VerdictRecord)>, StoredError> {
    let events = read_changes(row, Wanted::Everything)?;
    let verdicts = events.into_iter().filter_map(|event| match event.entry {
        Entry::Verdict(record) => Some((event.sequence, *record)),
        Entry::Transition(_)
        | Entry::Plan(_)
        | Entry::Turn(_)
        | Entry::Receipt(_)
        | Entry::Intent(_)
        | Entry::Output(_)
        | Entry::Answer(_)
        | Entry::Forked(_) => None,
    });
    Ok(verdicts.collect())
}

fn unread(run_id: Uuid, error: StoredError) -> StoreError {
    StoreError::corrupt(format!("journal of run {run_id}"), error)
}
