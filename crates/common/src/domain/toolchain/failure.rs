//! The class of a task's failure, which decides who is told.

use super::report::ReportResult;
use super::words::words;
use crate::domain::fault::FaultCode;
use crate::domain::stop::StopReason;
use std::fmt;

/// The business failures in a row after which one is the system's.
pub const MAX_BUSINESS_FAILURES: u32 = 3;
/// The longest chain of tasks that cause one another.
pub const MAX_CHAIN_DEPTH: u32 = 4;
/// The most tasks of one chain.
pub const MAX_CHAIN_TASKS: u32 = 20;

/// The alert about a chain that takes no other task.
pub const CHAIN_BOUND: &str = "chain_bound";

/// Whether a chain takes a task behind the one at `depth`, with `tasks` of them already.
pub const fn chain_has_room(depth: u32, tasks: u32) -> bool {
    depth < MAX_CHAIN_DEPTH && tasks < MAX_CHAIN_TASKS
}

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
    /// How a task ended.
    TaskOutcome {
        /// The gate accepted it.
        Accepted = "accepted",
        /// It failed, for a reason of [`TaskFailure`].
        Failed = "failed",
        /// A later event left nothing to do.
        Superseded = "superseded",
        /// A person cancelled its run.
        Cancelled = "cancelled",
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
        /// The forge cannot be asked about the work, because no account of the assignee is known there.
        AccountUnknown = "account_unknown",
        /// The clone could not be made, or does not take the work: a setting, a credential, or a limit is in the way.
        WorkspaceUnavailable = "workspace_unavailable",
        /// The branch of the event is gone.
        BranchGone = "branch_gone",
    }
}

impl FailureClass {
    /// The class that is acted on: without a pull request and an issue there is nothing to comment on.
    #[must_use]
    pub const fn of_subject(self, number: Option<u64>) -> Self {
        match (self, number) {
            (Self::Business, None) => Self::System,
            (Self::Business, Some(_)) | (Self::System | Self::Infrastructure, _) => self,
        }
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
            Self::SpawnerCrash | Self::DeadlineExceeded | Self::MaxRetries | Self::BranchGone => {
                FailureClass::System
            }
            Self::ForgeApiUnreachable
            | Self::VerifyError
            | Self::AccountUnknown
            | Self::WorkspaceUnavailable => FailureClass::Infrastructure,
        }
    }
}

/// What the failures of a clone are for its task.
const OF_CLONE: [(FaultCode, TaskFailure); 7] = [
    (FaultCode::RepositoryUnreachable, TaskFailure::ForgeApiUnreachable),
    (FaultCode::RepositoryRevisionUnknown, TaskFailure::BranchGone),
    (FaultCode::RepositoryDenied, TaskFailure::WorkspaceUnavailable),
    (FaultCode::RepositoryRefused, TaskFailure::WorkspaceUnavailable),
    (FaultCode::RepositoryTooLarge, TaskFailure::WorkspaceUnavailable),
    (FaultCode::RepositoryPushRefused, TaskFailure::WorkspaceUnavailable),
    (FaultCode::SecretUnavailable, TaskFailure::WorkspaceUnavailable),
];

