//! What git's failures mean for a run.

use crate::tool::ToolError;
use surety_common::domain::fault::FaultCode;

/// The longest message of git that is passed on, in bytes.
const LONGEST: usize = 400;

/// Texts by which git and the servers name a cause, in the order in which they decide.
const CAUSES: [(&str, FaultCode); 14] = [
    ("could not read username", FaultCode::RepositoryDenied),
    ("could not read password", FaultCode::RepositoryDenied),
    ("authentication failed", FaultCode::RepositoryDenied),
    ("error: 401", FaultCode::RepositoryDenied),
    ("error: 403", FaultCode::RepositoryDenied),
    ("access denied", FaultCode::RepositoryDenied),
    ("permission denied", FaultCode::RepositoryDenied),
    ("not our ref", FaultCode::RepositoryRevisionUnknown),
    ("couldn't find remote ref", FaultCode::RepositoryRevisionUnknown),
    ("bad object", FaultCode::RepositoryRevisionUnknown),
    ("no space left on device", FaultCode::RepositoryTooLarge),
    ("repository not found", FaultCode::RepositoryUnreachable),
    ("does not appear to be a git repository", FaultCode::RepositoryUnreachable),
    ("' not found", FaultCode::RepositoryUnreachable),
];

/// Why a call of git did not do what it was for.
#[derive(Debug)]
pub(crate) enum GitFailure {
    /// It fails again: the run ends with this code.
    Final(FaultCode, String),
    /// It may succeed at another time.
    Passing(String),
    /// git could not be run.
    Tool(ToolError),
}

impl From<ToolError> for GitFailure {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

impl GitFailure {
    /// What git says of its failure.
    pub(crate) fn of(said: &str) -> Self {
        let lower = said.to_ascii_lowercase();
        let cause = CAUSES.iter().find(|(text, _)| lower.contains(text));
        match cause {
            Some((_, code)) => Self::Final(*code, shortened(said)),
            None => Self::Passing(shortened(said)),
        }
    }
}

/// The last lines of a message, in one line.
pub(crate) fn shortened(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ");
    let start = text.ceil_char_boundary(text.len().saturating_sub(LONGEST));
    let text = text.get(start..).unwrap_or_default();
    if text.is_empty() { "git said nothing".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_decides_whether_a_retry_helps() {
        for (said, expected) in [
            (
                "fatal: could not read Username for 'https://a.org': terminal prompts disabled",
                Some(FaultCode::RepositoryDenied),
            ),
            (
                "fatal: Authentication failed for 'https://a.org/b/'",
                Some(FaultCode::RepositoryDenied),
            ),
            (
                "fatal: unable to access 'https://a.org/b/': The requested URL returned error: 403",
                Some(FaultCode::RepositoryDenied),
            ),
            (
                "fatal: repository 'https://a.org/b/' not found",
                Some(FaultCode::RepositoryUnreachable),
            ),
            (
                "fatal: '/srv/x' does not appear to be a git repository",
                Some(FaultCode::RepositoryUnreachable),
            ),
            (
                "fatal: remote error: upload-pack: not our ref aaaa",
                Some(FaultCode::RepositoryRevisionUnknown),
            ),
            ("fatal: unable to access 'https://a.org/b/': Could not resolve host: a.org", None),
            (
                "fatal: unable to access 'https://a.org/b/': The requested URL returned error: 503",
                None,
            ),
            ("", None),
        ] {
            match (GitFailure::of(said), expected) {
                (GitFailure::Final(code, _), Some(expected)) => {
                    assert_eq!(code, expected, "{said}")
                }
                (GitFailure::Passing(_), None) => {}
                (failure, expected) => panic!("{said}: {failure:?}, not {expected:?}"),
            }
        }
        assert_eq!(shortened("a\n\n  b\n"), "a; b");
        assert!(shortened(&"é".repeat(LONGEST)).len() <= LONGEST);
    }
}
