//! The statement that updates executions. Claims and takeovers change their leases.

use super::StoreError;
use super::execution::{
    blocked_from, letters, plan_revision, progress, state_change, to_text, wait_ids,
};
use super::plan::StoredPlan;
use super::signing::{RowToSign, Signing, plan_columns};
use super::wake::{Notices, Topic};
use crate::domain::execution::Execution;
use crate::domain::execution::draft::Write;
use crate::domain::execution::wait_rows::WaitChanges;
use crate::domain::journal::{Entry, Recorded, VerdictRecord, write_changes};
use crate::domain::signature::SignedColumns;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgArguments;
use sqlx::query::QueryScalar;
use sqlx::{Arguments, PgConnection, Postgres};
use std::collections::HashSet;
use uuid::Uuid;

/// The outcome of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The change is stored, with its journal row.
    Applied,
    /// Another writer changed the row first, or the lease was taken over. The caller reads the row
    /// and decides again.
    Lost,
}

/// One change, and the id of the span in which it was decided.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) write: &'a Write,
    pub(super) span_id: Option<&'a str>,
}

impl Change<'_> {
    /// Whether `next` was decided from the row that this change leaves, by the same writer.
    pub(super) fn is_followed_by(&self, next: &Write) -> bool {
        let Write { fence, actor, .. } = next;
        fence.version == self.write.execution.version
            && fence.lease_epoch == self.write.execution.lease_epoch
            && *actor == self.write.actor
    }
}

/// Changes of one run, each decided from the row that the one before leaves. They are stored as one
/// journal row and one new execution row, all or none.
pub(super) struct Chain<'a> {
    first: Change<'a>,
    later: Vec<Change<'a>>,
    /// Topics that the statement itself notifies.
    notified: Vec<Topic>,
    /// The plan revision that is stored in the same transaction.
    plan: Option<&'a StoredPlan>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(first: Change<'a>, later: Vec<Change<'a>>) -> Self {
        Self { first, later, notified: Vec::new(), plan: None }
    }

    /// Signs a plan revision with the row of the changes.
    pub(super) fn with_plan(self, plan: Option<&'a StoredPlan>) -> Self {
        Self { plan, ..self }
    }

    /// Notifies the subscribers of these topics in the statement's own transaction. The commit then
    /// takes a lock of the whole database, so only a chain that is written alone does this.
    pub(super) fn notify_on_commit(self, notified: Vec<Topic>) -> Self {
        Self { notified, ..self }
    }

    fn changes(&self) -> impl Iterator<Item = &Change<'a>> {
        std::iter::once(&self.first).chain(&self.later)
    }

    fn last(&self) -> &Write {
        self.later.last().unwrap_or(&self.first).write
    }

    /// The row after the last change.
    pub(super) fn row(&self) -> &Execution {
        &self.last().execution
    }

    /// What the changes together mean for the rows of waits.
    pub(super) fn waits(&self) -> WaitChanges {
        let mut waits = self.first.write.waits.clone();
        self.later.iter().for_each(|change| waits.and_then(&change.write.waits));
        waits
    }

    /// Every entry, in order.
    pub(super) fn events(&self) -> Vec<&Entry> {
        self.changes().flat_map(|change| &change.write.entries).collect()
    }

    /// The verdicts among the entries, each with its number and its time.
    fn verdicts(&self) -> impl Iterator<Item = (i64, DateTime<Utc>, &VerdictRecord)> {
        let count: usize = self.changes().map(|change| change.write.entries.len()).sum();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let before = self.row().sequence.saturating_sub(count);
        let timed = self.changes().flat_map(|change| {
            let at = change.write.execution.updated_at;
            change.write.entries.iter().map(move |entry| (at, entry))
        });
        (before.saturating_add(1)..).zip(timed).filter_map(|(sequence, (at, entry))| {
            let Entry::Verdict(record) = entry else { return None };
            Some((sequence, at, &**record))
        })
    }

    /// The column `entries`; empty when no event is journalled.
    pub(super) fn entries(&self) -> String {
        let notified = self.changes().filter(|change| !change.write.entries.is_empty());
        let changes: Vec<Recorded<'_>> = notified
            .map(|change| Recorded {
                at: change.write.execution.updated_at,
                span_id: change.span_id,
                entries: &change.write.entries,
            })
            .collect();
        match changes.is_empty() {
            true => String::new(),
            false => write_changes(&changes, &self.first.write.actor, self.row().updated_at),
        }
    }
}

