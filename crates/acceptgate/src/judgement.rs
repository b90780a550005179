//! The verdict on a stored run: the gate reads the plan and the receipts itself, and changes the
//! run's state.

use crate::check::forge_state::{self, ForgeState};
use crate::check::{Answer, action_report};
use crate::evidence::RunEvidence;
use crate::gate::Gate;
use crate::question::wait_for_answer;
use crate::remedy::{failures, remedies};
use crate::stateless::beside;
use crate::verdict::{Judgement, Question};
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::crash;
use surety_common::domain::check::{AcceptCheck, CheckKind};
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{Execution, Graph};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Object;
use surety_common::domain::journal::{Turn, VerdictRecord};
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::plan::Plan;
use surety_common::domain::receipt::{EvidenceReceipt, verify_chain};
use surety_common::domain::repository::RepositoryOutcome;
use surety_common::domain::run::{DriverKind, RunRecord};
use surety_common::domain::signature::{Service, SignatureStatus};
use surety_common::domain::toolchain::{ReportResult, THIN_REPORT};
use surety_common::domain::verdict::{Caution, Verdict};
use surety_common::domain::verification::{probes, wrote_files};
use surety_common::store::{self, Commit, EvidenceBundle, JudgedTask, Outcome, Topic};
use surety_common::telemetry::trace;
use surety_common::wire::caller::Caller;
use surety_common::wire::run::DatedVerdict;
use uuid::Uuid;

/// Up to this many receipts a verdict takes less than a tenth of a millisecond.
const AT_ONCE: usize = 1_000;

/// What the gate decided about a run.
#[derive(Debug, Clone)]
struct Decided {
    verdict: VerdictRecord,
    /// What a person is to be asked before there is a verdict.
    question: Option<Question>,
}

impl Gate {
    /// Decides about a stored run and changes its state: DONE when accepted, else RECOVERING while
    /// repairs remain, else FAILED. A verdict in doubt blocks the run on an approver where its policy asks;
    /// then there is none yet. With `lease_epoch` 0 it stores nothing.
    ///
    /// A call whose answer was lost may be repeated: a run that moved on returns the verdict that
    /// moved it.
    ///
    /// # Errors
    /// `run_not_found`, `permission_denied`, `run_not_verifying`, `observation_incomplete`,
    /// `receipts_invalid`, `run_too_large`, `lease_lost`;
    /// `overloaded` when the gate had no capacity for a check and reached no verdict;
    /// `database_unavailable`.
    pub(crate) async fn judge(
        &self,
        caller: &Caller,
        run_id: Uuid,
        lease_epoch: i64,
    ) -> Result<Option<DatedVerdict>, Fault> {
        loop {
            let bundle: Arc<EvidenceBundle> = self.bundle(caller, run_id).await?.into();
            let record = &bundle.run;
            may_reach(caller, record)?;
            if let Some(given) = self.given_before(record).await? {
                return Ok(Some(given));
            }
            if lease_epoch != 0 && record.execution.lease_epoch != lease_epoch {
                return Err(Fault::new(
                    FaultCode::LeaseLost,
                    "another executor holds the run's lease now; stop working on the run",
                ));
            }
            check_observed(&bundle)?;
            self.check_signatures(&bundle)?;
            let decided = self.decide(&bundle).await?;
            let now = self.now();
            if lease_epoch == 0 {
                return Ok(Some((now, decided.verdict)));
            }
            crash::point("gate.before_verdict");
            if self.store(&bundle, decided.clone(), now).await? == Outcome::Applied {
                crash::point("gate.after_verdict");
                return Ok(decided.question.is_none().then_some((now, decided.verdict)));
            }
        }
    }

    /// Where keys are trusted, the evidence must be what they signed. Evidence without signatures counts only for a run
    /// that is older than the first of these keys.
    fn check_signatures(&self, bundle: &EvidenceBundle) -> Result<(), Fault> {
        let (Some(trust), Some(report)) = (&self.trust, &bundle.signatures) else { return Ok(()) };
        let refused = |what: String| Err(invalid(what));
        match &report.status {
            SignatureStatus::Signed => Ok(()),
            SignatureStatus::Broken(place) => {
                refused(format!("the evidence is not what was signed: {place}"))
            }
            SignatureStatus::Unsigned(why) => {
                let created_at = store::time_of(bundle.run.spec.id);
                match trust.trusted().since(Service::Planner) {
                    Some(since) if since <= created_at => {
                        refused(format!("the evidence is not signed: {why}"))
                    }
                    Some(_) | None => Ok(()),
                }
            }
        }
    }

