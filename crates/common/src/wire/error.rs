//! Errors of a message that was decoded.

use crate::domain::problem::{Code, Problem};

/// One error in a message. Paths are relative to the converted message; the caller adds the path of
/// its own part with [`MessageError::under`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {kind}")]
pub struct MessageError {
    /// The path of the invalid field, such as `steps[2].verify[0].match`; empty for the whole
    /// message.
    pub path: String,
    /// What is wrong with it.
    pub kind: MessageErrorKind,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageErrorKind {
    /// A required field is not set.
    #[error("is missing; set it")]
    Missing,
    /// A number outside the field's enum.
    #[error("{0} is not a value of this enum; this service may be older than the client")]
    UnknownEnumValue(i32),
    /// A decision without an action.
    #[error("the decision names no action")]
    ActionMissing,
    /// A decision whose action is none of the six.
    #[error("{0} is not an action")]
    ActionUnknown(i32),
    /// A check whose match is none of the three.
    #[error("{0} is not a match mode; use prefix, exact or contains")]
    MatchUnknown(i32),
    /// A receipt without a step index.
    #[error("the receipt has no step_index")]
    StepIndexMissing,
    /// A receipt whose step index is below zero.
    #[error("{0} is below zero")]
    StepIndexNegative(i64),
    /// A receipt whose step index is greater than any plan's.
    #[error("{0} is greater than the last step index of any plan")]
    StepIndexTooLarge(i64),
    /// A receipt whose source is not set or unknown.
    #[error("{0} is not an evidence source")]
    EvidenceSourceUnknown(i32),
    /// Text that should be JSON and is not.
    #[error("is not strict JSON: {0}")]
    JsonSyntax(String),
    /// JSON that nests too deep.
    #[error("nests more than 128 levels deep")]
    JsonTooDeep,
    /// JSON that is not an object.
    #[error("expected a JSON object, found {0}")]
    NotAnObject(&'static str),
    /// A time outside the years 1 to 9999, or with nanoseconds outside a second.
    #[error("is not a valid time; use the years 1 to 9999")]
    NoMoment,
    /// A duration with a fraction of a second in a field of whole seconds.
    #[error("has a fraction of a second; use whole seconds")]
    NotWholeSeconds,
    /// An id that is not a UUID.
    #[error("{0:?} is not a UUID")]
    InvalidId(String),
    /// A problem that the domain found.
    #[error("{}", .0.message)]
    Domain(Problem),
}

impl MessageError {
    /// An error in one field of the message.
    pub fn at(path: impl Into<String>, kind: MessageErrorKind) -> Self {
        Self { path: path.into(), kind }
    }

    /// The same error, with the path of the enclosing message.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Self {
        self.path = if self.path.is_empty() {
            parent.to_owned()
        } else {
            format!("{parent}.{}", self.path)
        };
        self
    }
}

impl MessageErrorKind {
    /// The code that callers receive.
    pub const fn code(&self) -> Code {
        match self {
            Self::Missing => Code::FieldMissing,
            Self::UnknownEnumValue(_)
            | Self::StepIndexTooLarge(_)
            | Self::NotAnObject(_)
            | Self::NoMoment
            | Self::NotWholeSeconds => Code::TypeMismatch,
            Self::ActionMissing => Code::ActionMissing,
            Self::ActionUnknown(_) => Code::ActionUnknown,
            Self::MatchUnknown(_) => Code::MatchUnknown,
            Self::StepIndexMissing => Code::StepIndexMissing,
            Self::StepIndexNegative(_) => Code::StepIndexNegative,
            Self::EvidenceSourceUnknown(_) => Code::EvidenceSourceUnknown,
            Self::JsonSyntax(_) => Code::JsonSyntax,
            Self::JsonTooDeep => Code::TooDeep,
            Self::InvalidId(_) => Code::InvalidId,
            Self::Domain(problem) => problem.code,
        }
    }
}

impl From<MessageError> for Problem {
    fn from(error: MessageError) -> Self {
        let MessageError { path, kind } = error;
        Self {
            code: kind.code(),
            field: (!path.is_empty()).then_some(path),
            message: kind.to_string(),
        }
    }
}

impl From<MessageError> for crate::domain::fault::Fault {
    fn from(error: MessageError) -> Self {
        Problem::from(error).into()
    }
}
