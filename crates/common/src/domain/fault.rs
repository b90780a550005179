//! What a call can fail with: a closed set of reasons, each saying what the caller should do.
//!
//! ```text
//!   Problem (an input at fault) --From--> Fault --wire::status--> gRPC status
//!   FaultCode (a service at fault, or a state that does not allow it) --^
//! ```

use crate::domain::problem::{Code, Problem, codes};
use std::fmt;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Fault {
    /// The stable reason, the same on the wire and in every client.
    pub reason: Reason,
    /// What kind of failure it is, which decides what the caller should do.
    pub class: FaultClass,
    /// One sentence for a person: what is wrong and what to do.
    pub message: String,
    /// The path of the field at fault, where one is.
    pub field: Option<String>,
    /// Milliseconds after which a retry makes sense, where that is known.
    pub retry_after_ms: Option<u64>,
}

/// The stable reason of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// What was sent is at fault.
    Input(Code),
    /// The call is good, but cannot be carried out.
    Service(FaultCode),
}

/// What kind of failure it is; each member is one gRPC status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultClass {
    /// The call can never succeed as it is.
    InvalidArgument,
    /// What it names is not there.
    NotFound,
    /// What it wants to make is there already, and different.
    AlreadyExists,
    /// The state does not allow it.
    FailedPrecondition,
    /// A race or a fence was lost.
    Aborted,
    /// A fuse, a budget or a size.
    ResourceExhausted,
    /// Something needed does not answer now.
    Unavailable,
    /// Nobody knows who calls.
    Unauthenticated,
    /// The caller may not do this.
    PermissionDenied,
    /// The service does not do this.
    Unimplemented,
    /// The caller's time is over.
    DeadlineExceeded,
    /// The caller gave up.
    Cancelled,
    /// A defect of Surety's own.
    Internal,
}

codes! {
    /// Why a good call could not be carried out.
    FaultCode {
        RunNotFound = "run_not_found", "No run has that id.";
        PlanNotFound = "plan_not_found", "The run has no plan, or not that revision.";
        StepNotFound = "step_not_found", "The plan has no step with that id.";
        WaitNotFound = "wait_not_found", "No wait has that id.";
        VerdictNotFound = "verdict_not_found", "The run has no verdict, or not for that revision.";
        TaskNotFound = "task_not_found", "No toolchain or mail task has that id.";
        ArtifactNotFound = "artifact_not_found", "No stored output has that digest.";
        NamespaceNotFound = "namespace_not_found", "No namespace has that name.";

        RequestIdConflict = "request_id_conflict", "That request_id was used before with other content.";
        ToolNameTaken = "tool_name_taken", "Another provider already announced a tool of that name.";

        RunTerminal = "run_terminal", "The run has ended; the first terminal is never overwritten.";
        RunNotPaused = "run_not_paused", "The run is not paused.";
        RunNotVerifying = "run_not_verifying", "The run is not at its verification.";
        PlanNotWanted = "plan_not_wanted", "The run is not at a point where it takes a plan.";
        ReplansUsedUp = "replans_used_up", "The run has no replans left.";
        WaitClosed = "wait_closed", "The wait was answered before, or has expired.";
        ConfirmationMismatch = "confirmation_mismatch", "The confirmation names another call than the one that waits.";
        ReceiptsInvalid = "receipts_invalid", "The receipts' chain or a signature does not hold.";
        StepCallOpen = "step_call_open", "A call of the step is under way or its outcome is not known, so the step cannot be changed or left out.";
        DriverMismatch = "driver_mismatch", "The run has another kind of driver.";
        RunTooLarge = "run_too_large", "What the call needs of the run is more than a service may hold at once.";
        DatabaseNotConfigured = "database_not_configured", "The call keeps state, and the service was started without a database.";

        LeaseLost = "lease_lost", "Another executor or driver holds the lease now.";
        VersionConflict = "version_conflict", "Somebody changed it since it was read.";
        TurnConflict = "turn_conflict", "The turn is not the next one.";

        MessageTooLarge = "message_too_large", "The message is larger than the service takes.";
        Overloaded = "overloaded", "The service has no room for more work now.";

        DatabaseUnavailable = "database_unavailable", "The database does not answer.";
        GateUnavailable = "gate_unavailable", "The accept gate does not answer.";
        ExecutorUnavailable = "executor_unavailable", "No executor answers.";
        ModelUnavailable = "model_unavailable", "The model's endpoint does not answer.";
        ServiceUnavailable = "service_unavailable", "The service cannot be reached.";
        ShuttingDown = "shutting_down", "The service is stopping.";

        Unauthenticated = "unauthenticated", "The call carries no token, or none that is known.";
        PermissionDenied = "permission_denied", "The caller's role does not allow this.";
        Unimplemented = "unimplemented", "The service has no such method, or not here.";
        DeadlineExceeded = "deadline_exceeded", "The call was not finished within the caller's deadline.";
        CallCancelled = "call_cancelled", "The caller gave up before the call was finished.";

        PageTokenInvalid = "page_token_invalid", "The page token is none that this list gave out.";
        SchemaInvalid = "schema_invalid", "A tool's JSON Schema does not compile.";
        BadRequest = "bad_request", "The call is not valid.";
        NotFound = "not_found", "What the call names is not there.";
        AlreadyExists = "already_exists", "What the call wants to make is there already.";
        FailedPrecondition = "failed_precondition", "The state does not allow the call.";
        Aborted = "aborted", "The call lost a race.";
        Internal = "internal", "A defect of the service's own; its log says more.";
    }
}

