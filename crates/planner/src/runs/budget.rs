//! Larger budgets, and the end of runs that get none.

use super::person::Person;
use super::{graph_of, terminal};
use crate::call::Call;
use crate::planner::Planner;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::wait_rows::WaitKind;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::policy::NamespacePolicy;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::RunRecord;
use surety_common::domain::stop::StopReason;
use surety_common::store::Topic;
use surety_common::wire::v1;
use uuid::Uuid;

/// What a person answers to a run that waits for a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extension {
    /// The budgets are raised by this much.
    Add(Usage),
    /// The run ends.
    Stop,
}

impl Planner {
    /// Raises the budgets of a run, or ends one that waits for a budget.
    ///
    /// # Errors
    /// `run_not_found`, `run_terminal`, `wait_closed`, `key_without_effect`, `limit_out_of_range`,
    /// `policy_exceeded`, `permission_denied` for a driver of the run, `database_unavailable`.
    pub(crate) async fn extend_budget(
        &self,
        run_id: Uuid,
        call: &Call,
        extension: Extension,
    ) -> Result<v1::Run, Fault> {
        let namespace = self.find(run_id).await?.spec.namespace;
        let policy = self.policies.find(&namespace).await?;
        let person = Person::of(self, run_id, call).await?;
        let extended = self.change_once(run_id, call, |record, draft| {
            person.check(record)?;
            match extension {
                Extension::Add(added) => add(record, draft, added, &policy, call.by()),
                Extension::Stop => stop(record, draft, call.by()),
            }
        });
        let run = extended.await?;
        self.waker.wake_now(Topic::Ready);
        Ok(run)
    }
}

fn add(
    record: &RunRecord,
    draft: &mut Draft,
    added: Usage,
    policy: &NamespacePolicy,
    by: &str,
) -> Result<(), Fault> {
    if record.execution.state.is_terminal() {
        return Err(terminal(record));
    }
    let now = record.execution.limits_of(&record.spec.limits);
    for (field, name, budget, more) in [
        ("add_tokens", "token_budget", now.token_budget, added.tokens),
        ("add_cost_micros", "cost_budget_micros", now.cost_budget_micros, added.cost_micros),
    ] {
        if more > 0 {
            may_be_added(field, budget, more, policy.ceilings.get(name).copied())?;
        }
    }
    let Usage { tokens, cost_micros } = added;
    let cause = format!("{by} added {tokens} tokens and {cost_micros} millionths to the budgets");
    let graph = graph_of(record);
    draft
        .extend_budget(&graph, added, cause)
        .and_then(|()| {
            let terms = (&record.spec.limits, record.spec.policy.on_budget);
            draft.wait_for_plan_again(&graph, Uuid::now_v7(), terms)
        })
        .map_err(|_| terminal(record))
}

fn may_be_added(
    field: &str,
    budget: Option<u64>,
    more: u64,
    ceiling: Option<u64>,
) -> Result<(), Problem> {
    let refused = |code, message: String| Err(Problem::at(code, field, message));
    let Some(budget) = budget else {
        let message = "the run has no such budget, so it is unlimited; leave it out";
        return refused(Code::KeyWithoutEffect, message.to_owned());
    };
    match (budget.checked_add(more), ceiling) {
        (None, _) => refused(
            Code::LimitOutOfRange,
            format!("{budget} and {more} together are beyond 64 bits; add less"),
        ),
        (Some(sum), Some(ceiling)) if sum > ceiling => refused(
            Code::PolicyExceeded,
            format!("{sum} is above the ceiling {ceiling} of the namespace; add less"),
        ),
        (Some(_), _) => Ok(()),
    }
}

fn stop(record: &RunRecord, draft: &mut Draft, by: &str) -> Result<(), Fault> {
    if record.execution.state.is_terminal() {
        return Err(terminal(record));
    }
    let mut waits = record.execution.waits();
    let Some(wait) = waits.find(|wait| wait.kind() == WaitKind::Budget) else {
        let message = "the run waits for no budget; call CancelRun to end it";
        return Err(Fault::new(FaultCode::WaitClosed, message));
    };
    let end = Ending {
        stop_reason: StopReason::BudgetExceeded,
        user_message: format!("{by} gave no larger budget: {}.", wait.question),
        internal_reason: String::new(),
    };
    draft.stop(&graph_of(record), end).map_err(|_| terminal(record))
}