    /// One run.
    ///
    /// # Errors
    /// `run_not_found`, `database_unavailable`.
    async fn find(&self, run_id: Uuid) -> Result<RunRecord, Fault> {
        store::find_run(&self.pool, run_id).await?.ok_or_else(|| not_found(run_id))
    }

    /// One run, once its caller may make the call on it.
    ///
    /// # Errors
    /// `run_not_found`, `permission_denied`, `database_unavailable`.
    pub(crate) async fn find_for(&self, caller: &Caller, run_id: Uuid) -> Result<RunRecord, Fault> {
        let record = self.find(run_id).await?;
        may_reach(caller, &record)?;
        Ok(record)
    }

    /// One run, and the evidence for its verdict.
    async fn bundle(&self, caller: &Caller, run_id: Uuid) -> Result<Box<EvidenceBundle>, Fault> {
        match self.bundles.find(run_id, ends_a_step).await {
            Ok(found) => found.ok_or_else(|| not_found(run_id)),
            Err(error) => {
                Box::pin(self.check_reach(caller, run_id)).await?;
                Err(error.into())
            }
        }
    }

    /// Whether a caller may make the call on a run, also on one whose rows do not read.
    ///
    /// # Errors
    /// `run_not_found`, `permission_denied`, `database_unavailable`.
    pub(crate) async fn check_reach(&self, caller: &Caller, run_id: Uuid) -> Result<(), Fault> {
        let owner = store::find_owner(&self.pool, run_id).await?;
        let owner = owner.ok_or_else(|| not_found(run_id))?;
        let object = Object::namespace(&owner.namespace);
        caller.may(&object, || not_found(run_id)).map(drop)
    }

    /// The verdict of a run that is no longer being verified.
    async fn given_before(&self, record: &RunRecord) -> Result<Option<DatedVerdict>, Fault> {
        let execution = &record.execution;
        if execution.state == RunState::Verifying {
            return Ok(None);
        }
        let given = match execution.counters.verdict_sequence {
            0 => None,
            sequence => Box::pin(store::verdict(&self.pool, record.spec.id, sequence)).await?,
        };
        given.map(Some).ok_or_else(|| {
            Fault::new(
                FaultCode::RunNotVerifying,
                format!("the run is {} and has no verdict yet", execution.state.as_str()),
            )
        })
    }

    async fn decide(&self, bundle: &Arc<EvidenceBundle>) -> Result<Decided, Fault> {
        let record = &bundle.run;
        let checks = record.plan.as_ref().map_or(&[][..], |plan| &plan.verify);
        let task = bundle.task.as_ref();
        let reports = action_report::results(task, record.spec.created_at, checks);
        let mut answers = self.probes.answers(checks).await?;
        let refuse_on = &record.spec.policy.refuse_on;
        let ForgeState { answers: of_forge, cautions: not_asked } =
            forge_state::ask(&self.pool, &self.forges, task, (checks, refuse_on)).await?;
        answers.extend(of_forge);
        let refuses_thin = refuse_on.iter().any(|code| code == THIN_REPORT);
        answers
            .extend(reports.iter().map(|(index, result)| (*index, answer(*result, refuses_thin))));
        let takes_long = bundle.evidence.receipts.len() > AT_ONCE
            || checks.iter().any(|check| check.kind == CheckKind::Expression);
        let judge = {
            let bundle = Arc::clone(bundle);
            move || judge(&bundle, &answers)
        };
        let Judgement { mut verdict, question } = match takes_long {
            // Outside the runtime's own threads; an expression may block for its whole time limit.
            true => beside(judge).await??,
            false => judge()?,
        };
        verdict.cautions.extend(thin_reports(checks, &reports).chain(not_asked));
        let verdict = VerdictRecord {
            plan_revision: record.execution.plan_revision,
            verdict,
            receipts: record.execution.counters.receipts,
            last_receipt_digest: record.execution.counters.last_receipt_digest.clone(),
            plan_digest: record.plan_digest.clone(),
            history: bundle.task.as_ref().and_then(JudgedTask::history),
        };
        Ok(Decided { verdict, question })
    }

