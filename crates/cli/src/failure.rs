//! Why a command failed, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use surety_common::config::ConfigError;
use surety_common::domain::fault::{Fault, FaultClass, FaultCode, Reason};
use surety_common::domain::json::Value;
use surety_common::domain::problem::Problem;
use surety_common::tls::TlsError;
use surety_common::wire::client::ClientError;
use surety_common::wire::status::{from_status, has_reason};
use surety_common::wire::token::TokenError;
use surety_common::wire::v1;

use crate::postgres::PostgresError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It could not do what was requested.
    #[error("error[{}]: {}", .0.code, .0.message)]
    Said(Box<Said>),
    /// The reader of its output closed it.
    #[error("the output was closed")]
    OutputClosed(#[source] io::Error),
}

/// A failure, for people and scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The stable code: one of [`Code`], or the reason of a service's error.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do; empty when the message says it.
    pub advice: String,
    /// The path of the invalid field, if there is one.
    pub field: Option<String>,
}

/// The stable codes of the command line's own failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The command line is invalid.
    Usage,
    /// A file or folder cannot be used.
    FileUnusable,
    /// A plan file is neither YAML nor JSON.
    OrderUnreadable,
    /// A plan file has an unknown key.
    UnknownKey,
    /// A plan file has an invalid value.
    ValueInvalid,
    /// A setting cannot be used.
    SettingInvalid,
    /// A token would be sent to another host without TLS.
    PlaintextRefused,
    /// No service answers at the address.
    ServiceUnreachable,
    /// The service answers and is not serving.
    NotServing,
    /// The connection was lost and could not be restored.
    ConnectionLost,
    /// Several runs match, or none does.
    RunUnclear,
    /// A port is in use, or may not be opened.
    PortUnusable,
    /// The private Postgres does not start or stop.
    Postgres,
    /// A service of `surety up` ended unexpectedly.
    ServiceEnded,
    /// A checks file names no check.
    ChecksMissing,
    /// There is no checks file where it is looked for.
    PlanMissing,
    /// A check names a program that is not there.
    ProgramMissing,
    /// No commit has the name of the revision, or there is no repository.
    RevisionUnknown,
    /// git could not read a revision.
    GitFailed,
    /// A folder may not be a workspace.
    WorkspaceRefused,
    /// A verdict names no digest of its workspace.
    DigestMissing,
    /// A command could not be started.
    CommandNotStarted,
    /// A verification could not be carried out.
    VerificationFailed,
    /// No contract is open for the workspace.
    ContractMissing,
    /// A contract does not read.
    ContractUnusable,
    /// A proposed plan drops or changes a check that a round has run.
    PlanWeakened,
    /// A command asks for a person at a terminal.
    PersonNeeded,
    /// A verification round of the workspace is at work.
    RoundRunning,
    /// A database cannot be used.
    DatabaseUnusable,
    /// Any other failure; a defect.
    Internal,
}

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 30] = [
        Self::Usage,
        Self::FileUnusable,
        Self::OrderUnreadable,
        Self::UnknownKey,
        Self::ValueInvalid,
        Self::SettingInvalid,
        Self::PlaintextRefused,
        Self::ServiceUnreachable,
        Self::NotServing,
        Self::ConnectionLost,
        Self::RunUnclear,
        Self::PortUnusable,
        Self::Postgres,
        Self::ServiceEnded,
        Self::ChecksMissing,
        Self::PlanMissing,
        Self::ProgramMissing,
        Self::RevisionUnknown,
        Self::GitFailed,
        Self::WorkspaceRefused,
        Self::DigestMissing,
        Self::CommandNotStarted,
        Self::VerificationFailed,
        Self::ContractMissing,
        Self::ContractUnusable,
        Self::PlanWeakened,
        Self::PersonNeeded,
        Self::RoundRunning,
        Self::DatabaseUnusable,
        Self::Internal,
    ];

    /// The stable text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::FileUnusable => "file_unusable",
            Self::OrderUnreadable => "order_unreadable",
            Self::UnknownKey => "unknown_key",
            Self::ValueInvalid => "value_invalid",
            Self::SettingInvalid => "setting_invalid",
            Self::PlaintextRefused => "plaintext_refused",
            Self::ServiceUnreachable => "service_unreachable",
            Self::NotServing => "not_serving",
            Self::ConnectionLost => "connection_lost",
            Self::RunUnclear => "run_unclear",
            Self::PortUnusable => "port_unusable",
            Self::Postgres => "postgres_failed",
            Self::ServiceEnded => "service_ended",
            Self::ChecksMissing => "checks_missing",
            Self::PlanMissing => "plan_missing",
            Self::ProgramMissing => "program_missing",
            Self::RevisionUnknown => "revision_unknown",
            Self::GitFailed => "git_failed",
            Self::WorkspaceRefused => "workspace_refused",
            Self::DigestMissing => "digest_missing",
            Self::CommandNotStarted => "command_not_started",
            Self::VerificationFailed => "verification_failed",
            Self::ContractMissing => "contract_missing",
            Self::ContractUnusable => "contract_unusable",
            Self::PlanWeakened => "plan_weakened",
            Self::PersonNeeded => "person_needed",
            Self::RoundRunning => "round_running",
            Self::DatabaseUnusable => "database_unusable",
            Self::Internal => "internal",
        }
    }
}