impl Fault {
    /// A failure of the service, or of a state, with the class that belongs to the code.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self {
            reason: Reason::Service(code),
            class: code.class(),
            message: message.into(),
            field: None,
            retry_after_ms: None,
        }
    }

    /// The same failure, naming the field at fault.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same failure, saying after how many milliseconds a retry makes sense.
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

/// Most codes say that the input can never be good; a few say that it is, at another time.
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
            Self::Input(code) => class_of_input(code).advice(),
            Self::Service(code) => code.advice(),
        }
    }

    /// The reason as an error on the wire carries it: in upper case.
    pub fn to_wire(self) -> String {
        self.as_str().to_ascii_uppercase()
    }

    /// The reason that an error on the wire carries, in any case.
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
            Self::InvalidArgument => "Fix the call; it fails again as it is.",
            Self::NotFound => "Check the id and the namespace.",
            Self::AlreadyExists => "Read what is there, or choose another name.",
            Self::FailedPrecondition => "Read the state again; do not retry as it is.",
            Self::Aborted => "Read the state again, then retry.",
            Self::ResourceExhausted => "Raise the limit, or ask for less.",
            Self::Unavailable => "Retry with backoff.",
            Self::Unauthenticated => "Send a valid token as `authorization: Bearer <token>`.",
            Self::PermissionDenied => "Use an identity that has the role.",
            Self::Unimplemented => "Check the address and the versions of client and service.",
            Self::DeadlineExceeded => {
                "Look whether it happened, then retry with a longer deadline."
            }
            Self::Cancelled => "Look whether it happened; nothing else needs doing.",
            Self::Internal => "Report it with the trace id; a retry may help once.",
        }
    }

    /// The code for a failure of this class about which nothing else is known.
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
    /// What kind of failure the code stands for.
    pub const fn class(self) -> FaultClass {
        match self {
            Self::RunNotFound
            | Self::PlanNotFound
            | Self::StepNotFound
            | Self::WaitNotFound
            | Self::VerdictNotFound
            | Self::TaskNotFound
            | Self::ArtifactNotFound
            | Self::NamespaceNotFound
            | Self::NotFound => FaultClass::NotFound,
            Self::RequestIdConflict | Self::ToolNameTaken | Self::AlreadyExists => {
                FaultClass::AlreadyExists
            }
            Self::RunTerminal
            | Self::RunNotPaused
            | Self::RunNotVerifying
            | Self::PlanNotWanted
            | Self::ReplansUsedUp
            | Self::WaitClosed
            | Self::ConfirmationMismatch
            | Self::ReceiptsInvalid
            | Self::StepCallOpen
            | Self::DriverMismatch
            | Self::RunTooLarge
            | Self::DatabaseNotConfigured
            | Self::FailedPrecondition => FaultClass::FailedPrecondition,
            Self::LeaseLost | Self::VersionConflict | Self::TurnConflict | Self::Aborted => {
                FaultClass::Aborted
            }
            Self::MessageTooLarge | Self::Overloaded => FaultClass::ResourceExhausted,
            Self::DatabaseUnavailable
            | Self::GateUnavailable
            | Self::ExecutorUnavailable
            | Self::ModelUnavailable
            | Self::ServiceUnavailable
            | Self::ShuttingDown => FaultClass::Unavailable,
            Self::Unauthenticated => FaultClass::Unauthenticated,
            Self::PermissionDenied => FaultClass::PermissionDenied,
            Self::Unimplemented => FaultClass::Unimplemented,
            Self::DeadlineExceeded => FaultClass::DeadlineExceeded,
            Self::CallCancelled => FaultClass::Cancelled,
            Self::PageTokenInvalid | Self::SchemaInvalid | Self::BadRequest => {
                FaultClass::InvalidArgument
            }
            Self::Internal => FaultClass::Internal,
        }
    }

    /// What the caller should do; where nothing more special is known, the advice of the class.
    pub const fn advice(self) -> &'static str {
        if matches!(self, Self::RequestIdConflict) {
            "Use a new request_id for new content."
        } else if matches!(self, Self::LeaseLost) {
            "Stop working on the step; lease another."
        } else if matches!(self, Self::MessageTooLarge) {
            "Send less at a time, or raise the service's message limit."
        } else if matches!(self, Self::Overloaded) {
            "Retry with backoff."
        } else if matches!(self, Self::PageTokenInvalid) {
            "Begin again with an empty page token and the same filters."
        } else if matches!(self, Self::DatabaseNotConfigured) {
            "Start the service again with DATABASE_URL, or call one that has it."
        } else if matches!(self, Self::ConfirmationMismatch) {
            "List the waits again and confirm the call that is shown."
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
        let fault = Fault::from(Problem::at(Code::TypeMismatch, "steps[0].id", "text is wanted"));
        assert_eq!(fault.reason.as_str(), "type_mismatch");
        assert_eq!(fault.class, FaultClass::InvalidArgument);
        assert_eq!(fault.field.as_deref(), Some("steps[0].id"));
        assert_eq!(fault.to_string(), "type_mismatch: text is wanted");
    }
}
