//! Receipts that workers report: kept as their words, once.
//!
//! ```text
//!   request_id stored? --yes--> the receipt of the first call
//!        |no
//!   the step is under way, the receipt names it --> receipt + answer in one transaction --lost a race--> again
//! ```

use super::{Participants, index_of, lease_lost, run_terminal};
use prost::Message;
use surety_common::clock;
use surety_common::domain::execution::draft::{Draft, Write};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Role;
use surety_common::domain::journal::{Actor, Entry};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::{EvidenceReceipt, Fact, RESERVED_KEYS, counts_as_evidence};
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, AnsweredChange, HeldLease, Kept, NewOutcome, StoredOutcome};
use surety_common::telemetry::{self, trace};
use surety_common::wire::caller::Caller;
use surety_common::wire::v1;
use uuid::Uuid;

/// The method, as stored answers name it.
const METHOD: &str = "RecordReceipt";
/// The most facts of a receipt.
const MAX_FACTS: usize = 200;
/// The most bytes of the texts of a receipt and of its facts.
const MAX_BYTES: usize = 64 << 10;
/// The longest name of a tool, in bytes.
const MAX_NAME: usize = 200;
/// Names under which the runner records its own observations.
const RUNNERS: [&str; 2] = ["observe", "verify_command"];
/// From so many receipts on a run takes no more reports.
const MAX_RECEIPTS: u32 = 10_000;

/// A receipt as it was reported.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// The run.
    pub(crate) run_id: Uuid,
    /// The step.
    pub(crate) step_id: String,
    /// The fencing token of the worker's lease; 0 without one.
    pub(crate) lease_epoch: i64,
    /// What the worker saw.
    pub(crate) receipt: EvidenceReceipt,
    /// The caller's idempotency key.
    pub(crate) request_id: String,
    /// Digest of the whole request.
    pub(crate) request_digest: String,
}

impl Report {
    /// Refuses what no worker may say, and more than a receipt may hold.
    ///
    /// # Errors
    /// `field_missing`, `type_mismatch`, `too_large`.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let EvidenceReceipt { name, probe_of, .. } = &self.receipt;
        let refused = |field: &str, message: &str| {
            Err(Problem::at(Code::TypeMismatch, format!("receipt.{field}"), message))
        };
        if probe_of.is_some() {
            return refused(
                "check_id",
                "only the runner's own probe decides a check; leave out check_id and round",
            );
        }
        if name.is_empty() {
            return Err(Problem::at(Code::FieldMissing, "receipt.name", "is missing; set it"));
        }
        let hidden = surety_common::domain::verification::is_hidden_name(name);
        if hidden || RUNNERS.contains(&name.as_str()) {
            return refused("name", "is a name of the runner's own observations; use another one");
        }
        check_words(&self.receipt, "receipt")
    }
}

/// Refuses facts that no worker may state, and more than a receipt may hold.
///
/// # Errors
/// `type_mismatch`, `too_large`.
pub(crate) fn check_words(receipt: &EvidenceReceipt, at: &str) -> Result<(), Problem> {
    let EvidenceReceipt { name, facts, .. } = receipt;
    let refused =
        |message: &str| Err(Problem::at(Code::TypeMismatch, format!("{at}.facts"), message));
    let reserved =
        |fact: &Fact| matches!(fact, Fact::Output { key, .. } if key.starts_with(RESERVED_KEYS));
    if facts.iter().any(reserved) {
        return refused("holds an output whose key begins with `surety.`; use another one");
    }
    let text = receipt.to_text();
    if name.len() > MAX_NAME || facts.len() > MAX_FACTS || text.len() > MAX_BYTES {
        let message = format!(
            "holds more than a name of {MAX_NAME} bytes, {MAX_FACTS} facts or {MAX_BYTES} bytes; report less"
        );
        return Err(Problem::at(Code::TooLarge, at, message));
    }
    // The escape in its text.
    if text.contains("\\u0000") {
        return refused("contains the character U+0000, which cannot be stored; remove it");
    }
    Ok(())
}

