//! A run's rows with their signatures, read for a check or an export.

use super::StoreError;
use super::execution::{ExecutionRow, from_letter};
use super::journal::JournalRow;
use super::pages::Pages;
use super::plan;
use super::pool::within;
use super::signed_rows::{MutableRow, RunOutline, SignedPlanRow, SignedRunRow, VerdictRow};
use super::task::SignedTask;
use crate::domain::journal::{Entry, JournaledSteps, VerdictRecord, Wanted, read_changes};
use crate::domain::json::sha256;
use crate::domain::plan::Plan;
use crate::domain::receipt::ChainEnd;
use crate::domain::signature::{
    Commit, CommitLine, EvidenceReport, FoundColumns, KeyId, PlanColumns, RowSignature, RunColumns,
    SIGNATURE_BYTES, SignedVerdict, StoredState, TrustedKeys, Verifier, header_line, state_line,
    stored_line,
};
use crate::domain::step::StepState;
use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// The rows that are checked before other work of this thread goes on: each takes up to a tenth of a millisecond.
pub(super) const AT_ONCE: usize = 64;
/// The number of rows from which on a journal is long.
const LONG: usize = 1_000;
/// The number of long journals that this process checks at once; others wait.
static LONG_CHECKS: Semaphore = Semaphore::const_new(2);

/// A run's rows, read in their order from the first journal row on.
pub struct SignedRun {
    run_id: Uuid,
    run: RunColumns,
    outline: RunOutline,
    beside: PlansAndVerdicts,
    task: SignedTask,
    state: StoredState,
    /// The receipts that the run's own row counts, and the digest of the last.
    counted: ChainEnd,
    /// The columns of the run's own row that do not read.
    unread: Vec<String>,
    /// The number of the last entry that was read.
    last: i64,
    pages: Pages,
    rows: VecDeque<JournalRow>,
    /// The ids of the plan's steps, with their states.
    steps: Vec<(String, StepState)>,
    journaled: JournaledSteps,
}

/// The rows of a run beside its journal.
#[derive(Default)]
pub(super) struct PlansAndVerdicts {
    pub(super) plans: Vec<PlanColumns>,
    /// The last plan.
    last: Option<Arc<Plan>>,
    /// By the number of their entry, until a journal row announces them.
    verdicts: BTreeMap<i64, VerdictRow>,
}

impl PlansAndVerdicts {
    pub(super) async fn read(
        connection: &mut PgConnection,
        run_id: Uuid,
    ) -> Result<Self, StoreError> {
        let plans = sqlx::query_as(include_str!("sql/signed_plans.sql")).bind(run_id);
        let plans: Vec<SignedPlanRow> = plans.fetch_all(&mut *connection).await?;
        let verdicts = sqlx::query_as(include_str!("sql/signed_verdicts.sql")).bind(run_id);
        let verdicts: Vec<VerdictRow> = verdicts.fetch_all(connection).await?;
        // A plan that does not read was rewritten, which its digests name.
        let last = plans
            .last()
            .and_then(|plan| plan::recall(&plan.digest, plan.body.clone(), run_id).ok());
        let plans = plans.into_iter().map(SignedPlanRow::columns);
        let verdicts = verdicts.into_iter().map(|verdict| (verdict.sequence, verdict));
        Ok(Self { plans: plans.collect(), last, verdicts: verdicts.collect() })
    }

    /// Without what came behind an event and a revision of the plan.
    pub(super) fn up_to(mut self, sequence: i64, revision: u32) -> Self {
        self.plans.retain(|plan| plan.revision <= revision);
        self.verdicts.retain(|number, _| *number <= sequence);
        self
    }

    /// The verdicts that a journal row announces, by these numbers.
    pub(super) fn take(
        &mut self,
        records: impl IntoIterator<Item = (i64, VerdictRecord)>,
    ) -> Vec<SignedVerdict> {
        let taken = records.into_iter().filter_map(|(sequence, record)| {
            self.verdicts.remove(&sequence).map(|verdict| verdict.signed(record))
        });
        taken.collect()
    }

    /// Names the verdicts that no journal row announced.
    pub(super) fn name_the_rest(&self, verifier: &mut Verifier<'_>) {
        for sequence in self.verdicts.keys() {
            verifier.find(
                0,
                format!(
                    "verdict {sequence}: it is in the table of verdicts and not in the journal"
                ),
            );
        }
    }
}

