//! Which tasks have a clone as their workspace, and of what.

use super::action::EventType;
use super::subject::Subject;
use super::task::TaskPayload;

/// The revision whose clone is the workspace of a task: the head of its pull request, else the branch of its build, and
/// for an issue the repository's own branch. None for a task that asks for no change of code.
pub fn workspace_revision(payload: &TaskPayload, subject: &Subject) -> Option<String> {
    let of_pull = subject.number.filter(|_| subject.is_pull_request);
    // The three forges keep this reference for each pull request, for those from forks too.
    let of_pull = of_pull.map(|number| format!("refs/pull/{number}/head"));
    match EventType::from_text(&payload.event_type)? {
        EventType::ChangesRequested | EventType::ReviewComment => of_pull,
        EventType::CiFailed => of_pull.or_else(|| {
            let branch = payload.context.get("branch")?.as_str()?;
            // Forgejo names the pull request in place of its branch.
            let number = branch.strip_prefix('#').and_then(|number| number.parse::<u64>().ok());
            match number {
                Some(number) => Some(format!("refs/pull/{number}/head")),
                None => (!branch.is_empty()).then(|| format!("refs/heads/{branch}")),
            }
        }),
        EventType::IssueAssigned => Some("HEAD".to_owned()),
        EventType::ReviewApproved
        | EventType::ReviewRequested
        | EventType::CommitsPushed
        | EventType::DeploymentFailed
        | EventType::Mention
        | EventType::PullRequestMerged
        | EventType::InfrastructureFailure => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn only_tasks_that_change_code_have_a_clone() {
        let payload = |event: &str, branch: &str| TaskPayload {
            event_type: event.to_owned(),
            action_type: "x".to_owned(),
            steps: Vec::new(),
            from: "alice".to_owned(),
            context: Map::from_iter([("branch".to_owned(), json!(branch))]),
            source: "gitea".to_owned(),
        };
        let about = |number, is_pull_request| Subject {
            server: String::new(),
            repo: "o/r".to_owned(),
            number,
            is_pull_request,
        };
        for (event, branch, number, is_pull_request, revision) in [
            ("changes_requested", "", Some(7), true, Some("refs/pull/7/head")),
            ("review_comment", "", Some(7), true, Some("refs/pull/7/head")),
            ("ci_failed", "fix/x", Some(7), true, Some("refs/pull/7/head")),
            ("ci_failed", "fix/x", None, false, Some("refs/heads/fix/x")),
            ("ci_failed", "#9", None, false, Some("refs/pull/9/head")),
            ("ci_failed", "", None, false, None),
            ("issue_assigned", "", Some(7), false, Some("HEAD")),
            ("review_approved", "", Some(7), true, None),
            ("review_requested", "x", Some(7), true, None),
            ("mention", "", Some(7), false, None),
            ("unknown", "", Some(7), true, None),
        ] {
            let found =
                workspace_revision(&payload(event, branch), &about(number, is_pull_request));
            assert_eq!(found.as_deref(), revision, "{event}");
        }
    }
}
