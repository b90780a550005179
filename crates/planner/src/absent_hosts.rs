//! Runs on folders of hosts whose executors are gone: no other executor claims them, and an operator is told.

use crate::planner::Planner;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::HashMap;
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, StoreError};
use surety_common::wire::v1;
use surety_common::wire::value::timestamp;
use uuid::Uuid;

/// How long no executor of the host was heard before an operator is told.
const SILENCE: TimeDelta = TimeDelta::seconds(60);

/// What those of the runs wait for that no executor may claim, by their ids. One query for all of them; none where no run
/// of a host has waited for long.
///
/// # Errors
/// [`StoreError`]
pub(crate) async fn blocked_by_absent_hosts(
    planner: &Planner,
    records: &[RunRecord],
) -> Result<HashMap<Uuid, v1::Blocked>, StoreError> {
    let heard_since = planner.now() - SILENCE;
    let waiting = records.iter().filter_map(|record| waits_since(record, heard_since));
    let waiting: Vec<(&RunRecord, &str, DateTime<Utc>)> = waiting.collect();
    if waiting.is_empty() {
        return Ok(HashMap::new());
    }
    let mut hosts: Vec<&str> = waiting.iter().map(|(_, host, _)| *host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let served = store::served_hosts(&planner.pool, &hosts, heard_since).await?;
    let absent = waiting.into_iter().filter(|(_, host, _)| !served.iter().any(|it| it == host));
    Ok(absent.map(|(run, host, since)| (run.spec.id, blocked(run, host, since))).collect())
}

/// The host of a run that waits for an executor of it, and since when it does; none for any other run.
fn waits_since(
    record: &RunRecord,
    heard_since: DateTime<Utc>,
) -> Option<(&RunRecord, &str, DateTime<Utc>)> {
    let execution = &record.execution;
    let host = execution.host_label.as_deref()?;
    // The lease of an executor that died stays until one of its host takes the run over.
    let claimed_at = execution.lease_owner.map(|_| execution.updated_at);
    let since = claimed_at.or(execution.ready_at)?;
    let has_waited = since <= heard_since && !execution.state.is_terminal();
    has_waited.then_some((record, host, since))
}

fn blocked(record: &RunRecord, host: &str, since: DateTime<Utc>) -> v1::Blocked {
    let folder = &record.spec.workspace;
    v1::Blocked {
        waiting_on: v1::WaitingOn::Operator.into(),
        since: Some(timestamp(since)),
        unblocks: format!(
            "start an executor with SURETY_HOST_LABEL={host}, where the folder {folder} is; none was heard for {} s",
            SILENCE.num_seconds()
        ),
        returns_to: v1::RunState::from(record.execution.state).into(),
        ..v1::Blocked::default()
    }
}
