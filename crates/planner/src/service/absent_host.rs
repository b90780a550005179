//! A run on a folder of a host whose executors are gone: no other executor claims it, and an operator is told.

use crate::planner::Planner;
use chrono::TimeDelta;
use surety_common::domain::fault::Fault;
use surety_common::domain::run::RunRecord;
use surety_common::store;
use surety_common::wire::v1;
use surety_common::wire::value::timestamp;

/// How long no executor of the host was heard before an operator is told.
const SILENCE: TimeDelta = TimeDelta::seconds(60);

/// What a run waits for that no executor may claim; none for any other run.
///
/// # Errors
/// `database_unavailable`.
pub(super) async fn blocked_by_absent_host(
    planner: &Planner,
    record: &RunRecord,
) -> Result<Option<v1::Blocked>, Fault> {
    let execution = &record.execution;
    let heard_since = planner.now() - SILENCE;
    let Some(host) = &execution.host_label else { return Ok(None) };
    // The lease of an executor that died stays until one of its host takes the run over.
    let claimed_at = execution.lease_owner.map(|_| execution.updated_at);
    let Some(since) = claimed_at.or(execution.ready_at) else { return Ok(None) };
    if since > heard_since || execution.state.is_terminal() {
        return Ok(None);
    }
    if store::is_host_served(&planner.pool, host, heard_since).await? {
        return Ok(None);
    }
    let folder = &record.spec.workspace;
    Ok(Some(v1::Blocked {
        waiting_on: v1::WaitingOn::Operator.into(),
        since: Some(timestamp(since)),
        unblocks: format!(
            "start an executor with SURETY_HOST_LABEL={host}, where the folder {folder} is; none was heard for {} s",
            SILENCE.num_seconds()
        ),
        returns_to: v1::RunState::from(execution.state).into(),
        ..v1::Blocked::default()
    }))
}
