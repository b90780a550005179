//! Why a call can fail: a closed set of reasons, each with what the caller should do.
//!
//! ```text
//!   Problem (an invalid input) --From--> Fault --wire::status--> gRPC status
//!   FaultCode (a failing service, or a state that does not allow the call) --^
//! ```

use crate::domain::problem::{Code, Problem, codes};
use std::fmt;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Fault {
    /// The stable reason, the same on the wire and in every client.
    pub reason: Reason,
    /// The class of the failure, which decides what the caller should do.
    pub class: FaultClass,
    /// One sentence: what is wrong and what to do.
    pub message: String,
    /// The path of the invalid field, if there is one.
    pub field: Option<String>,
    /// Milliseconds after which a retry makes sense, if known.
    pub retry_after_ms: Option<u64>,
}

/// The stable reason of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The input is invalid.
    Input(Code),
    /// The input is valid, but the call cannot be carried out.
    Service(FaultCode),
}

/// The class of a failure; each member is one gRPC status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultClass {
    /// The call can never succeed unchanged.
    InvalidArgument,
    /// An object that the call names does not exist.
    NotFound,
    /// The object that the call creates exists with other content.
    AlreadyExists,
    /// The state does not allow the call.
    FailedPrecondition,
    /// The call lost a race, or its fencing token is outdated.
    Aborted,
    /// A limit, a budget or a size is exceeded.
    ResourceExhausted,
    /// A dependency does not answer now.
    Unavailable,
    /// The caller is not authenticated.
    Unauthenticated,
    /// The caller may not do this.
    PermissionDenied,
    /// The service does not implement this.
    Unimplemented,
    /// The caller's deadline has passed.
    DeadlineExceeded,
    /// The caller cancelled the call.
    Cancelled,
    /// A defect of Surety.
    Internal,
}

