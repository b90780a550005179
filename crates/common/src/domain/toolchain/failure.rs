//! The class of a task's failure, which decides who is told.

use super::words::words;
use std::fmt;

/// The business failures in a row after which one is the system's.
pub const MAX_BUSINESS_FAILURES: u32 = 3;
/// The longest chain of tasks that cause one another.
pub const MAX_CHAIN_DEPTH: u32 = 4;
/// The most tasks of one chain.
pub const MAX_CHAIN_TASKS: u32 = 20;

words! {
    /// The class of a failure.
    FailureClass {
        /// The assignee did not do what the task asks for.
        Business = "business",
        /// The task could not be worked on.
        System = "system",
        /// The forge or the verification does not work.
        Infrastructure = "infrastructure",
    }
}

words! {
    /// Why a task failed.
    TaskFailure {
        /// No report was submitted.
        NoAction = "no_action",
        /// The report was blank.
        ReportEmpty = "report_empty",
        /// Another agent wrote the report.
        ReportAuthorMismatch = "report_author_mismatch",
        /// The report was written before the run began.
        ReportBeforeStart = "report_before_start",
        /// The forge does not show what the report says.
        StepsIgnored = "steps_ignored",
        /// The process of the agent ended.
        SpawnerCrash = "spawner_crash",
        /// The deadline passed.
        DeadlineExceeded = "deadline_exceeded",
        /// All retries were used.
        MaxRetries = "max_retries",
        /// The forge cannot be reached.
        ForgeApiUnreachable = "forge_api_unreachable",
        /// The verification itself erred.
        VerifyError = "verify_error",
    }
}

impl TaskFailure {
    /// The class of this failure as number `consecutive` in its chain, from 1.
    pub const fn class(self, consecutive: u32) -> FailureClass {
        match self {
            Self::NoAction
            | Self::ReportEmpty
            | Self::ReportAuthorMismatch
            | Self::ReportBeforeStart
            | Self::StepsIgnored => {
                if consecutive < MAX_BUSINESS_FAILURES {
                    FailureClass::Business
                } else {
                    FailureClass::System
                }
            }
            Self::SpawnerCrash | Self::DeadlineExceeded | Self::MaxRetries => FailureClass::System,
            Self::ForgeApiUnreachable | Self::VerifyError => FailureClass::Infrastructure,
        }
    }
}