impl Failure {
    /// A failure that the command line itself detected.
    pub fn new(code: Code, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Said(Box::new(Said {
            code: code.as_str().to_owned(),
            message: message.into(),
            advice: advice.into(),
            field: None,
        }))
    }

    /// The same failure, with the invalid field.
    #[must_use]
    pub fn at(self, field: impl Into<String>) -> Self {
        match self {
            Self::Said(mut said) => {
                said.field = Some(field.into());
                Self::Said(said)
            }
            Self::OutputClosed(error) => Self::OutputClosed(error),
        }
    }

    /// The same failure, said of a file whose content is wrong; `-` is standard input.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Said(mut said) if said.code != Code::FileUnusable.as_str() => {
                let named = path.to_string_lossy();
                let named = if named == "-" { "standard input" } else { &named };
                said.message = format!("{named}: {}", said.sentence());
                Self::Said(said)
            }
            // A file that cannot be read is named by its own failure.
            Self::Said(_) | Self::OutputClosed(_) => self,
        }
    }

    /// A file or folder that cannot be used.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path: PathBuf = path.to_owned();
        move |source| {
            let message = format!("{} cannot be used: {source}", path.display());
            Self::new(Code::FileUnusable, message, "Check the path and its permissions.")
        }
    }

    /// Output that cannot be written, for example on a full disk. [`Failure::OutputClosed`] where its reader closed it, which
    /// is no error of this program.
    #[must_use]
    pub fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed(error);
        }
        let message = format!("standard output: {error}");
        Self::new(
            Code::FileUnusable,
            message,
            "Write to a file or a terminal that takes the output. What the command changed before stays changed.",
        )
    }

    /// The failure for a status of the service at `url`.
    #[must_use]
    pub fn from_service(url: &str, status: &tonic::Status) -> Self {
        let fault = from_status(status);
        if let Some(misdirected) = misdirected(url, status, &fault) {
            return misdirected;
        }
        if is_unreachable(&fault) {
            let message = format!("no service answers at {url} ({})", fault.message);
            return Self::new(
                Code::ServiceUnreachable,
                message,
                "Start one with `surety up`, or name a running one with --url (SURETY_URL).",
            );
        }
        fault.into()
    }

    /// The form for scripts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let text = |text: &str| Value::String(text.to_owned());
        let members = match self {
            Self::Said(said) => vec![
                ("code".to_owned(), text(&said.code)),
                ("message".to_owned(), text(&said.message)),
                ("advice".to_owned(), text(&said.advice)),
                ("field".to_owned(), said.field.as_deref().map_or(Value::Null, text)),
            ],
            Self::OutputClosed(error) => vec![("message".to_owned(), text(&error.to_string()))],
        };
        Value::Object(vec![("error".to_owned(), Value::Object(members))])
    }

    /// The form for people, on one line or more.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Said(said) => {
                let advice = match said.advice.as_str() {
                    "" => String::new(),
                    advice => format!("\n  {advice}"),
                };
                format!("error[{}]: {}{advice}", said.code, said.sentence())
            }
            Self::OutputClosed(error) => format!("error: {error}"),
        }
    }
}

/// What to do about an address that is not the one of the service.
const ADDRESS: &str = "Check the address: --url (SURETY_URL) names the planner, which listens on port 7401 by default; \
                       the executor listens on 7402 and the gate on 7403.";

