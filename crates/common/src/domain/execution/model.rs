//! Waits that the service's own models answer, while an endpoint does not.
//!
//! ```text
//!   the wait of a decision or a plan --model_away--> waits on `model`, offered again later, until a time
//!        ^                                               |--a reply, a plan--> it goes on
//!        +-- the next one, from the beginning            +--expire_models----> model_unavailable
//! ```

use super::draft::{Draft, Ending};
use super::wait_rows::AnsweredWait;
use super::{Execution, Graph, Wait};
use crate::domain::decision::{Abort, Usage, UsageSource};
use crate::domain::machine::Refusal;
use crate::domain::machine::run::RunEvent;
use crate::domain::model::{AwayEndpoint, ModelWait};
use crate::domain::stop::{StopReason, WaitingOn};
use std::sync::Arc;
use uuid::Uuid;

impl Draft {
    /// Makes a leased wait of a model wait for its endpoint, or says another reason where it does already: the lease ends,
    /// and the wait goes on under the id `next`. The time until the endpoint answers does not count for a step's
    /// deadline. Charges what was used for replies that broke off.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when no wait of a model has this id.
    pub fn model_away(
        &mut self,
        graph: &Graph,
        (wait_id, lease_epoch): (Uuid, i64),
        next: Uuid,
        (away, used): (AwayEndpoint, Usage),
    ) -> Result<(), Refusal> {
        self.charge_in_vain(wait_id, used)?;
        let unblocks = away.unblocks();
        let now = self.now;
        let wait = wait_mut(&mut self.execution, wait_id).ok_or(Refusal::Meaningless)?;
        wait.id = next;
        wait.waiting_on = WaitingOn::Model;
        let was_away = wait.model.as_deref().is_some_and(|model| model.away.is_some());
        if wait.step_index.is_some() && !was_away {
            wait.since = now;
        }
        wait.unblocks.clone_from(&unblocks);
        wait.model = Some(Box::new(ModelWait { away: Some(away) }));
        self.answered = Some(AnsweredWait { id: wait_id, lease_epoch });
        self.run_event(RunEvent::ModelAway, unblocks)?;
        self.show_wait();
        self.settle(graph)
    }

    /// Ends the run because its model cannot be asked: a leased wait of it has no answer, now or later. Only what was
    /// used for replies that broke off is charged.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when no wait of a model has this id.
    pub fn model_gives_up(
        &mut self,
        graph: &Graph,
        (wait_id, lease_epoch): (Uuid, i64),
        (abort, used): (Abort, Usage),
    ) -> Result<(), Refusal> {
        self.charge_in_vain(wait_id, used)?;
        let reserved = reserved_mut(&mut self.execution, wait_id).ok_or(Refusal::Meaningless)?;
        *reserved = Usage::default();
        self.answered = Some(AnsweredWait { id: wait_id, lease_epoch });
        self.abort(graph, abort)
    }

    /// Charges what was used for a leased wait without an answer, out of what is reserved for it.
    fn charge_in_vain(&mut self, wait_id: Uuid, used: Usage) -> Result<(), Refusal> {
        if used.is_zero() {
            return Ok(());
        }
        let reserved = reserved_mut(&mut self.execution, wait_id).ok_or(Refusal::Meaningless)?;
        *reserved = Usage {
            tokens: reserved.tokens.saturating_sub(used.tokens),
            cost_micros: reserved.cost_micros.saturating_sub(used.cost_micros),
        };
        let counters = &mut self.execution.counters;
        counters.charge(used, UsageSource::Measured);
        counters.usage_without_turn = counters.usage_without_turn.plus(used);
        Ok(())
    }

    /// Ends the run when it has waited too long for a model's endpoint.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn expire_models(&mut self, graph: &Graph) -> Result<(), Refusal> {
        let now = self.now;
        let away = self.execution.waits().filter_map(|wait| wait.model.as_deref()?.away.as_ref());
        let Some(away) = away.filter(|away| away.until <= now).min_by_key(|away| away.until) else {
            return Ok(());
        };
        let AwayEndpoint { endpoint, why, since, .. } = away;
        let waited = (now - since).num_seconds();
        let end = Ending {
            stop_reason: StopReason::ModelUnavailable,
            user_message: format!(
                "The model endpoint {endpoint} did not answer for {waited} s: {why}"
            ),
            internal_reason: format!("model_wait of the endpoint {endpoint} is over"),
        };
        self.stop(graph, end)
    }
}

/// The wait of a model with this id.
pub(super) fn wait_mut(execution: &mut Execution, wait_id: Uuid) -> Option<&mut Wait> {
    let is_it = |wait: &&mut Wait| wait.id == wait_id && wait.model.is_some();
    let own = match &mut execution.paused {
        Some(paused) => paused.behind.as_deref_mut(),
        None => execution.wait.as_deref_mut().filter(|wait| wait.step_index.is_none()),
    };
    let steps = execution
        .steps
        .iter_mut()
        .filter(|step| step.wait.as_deref().is_some_and(|wait| wait.id == wait_id));
    let steps = steps.filter_map(|step| Arc::make_mut(step).wait.as_deref_mut());
    own.into_iter().chain(steps).find(is_it)
}

/// What is reserved for the reply to a wait of a model.
pub(super) fn reserved_mut(execution: &mut Execution, wait_id: Uuid) -> Option<&mut Usage> {
    match wait_mut(execution, wait_id)?.step_index {
        Some(index) => execution.step_mut(index).map(|step| &mut step.reserved),
        None => wait_mut(execution, wait_id)
            .map(|wait| &mut wait.planning.get_or_insert_default().reserved),
    }
}
