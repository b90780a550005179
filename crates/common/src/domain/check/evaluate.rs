//! Dispatches a check to the function of its kind.

use super::{
    AcceptCheck, CheckKind, Evidence, Reason, command_success, content_contains, file_exists,
    output_only, tool_fact, workspace_change,
};

/// Decides one check from receipts and the final text. Only the six kinds that need nothing else
/// are known here; the gate knows more.
///
/// # Errors
/// The reason why the check does not hold; `unknown_check_kind` for every other kind.
pub fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    let evidence = evidence.of_check(check);
    match check.kind {
        CheckKind::OutputOnly => output_only::evaluate(evidence),
        CheckKind::WorkspaceChange => workspace_change::evaluate(check, evidence),
        CheckKind::CommandSuccess => command_success::evaluate(check, evidence),
        CheckKind::FileExists => file_exists::evaluate(check, evidence),
        CheckKind::ContentContains => content_contains::evaluate(check, evidence),
        CheckKind::ToolFact => tool_fact::evaluate(check, evidence),
        CheckKind::ActionReport
        | CheckKind::Expression
        | CheckKind::HttpProbe
        | CheckKind::Unknown(_) => Err(Reason::UnknownCheckKind),
    }
}