codes! {
    /// Why a valid call could not be carried out.
    FaultCode {
        RunNotFound = "run_not_found", "No run has that id.";
        PlanNotFound = "plan_not_found", "The run has no plan, or not that revision.";
        StepNotFound = "step_not_found", "The plan has no step with that id.";
        WaitNotFound = "wait_not_found", "No wait has that id.";
        VerdictNotFound = "verdict_not_found", "The run has no verdict, or not for that revision.";
        TokenNotFound = "token_not_found", "No token has that id, or it has ended.";
        TaskNotFound = "task_not_found", "No toolchain or mail task has that id.";
        AgentUnknown = "agent_unknown", "No agent has that id, that account or that role.";
        ArtifactNotFound = "artifact_not_found", "No stored output has that digest.";
        GrantNotFound = "grant_not_found", "The run has no grant with that id.";
        NamespaceNotFound = "namespace_not_found", "No namespace has that name.";
        HookNotFound = "hook_not_found", "No hook has that name, or the address names another forge than the hook's.";
        DeliveryNotFound = "delivery_not_found", "No stored delivery has that id.";

        ToolCallUnknown = "tool_call_unknown", "No call with that id is given to this stream.";

        RequestIdConflict = "request_id_conflict", "That request_id was used before with other content.";
        AccountTaken = "account_taken", "The account belongs to another agent.";
        ToolNameTaken = "tool_name_taken", "Another provider already announced a tool with that name.";

        RunTerminal = "run_terminal", "The run has ended; its terminal state is never overwritten.";
        RunActive = "run_active", "The run is worked on, so no run can begin from one of its steps; pause or cancel it, or let it end.";
        ForkStepsOpen = "fork_steps_open", "Steps that the first step of the fork depends on are not done in the earlier run.";
        RunNotPaused = "run_not_paused", "The run is not paused.";
        RunNotVerifying = "run_not_verifying", "The run is not being verified.";
        ObservationIncomplete = "observation_incomplete", "The runner has not recorded all observations for this verification.";
        PlanNotWanted = "plan_not_wanted", "The run accepts no plan in its current state.";
        ReplansUsedUp = "replans_used_up", "The run has no replans left.";
        WaitClosed = "wait_closed", "The wait was answered before, or has expired.";
        ConfirmationExpired = "confirmation_expired", "The time for the confirmation has passed.";
        ConfirmationMismatch = "confirmation_mismatch", "The answer is about something else than is asked: another call, plan, verdict or question.";
        GrantEnded = "grant_ended", "The grant is used up or has expired, so it cannot be revoked.";
        TooManyGrants = "too_many_grants", "The run has had the most grants that a run may have; approve each call.";
        DifferenceNotShown = "difference_not_shown", "What is to be approved cannot be shown whole, so it cannot be approved.";
        ReceiptsInvalid = "receipts_invalid", "The receipts' chain or a signature is invalid.";
        StepCallOpen = "step_call_open", "A call of the step is running or its outcome is unknown, so the step cannot be changed or skipped.";
        WorkspaceBusy = "workspace_busy", "Another run works in the workspace, in a folder above it or below it.";
        DriverMismatch = "driver_mismatch", "The run has a different kind of driver.";
        RunTooLarge = "run_too_large", "The call needs more data of the run than a service may hold in memory.";
        DatabaseNotConfigured = "database_not_configured", "The call stores state, and the service was started without a database.";

        LeaseLost = "lease_lost", "Another executor or driver holds the lease now.";
        VersionConflict = "version_conflict", "Another writer changed the object since it was read.";
        TurnConflict = "turn_conflict", "The turn is not the next one.";
        WorkerReplaced = "worker_replaced", "The same worker connected again, so this stream ended.";

        MessageTooLarge = "message_too_large", "The message exceeds the service's size limit.";
        Overloaded = "overloaded", "The service has reached its limit of concurrent work.";
        HeaderTooLarge = "header_too_large", "The header of an HTTP request exceeds 32 KiB.";
        TooManyConnections = "too_many_connections", "The port has no place for another connection that waits for its request.";
        MailboxFull = "mailbox_full", "The receiver has the most unread messages that an agent may have.";
        ProgressLimit = "progress_limit", "The worker reports progress too often; send at most ten reports a second.";

        DatabaseUnavailable = "database_unavailable", "The database does not answer.";
        ModelUnavailable = "model_unavailable", "The model's endpoint does not answer.";
        ServiceUnavailable = "service_unavailable", "The service is unreachable.";
        RequestTimeout = "request_timeout", "The HTTP request did not arrive whole in time.";
        ShuttingDown = "shutting_down", "The service is stopping.";
        WorkerSilent = "worker_silent", "The worker sent no message for three heartbeat intervals; connect again.";

        Unauthenticated = "unauthenticated", "The call has no token, or an unknown one.";
        SignatureInvalid = "signature_invalid", "The delivery has no signature, or one that no secret of the hook makes.";
        HookUnsigned = "hook_unsigned", "The hook has no secret; deliveries without a signature are taken on loopback only, and by setting.";
        PermissionDenied = "permission_denied", "The caller's role does not allow this.";
        ToolNotGranted = "tool_not_granted", "The namespace's policy does not let this identity serve that tool; an operator adds it to `tool_workers`.";
        Unimplemented = "unimplemented", "The service does not implement the method in this mode.";
        FeatureNotServed = "feature_not_served", "This version does not serve the requested feature.";
        DeadlineExceeded = "deadline_exceeded", "The call was not finished within the caller's deadline.";
        CallCancelled = "call_cancelled", "The caller cancelled the call before it was finished.";

        PageTokenInvalid = "page_token_invalid", "This list did not issue the page token.";
        SchemaInvalid = "schema_invalid", "A tool's JSON Schema does not compile.";
        MediaTypeUnsupported = "media_type_unsupported", "The delivery is neither JSON nor a form with the field payload.";
        HookSecretUnknown = "hook_secret_unknown", "The hook names a secret that the planner's operator does not list.";
        ProgramMissing = "program_missing", "A required check names a program that is not on the executor's machine.";
        SecretUnavailable = "secret_unavailable", "The run asks for a secret that the executor's operator does not list for its namespace.";
        RepositoryRefused = "repository_refused", "The executor's operator does not allow the run's repository.";
        RepositoryDenied = "repository_denied", "The repository asks for a credential, or refuses the one that the run names.";
        RepositoryUnreachable = "repository_unreachable", "The repository cannot be reached, or git failed on it.";
        RepositoryRevisionUnknown = "repository_revision_unknown", "The repository has no branch, tag or commit of that name.";
        RepositoryTooLarge = "repository_too_large", "The clone of the repository needs more disk than the executor allows.";
        RepositoryPushRefused = "repository_push_refused", "The repository does not take the commits of the run on its own ref.";
        WorkspaceRefused = "workspace_refused", "No run may work in that folder: a root, a home folder, the service's data, or none that is there.";
        BadRequest = "bad_request", "The call is not valid.";
        NotFound = "not_found", "An object that the call names does not exist.";
        AlreadyExists = "already_exists", "The object that the call creates already exists.";
        FailedPrecondition = "failed_precondition", "The state does not allow the call.";
        Aborted = "aborted", "The call lost a race.";
        Internal = "internal", "The service has a defect; its log has the details.";
    }
}

