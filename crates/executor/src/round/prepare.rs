//! What prepares the views of a round: the lines of `policy.prepare`, once a round.
//!
//! ```text
//!   a line --> a view with the original check inputs --> what it wrote to ignored paths
//!                --> lies below the views of the commands after it
//! ```

use super::Round;
use super::additions::ViewOrder;
use super::command::{ensure_startable, start};
use crate::blocking::blocking;
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::sync::Arc;
use surety_common::domain::check::Owner;
use surety_common::domain::receipt::{Fact, Inputs};
use surety_common::domain::verification::Probe;
use uuid::Uuid;

/// The name of the output with a manifest of a package manager that the run changed.
const DEPENDENCY_CHANGED: &str = "dependency_changed";

impl Round {
    /// Runs one line. Each later command finds what it wrote to ignored paths.
    pub(super) async fn prepare_views(
        self: &Arc<Self>,
        probe: &Probe,
        inputs: Inputs,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        let earlier = |failed: &(String, ToolError)| failed.0 != probe.check_id;
        if let Some((_, error)) =
            self.preparation.failed().as_ref().filter(|failed| earlier(failed))
        {
            return Err(error.clone());
        }
        let order = ViewOrder::of(probe, inputs);
        let ran = self.run_preparing(order, call_id).await;
        let why = match &ran {
            Ok(outcome) if outcome.success => None,
            Ok(outcome) => Some(outcome.summary.clone()),
            Err(error) => Some(error.message.clone()),
        };
        *self.preparation.failed() = why.map(|why| (probe.check_id.clone(), unprepared(&why)));
        let mut outcome = ran?;
        let changed = |path: &String| Fact::Output {
            key: DEPENDENCY_CHANGED.to_owned(),
            value: path.clone(),
        };
        outcome.facts.extend(self.opening()?.dependencies.iter().map(changed));
        Ok(outcome)
    }

    async fn run_preparing(
        self: &Arc<Self>,
        order: ViewOrder,
        call_id: Uuid,
    ) -> Result<ToolOutcome, ToolError> {
        ensure_startable(&order.line, order.owner)?;
        let inputs = order.inputs;
        let prepared = self.enter_view(&order, call_id).await?;
        let ran = start(&prepared.context, &order.line, order.owner).await;
        let outcome = self.leave_view(prepared, &order, ran).await;
        let round = Arc::clone(self);
        blocking(move || round.keep_prepared(inputs)).await??;
        outcome
    }

    /// Runs the lines once more with the workspace of the start, for a command that runs there.
    ///
    /// # Errors
    /// A line failed there, or the start cannot be made again.
    pub(super) async fn prepare_start(self: &Arc<Self>, call_id: Uuid) -> Result<(), ToolError> {
        let ended = self.preparation.at_start.get_or_init(|| async {
            self.read_start_files().await?;
            for probe in &self.opening()?.prepare {
                let order = ViewOrder::of(probe, Inputs::CanaryAtStart);
                let outcome = self.run_preparing(order, call_id).await?;
                if !outcome.success {
                    return Err(unprepared(&outcome.summary));
                }
            }
            Ok(())
        });
        ended.await.clone()
    }

    /// Makes the workspace of the start ready for the project's own tests.
    ///
    /// # Errors
    /// A line that prepares views failed there; packages of the start are gone, and no line brings them back.
    pub(super) async fn restore_start(self: &Arc<Self>, call_id: Uuid) -> Result<(), ToolError> {
        let opening = self.opening()?;
        if let Some(path) = opening.packages_lost.as_ref().filter(|_| opening.prepare.is_empty()) {
            let message =
                format!("{path} is not as at the start, and a package manager installed it");
            return Err(ToolError::new(ErrorCode::OutputNotKept, message));
        }
        self.prepare_start(call_id).await
    }

    /// Refuses a command whose view could not be prepared.
    pub(super) fn ensure_prepared(&self, order: &ViewOrder) -> Result<(), ToolError> {
        let is_own = order.owner != Owner::Plan;
        self.unprepared().filter(|_| is_own).map_or(Ok(()), Err)
    }

    /// Why the views of users and operators are not prepared; none where they are.
    pub(super) fn unprepared(&self) -> Option<ToolError> {
        self.preparation.failed().as_ref().map(|(_, error)| error.clone())
    }
}

fn unprepared(why: &str) -> ToolError {
    ToolError::new(ErrorCode::PrepareFailed, why)
}
