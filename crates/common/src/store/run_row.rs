//! The rows of statements that read whole runs.

use super::StoreError;
use super::execution::ExecutionRow;
use super::plan;
use super::stored_time::StoredTime;
use crate::domain::run::{DriverKind, RunRecord, RunSpec};
use crate::domain::signature::{RunColumns, instant};
use uuid::Uuid;

/// One row of a statement that reads whole runs, such as `load.sql`, `list.sql` or `claim.sql`. The
/// lists omit the plan.
#[derive(sqlx::FromRow)]
pub(super) struct RunRow {
    #[sqlx(flatten)]
    execution: ExecutionRow,
    request_id: String,
    goal: String,
    driver: String,
    workspace: String,
    repository: Option<String>,
    limits: String,
    policy: String,
    labels: String,
    trace_parent: String,
    forked_from: Option<String>,
    created_at: StoredTime,
    plan_body: Option<String>,
    plan_digest: Option<String>,
}

impl RunRow {
    /// The columns of the run as they are signed.
    pub(super) fn signed_columns(&self, submitter: &str) -> RunColumns {
        RunColumns::of([
            &instant(self.created_at.nearest()),
            &self.driver,
            self.forked_from.as_deref().unwrap_or_default(),
            &self.goal,
            &self.limits,
            self.execution.namespace(),
            &self.policy,
            self.repository.as_deref().unwrap_or_default(),
            submitter,
            &self.workspace,
        ])
    }

    /// The id of the run.
    pub(super) fn id(&self) -> Uuid {
        self.execution.run_id
    }

    /// The namespace, which the signed columns contain.
    pub(super) fn namespace(&self) -> &str {
        self.execution.namespace()
    }

    /// The revision of the plan, the number of the newest event, and that of the last verdict.
    pub(super) fn progress(&self) -> Result<(u32, i64, i64), StoreError> {
        self.execution.progress()
    }

    /// The plan's text and its digest.
    pub(super) fn plan(&self) -> Option<(&str, &str)> {
        self.plan_body.as_deref().zip(self.plan_digest.as_deref())
    }

    pub(super) fn into_record(self) -> Result<RunRecord, StoreError> {
        let id = self.execution.run_id;
        let what = |column: &str| format!("run {id} column {column}");
        let execution = self.execution.into_execution()?;
        let spec = RunSpec {
            id,
            namespace: execution.namespace.clone(),
            request_id: self.request_id,
            goal: self.goal,
            driver: DriverKind::from_text(&self.driver)
                .ok_or_else(|| StoreError::corrupt(what("driver"), &self.driver))?,
            workspace: self.workspace,
            repository: { self.repository.as_deref() }
                .map(|text| from_text(text, || what("repository")))
                .transpose()?,
            limits: from_text(&self.limits, || what("limits"))?,
            policy: from_text(&self.policy, || what("policy"))?,
            labels: from_text(&self.labels, || what("labels"))?,
            forked_from: self
                .forked_from
                .map(|text| from_text(&text, || what("forked_from")))
                .transpose()?,
            trace_parent: self.trace_parent,
            created_at: self.created_at.exact(|| what("created_at"))?,
        };
        Ok(RunRecord {
            spec,
            execution,
            plan: self
                .plan_digest
                .as_ref()
                .zip(self.plan_body)
                .map(|(digest, body)| plan::recall(digest, body, id))
                .transpose()?,
            plan_digest: self.plan_digest.unwrap_or_default(),
        })
    }
}

fn from_text<T: serde::de::DeserializeOwned>(
    text: &str,
    what: impl Fn() -> String,
) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::corrupt(what(), error))
}
