//! A verdict in doubt: the run waits for a person, and goes on with the answer.
//!
//! ```text
//!   VERIFYING --in doubt--> BLOCKED on an approver, without a lease
//!      ^                       |
//!      +-- approved: a new round; denied: the same round, which the gate refuses
//! ```

use super::draft::Draft;
use super::{Graph, Wait};
use crate::domain::acceptance::{Answered, Resolution};
use crate::domain::journal::{Actor, Answer, Entry};
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{Phase, RunState};
use std::sync::Arc;
use uuid::Uuid;

impl Draft {
    /// Records the answer about a verdict in doubt as an event and as a receipt, and ends the wait. After an
    /// approval a new round begins, because the workspace must still be the one that was shown. A run that
    /// is paused as well stays BLOCKED on that.
    ///
    /// # Errors
    /// [`Refusal`] when the run does not wait for this answer.
    pub fn resolve(
        &mut self,
        graph: &Graph,
        wait_id: Uuid,
        resolution: &Resolution,
    ) -> Result<(), Refusal> {
        let asked = |wait: &Wait| wait.id == wait_id && wait.acceptance.is_some();
        let waits = self.execution.state == RunState::Blocked(Phase::Verifying)
            && self.execution.own_wait().is_some_and(asked);
        if !waits {
            return Err(Refusal::Meaningless);
        }
        let comment = resolution.comment.as_str();
        let text = match comment {
            "" => resolution.word().to_owned(),
            comment => format!("{}: {comment}", resolution.word()),
        };
        let by = Actor(Arc::from(resolution.by.as_str()));
        self.journal(Entry::Answer(Answer { wait_id, by, text }));
        let answered = Answered {
            step_count: u32::try_from(graph.len()).unwrap_or(u32::MAX),
            plan_revision: self.execution.plan_revision,
            wait_id,
            at: self.now,
        };
        self.receipt(resolution.receipt(answered));
        if resolution.approved {
            self.begin_round();
        }
        match &mut self.execution.paused {
            Some(paused) => {
                paused.behind = None;
                self.show_wait();
                Ok(())
            }
            None => self.unblock(graph, "the doubt was answered"),
        }
    }
}