    async fn store(
        &self,
        bundle: &EvidenceBundle,
        decided: Decided,
        now: DateTime<Utc>,
    ) -> Result<Outcome, Fault> {
        let record = &bundle.run;
        let run_id = record.spec.id.to_string();
        let span = trace::evaluation_span(
            "acceptgate",
            &run_id,
            record.execution.plan_revision.into(),
            &record.spec.trace_parent,
        );
        let mut draft = Draft::new(record.execution.clone(), self.actor(), now);
        move_run(&mut draft, bundle, decided).map_err(|refusal| {
            Fault::new(
                FaultCode::Internal,
                format!("the verdict's transition was refused: {refusal}"),
            )
        })?;
        let commit = Commit::new(draft.into_write(), span.clone(), trace::span_id(&span))
            .notify_on_commit(Topic::Run(record.spec.id));
        Ok(self.committer.commit(commit).await?)
    }
}

/// Whether a report holds. A thin one does unless the policy refuses it.
fn answer(result: ReportResult, refuses_thin: bool) -> Answer {
    if refuses_thin && result == ReportResult::ThinReport {
        return Err(THIN_REPORT);
    }
    if result.passed() { Ok(()) } else { Err(result.as_str()) }
}

/// The cautions about reports that say little.
fn thin_reports(
    checks: &[AcceptCheck],
    reports: &BTreeMap<usize, ReportResult>,
) -> impl Iterator<Item = Caution> {
    let thin = reports.iter().filter(|(_, result)| **result == ReportResult::ThinReport);
    thin.map(|(index, _)| Caution {
        code: THIN_REPORT.to_owned(),
        check: checks.get(*index).map_or_else(String::new, |check| check.name().to_owned()),
        detail: "the report names no file, no build and no review".to_owned(),
    })
}

fn may_reach(caller: &Caller, record: &RunRecord) -> Result<(), Fault> {
    let object = Object::namespace(&record.spec.namespace);
    caller.may(&object, || not_found(record.spec.id)).map(drop)
}

fn not_found(run_id: Uuid) -> Fault {
    Fault::new(FaultCode::RunNotFound, format!("no run has the id {run_id}")).with_field("run_id")
}

/// Until the runner has recorded all that it observes for this verification, nothing is decided:
/// an early verdict would be made from what the steps recorded. Each verification
/// begins unobserved, so what was recorded before a repair or for another revision does not count.
fn check_observed(bundle: &EvidenceBundle) -> Result<(), Fault> {
    let EvidenceBundle { run, evidence, .. } = bundle;
    if run.execution.counters.observed {
        return Ok(());
    }
    let checks = run.plan.as_ref().map_or(&[][..], |plan| &plan.verify);
    let policy = &run.spec.policy;
    let wrote = run.spec.wrote_before() || wrote_files(&evidence.receipts);
    let missing = probes(checks, policy, wrote).len();
    if missing == 0 && run.spec.repository.is_none() {
        return Ok(());
    }
    Err(Fault::new(
        FaultCode::ObservationIncomplete,
        format!(
            "the runner has not recorded the observations ({missing} needed) for plan revision {}; \
             wait: the executor asks for the verdict once it has",
            run.execution.plan_revision
        ),
    ))
}

