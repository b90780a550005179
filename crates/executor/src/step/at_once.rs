//! What a participant supplies, taken at once by the executor that receives it: a driver's reply into a turn, a worker's
//! result into the rest of one.
//!
//! ```text
//!   store_answer:   the answer is stored --> the run is claimed by any executor --> its work
//!   answer_at_once: answer and lease are one change; the work begins before that is stored
//! ```
//!
//! The change is fenced like every other one: by the version of the row and by the lease of the wait. When it is
//! lost, so is all that was decided from it, and an effect waits for it like for any change before its intent.

use super::bounds::graph_of;
use super::claim::Claimer;
use super::leased_run::{LeasedRun, RunAssignment};
use super::replies::{NotStored, SupplyError, check_length, supplying};
use chrono::TimeDelta;
use std::sync::Arc;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{Graph, SuppliedReply};
use surety_common::domain::machine::run::RunState;
use surety_common::domain::run::{RunRecord, RunSpec};
use surety_common::domain::step::StepState;
use surety_common::store::{Commit, WritePipeline};
use surety_common::telemetry::trace;
use tokio::task::JoinHandle;

impl Claimer {
    /// `answer_at_once` with a driver's reply. `unleased` is the time for which no participant had leased
    /// the wait.
    ///
    /// # Errors
    /// [`SupplyError`]; then nothing was stored.
    pub async fn take_at_once(
        &self,
        record: &RunRecord,
        reply: &SuppliedReply,
        unleased: TimeDelta,
    ) -> Result<Option<JoinHandle<()>>, SupplyError> {
        check_length(reply)?;
        let taken = self.answer_at_once(record, supplying(reply, unleased)).await;
        taken.map_err(|error| SupplyError::of(error, (record.spec.id, reply)))
    }

    /// Leases the run with the change that stores an answer, and begins its work. The result resolves when the work is
    /// over; the change may be lost before. None when another executor works on the run, when it has no work now, or
    /// when this executor has no room: store the answer for the next claim.
    ///
    /// # Errors
    /// [`NotStored`]; then nothing was stored.
    pub(crate) async fn answer_at_once<E>(
        &self,
        record: &RunRecord,
        answer: impl FnOnce(&RunSpec, &Graph, &mut Draft) -> Result<(), E>,
    ) -> Result<Option<JoinHandle<()>>, NotStored<E>> {
        let engine = &self.engine;
        // Counted before the drain is checked: a drain that starts later waits for this work.
        let _under_way = self.tasks.token();
        let may_lease = engine.lease_validity.is_valid() && !engine.drain.is_cancelled();
        let is_elsewhere =
            record.execution.host_label.as_ref().is_some_and(|host| *host != engine.host_label);
        if !may_lease || is_elsewhere || record.execution.lease_owner.is_some() {
            return Ok(None);
        }
        let Some(slot) = self.slots.take_one().await else { return Ok(None) };
        let plan = record.plan.clone().unwrap_or_default();
        let tools = engine.tools.of(&record.spec.namespace);
        let graph = graph_of(&plan, record.spec.driver, &tools);
        let mut draft = Draft::new(record.execution.clone(), engine.actor(), engine.now());
        answer(&record.spec, &graph, &mut draft).map_err(NotStored::Refused)?;
        let execution = draft.execution();
        // A call that is offered again leaves nothing to do.
        let has_work = execution.state == RunState::Executing
            && !execution.is_pausing()
            && execution.steps_in(StepState::Ready).next().is_some();
        if !has_work {
            return Ok(None);
        }
        draft.lease(engine.id);
        let most = record.spec.limits.max_parallel_steps;
        // The next claim says what is wrong with such a row.
        let Ok(started) = draft.lease_steps(&graph, most) else { return Ok(None) };
        if draft.execution().lease_owner.is_none() {
            return Ok(None);
        }
        let RunRecord { spec, plan_digest, .. } = record.clone();
        let span = trace::work_span("executor", &spec.id.to_string(), &spec.trace_parent);
        let (span_id, pipeline) = (trace::span_id(&span), WritePipeline::default());
        let commit = Commit::new(draft.into_write(), span.clone(), span_id);
        let commit = Commit { pipeline: pipeline.clone(), ..commit };
        let assignment = RunAssignment { spec, plan, plan_digest, span };
        let execution = Arc::clone(&commit.write.execution);
        let mut run = LeasedRun::new(Arc::clone(engine), assignment, execution, Some(pipeline));
        // The same answer may arrive twice at a time.
        if !engine.registry.enter_ahead(&run.lease) {
            return Ok(None);
        }
        match engine.committer.hand_in(commit).await {
            // Nothing is awaited until the work begins: a caller that leaves would leave a lease without work.
            Ok(pending) => run.state.get_mut().pending.push_back(pending),
            Err(error) => {
                engine.registry.leave(&run.lease);
                return Err(error.into());
            }
        }
        Ok(Some(self.begin(Arc::new(run), started, slot)))
    }
}