/// A journal row, and the verdicts among its entries.
#[derive(Debug)]
pub struct SignedRow {
    /// The row.
    pub commit: Commit,
    /// Its verdicts.
    pub verdicts: Vec<SignedVerdict>,
    /// Why its entries do not read; they have neither receipts nor verdicts then.
    pub unread: Option<String>,
}

impl SignedRun {
    /// Begins to read a run; none when there is no such run.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn find(pool: &PgPool, run_id: Uuid) -> Result<Option<Self>, StoreError> {
        within(async {
            // One snapshot: a plan or a verdict that is stored meanwhile is read with none of its rows.
            let mut snapshot = pool.begin_with("begin isolation level repeatable read").await?;
            let run = sqlx::query_as(include_str!("sql/signed_run.sql")).bind(run_id);
            let Some(row): Option<SignedRunRow> = run.fetch_optional(&mut *snapshot).await? else {
                return Ok(None);
            };
            let beside = PlansAndVerdicts::read(&mut snapshot, run_id).await?;
            let task = SignedTask::find(&mut snapshot, run_id).await?;
            let execution = sqlx::query_as(include_str!("sql/signed_execution.sql")).bind(run_id);
            let execution = execution.fetch_one(&mut *snapshot).await.map_err(StoreError::from);
            let execution = execution.and_then(ExecutionRow::into_execution);
            let MutableRow { state, counted, unread } = row.mutable(run_id, execution.map(drop))?;
            snapshot.commit().await?;
            let ids = beside.last.iter().flat_map(|plan| &plan.steps).map(|step| step.id.clone());
            // A letter that is no state of a step is a change, which the digest of the row names.
            let letters = row.step_states.chars().map_while(from_letter);
            Ok(Some(Self {
                steps: ids.zip(letters).collect(),
                journaled: JournaledSteps::default(),
                run_id,
                task,
                beside,
                pages: Pages::new(pool.clone(), run_id, 0, i64::MAX),
                outline: row.outline(),
                run: row.columns(),
                state,
                counted,
                unread,
                last: 0,
                rows: VecDeque::new(),
            }))
        })
        .await
    }

    /// The next row; none at the end. A row that was written after the run was read counts no more.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn next(&mut self) -> Result<Option<SignedRow>, StoreError> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return match self.is_later(&row) {
                    true => Ok(None),
                    false => Ok(Some(self.read(&row))),
                };
            }
            match self.pages.next().await? {
                Some(rows) => self.rows.extend(rows),
                None => return Ok(None),
            }
        }
    }

    /// Whether a row came after the run's own row was read: while the run is at work, its journal grows.
    fn is_later(&self, row: &JournalRow) -> bool {
        row.sequence > self.state.sequence && !self.is_terminal()
    }

    fn is_terminal(&self) -> bool {
        matches!(self.state.state.as_str(), "DONE" | "FAILED" | "CANCELLED")
    }

    /// What does not read was rewritten, or a later version wrote it: a check names it.
    fn read(&mut self, row: &JournalRow) -> SignedRow {
        let stored = row.stored();
        let before = std::mem::replace(&mut self.last, stored.sequence);
        let (events, entries, unread) = match read_changes(stored, Wanted::Everything) {
            Ok(events) => {
                let entries = u32::try_from(events.len()).unwrap_or(u32::MAX);
                (events, entries, None)
            }
            Err(error) => {
                let sequence = stored.sequence;
                let why = format!("journal row {sequence}: its entries do not read: {error}");
                let entries = u32::try_from(sequence.saturating_sub(before)).unwrap_or_default();
                (Vec::new(), entries, Some(why))
            }
        };
        let (mut receipts, mut records, mut answers) = (Vec::new(), Vec::new(), 0_u32);
        for event in events {
            match event.entry {
                Entry::Receipt(receipt) => receipts.push(Ok(*receipt)),
                Entry::Verdict(record) => records.push((event.sequence, *record)),
                Entry::Transition(transition) => self.journaled.take(&transition),
                Entry::Answer(answer) => {
                    answers = answers.saturating_add(answer.is_of_a_person().into());
                }
                Entry::Plan(_)
                | Entry::Turn(_)
                | Entry::Intent(_)
                | Entry::Output(_)
                | Entry::Forked(_) => {}
            }
        }
        let line = CommitLine {
            sequence: stored.sequence,
            entries,
            at: stored.at,
            actor: stored.actor.to_owned(),
            entries_digest: sha256(&[stored.text.as_bytes()]),
            verdicts: u32::try_from(records.len()).unwrap_or(u32::MAX),
            answers,
            change: None,
        };
        let column = row.signature.as_deref();
        let signature = column.and_then(|column| RowSignature::of_row(column, answers));
        let column = column.filter(|_| signature.is_none()).map(<[u8]>::to_vec);
        let verdicts = self.beside.take(records);
        let (line, uncounted_answers) = line.under(signature.as_ref());
        let commit = Commit { line, receipts, uncounted_answers, signature, unread: column };
        SignedRow { commit, verdicts, unread }
    }

    /// What can be shown of the run also where its rows do not read.
    pub fn outline(&self) -> &RunOutline {
        &self.outline
    }

    /// Checks all of the run's rows, and hands each to `seen`. Other work of this process goes on meanwhile, and of long
    /// journals only some are checked at a time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn check(
        mut self,
        keys: Option<&TrustedKeys>,
        mut seen: impl FnMut(SignedRow) + Send,
    ) -> Result<EvidenceReport, StoreError> {
        let (mut checked, mut permit) = (0_usize, None);
        let mut verifier = Verifier::new(keys, self.run_id.to_string(), self.found());
        self.unread.iter().for_each(|unread| verifier.find(0, unread.as_str()));
        while let Some(row) = self.next().await? {
            row.unread.iter().for_each(|unread| verifier.find(0, unread.as_str()));
            verifier.commit(&row.commit.as_row());
            row.verdicts.iter().for_each(|verdict| verifier.verdict(verdict));
            seen(row);
            checked = checked.saturating_add(1);
            if checked.is_multiple_of(AT_ONCE) {
                tokio::task::yield_now().await;
            }
            if checked >= LONG && permit.is_none() {
                permit = Some(LONG_CHECKS.acquire().await.map_err(|_| StoreError::ShuttingDown)?);
            }
        }
        drop(permit);
        self.task.entries.iter().for_each(|entry| verifier.entry(entry));
        self.beside.name_the_rest(&mut verifier);
        let steps = self.steps.iter().map(|(id, state)| (id.as_str(), *state));
        verifier.steps(steps, &self.journaled);
        Ok(verifier.finish(&self.state, (self.counted.receipt_count, &self.counted.chain_digest)))
    }

    fn found(&self) -> FoundColumns {
        let (run, task, plans) = (&self.run, &self.task.columns, &self.beside.plans);
        FoundColumns { run: run.clone(), task: task.clone(), plans: plans.clone() }
    }

    /// The first lines of an export.
    pub fn head(&self) -> [String; 2] {
        [header_line(&self.run_id.to_string()), stored_line(&self.found())]
    }

    /// The last lines of an export, once every row was read: the history of the run's task, its state and its chain's
    /// end.
    pub fn tail(&self) -> Vec<String> {
        let run_id = self.run_id.to_string();
        let entries = self.task.entries.iter().flat_map(|entry| entry.to_lines(&run_id));
        entries.chain([state_line(&self.state), self.counted.to_line()]).collect()
    }

    /// The lines of a row in an export.
    pub fn lines(&self, row: &SignedRow) -> Vec<String> {
        let run_id = self.run_id.to_string();
        let verdicts = row.verdicts.iter().flat_map(|verdict| verdict.to_lines(&run_id));
        row.commit.to_lines(&run_id).into_iter().chain(verdicts).collect()
    }
}

/// The key and the signature over the summary of the verdict that was given on a run at a time; none without them.
///
/// # Errors
/// [`StoreError`]
pub async fn verdict_signature(
    pool: &PgPool,
    run_id: Uuid,
    at: DateTime<Utc>,
) -> Result<Option<(KeyId, Vec<u8>)>, StoreError> {
    let verdicts = sqlx::query_as(include_str!("sql/signed_verdicts.sql")).bind(run_id);
    let verdicts: Vec<VerdictRow> = within(async { Ok(verdicts.fetch_all(pool).await?) }).await?;
    let wanted = verdicts.into_iter().find(|verdict| verdict.decided_at == at);
    Ok(wanted.and_then(|verdict| {
        let key_id = KeyId(verdict.key_id?.try_into().ok()?);
        Some((key_id, verdict.signature?.get(..SIGNATURE_BYTES)?.to_vec()))
    }))
}
