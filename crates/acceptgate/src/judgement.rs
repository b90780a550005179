//! The verdict on a stored run: the gate reads its plan and its receipts itself, and moves the run
//! by what they prove.

use crate::Gate;
use crate::check::expression;
use crate::verdict::{Evaluation, evaluate};
use surety_common::crash;
use surety_common::domain::decision::Action;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{Execution, Graph};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::{Entry, Event, VerdictRecord};
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::receipt::{EvidenceReceipt, verify_chain};
use surety_common::domain::run::RunRecord;
use surety_common::domain::verdict::Verdict;
use surety_common::store::{self, Commit, Outcome, Topic};
use surety_common::telemetry::trace;
use uuid::Uuid;

/// Receipts that are judged in less than a tenth of a millisecond.
const AT_ONCE: usize = 1_000;

impl Gate {
    /// Decides over a stored run and moves it: DONE when accepted, else RECOVERING while repairs
    /// remain, else FAILED. With `lease_epoch` 0 it only looks.
    ///
    /// A call whose answer was lost on the way may be made again: a run that moved on answers with
    /// the verdict that moved it.
    ///
    /// # Errors
    /// `run_not_found`, `run_not_verifying`, `receipts_invalid`, `lease_lost`,
    /// `database_unavailable`.
    pub async fn judge(&self, run_id: Uuid, lease_epoch: i64) -> Result<VerdictRecord, Fault> {
        loop {
            let (record, events) = self.case(run_id).await?;
            if let Some(given) = self.given_before(&record).await? {
                return Ok(given);
            }
            let evidence = RunEvidence::of(events);
            evidence.check(&record.execution)?;
            let decided = self.decide(&record, evidence).await?;
            if lease_epoch == 0 {
                return Ok(decided);
            }
            if record.execution.lease_epoch != lease_epoch {
                return Err(Fault::new(
                    FaultCode::LeaseLost,
                    "another executor holds the run now; leave it to that one",
                ));
            }
            crash::point("gate.before_verdict");
            if self.store(&record, decided.clone()).await? == Outcome::Applied {
                crash::point("gate.after_verdict");
                return Ok(decided);
            }
        }
    }

    /// One run.
    ///
    /// # Errors
    /// `run_not_found`, `database_unavailable`.
    pub async fn find(&self, run_id: Uuid) -> Result<RunRecord, Fault> {
        store::find_run(&self.pool, run_id).await?.ok_or_else(|| not_found(run_id))
    }

    /// One run, and what a verdict on it is made from.
    async fn case(&self, run_id: Uuid) -> Result<(RunRecord, Vec<Event>), Fault> {
        store::find_case(&self.pool, run_id).await?.ok_or_else(|| not_found(run_id))
    }

    /// The verdict that moved a run which is no longer being verified.
    async fn given_before(&self, record: &RunRecord) -> Result<Option<VerdictRecord>, Fault> {
        let execution = &record.execution;
        if execution.state == RunState::Verifying {
            return Ok(None);
        }
        let given = match execution.counters.verdict_sequence {
            0 => None,
            sequence => store::verdict(&self.pool, record.spec.id, sequence).await?,
        };
        given.map(Some).ok_or_else(|| {
            Fault::new(
                FaultCode::RunNotVerifying,
                format!("the run is {} and has no verdict yet", execution.state.as_str()),
            )
        })
    }

    async fn decide(
        &self,
        record: &RunRecord,
        evidence: RunEvidence,
    ) -> Result<VerdictRecord, Fault> {
        let plan = record.plan.clone().unwrap_or_default();
        let answers = self.probes.answers(&plan.verify).await;
        let root = record.spec.workspace.clone();
        let takes_long = evidence.receipts.len() > AT_ONCE
            || plan.verify.iter().any(|check| check.kind == expression::KIND);
        let judge = move || {
            evaluate(&Evaluation {
                workspace_root: &root,
                checks: &plan.verify,
                receipts: &evidence.receipts,
                final_text: &evidence.final_text,
                todos: &plan.todos,
                plan_made_at: None,
                answers: &answers,
            })
        };
        let verdict = match takes_long {
            // Beside the runtime's own threads; an expression may take its whole time.
            true => tokio::task::spawn_blocking(judge).await.map_err(|error| {
                let message = format!("the evaluation ended in a defect: {error}");
                Fault::new(FaultCode::Internal, message)
            })?,
            false => judge(),
        };
        Ok(VerdictRecord {
            plan_revision: record.execution.plan_revision,
            verdict,
            receipts: record.execution.counters.receipts,
            last_receipt_digest: record.execution.counters.last_receipt_digest.clone(),
        })
    }