impl Participants {
    /// Records what a worker reports about a step that is under way. The same request again answers the receipt of
    /// the first.
    ///
    /// # Errors
    /// `permission_denied`, `run_not_found`, `step_not_found`, `run_terminal`, `failed_precondition`, `lease_lost`,
    /// `request_id_conflict`, `fuse_reached`, `type_mismatch`, `version_conflict`, `database_unavailable`.
    pub(crate) async fn record(
        &self,
        caller: &Caller,
        report: Report,
    ) -> Result<v1::RecordReceiptResponse, Fault> {
        self.may_report(caller)?;
        loop {
            let record = self.find(caller, report.run_id).await?;
            if record.execution.counters.drivers.iter().any(|driver| driver == caller.name()) {
                let name = caller.name();
                let why = format!("{name:?} is a driver of this run, which records no receipts");
                return Err(Fault::new(FaultCode::PermissionDenied, why));
            }
            if let Some(first) = self.answered(caller, &report).await? {
                return Ok(first);
            }
            let lease = self.check_lease(caller, &report).await?;
            let (write, response) = change(caller, record.clone(), &report)?;
            let span =
                trace::work_span("executor", &report.run_id.to_string(), &record.spec.trace_parent);
            let span_id = trace::span_id(&span);
            let outcome = NewOutcome {
                subject: report.run_id.to_string(),
                identity: caller.name().to_owned(),
                request_id: report.request_id.clone(),
                run_id: Some(report.run_id),
                stored: StoredOutcome {
                    method: METHOD.to_owned(),
                    request_digest: report.request_digest.clone(),
                    response: response.encode_to_vec(),
                },
                at: write.execution.updated_at,
            };
            let change = AnsweredChange {
                write: Some(&write),
                span_id: span_id.as_deref(),
                outcome: Some(&outcome),
                lease: lease.as_ref(),
                signing: Some(self.claimer.engine().committer.signing()),
                ..AnsweredChange::default()
            };
            match store::apply_answered(&self.pool, change).await? {
                Kept::Applied => {
                    telemetry::observe(&write, &span);
                    self.waker.wake(store::Topic::Run(report.run_id));
                    self.wakeups.wake_here(store::Topic::Moved(report.run_id));
                    return Ok(response);
                }
                Kept::Lost | Kept::Repeated => {}
            }
        }
    }

    /// A driver never records receipts, whatever other role it has, and an operator may name the workers that do.
    fn may_report(&self, caller: &Caller) -> Result<(), Fault> {
        let denied = |why: String| Err(Fault::new(FaultCode::PermissionDenied, why));
        let name = caller.name();
        if caller.identity().has(Role::Driver) {
            return denied(format!("{name:?} has the role driver, which records no receipts"));
        }
        match &*self.reporters {
            [all] if all == "*" => Ok(()),
            names if names.iter().any(|known| known == name) => Ok(()),
            _ => denied(format!(
                "{name:?} has not the right record_receipts; an operator grants it by \
                 SURETY_EXECUTOR_RECORD_RECEIPTS"
            )),
        }
    }

    /// The answer of the same request, where it was made before.
    async fn answered(
        &self,
        caller: &Caller,
        report: &Report,
    ) -> Result<Option<v1::RecordReceiptResponse>, Fault> {
        let subject = report.run_id.to_string();
        let (name, request_id) = (caller.name(), report.request_id.as_str());
        let found = store::find_outcome(&self.pool, &subject, name, request_id, clock::now());
        let Some(stored) = found.await? else { return Ok(None) };
        let same = stored.method == METHOD && stored.request_digest == report.request_digest;
        let answer = v1::RecordReceiptResponse::decode(stored.response.as_slice());
        match answer.ok().filter(|_| same) {
            Some(answer) => Ok(Some(answer)),
            None => {
                let message = "the request_id was used before with another content; use a new one";
                Err(Fault::new(FaultCode::RequestIdConflict, message).with_field("request_id"))
            }
        }
    }

