//! The columns of a task that feed a verdict.

use crate::domain::signature::{TaskColumns, instant};
use crate::store::stored_time::StoredTime;
use chrono::{DateTime, SubsecRound, Utc};

/// The columns of a task that feed a verdict.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct JudgedColumns {
    /// What it asks for.
    pub action_type: String,
    /// Whom the event asks.
    pub addressee: String,
    /// The agent that must act; empty while there is none.
    pub assignee: String,
    /// The forge; empty where the task is about nothing on a forge.
    pub forge: String,
    /// The forge's own time of the event.
    #[sqlx(try_from = "StoredTime")]
    pub happened_at: DateTime<Utc>,
    /// The text of the payload.
    pub payload: String,
}

impl JudgedColumns {
    /// The digests that are signed with the task's run. The assignee is the one that the task began with: none, where an
    /// entry gave the task to the present one.
    pub fn signed(&self, assigned: Option<&str>) -> TaskColumns {
        let Self { action_type, addressee, assignee, forge, happened_at, payload } = self;
        let assignee = if assigned == Some(assignee) { "" } else { assignee };
        let happened_at = instant(*happened_at);
        TaskColumns::of([action_type, addressee, assignee, forge, &happened_at, payload])
    }
}

/// An instant as the database stores it, which is what is signed.
pub(super) fn stored_instant(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(6)
}
