//! The exit codes: one table for `--help`, the documentation and the code.

use std::process::ExitCode;

use surety_common::wire::v1;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It succeeded; a followed run was accepted.
    Done,
    /// It failed.
    Failed,
    /// The followed run ended without being accepted, or a check failed.
    NotAccepted,
    /// The followed run was cancelled.
    Cancelled,
    /// The followed run waits for a user.
    Waiting,
    /// Ctrl-C ended the following; the run continues.
    Interrupted,
    /// The reader of the output closed it.
    OutputClosed,
    /// The exit code of a command that was started.
    Command(u8),
}

impl Exit {
    /// The documented codes, in order, with their meanings.
    pub const TABLE: [(Self, &'static str); 7] = [
        (Self::Done, "done; of a run that was followed: accepted by the gate"),
        (Self::Failed, "an error: usage, a file, the connection; standard error names its code"),
        (
            Self::NotAccepted,
            "not accepted: the run ended FAILED, or what was checked does not hold",
        ),
        (Self::Cancelled, "the run was cancelled"),
        (Self::Waiting, "the run is BLOCKED and waits for a person (when not on a terminal)"),
        (
            Self::Interrupted,
            "Ctrl-C: following ended, the run continues; a verification ended without a verdict",
        ),
        (Self::OutputClosed, "the reader of the output closed it"),
    ];

    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::NotAccepted => 2,
            Self::Cancelled => 3,
            Self::Waiting => 4,
            Self::Interrupted => 130,
            Self::OutputClosed => 141,
            Self::Command(code) => code,
        }
    }

    /// The exit code for this followed run.
    #[must_use]
    pub fn of(run: &v1::Run) -> Self {
        match run.state() {
            v1::RunState::Done => Self::Done,
            v1::RunState::Failed => Self::NotAccepted,
            v1::RunState::Cancelled => Self::Cancelled,
            v1::RunState::Blocked => Self::Waiting,
            v1::RunState::Unspecified
            | v1::RunState::Intake
            | v1::RunState::Planning
            | v1::RunState::Executing
            | v1::RunState::Verifying
            | v1::RunState::Recovering => Self::Interrupted,
        }
    }

    /// The table as the end of `--help`.
    #[must_use]
    pub fn help() -> String {
        let rows = Self::TABLE.map(|(exit, meaning)| format!("  {:>3}  {meaning}", exit.code()));
        format!("Exit codes:\n{}", rows.join("\n"))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_can_tell_how_a_run_ended() {
        let cases = [
            (v1::RunState::Done, 0),
            (v1::RunState::Failed, 2),
            (v1::RunState::Cancelled, 3),
            (v1::RunState::Blocked, 4),
        ];
        for (state, code) in cases {
            let mut run = v1::Run::default();
            run.set_state(state);
            assert_eq!(Exit::of(&run).code(), code, "{state:?}");
        }
    }

    #[test]
    fn the_documentation_has_every_exit_code_and_error_code() {
        let page = include_str!("../../../docs/cli.md");
        for (exit, meaning) in Exit::TABLE {
            let row = format!("| {} | {meaning} |", exit.code());
            assert!(page.contains(&row), "docs/cli.md lacks {row}");
        }
        for code in crate::failure::Code::ALL {
            let row = format!("| `{}` |", code.as_str());
            assert!(page.contains(&row), "docs/cli.md lacks {row}");
        }
    }
}