impl<'a> From<Change<'a>> for Chain<'a> {
    fn from(change: Change<'a>) -> Self {
        Self::new(change, Vec::new())
    }
}

/// The columns of many new rows as arrays, one element per chain.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) run_id: Vec<Uuid>,
    read_version: Vec<i64>,
    read_epoch: Vec<i64>,
    pub(super) version: Vec<i64>,
    pub(super) state: Vec<&'static str>,
    pub(super) blocked_from: Vec<Option<&'static str>>,
    pub(super) sequence: Vec<i64>,
    pub(super) priority: Vec<i16>,
    pub(super) ready_at: Vec<Option<DateTime<Utc>>>,
    lease_owner: Vec<Option<Uuid>>,
    lease_epoch: Vec<i64>,
    pub(super) plan_revision: Vec<i32>,
    pub(super) step_states: Vec<String>,
    pub(super) progress: Vec<String>,
    pub(super) wait: Vec<Option<String>>,
    pub(super) wait_ids: Vec<Option<String>>,
    pub(super) terminal: Vec<Option<String>>,
    pub(super) deadline_at: Vec<Option<DateTime<Utc>>>,
    pub(super) at: Vec<DateTime<Utc>>,
    pub(super) entries: Vec<String>,
    pub(super) actor: Vec<String>,
    signature: Vec<Option<Vec<u8>>>,
}

impl Columns {
    pub(super) fn push(&mut self, chain: &Chain<'_>) -> Result<(), StoreError> {
        let row = chain.row();
        let fence = chain.first.write.fence;
        self.run_id.push(row.run_id);
        self.read_version.push(fence.version);
        self.read_epoch.push(fence.lease_epoch);
        self.version.push(row.version);
        self.state.push(row.state.as_str());
        self.blocked_from.push(blocked_from(row.state));
        self.sequence.push(row.sequence);
        self.priority.push(row.priority);
        self.ready_at.push(row.ready_at);
        self.lease_owner.push(row.lease_owner);
        self.lease_epoch.push(row.lease_epoch);
        self.plan_revision.push(plan_revision(row.plan_revision)?);
        self.step_states.push(letters(row));
        self.progress.push(progress(row)?);
        self.wait.push(row.wait.as_ref().map(to_text).transpose()?);
        self.wait_ids.push(wait_ids(row));
        self.terminal.push(row.terminal.as_ref().map(to_text).transpose()?);
        self.deadline_at.push(row.deadline_at);
        self.at.push(row.updated_at);
        self.entries.push(chain.entries());
        self.actor.push(chain.first.write.actor.0.to_string());
        Ok(())
    }
}

/// The verdicts of many changes, as arrays.
#[derive(Default)]
struct VerdictColumns {
    run_id: Vec<Uuid>,
    sequence: Vec<i64>,
    plan_revision: Vec<i32>,
    accepted: Vec<bool>,
    decided_at: Vec<DateTime<Utc>>,
    key_id: Vec<Option<Vec<u8>>>,
    signature: Vec<Option<Vec<u8>>>,
}

impl VerdictColumns {
    fn push(&mut self, chain: &Chain<'_>, signing: &Signing) -> Result<(), StoreError> {
        let run_id = chain.row().run_id;
        for (sequence, at, record) in chain.verdicts() {
            let (key_id, signature) = signing.verdict(run_id, at, record).unzip();
            self.run_id.push(run_id);
            self.sequence.push(sequence);
            self.plan_revision.push(plan_revision(record.plan_revision)?);
            self.accepted.push(record.verdict.accepted);
            self.decided_at.push(at);
            self.key_id.push(key_id.map(|id| id.0.to_vec()));
            self.signature.push(signature);
        }
        Ok(())
    }
}

/// The rows of waits that many changes open, close and answer, as arrays.
#[derive(Default)]
pub(super) struct WaitColumns {
    answered_run: Vec<Uuid>,
    answered_id: Vec<Uuid>,
    answered_epoch: Vec<i64>,
    closed_run: Vec<Uuid>,
    closed_id: Vec<Uuid>,
    pub(super) opened_run: Vec<Uuid>,
    pub(super) opened_id: Vec<Uuid>,
    pub(super) opened_kind: Vec<&'static str>,
    opened_follows: Vec<Option<Uuid>>,
    opened_withheld: Vec<bool>,
    opened_expires_at: Vec<Option<DateTime<Utc>>>,
    opened_tool: Vec<Option<String>>,
    opened_offered_at: Vec<Option<DateTime<Utc>>>,
    opened_step_until: Vec<Option<DateTime<Utc>>>,
    withheld_run: Vec<Uuid>,
    withheld: Vec<bool>,
    rested_ms: Vec<i64>,
}