    async fn store(&self, record: &RunRecord, decided: VerdictRecord) -> Result<Outcome, Fault> {
        let now = self.now();
        let run_id = record.spec.id.to_string();
        let span = trace::evaluation_span(
            "acceptgate",
            &run_id,
            record.execution.plan_revision.into(),
            &record.spec.trace_parent,
        );
        let mut draft = Draft::new(record.execution.clone(), self.actor(), now);
        move_run(&mut draft, record, decided).map_err(|refusal| {
            Fault::new(FaultCode::Internal, format!("the verdict's move was refused: {refusal}"))
        })?;
        let commit = Commit::new(draft.into_write(), span.clone(), trace::span_id(&span));
        let outcome = self.committer.commit(commit).await?;
        if outcome == Outcome::Applied {
            self.waker.wake_now(Topic::Run(record.spec.id));
        }
        Ok(outcome)
    }
}

fn not_found(run_id: Uuid) -> Fault {
    Fault::new(FaultCode::RunNotFound, format!("no run has the id {run_id}")).with_field("run_id")
}

/// What a run's journal says to the gate.
struct RunEvidence {
    receipts: Vec<EvidenceReceipt>,
    final_text: String,
}

impl RunEvidence {
    fn of(events: Vec<Event>) -> Self {
        let mut receipts = Vec::new();
        let mut final_text = String::new();
        for event in events {
            match event.entry {
                Entry::Receipt(receipt) => receipts.push(*receipt),
                Entry::Turn(turn) => {
                    let ending = turn.decision.filter(|decision| {
                        turn.correction.is_empty()
                            && matches!(decision.action, Action::NextPlan | Action::Done)
                    });
                    if let Some(decision) = ending {
                        // What the driver last said when it ended a step.
                        final_text = match decision.speak.is_empty() {
                            true => decision.goal_check,
                            false => decision.speak,
                        };
                    }
                }
                Entry::Transition(_)
                | Entry::Plan(_)
                | Entry::Intent(_)
                | Entry::Output(_)
                | Entry::Verdict(_)
                | Entry::Answer(_) => {}
            }
        }
        Self { receipts, final_text }
    }

    /// The chain must hold, and end where the run says it ends: a dropped tail is no shorter truth.
    fn check(&self, execution: &Execution) -> Result<(), Fault> {
        let broken = |what: String| Fault::new(FaultCode::ReceiptsInvalid, what);
        verify_chain(&self.receipts).map_err(|error| broken(error.to_string()))?;
        let last = self.receipts.last().map_or("", |receipt| receipt.digest.as_str());
        let counters = &execution.counters;
        if usize::try_from(counters.receipts) != Ok(self.receipts.len())
            || last != counters.last_receipt_digest
        {
            return Err(broken(format!(
                "the run counts {} receipts and {} are there, or the last is another",
                counters.receipts,
                self.receipts.len()
            )));
        }
        Ok(())
    }
}

fn move_run(draft: &mut Draft, record: &RunRecord, decided: VerdictRecord) -> Result<(), Refusal> {
    let graph = Graph::of(&record.plan.clone().unwrap_or_default());
    let verdict = decided.verdict.clone();
    draft.journal(Entry::Verdict(Box::new(decided)));
    let sequence = draft.execution().sequence;
    draft.execution_mut().counters.verdict_sequence = sequence;
    if verdict.accepted {
        return draft.accept(&graph);
    }
    let end = Ending {
        stop_reason: verdict.stop_reason,
        user_message: format!("Not accepted: {}.", failures(&verdict)),
        internal_reason: format!("max_repairs is {}", record.spec.limits.max_repairs),
    };
    draft.refuse(&graph, &record.spec.limits, end)
}

/// The required results that failed, each with its reason.
fn failures(verdict: &Verdict) -> String {
    verdict
        .results
        .iter()
        .filter(|result| !result.passed && !result.optional)
        .map(|result| format!("{} ({})", result.name, result.reason))
        .collect::<Vec<_>>()
        .join(", ")
}