impl TaskFailure {
    /// The failure of a run that ended with this reason; `reasons` are those of the required checks that failed.
    pub fn of_end<'a>(stop: StopReason, reasons: impl IntoIterator<Item = &'a str>) -> Self {
        match stop {
            StopReason::Accepted
            | StopReason::AcceptCheckFailed
            | StopReason::RequiredTodoFailed
            | StopReason::TodoNotConverged => Self::of_checks(reasons),
            StopReason::Aborted
            | StopReason::Cancelled
            | StopReason::ConfirmationDenied
            | StopReason::ConfirmationExpired
            | StopReason::MissingCompletionSignal => Self::NoAction,
            StopReason::DeadlineExceeded | StopReason::BudgetExceeded => Self::DeadlineExceeded,
            StopReason::RepeatCycle
            | StopReason::MaxReplansReached
            | StopReason::ReplanParseFailed
            | StopReason::PlanParseFailed
            | StopReason::PlanRejected
            | StopReason::DependencyDeadlock
            | StopReason::MaxRoundsReached
            | StopReason::MaxConsecutiveCorrections => Self::MaxRetries,
            StopReason::ModelUnavailable | StopReason::InternalError => Self::SpawnerCrash,
        }
    }

    /// The failure of a run whose clone ended it with this code; none for another code.
    pub fn of_clone(code: &str) -> Option<Self> {
        let found = OF_CLONE.iter().find(|(fault, _)| fault.as_str() == code);
        found.map(|(_, failure)| *failure)
    }

    /// The report's own reason counts first: what the forge shows says nothing where no report is there.
    fn of_checks<'a>(reasons: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = Self::StepsIgnored;
        for reason in reasons {
            match ReportResult::from_text(reason) {
                Some(ReportResult::NoAction) => return Self::NoAction,
                Some(ReportResult::ReportEmpty) => return Self::ReportEmpty,
                Some(ReportResult::ReportAuthorMismatch) => return Self::ReportAuthorMismatch,
                Some(ReportResult::ReportBeforeStart) => return Self::ReportBeforeStart,
                Some(
                    ReportResult::HasActionReport
                    | ReportResult::ThinReport
                    | ReportResult::NotNeeded
                    | ReportResult::HasOutput
                    | ReportResult::HasLongComment,
                )
                | None => {}
            }
            if let Some(
                named @ (Self::ForgeApiUnreachable | Self::VerifyError | Self::AccountUnknown),
            ) = Self::from_text(reason)
            {
                found = named;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_is_a_failure_of_one_class() {
        for (stop, reasons, failure, class) in [
            (StopReason::AcceptCheckFailed, vec!["no_action"], "no_action", "business"),
            (StopReason::AcceptCheckFailed, vec!["report_empty"], "report_empty", "business"),
            (StopReason::AcceptCheckFailed, vec!["not_merged"], "steps_ignored", "business"),
            (
                StopReason::AcceptCheckFailed,
                vec!["forge_api_unreachable", "no_action"],
                "no_action",
                "business",
            ),
            (
                StopReason::AcceptCheckFailed,
                vec!["forge_api_unreachable"],
                "forge_api_unreachable",
                "infrastructure",
            ),
            (
                StopReason::AcceptCheckFailed,
                vec!["account_unknown"],
                "account_unknown",
                "infrastructure",
            ),
            (StopReason::Aborted, vec![], "no_action", "business"),
            (StopReason::DeadlineExceeded, vec![], "deadline_exceeded", "system"),
            (StopReason::MaxRoundsReached, vec![], "max_retries", "system"),
            (StopReason::InternalError, vec![], "spawner_crash", "system"),
        ] {
            let found = TaskFailure::of_end(stop, reasons);
            assert_eq!((found.as_str(), found.class(1).as_str()), (failure, class), "{stop:?}");
        }
        assert_eq!(TaskFailure::NoAction.class(3), FailureClass::System);
        assert_eq!(FailureClass::Business.of_subject(None), FailureClass::System);
        assert_eq!(FailureClass::Business.of_subject(Some(7)), FailureClass::Business);
        assert_eq!(FailureClass::Infrastructure.of_subject(None), FailureClass::Infrastructure);
        for (code, class) in [
            ("repository_unreachable", Some("infrastructure")),
            ("repository_denied", Some("infrastructure")),
            ("repository_refused", Some("infrastructure")),
            ("secret_unavailable", Some("infrastructure")),
            ("repository_revision_unknown", Some("system")),
            ("workspace_busy", None),
            ("", None),
        ] {
            let found = TaskFailure::of_clone(code).map(|failure| failure.class(1).as_str());
            assert_eq!(found, class, "{code}");
        }
    }
}