    /// The lease that the report names; none where it names none.
    async fn check_lease(
        &self,
        caller: &Caller,
        report: &Report,
    ) -> Result<Option<HeldLease>, Fault> {
        let Report { run_id, lease_epoch, step_id, .. } = report;
        if *lease_epoch == 0 {
            return Ok(None);
        }
        let identity = caller.name().to_owned();
        let lease = HeldLease { run_id: *run_id, lease_epoch: *lease_epoch, identity };
        let held = store::find_lease(&self.pool, &lease, clock::now()).await?;
        held.map(|_| Some(lease)).ok_or_else(|| lease_lost(step_id))
    }
}

/// The change that records the report, and its answer.
fn change(
    caller: &Caller,
    record: RunRecord,
    report: &Report,
) -> Result<(Write, v1::RecordReceiptResponse), Fault> {
    if record.execution.state.is_terminal() {
        return Err(run_terminal(&record));
    }
    let index = index_of(&record, &report.step_id)?;
    let receipt = addressed(&record, index, report)?.reported_by(caller.name());
    if record.execution.counters.receipts >= MAX_RECEIPTS {
        let message = format!("the run has {MAX_RECEIPTS} receipts and takes no more reports");
        return Err(Problem::at(Code::FuseReached, "fence.run_id", message).into());
    }
    let (place, revision) = (receipt.step_index, record.execution.plan_revision);
    let proves = counts_as_evidence(&receipt, place, revision);
    let actor = Actor(format!("worker/{}", caller.name()).into());
    let state = record.execution.step(index).map(|step| step.state).unwrap_or_default();
    let mut draft = Draft::new(record.execution, actor, clock::now());
    draft.record_report(index, receipt, proves).map_err(|_| {
        let message = format!(
            "step {:?} is {}; facts are reported while a step is ready, running or waiting",
            report.step_id,
            state.as_str()
        );
        Fault::new(FaultCode::FailedPrecondition, message).with_field("fence.step_id")
    })?;
    let write = draft.into_write();
    let stored = write.entries.iter().rev().find_map(|entry| {
        let Entry::Receipt(receipt) = entry else { return None };
        Some(EvidenceReceipt::clone(receipt))
    });
    let response = v1::RecordReceiptResponse { receipt: stored.map(Into::into) };
    Ok((write, response))
}

/// The receipt with the place that the service gives it, where it names no other one.
fn addressed(record: &RunRecord, index: usize, report: &Report) -> Result<EvidenceReceipt, Fault> {
    let mut receipt = report.receipt.clone();
    let place = u32::try_from(index).unwrap_or(u32::MAX);
    if receipt.step_index != place {
        let message =
            format!("is {}; step {:?} has the index {place}", receipt.step_index, report.step_id);
        return Err(Problem::at(Code::TypeMismatch, "receipt.step_index", message).into());
    }
    if !receipt.step_id.is_empty() && receipt.step_id != report.step_id {
        let message = format!("is {:?}, and fence.step_id {:?}", receipt.step_id, report.step_id);
        return Err(Problem::at(Code::TypeMismatch, "receipt.step_id", message).into());
    }
    let revision = record.execution.plan_revision;
    if receipt.plan_revision != 0 && receipt.plan_revision != revision {
        let message = format!(
            "the receipt is of plan revision {}, the run is at {revision}",
            receipt.plan_revision
        );
        return Err(
            Fault::new(FaultCode::VersionConflict, message).with_field("receipt.plan_revision")
        );
    }
    receipt.step_id.clone_from(&report.step_id);
    receipt.plan_revision = revision;
    // A call of its own: with the id of another call its facts would not make that one's stale.
    receipt.call_id = Uuid::now_v7().to_string();
    let now = clock::now();
    receipt.started_at = receipt.started_at.filter(|at| *at <= now).or(Some(now));
    receipt.finished_at = receipt.finished_at.filter(|at| *at <= now).or(Some(now));
    Ok(receipt)
}