/// The failure where something else than the wanted service is at the address: a status of Surety says its reason, and one
/// of a transport does not.
fn misdirected(url: &str, status: &tonic::Status, fault: &Fault) -> Option<Failure> {
    let Fault { class, message: said, .. } = fault;
    let unserved = *class == FaultClass::Unimplemented;
    let (code, message) = if has_reason(status) {
        if !unserved {
            return None;
        }
        let message = format!("the service at {url} does not serve this call ({said})");
        (fault.reason.as_str(), message)
    } else if unserved || *class == FaultClass::Internal {
        let message = format!("what is at {url} does not answer as a service of Surety ({said})");
        (Code::ServiceUnreachable.as_str(), message)
    } else if matches!(class, FaultClass::Cancelled | FaultClass::DeadlineExceeded) {
        let message = format!("nothing at {url} answered in time ({said})");
        (Code::ServiceUnreachable.as_str(), message)
    } else {
        return None;
    };
    Some(Failure::Said(Box::new(Said {
        code: code.to_owned(),
        message,
        advice: ADDRESS.to_owned(),
        field: None,
    })))
}

/// What a message begins with that leaves its subject to the field.
const VERBS: [&str; 6] = ["is ", "has ", "contains ", "names ", "needs ", "must "];

impl Said {
    /// The message with the field, as the subject where the message has none.
    fn sentence(&self) -> String {
        let message = &self.message;
        match self.field.as_deref().unwrap_or_default() {
            "" => message.clone(),
            field if VERBS.iter().any(|verb| message.starts_with(verb)) => {
                format!("{field} {message}")
            }
            field if message.contains(field) => message.clone(),
            field => format!("{message} (at {field})"),
        }
    }
}

/// Whether no service was reached: a running service's error has a reason.
pub(crate) fn is_unreachable(fault: &Fault) -> bool {
    fault.class == FaultClass::Unavailable
        && fault.reason == Reason::Service(FaultCode::ServiceUnavailable)
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let advice = match fault.reason {
            Reason::Service(FaultCode::Unauthenticated) => {
                "Name the file with the service's token with --token-file (SURETY_TOKEN_FILE); \
                 `surety up` keeps its own in its data folder."
            }
            Reason::Service(FaultCode::PermissionDenied) => {
                "docs/authorization.md says which role may make the call; `surety tokens create` makes a \
                 token with it."
            }
            Reason::Input(_) if fault.class == FaultClass::InvalidArgument => {
                "Correct it before a retry."
            }
            reason @ (Reason::Input(_) | Reason::Service(_)) => reason.advice(),
        };
        Self::Said(Box::new(Said {
            code: fault.reason.as_str().to_owned(),
            message: fault.message,
            advice: advice.to_owned(),
            field: fault.field,
        }))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Fault::from(problem).into()
    }
}

impl From<v1::Problem> for Failure {
    fn from(problem: v1::Problem) -> Self {
        match Problem::try_from(problem) {
            Ok(problem) => problem.into(),
            Err(error) => Self::new(Code::Internal, error.to_string(), ""),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Code::SettingInvalid, error.to_string(), "")
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let code = match error {
            ClientError::Plaintext { .. } => Code::PlaintextRefused,
            ClientError::Address { .. } | ClientError::Tls(_) | ClientError::Token(_) => {
                Code::SettingInvalid
            }
        };
        Self::new(code, error.to_string(), "")
    }
}

impl From<TlsError> for Failure {
    fn from(error: TlsError) -> Self {
        Self::new(Code::SettingInvalid, error.to_string(), "")
    }
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        Self::new(
            Code::SettingInvalid,
            error.to_string(),
            "Write only the token into the token file.",
        )
    }
}

impl From<PostgresError> for Failure {
    fn from(error: PostgresError) -> Self {
        Self::new(Code::Postgres, error.to_string(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_a_subject_begins_with_its_field() {
        for (field, message, shown) in [
            ("answer", "is longer than 9 bytes", "answer is longer than 9 bytes"),
            ("answer", "9 bytes are too many", "9 bytes are too many (at answer)"),
            ("answer", "the answer is blank", "the answer is blank"),
            ("", "is unknown", "is unknown"),
        ] {
            let failure = Failure::new(Code::ValueInvalid, message, "").at(field);
            assert_eq!(failure.to_text(), format!("error[value_invalid]: {shown}"));
        }
    }
}
