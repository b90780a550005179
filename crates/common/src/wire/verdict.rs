//! Verdicts and stop reasons.

use super::error::{MessageError, MessageErrorKind as Kind};
use super::v1;
use super::value::wire_list;
use crate::domain::repository::{ChangedFile, RepositoryOutcome};
use crate::domain::stop::StopReason;
use crate::domain::verdict::{Approval, Caution, CheckResult, Strength, Verdict};

impl TryFrom<v1::Verdict> for Verdict {
    type Error = MessageError;

    fn try_from(verdict: v1::Verdict) -> Result<Self, Self::Error> {
        let v1::Verdict {
            accepted,
            stop_reason,
            results,
            // The store sets the subject and the signature; only the answer is read here.
            run_id: _,
            plan_revision: _,
            plan_digest: _,
            chain_digest: _,
            decided_at: _,
            key_id: _,
            signature: _,
            receipt_count: _,
            strength,
            round,
            cautions,
            approvals,
            workspace_digest,
            sandbox,
            repository,
        } = verdict;
        Ok(Self {
            accepted,
            stop_reason: read_stop_reason(stop_reason)?,
            results: results.into_iter().map(CheckResult::from).collect(),
            strength: match v1::VerdictStrength::try_from(strength) {
                Ok(v1::VerdictStrength::Independent) => Strength::Independent,
                Ok(v1::VerdictStrength::SelfChecked | v1::VerdictStrength::Unspecified)
                | Err(_) => Strength::SelfChecked,
            },
            round,
            cautions: cautions.into_iter().map(Caution::from).collect(),
            approvals: approvals.into_iter().map(Approval::from).collect(),
            workspace_digest,
            sandbox,
            repository: repository.map(Into::into),
        })
    }
}

impl From<Verdict> for v1::Verdict {
    /// A verdict without its subject; the caller that stored it adds subject and signature.
    fn from(verdict: Verdict) -> Self {
        let Verdict {
            accepted,
            stop_reason,
            results,
            strength,
            round,
            cautions,
            approvals,
            workspace_digest,
            sandbox,
            repository,
        } = verdict;
        Self {
            accepted,
            stop_reason: v1::StopReason::from(stop_reason).into(),
            results: wire_list(results),
            strength: match strength {
                Strength::SelfChecked => v1::VerdictStrength::SelfChecked,
                Strength::Independent => v1::VerdictStrength::Independent,
            }
            .into(),
            round,
            cautions: wire_list(cautions),
            approvals: wire_list(approvals),
            workspace_digest,
            sandbox,
            repository: repository.map(Into::into),
            ..Self::default()
        }
    }
}

impl From<v1::RepositoryOutcome> for RepositoryOutcome {
    fn from(outcome: v1::RepositoryOutcome) -> Self {
        let v1::RepositoryOutcome {
            r#ref,
            commit,
            base_commit,
            files_changed,
            insertions,
            deletions,
            changed,
        } = outcome;
        Self {
            reference: r#ref,
            commit,
            base: base_commit,
            files: files_changed,
            insertions,
            deletions,
            changed: changed.into_iter().map(ChangedFile::from).collect(),
        }
    }
}

impl From<RepositoryOutcome> for v1::RepositoryOutcome {
    fn from(outcome: RepositoryOutcome) -> Self {
        let RepositoryOutcome { reference, commit, base, files, insertions, deletions, changed } =
            outcome;
        Self {
            r#ref: reference,
            commit,
            base_commit: base,
            files_changed: files,
            insertions,
            deletions,
            changed: wire_list(changed),
        }
    }
}

impl From<v1::ChangedFile> for ChangedFile {
    fn from(file: v1::ChangedFile) -> Self {
        let v1::ChangedFile { path, insertions, deletions, binary } = file;
        Self { path, insertions, deletions, binary }
    }
}

impl From<ChangedFile> for v1::ChangedFile {
    fn from(file: ChangedFile) -> Self {
        let ChangedFile { path, insertions, deletions, binary } = file;
        Self { path, insertions, deletions, binary }
    }
}

impl From<v1::Approval> for Approval {
    fn from(approval: v1::Approval) -> Self {
        let v1::Approval { by, digest } = approval;
        Self { by, digest }
    }
}

impl From<Approval> for v1::Approval {
    fn from(approval: Approval) -> Self {
        let Approval { by, digest } = approval;
        Self { by, digest }
    }
}

impl From<v1::Caution> for Caution {
    fn from(caution: v1::Caution) -> Self {
        let v1::Caution { code, check, detail } = caution;
        Self { code, check, detail }
    }
}

impl From<Caution> for v1::Caution {
    fn from(caution: Caution) -> Self {
        let Caution { code, check, detail } = caution;
        Self { code, check, detail }
    }
}

impl From<v1::CheckResult> for CheckResult {
    fn from(result: v1::CheckResult) -> Self {
        let v1::CheckResult { name, passed, reason, optional } = result;
        Self { name, passed, reason, optional }
    }
}

impl From<CheckResult> for v1::CheckResult {
    fn from(result: CheckResult) -> Self {
        let CheckResult { name, passed, reason, optional } = result;
        Self { name, passed, reason, optional }
    }
}

/// The reason of a number on the wire.
///
/// # Errors
/// [`Kind::Missing`] for unspecified, [`Kind::UnknownEnumValue`] for an unknown number.
pub fn read_stop_reason(number: i32) -> Result<StopReason, MessageError> {
    let at = |kind| MessageError::at("stop_reason", kind);
    match v1::StopReason::try_from(number) {
        Ok(v1::StopReason::Unspecified) => Err(at(Kind::Missing)),
        Ok(reason) => StopReason::ALL
            .into_iter()
            .find(|known| v1::StopReason::from(*known) == reason)
            .ok_or_else(|| at(Kind::UnknownEnumValue(number))),
        Err(_) => Err(at(Kind::UnknownEnumValue(number))),
    }
}

impl From<StopReason> for v1::StopReason {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Accepted => Self::Accepted,
            StopReason::AcceptCheckFailed => Self::AcceptCheckFailed,
            StopReason::RequiredTodoFailed => Self::RequiredTodoFailed,
            StopReason::TodoNotConverged => Self::TodoNotConverged,
            StopReason::MissingCompletionSignal => Self::MissingCompletionSignal,
            StopReason::RepeatCycle => Self::RepeatCycle,
            StopReason::MaxReplansReached => Self::MaxReplansReached,
            StopReason::ReplanParseFailed => Self::ReplanParseFailed,
            StopReason::PlanParseFailed => Self::PlanParseFailed,
            StopReason::PlanRejected => Self::PlanRejected,
            StopReason::DependencyDeadlock => Self::DependencyDeadlock,
            StopReason::MaxRoundsReached => Self::MaxRoundsReached,
            StopReason::MaxConsecutiveCorrections => Self::MaxConsecutiveCorrections,
            StopReason::Aborted => Self::Aborted,
            StopReason::Cancelled => Self::Cancelled,
            StopReason::DeadlineExceeded => Self::DeadlineExceeded,
            StopReason::BudgetExceeded => Self::BudgetExceeded,
            StopReason::ConfirmationDenied => Self::ConfirmationDenied,
            StopReason::ConfirmationExpired => Self::ConfirmationExpired,
            StopReason::ModelUnavailable => Self::ModelUnavailable,
            StopReason::InternalError => Self::InternalError,
        }
    }
}