impl WaitColumns {
    pub(super) fn push(&mut self, run_id: Uuid, waits: &WaitChanges) {
        let WaitChanges { opened, closed, answered, withheld, rested } = waits;
        for wait in opened {
            self.opened_run.push(run_id);
            self.opened_id.push(wait.id);
            self.opened_kind.push(wait.kind.as_str());
            self.opened_follows.push(wait.follows);
            self.opened_withheld.push(wait.withheld);
            self.opened_expires_at.push(wait.expires_at);
            self.opened_step_until.push(wait.step_until);
            let call = wait.call.as_ref();
            self.opened_tool.push(call.map(|call| call.tool.clone()));
            self.opened_offered_at.push(call.map(|call| call.offered_at).or(wait.retry_at));
        }
        for id in closed {
            self.closed_run.push(run_id);
            self.closed_id.push(*id);
        }
        if let Some(answered) = answered {
            self.answered_run.push(run_id);
            self.answered_id.push(answered.id);
            self.answered_epoch.push(answered.lease_epoch);
        }
        if let Some(withheld) = withheld {
            self.withheld_run.push(run_id);
            self.withheld.push(*withheld);
            self.rested_ms.push(rested.num_milliseconds());
        }
    }
}

/// The statement for changes of runs whose waits stay as they are.
const APPLY: &str = concat!(
    "with ",
    include_str!("sql/apply_change.sql"),
    "),\n",
    include_str!("sql/apply_moved.sql"),
    include_str!("sql/apply_end.sql"),
);

/// The statement for changes that open, close or answer waits too.
const APPLY_WITH_WAITS: &str = concat!(
    "with ",
    include_str!("sql/apply_fenced.sql"),
    ",\n",
    include_str!("sql/apply_change.sql"),
    include_str!("sql/apply_unfenced.sql"),
    "),\n",
    include_str!("sql/apply_moved.sql"),
    ",\n",
    include_str!("sql/apply_waits.sql"),
    include_str!("sql/apply_end.sql"),
);

/// The statement for changes that store verdicts, which only the gate may, and leave waits as they are.
const APPLY_WITH_VERDICTS: &str = concat!(
    "with ",
    include_str!("sql/apply_change.sql"),
    "),\n",
    include_str!("sql/apply_moved.sql"),
    ",\n",
    include_str!("sql/apply_verdicts.sql"),
    include_str!("sql/apply_end.sql"),
);

/// The statement for changes that store verdicts and open, close or answer waits too.
const APPLY_WITH_VERDICTS_AND_WAITS: &str = concat!(
    "with ",
    include_str!("sql/apply_fenced.sql"),
    ",\n",
    include_str!("sql/apply_change.sql"),
    include_str!("sql/apply_unfenced.sql"),
    "),\n",
    include_str!("sql/apply_moved.sql"),
    ",\n",
    include_str!("sql/apply_waits.sql"),
    ",\n",
    include_str!("sql/apply_verdicts.sql"),
    include_str!("sql/apply_end.sql"),
);

