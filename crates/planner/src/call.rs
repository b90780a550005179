//! Idempotency and optimistic concurrency of calls that change something. A call is authorised before
//! it gets here, so that no identity receives the stored answer of a call that it may not make.
//!
//! ```text
//!   request_id stored? --yes--> the first answer, nothing changes
//!        |no
//!   expected_version current? --no--> version_conflict
//!        |yes
//!   change + its answer in one transaction --lost a race--> read again
//! ```

use crate::planner::{Planner, observe};
use chrono::{DateTime, Utc};
use prost::Message;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::{Draft, Write};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::run::RunRecord;
use surety_common::store::{
    self, AnsweredChange, Commit, Kept, NewOutcome, Outcome, StoreError, StoredOutcome, StoredPlan,
    Topic,
};
use surety_common::telemetry::trace;
use surety_common::wire::run::run;
use surety_common::wire::v1;
use surety_common::wire::value::sha256_of;
use uuid::Uuid;

/// The longest request id, in bytes.
pub(crate) const MAX_REQUEST_ID: usize = 200;

/// The request of a call that changes something.
pub(crate) trait Mutation: Message {
    /// The name of its RPC.
    const METHOD: &'static str;

    /// The caller's idempotency key; empty when the caller sends none.
    fn request_id(&self) -> &str;

    /// The version of the run that the caller read.
    fn expected_version(&self) -> Option<u64>;
}

macro_rules! mutations {
    ($($request:ident: $method:literal, $version:expr;)*) => {$(
        impl Mutation for v1::$request {
            const METHOD: &'static str = $method;

            fn request_id(&self) -> &str {
                &self.request_id
            }

            fn expected_version(&self) -> Option<u64> {
                let version: fn(&Self) -> Option<u64> = $version;
                version(self)
            }
        }
    )*};
}

mutations! {
    AddTaskEntryRequest: "AddTaskEntry", |_| None;
    AnswerQuestionRequest: "AnswerQuestion", |request| request.expected_version;
    CancelRunRequest: "CancelRun", |request| request.expected_version;
    ExtendBudgetRequest: "ExtendBudget", |request| request.expected_version;
    PauseRunRequest: "PauseRun", |request| request.expected_version;
    RequestReplanRequest: "RequestReplan", |request| request.expected_version;
    ResolveConfirmationRequest: "ResolveConfirmation", |request| request.expected_version;
    ResumeRunRequest: "ResumeRun", |request| request.expected_version;
    RevokeGrantRequest: "RevokeGrant", |request| request.expected_version;
    RevokeTokenRequest: "RevokeToken", |_| None;
    SetNamespacePolicyRequest: "SetNamespacePolicy", |request| request.expected_version;
    SubmitActionReportRequest: "SubmitActionReport", |_| None;
    SubmitPlanRequest: "SubmitPlan", |request| request.expected_version;
}

/// A call that changes something.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: &'static str,
    /// What it changes: the id of a run, a wait or a token, or the name of a policy.
    subject: String,
    /// The name of the caller's identity.
    by: String,
    /// Empty when the caller sent none.
    request_id: String,
    request_digest: String,
    expected_version: Option<u64>,
}

/// The effect of a call on a run.
pub(crate) struct Changed<R> {
    /// The change; none when there is nothing to change.
    pub(crate) write: Option<Write>,
    /// The plan revision that it stores.
    pub(crate) plan: Option<StoredPlan>,
    /// The answer for the caller.
    pub(crate) response: R,
}

impl Call {
    /// A call as it was sent by an identity that may make it.
    ///
    /// # Errors
    /// `too_large` and `type_mismatch` for a request id that cannot be stored.
    pub(crate) fn of<M: Mutation>(
        subject: impl ToString,
        by: &str,
        request: &M,
    ) -> Result<Self, Problem> {
        let request_id = request.request_id();
        if request_id.len() > MAX_REQUEST_ID {
            let message = format!("is longer than {MAX_REQUEST_ID} bytes; shorten it");
            return Err(Problem::at(Code::TooLarge, "request_id", message));
        }
        if request_id.contains('\0') {
            let message = "contains the character U+0000, which cannot be stored; remove it";
            return Err(Problem::at(Code::TypeMismatch, "request_id", message));
        }
        Ok(Self {
            method: M::METHOD,
            subject: subject.to_string(),
            by: by.to_owned(),
            request_id: request_id.to_owned(),
            request_digest: sha256_of(request),
            expected_version: request.expected_version(),
        })
    }

    /// The name of the caller's identity.
    pub(crate) fn by(&self) -> &str {
        &self.by
    }

    /// The answer to be stored with the change that this call makes; none without a request id.
    pub(crate) fn outcome<R: Message>(
        &self,
        run_id: Option<Uuid>,
        response: &R,
        at: DateTime<Utc>,
    ) -> Option<NewOutcome> {
        self.is_named().then(|| NewOutcome {
            subject: self.subject.clone(),
            identity: self.by.clone(),
            request_id: self.request_id.clone(),
            run_id,
            stored: StoredOutcome {
                method: self.method.to_owned(),
                request_digest: self.request_digest.clone(),
                response: response.encode_to_vec(),
            },
            at,
        })
    }