impl Fault {
    /// A failure of the service, or of a state, with the class of the code.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self {
            reason: Reason::Service(code),
            class: code.class(),
            message: message.into(),
            field: None,
            retry_after_ms: None,
        }
    }

    /// The same failure, with the invalid field.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same failure, with the milliseconds after which a retry makes sense.
    #[must_use]
    pub const fn with_retry_after_ms(mut self, retry_after_ms: u64) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let Problem { code, field, message } = problem;
        Self {
            reason: Reason::Input(code),
            class: class_of_input(code),
            message,
            field,
            retry_after_ms: None,
        }
    }
}

/// Most input codes mean that the call can never succeed; a few that it may at another time.
fn class_of_input(code: Code) -> FaultClass {
    if matches!(code, Code::FuseReached | Code::BudgetExhausted | Code::RepeatCycle) {
        FaultClass::ResourceExhausted
    } else if code == Code::TodoNotFound {
        FaultClass::NotFound
    } else if matches!(
        code,
        Code::StepsRemaining
            | Code::PendingConfirmation
            | Code::EvidenceMissing
            | Code::StepCheckFailed
            | Code::TodoTerminal
            | Code::TodoDependencyOpen
            | Code::CanceledRequiredNeedsReplacement
    ) {
        FaultClass::FailedPrecondition
    } else {
        FaultClass::InvalidArgument
    }
}

