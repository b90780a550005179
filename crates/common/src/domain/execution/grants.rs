//! Grants of a run: made with an approval, used by the intents of later calls, and revoked.
//!
//! ```text
//!   resolve_call (with a grant) --> Execution.grants --use_grant--> receipt, then the intent of the call
//!                                          |                        one change of the run, fenced by its version
//!                                          +--revoke_grant--> receipt; no later change uses it
//! ```
//!
//! A use is counted by the change that records the intent of its call. A change that is lost counts nothing, and an
//! executor that takes an open call over records no second intent. So no crash and no parallel step counts a use twice
//! or exceeds the number of uses.

use super::draft::Draft;
use super::{Execution, Graph};
use crate::domain::confirmation::{AnsweredAt, CallToConfirm};
use crate::domain::grant::{CallGrant, GrantState, Revoked};
use crate::domain::machine::Refusal;
use chrono::{DateTime, Utc};
use uuid::Uuid;

/// What a revocation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// The grant is revoked, by this change or before it.
    Revoked,
    /// The run has no such grant.
    Unknown,
    /// The grant had ended by itself.
    Ended(GrantState),
}

impl Execution {
    /// Whether an open grant covers a call.
    pub fn has_grant_for(&self, call: &CallToConfirm, now: DateTime<Utc>) -> bool {
        self.grants.iter().any(|grant| grant.covers(call, now))
    }
}

impl Draft {
    /// Uses the oldest open grant that covers a call, once, and records that as a receipt under its own id. Called in
    /// the change that records the call's intent. Returns false where no grant covers the call any more.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when there is no such step.
    pub fn use_grant(
        &mut self,
        graph: &Graph,
        index: usize,
        call: &CallToConfirm,
        receipt_id: Uuid,
    ) -> Result<bool, Refusal> {
        self.execution.step(index).ok_or(Refusal::Meaningless)?;
        let now = self.now;
        let mut grants = self.execution.grants.iter_mut();
        let Some(grant) = grants.find(|grant| grant.covers(call, now)) else { return Ok(false) };
        grant.used = grant.used.saturating_add(1);
        let grant = grant.clone();
        let at = self.answered_at(graph, index, receipt_id);
        self.receipt(grant.receipt_of_use(call, at));
        Ok(true)
    }

    /// Ends a grant: no later call uses it. A call whose intent is recorded goes on, and so does the shown call, which
    /// has an approval of its own. A grant that was revoked before does not change.
    pub fn revoke_grant(&mut self, id: Uuid, by: &str, receipt_id: Uuid) -> Revocation {
        let now = self.now;
        let mut grants = self.execution.grants.iter_mut();
        let Some(grant) = grants.find(|grant| grant.id == id) else { return Revocation::Unknown };
        match grant.state(now) {
            GrantState::Revoked => return Revocation::Revoked,
            ended @ (GrantState::UsedUp | GrantState::Expired) => return Revocation::Ended(ended),
            GrantState::Open => grant.revoked = Some(Revoked { by: by.to_owned(), at: now }),
        }
        let grant: CallGrant = grant.clone();
        let ended = AnsweredAt {
            step_index: self.execution.steps.len(),
            step_id: "",
            plan_revision: self.execution.plan_revision,
            wait_id: receipt_id,
            at: now,
        };
        self.receipt(grant.receipt_of_end(by, ended));
        Revocation::Revoked
    }
}
