//! What can come of a call of a server.

use crate::tool::{ErrorCode, ToolError};

/// Why a call of a server has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// The server did not get it.
    NotSent(String),
    /// The server answered that it did not carry it out, or could not.
    Refused(String),
    /// The answer is larger than the server's limit.
    TooLarge(String),
    /// The server answered something else than the protocol has for it.
    Unreadable(String),
    /// The server ended, or its connection broke, before an answer: it may have happened.
    Lost(String),
    /// The deadline passed.
    TimedOut,
    /// The call was cancelled.
    Cancelled,
}

impl CallFailure {
    /// Whether the server may still be at work for the call.
    pub(super) const fn leaves_work(&self) -> bool {
        match self {
            Self::Lost(_) | Self::TimedOut | Self::Cancelled => true,
            Self::NotSent(_) | Self::Refused(_) | Self::TooLarge(_) | Self::Unreadable(_) => false,
        }
    }

    /// The tool's error, which names the server. A lost call of a tool that may not be repeated has an outcome that is
    /// not known.
    pub(super) fn into_error(self, server: &str, may_repeat: bool) -> ToolError {
        let (code, message) = match self {
            Self::NotSent(why) => (ErrorCode::McpUnavailable, format!("{why}; nothing was called")),
            Self::Refused(why) => (ErrorCode::McpFailed, why),
            Self::TooLarge(why) => (
                ErrorCode::TooLarge,
                format!("{why}; the call may have had its effect. Ask for less, or the operator raises max_output_kib"),
            ),
            Self::Unreadable(why) => {
                (ErrorCode::McpProtocolError, format!("{why}; the call may have had its effect"))
            }
            Self::Lost(why) if may_repeat => {
                (ErrorCode::McpLost, format!("{why}, at each attempt of the call"))
            }
            Self::Lost(why) => (
                ErrorCode::OutcomeUnknown,
                format!("{why} in the middle of the call; it may have happened"),
            ),
            Self::TimedOut => (
                ErrorCode::Timeout,
                "the deadline passed before the call ended; the server was told, and what ran for the run was ended"
                    .to_owned(),
            ),
            Self::Cancelled => {
                (ErrorCode::Cancelled, "the call was cancelled before it ended".to_owned())
            }
        };
        ToolError::new(code, format!("MCP server {server}: {message}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_code_and_names_the_server() {
        let why = || "it ended".to_owned();
        for (failure, may_repeat, code) in [
            (CallFailure::NotSent(why()), false, ErrorCode::McpUnavailable),
            (CallFailure::Refused(why()), false, ErrorCode::McpFailed),
            (CallFailure::TooLarge(why()), false, ErrorCode::TooLarge),
            (CallFailure::Unreadable(why()), true, ErrorCode::McpProtocolError),
            (CallFailure::Lost(why()), true, ErrorCode::McpLost),
            (CallFailure::Lost(why()), false, ErrorCode::OutcomeUnknown),
            (CallFailure::TimedOut, false, ErrorCode::Timeout),
            (CallFailure::Cancelled, true, ErrorCode::Cancelled),
        ] {
            let error = failure.into_error("files", may_repeat);
            assert_eq!(error.code, code);
            assert!(error.message.starts_with("MCP server files: "), "{error}");
        }
    }
}