impl Reason {
    /// The stable text of the reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Input(code) => code.as_str(),
            Self::Service(code) => code.as_str(),
        }
    }

    /// What the reason means, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Input(code) => code.meaning(),
            Self::Service(code) => code.meaning(),
        }
    }

    /// What the caller should do.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Input(Code::KeyWithoutEffect) => {
                "Leave the key out; GetServerInfo names those that have an effect."
            }
            Self::Input(code) => class_of_input(code).advice(),
            Self::Service(code) => code.advice(),
        }
    }

    /// The reason on the wire, in upper case.
    pub fn to_wire(self) -> String {
        self.as_str().to_ascii_uppercase()
    }

    /// The reason with this name on the wire, in any case.
    pub fn from_wire(text: &str) -> Option<Self> {
        Self::from_text(&text.to_ascii_lowercase())
    }

    /// The reason with this text.
    pub fn from_text(text: &str) -> Option<Self> {
        Code::from_text(text)
            .map(Self::Input)
            .or_else(|| FaultCode::from_text(text).map(Self::Service))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FaultClass {
    /// Every class.
    pub const ALL: [Self; 13] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::AlreadyExists,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::ResourceExhausted,
        Self::Unavailable,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Unimplemented,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::Internal,
    ];

    /// What a caller should do about any failure of this class.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::InvalidArgument => "Correct the call; it fails again unchanged.",
            Self::NotFound => "Check the id and the namespace.",
            Self::AlreadyExists => "Read the existing object, or choose another name.",
            Self::FailedPrecondition => "Read the state again; do not retry unchanged.",
            Self::Aborted => "Read the state again, then retry.",
            Self::ResourceExhausted => "Raise the limit, or request less.",
            Self::Unavailable => "Retry with backoff.",
            Self::Unauthenticated => "Send a valid token as `authorization: Bearer <token>`.",
            Self::PermissionDenied => "Use an identity that has the role.",
            Self::Unimplemented => "Check the address and the versions of client and service.",
            Self::DeadlineExceeded => {
                "Check whether the call took effect, then retry with a longer deadline."
            }
            Self::Cancelled => "Check whether the call took effect.",
            Self::Internal => "Report it with the trace id; a retry may help once.",
        }
    }

    /// The code for a failure of this class without further details.
    pub const fn general_code(self) -> FaultCode {
        match self {
            Self::InvalidArgument => FaultCode::BadRequest,
            Self::NotFound => FaultCode::NotFound,
            Self::AlreadyExists => FaultCode::AlreadyExists,
            Self::FailedPrecondition => FaultCode::FailedPrecondition,
            Self::Aborted => FaultCode::Aborted,
            Self::ResourceExhausted => FaultCode::Overloaded,
            Self::Unavailable => FaultCode::ServiceUnavailable,
            Self::Unauthenticated => FaultCode::Unauthenticated,
            Self::PermissionDenied => FaultCode::PermissionDenied,
            Self::Unimplemented => FaultCode::Unimplemented,
            Self::DeadlineExceeded => FaultCode::DeadlineExceeded,
            Self::Cancelled => FaultCode::CallCancelled,
            Self::Internal => FaultCode::Internal,
        }
    }
}

impl FaultCode {
    /// The class of the code.
    #[expect(clippy::too_many_lines, reason = "a table with a line for each code")]
    pub const fn class(self) -> FaultClass {
        match self {
            Self::RunNotFound
            | Self::PlanNotFound
            | Self::StepNotFound
            | Self::WaitNotFound
            | Self::VerdictNotFound
            | Self::TokenNotFound
            | Self::TaskNotFound
            | Self::AgentUnknown
            | Self::ArtifactNotFound
            | Self::GrantNotFound
            | Self::NamespaceNotFound
            | Self::HookNotFound
            | Self::DeliveryNotFound
            | Self::ToolCallUnknown
            | Self::NotFound => FaultClass::NotFound,
            Self::RequestIdConflict
            | Self::AccountTaken
            | Self::ToolNameTaken
            | Self::AlreadyExists => FaultClass::AlreadyExists,
            Self::RunTerminal
            | Self::RunActive
            | Self::ForkStepsOpen
            | Self::RunNotPaused
            | Self::RunNotVerifying
            | Self::ObservationIncomplete
            | Self::PlanNotWanted
            | Self::ReplansUsedUp
            | Self::WaitClosed
            | Self::ConfirmationExpired
            | Self::ConfirmationMismatch
            | Self::DifferenceNotShown
            | Self::GrantEnded
            | Self::TooManyGrants
            | Self::ReceiptsInvalid
            | Self::StepCallOpen
            | Self::WorkspaceBusy
            | Self::DriverMismatch
            | Self::RunTooLarge
            | Self::DatabaseNotConfigured
            | Self::FailedPrecondition => FaultClass::FailedPrecondition,
            Self::LeaseLost
            | Self::VersionConflict
            | Self::TurnConflict
            | Self::WorkerReplaced
            | Self::Aborted => FaultClass::Aborted,
            Self::MessageTooLarge
            | Self::Overloaded
            | Self::HeaderTooLarge
            | Self::TooManyConnections
            | Self::MailboxFull
            | Self::ProgressLimit => FaultClass::ResourceExhausted,
            Self::DatabaseUnavailable
            | Self::ModelUnavailable
            | Self::ServiceUnavailable
            | Self::WorkerSilent
            | Self::RequestTimeout
            | Self::ShuttingDown => FaultClass::Unavailable,
            Self::Unauthenticated | Self::SignatureInvalid => FaultClass::Unauthenticated,
            Self::PermissionDenied | Self::ToolNotGranted | Self::HookUnsigned => {
                FaultClass::PermissionDenied
            }
            Self::Unimplemented | Self::FeatureNotServed => FaultClass::Unimplemented,
            Self::DeadlineExceeded => FaultClass::DeadlineExceeded,
            Self::CallCancelled => FaultClass::Cancelled,
            Self::PageTokenInvalid
            | Self::SchemaInvalid
            | Self::MediaTypeUnsupported
            | Self::HookSecretUnknown
            | Self::ProgramMissing
            | Self::SecretUnavailable
            | Self::RepositoryRefused
            | Self::RepositoryDenied
            | Self::RepositoryUnreachable
            | Self::RepositoryRevisionUnknown
            | Self::RepositoryTooLarge
            | Self::RepositoryPushRefused
            | Self::WorkspaceRefused
            | Self::BadRequest => FaultClass::InvalidArgument,
            Self::Internal => FaultClass::Internal,
        }
    }