/// Writes chains of changes of different runs in one statement, under one signature. Returns one outcome per chain, in
/// the same order.
///
/// # Errors
/// [`StoreError`]: none of the changes is stored or, after a broken connection, the outcome is
/// unknown.
pub(super) async fn apply(
    connection: &mut PgConnection,
    chains: &[Chain<'_>],
    signing: &Signing,
) -> Result<Vec<Outcome>, StoreError> {
    let (mut columns, mut waits, mut waiting) = (Columns::default(), WaitColumns::default(), false);
    let mut verdicts = VerdictColumns::default();
    for chain in chains {
        columns.push(chain)?;
        verdicts.push(chain, signing)?;
        let changed = chain.waits();
        waiting |= !changed.is_empty();
        waits.push(chain.row().run_id, &changed);
    }
    let Notices { channels, texts } = Notices::of(chains.iter().flat_map(|chain| &chain.notified));
    columns.sign(chains, signing)?;
    let deciding = !verdicts.run_id.is_empty();
    let statement = match (deciding, waiting) {
        (true, true) => APPLY_WITH_VERDICTS_AND_WAITS,
        (true, false) => APPLY_WITH_VERDICTS,
        (false, true) => APPLY_WITH_WAITS,
        (false, false) => APPLY,
    };
    let long = columns.entries.iter().chain(&columns.progress);
    let applying = sqlx::query_scalar_with(statement, room_for(chains.len(), long));
    let applying = columns.bind_to(applying).bind(channels).bind(texts);
    let applying = applying.bind(&columns.signature);
    let applying = if waiting || deciding { waits.bind_to(applying) } else { applying };
    let applying = if deciding { verdicts.bind_to(applying) } else { applying };
    let moved: HashSet<Uuid> = applying.fetch_all(connection).await?.into_iter().collect();
    Ok(chains
        .iter()
        .map(|chain| match moved.contains(&chain.row().run_id) {
            true => Outcome::Applied,
            false => Outcome::Lost,
        })
        .collect())
}

/// What a row of a statement takes beside its long texts, in bytes, and the most columns of one.
const ROW: usize = 512;
const COLUMNS: usize = 48;

/// Arguments with room for so many rows and their long texts: a buffer that grows copies each text several times.
pub(super) fn room_for<'t>(rows: usize, long: impl Iterator<Item = &'t String>) -> PgArguments {
    let mut arguments = PgArguments::default();
    let bytes: usize = long.map(String::len).sum();
    arguments.reserve(COLUMNS, bytes.saturating_add(rows.saturating_mul(ROW)));
    arguments
}

/// A statement that returns the ids of runs.
type Applying<'q> = QueryScalar<'q, Postgres, Uuid, PgArguments>;

impl Columns {
    /// Signs the pushed rows, which are those of these chains.
    fn sign(&mut self, chains: &[Chain<'_>], signing: &Signing) -> Result<(), StoreError> {
        if !signing.has_key() {
            self.signature = vec![None; chains.len()];
            return Ok(());
        }
        let rows = chains.iter().zip(&self.entries).map(|(chain, text)| {
            Ok(RowToSign {
                run_id: chain.row().run_id,
                sequence: chain.row().sequence,
                at: chain.row().updated_at,
                actor: &chain.first.write.actor.0,
                text,
                entries: chain.events(),
                columns: SignedColumns {
                    plans: chain.plan.map(plan_columns).into_iter().collect(),
                    ..SignedColumns::default()
                },
                change: state_change(chain.first.write, chain.row())?,
            })
        });
        self.signature = signing.rows(rows.collect::<Result<_, StoreError>>()?);
        Ok(())
    }

    fn bind_to<'q>(&'q self, statement: Applying<'q>) -> Applying<'q> {
        statement
            .bind(&self.run_id)
            .bind(&self.read_version)
            .bind(&self.read_epoch)
            .bind(&self.version)
            .bind(&self.state)
            .bind(&self.blocked_from)
            .bind(&self.sequence)
            .bind(&self.priority)
            .bind(&self.ready_at)
            .bind(&self.lease_owner)
            .bind(&self.lease_epoch)
            .bind(&self.plan_revision)
            .bind(&self.step_states)
            .bind(&self.progress)
            .bind(&self.wait)
            .bind(&self.wait_ids)
            .bind(&self.terminal)
            .bind(&self.deadline_at)
            .bind(&self.at)
            .bind(&self.entries)
            .bind(&self.actor)
    }
}

impl VerdictColumns {
    fn bind_to<'q>(&'q self, statement: Applying<'q>) -> Applying<'q> {
        statement
            .bind(&self.run_id)
            .bind(&self.sequence)
            .bind(&self.plan_revision)
            .bind(&self.accepted)
            .bind(&self.decided_at)
            .bind(&self.key_id)
            .bind(&self.signature)
    }
}

impl WaitColumns {
    fn bind_to<'q>(&'q self, statement: Applying<'q>) -> Applying<'q> {
        statement
            .bind(&self.answered_run)
            .bind(&self.answered_id)
            .bind(&self.answered_epoch)
            .bind(&self.closed_run)
            .bind(&self.closed_id)
            .bind(&self.opened_run)
            .bind(&self.opened_id)
            .bind(&self.opened_kind)
            .bind(&self.opened_follows)
            .bind(&self.opened_withheld)
            .bind(&self.withheld_run)
            .bind(&self.withheld)
            .bind(&self.opened_expires_at)
            .bind(&self.opened_tool)
            .bind(&self.opened_offered_at)
            .bind(&self.opened_step_until)
            .bind(&self.rested_ms)
    }
}