    /// Checks that the run has the version that the caller read.
    ///
    /// # Errors
    /// `version_conflict`
    pub(crate) fn expects(&self, record: &RunRecord) -> Result<(), Fault> {
        let version = u64::try_from(record.execution.version).unwrap_or_default();
        match self.expected_version {
            Some(expected) if expected != version => {
                let message = format!("the run is at version {version}, not {expected}");
                Err(Fault::new(FaultCode::VersionConflict, message).with_field("expected_version"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_named(&self) -> bool {
        !self.request_id.is_empty()
    }

    fn first_answer<R: Message + Default>(&self, stored: &StoredOutcome) -> Result<R, Fault> {
        if stored.method != self.method || stored.request_digest != self.request_digest {
            let id = &self.request_id;
            let message = format!(
                "request_id {id:?} was used by a {} with other content; use a new request_id",
                stored.method
            );
            return Err(Fault::new(FaultCode::RequestIdConflict, message).with_field("request_id"));
        }
        R::decode(stored.response.as_slice()).map_err(|error| {
            tracing::error!(%error, method = self.method, "planner: a stored answer cannot be decoded");
            Fault::new(FaultCode::Internal, "the stored answer of the first call cannot be decoded")
        })
    }
}

impl Planner {
    /// The stored answer of the same call; none the first time.
    ///
    /// # Errors
    /// `request_id_conflict` when the request id was used with other content,
    /// `database_unavailable`.
    pub(crate) async fn answered_before<R: Message + Default>(
        &self,
        call: &Call,
    ) -> Result<Option<R>, Fault> {
        if !call.is_named() {
            return Ok(None);
        }
        let Call { subject, by, request_id, .. } = call;
        let found = store::find_outcome(&self.pool, subject, by, request_id, self.now()).await?;
        found.map(|stored| call.first_answer(&stored)).transpose()
    }

    /// Applies one change to the current run, and again when another writer changed it first. Returns
    /// the changed run.
    ///
    /// # Errors
    /// Those of `change`; `version_conflict`, `request_id_conflict`, `run_not_found`,
    /// `database_unavailable`.
    pub(crate) async fn change_once(
        &self,
        run_id: Uuid,
        call: &Call,
        change: impl Fn(&RunRecord, &mut Draft) -> Result<(), Fault>,
    ) -> Result<v1::Run, Fault> {
        loop {
            if let Some(first) = self.answered_before(call).await? {
                return Ok(first);
            }
            let record = self.find(run_id).await?;
            call.expects(&record)?;
            let actor = self.actor_for(call.by());
            let mut draft = Draft::new(record.execution.clone(), actor, self.now());
            change(&record, &mut draft)?;
            let write = (!draft.is_empty()).then(|| draft.into_write());
            let response = self.after(&record, write.as_ref()).await?;
            let changed = Changed { write, plan: None, response };
            if let Some(response) = self.keep(call, &record, changed).await? {
                return Ok(response);
            }
        }
    }

    /// The run as a change leaves it.
    ///
    /// # Errors
    /// `database_unavailable`
    pub(crate) async fn after(
        &self,
        record: &RunRecord,
        write: Option<&Write>,
    ) -> Result<v1::Run, Fault> {
        let verdict = self.verdict(record).await?;
        let execution = write
            .map_or_else(|| record.execution.clone(), |write| Execution::clone(&write.execution));
        Ok(run(RunRecord { execution, ..record.clone() }, verdict))
    }

    /// Stores a change with its answer. None when another writer was first, or when the same call was
    /// answered concurrently: then nothing is stored.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(crate) async fn keep<R: Message>(
        &self,
        call: &Call,
        record: &RunRecord,
        changed: Changed<R>,
    ) -> Result<Option<R>, StoreError> {
        let Changed { write, plan, response } = changed;
        let run_id = record.spec.id;
        let span = trace::plan_span("planner", &run_id.to_string(), &record.spec.trace_parent);
        let span_id = trace::span_id(&span);
        if !call.is_named() && plan.is_none() {
            // Without an answer to store, the change joins the group commit.
            let Some(write) = write else { return Ok(Some(response)) };
            let commit = Commit::new(write, span, span_id).notify_on_commit(Topic::Moved(run_id));
            let applied = self.committer.commit(commit).await? == Outcome::Applied;
            return Ok(applied.then_some(response));
        }
        let outcome = call.outcome(Some(run_id), &response, self.now());
        let change = AnsweredChange {
            write: write.as_ref(),
            span_id: span_id.as_deref(),
            plan: plan.as_ref(),
            outcome: outcome.as_ref(),
            signing: Some(self.committer.signing()),
            lease: None,
        };
        match store::apply_answered(&self.pool, change).await? {
            Kept::Applied => {
                write.iter().for_each(|write| observe(&self.waker, write, &span));
                Ok(Some(response))
            }
            Kept::Lost | Kept::Repeated => Ok(None),
        }
    }
}
