//! Grants: made with the approval of a call, and revoked.

use super::terminal;
use crate::call::Call;
use crate::planner::Planner;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeMap;
use surety_common::domain::confirmation::CallToConfirm;
use surety_common::domain::execution::Revocation;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::grant::{CallGrant, GrantTerms, MAX_GRANTS};
use surety_common::domain::run::RunRecord;
use surety_common::wire::v1;
use uuid::Uuid;

/// What an approver grants with the approval of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Granted {
    /// A pattern for each argument that may vary, by name.
    pub(crate) arguments: BTreeMap<String, String>,
    /// How many calls are covered, the shown one included.
    pub(crate) uses: u32,
    /// How long; none is the run's `confirm_ttl`.
    pub(crate) ttl_s: Option<u64>,
}

impl Planner {
    /// Revokes a grant of a run. A revoked grant does not change.
    ///
    /// # Errors
    /// `run_not_found`, `run_terminal`, `grant_not_found`, `grant_ended`, `database_unavailable`.
    pub(crate) async fn revoke_grant(
        &self,
        run_id: Uuid,
        grant_id: Uuid,
        call: &Call,
    ) -> Result<v1::Run, Fault> {
        let receipt_id = Uuid::now_v7();
        let revoked = self.change_once(run_id, call, |record, draft| {
            if record.execution.state.is_terminal() {
                return Err(terminal(record));
            }
            match draft.revoke_grant(grant_id, call.by(), receipt_id) {
                Revocation::Revoked => Ok(()),
                Revocation::Unknown => {
                    let message = format!("run {run_id} has no grant with the id {grant_id}");
                    Err(Fault::new(FaultCode::GrantNotFound, message).with_field("grant_id"))
                }
                Revocation::Ended(state) => {
                    let message = format!("grant {grant_id} is {} already", state.as_str());
                    Err(Fault::new(FaultCode::GrantEnded, message).with_field("grant_id"))
                }
            }
        });
        revoked.await
    }
}

/// The grant of an answer about the shown call, under the id of the wait.
///
/// # Errors
/// `too_many_grants`, and those of [`CallGrant::new`].
pub(super) fn granted(
    record: &RunRecord,
    (wait_id, asked): (Uuid, &CallToConfirm),
    granted: &Granted,
    answered: (&str, DateTime<Utc>),
) -> Result<CallGrant, Fault> {
    if record.execution.grants.len() >= MAX_GRANTS {
        let message = format!("the run has had {MAX_GRANTS} grants, the most that a run may have");
        return Err(Fault::new(FaultCode::TooManyGrants, message).with_field("grant"));
    }
    let ttl_s = granted.ttl_s.unwrap_or(record.spec.limits.confirm_ttl_s);
    let terms = GrantTerms {
        arguments: granted.arguments.clone(),
        uses: granted.uses,
        ttl: TimeDelta::seconds(i64::try_from(ttl_s).unwrap_or(i64::MAX)),
    };
    Ok(CallGrant::new(wait_id, asked, &terms, answered)?)
}