fn judge(bundle: &EvidenceBundle, answers: &BTreeMap<usize, Answer>) -> Result<Judgement, Fault> {
    let EvidenceBundle { run, evidence, .. } = bundle;
    // A check of signatures verified each link of these receipts, and a broken one was refused before.
    if bundle.signatures.is_none() {
        verify_chain(&evidence.receipts).map_err(|error| invalid(error.to_string()))?;
    }
    check_end(&evidence.receipts, &run.execution)?;
    check_plan(run)?;
    let nothing = Plan::default();
    let plan = run.plan.as_deref().unwrap_or(&nothing);
    let todos = run.execution.todos.counted(&plan.todos, run.execution.plan_revision);
    let evidence = RunEvidence {
        workspace: &run.spec.workspace,
        plan,
        todos: &todos,
        policy: &run.spec.policy,
        receipts: &evidence.receipts,
        wrote_before: run.spec.wrote_before(),
        round: run.execution.counters.verification_round,
        final_text: evidence.last_turn.as_ref().map_or("", last_word),
        authored_text: (run.spec.driver == DriverKind::Script)
            .then(|| evidence.last_turn.as_ref().map_or("", |turn| author_of_the_plan(plan, turn))),
        answers,
    };
    let mut judgement = evidence.judge()?;
    if run.spec.repository.is_some() {
        let outcome = RepositoryOutcome::of_round(evidence.receipts, evidence.round);
        judgement.verdict.repository = Some(outcome.ok_or_else(unsaved)?);
    }
    Ok(judgement)
}

/// A verdict on a repository names the commit that it is about.
fn unsaved() -> Fault {
    Fault::new(
        FaultCode::ObservationIncomplete,
        "the runner has not recorded the commit of the run's repository for this verification; wait: the executor \
         asks for the verdict once it has",
    )
}

/// Whether the driver ended a step with this turn.
fn ends_a_step(turn: &Turn) -> bool {
    let action = turn.decision.as_ref().map(|decision| decision.action);
    turn.correction.is_empty() && matches!(action, Some(Action::NextPlan | Action::Done))
}

/// The driver's text when it ended a step.
fn last_word(turn: &Turn) -> &str {
    turn.decision.as_ref().map_or("", ExecuteDecision::last_word)
}

/// What the author of a plan says at the end of a step. The rest of a script's final text is written by the
/// runner.
fn author_of_the_plan<'a>(plan: &'a Plan, turn: &Turn) -> &'a str {
    let step = plan.steps.iter().find(|step| step.id == turn.step_id);
    step.map_or("", |step| &step.done_when)
}

fn invalid(what: String) -> Fault {
    Fault::new(FaultCode::ReceiptsInvalid, what)
}

/// The chain must end where the run's row says, which detects a truncated one.
fn check_end(receipts: &[EvidenceReceipt], execution: &Execution) -> Result<(), Fault> {
    let last = receipts.last().map_or("", |receipt| receipt.digest.as_str());
    let counters = &execution.counters;
    if usize::try_from(counters.receipts) != Ok(receipts.len())
        || last != counters.last_receipt_digest
    {
        return Err(invalid(format!(
            "the run counts {} receipts and the journal has {}, or the last one differs",
            counters.receipts,
            receipts.len()
        )));
    }
    Ok(())
}

/// The verdict names the plan by its digest, so what is judged must be the plan that has it.
fn check_plan(run: &RunRecord) -> Result<(), Fault> {
    let Some(plan) = &run.plan else { return Ok(()) };
    if store::has_digest(plan, &run.plan_digest) {
        return Ok(());
    }
    Err(invalid(format!(
        "plan.body: revision {} has the digest {}, and its row says {}; restore the row, then resume the run",
        run.execution.plan_revision,
        plan.digest(),
        run.plan_digest
    )))
}

fn move_run(draft: &mut Draft, bundle: &EvidenceBundle, decided: Decided) -> Result<(), Refusal> {
    let record = &bundle.run;
    let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
    if let Some(question) = decided.question {
        let wait = wait_for_answer(question, draft.now());
        return draft.block(&graph, wait);
    }
    let verdict = decided.verdict.verdict.clone();
    draft.record_verdict(decided.verdict);
    if verdict.accepted {
        return draft.accept(&graph);
    }
    let end = Ending {
        stop_reason: verdict.stop_reason,
        user_message: message(bundle, &verdict),
        internal_reason: format!("max_repairs is {}", record.spec.limits.max_repairs),
    };
    draft.refuse(&graph, &record.spec.limits, end)
}

/// What failed, and in one sentence each what it needs.
fn message(bundle: &EvidenceBundle, verdict: &Verdict) -> String {
    let checks = bundle.run.plan.as_ref().map_or(&[][..], |plan| &plan.verify);
    let needed = remedies(verdict, checks, &bundle.evidence.receipts);
    format!("Not accepted: {}. {needed}", failures(verdict, checks))
}