    /// What the caller should do; by default the advice of the class.
    pub const fn advice(self) -> &'static str {
        if matches!(self, Self::RequestIdConflict) {
            "Use a new request_id for new content."
        } else if matches!(self, Self::LeaseLost) {
            "Stop working on the step; lease another."
        } else if matches!(self, Self::MessageTooLarge) {
            "Send less at a time, or raise the service's message limit."
        } else if matches!(self, Self::Overloaded | Self::TooManyConnections) {
            "Retry with backoff."
        } else if matches!(self, Self::SignatureInvalid) {
            "Give the forge's hook one of the secrets that the hook names."
        } else if matches!(self, Self::PageTokenInvalid) {
            "Restart the list with an empty page token and the same filters."
        } else if matches!(self, Self::DatabaseNotConfigured) {
            "Start the service again with DATABASE_URL, or call one that has it."
        } else if matches!(self, Self::Unimplemented | Self::FeatureNotServed) {
            "Ask GetServerInfo what is served; check the address and the versions."
        } else if matches!(self, Self::ConfirmationMismatch) {
            "List the waits again, and answer what is shown."
        } else if matches!(self, Self::DifferenceNotShown) {
            "Deny it, or let the run leave out what cannot be shown; allow such files with may_change."
        } else {
            self.class().advice()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_names_two_reasons() {
        for code in FaultCode::ALL {
            assert_eq!(Code::from_text(code.as_str()), None, "{code} is in both sets");
            assert_eq!(Reason::from_text(code.as_str()), Some(Reason::Service(*code)));
        }
        for code in Code::ALL {
            assert_eq!(Reason::from_text(code.as_str()), Some(Reason::Input(*code)));
        }
    }

    #[test]
    fn every_class_has_a_general_code_of_its_own() {
        for class in FaultClass::ALL {
            assert_eq!(class.general_code().class(), class);
        }
    }

    #[test]
    fn a_problem_keeps_its_code_field_and_message() {
        let fault = Fault::from(Problem::at(Code::TypeMismatch, "steps[0].id", "expected a text"));
        assert_eq!(fault.reason.as_str(), "type_mismatch");
        assert_eq!(fault.class, FaultClass::InvalidArgument);
        assert_eq!(fault.field.as_deref(), Some("steps[0].id"));
        assert_eq!(fault.to_string(), "type_mismatch: expected a text");
    }
}
