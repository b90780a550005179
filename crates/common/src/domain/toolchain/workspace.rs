//! Which tasks have a clone as their workspace, and of what.

use super::action::EventType;
use super::subject::Subject;
use super::task::TaskPayload;

/// The digits of a commit in the name of a branch.
const COMMIT_DIGITS: usize = 12;

/// The revision whose clone is the workspace of a task: the head of its pull request, else the branch of its build, the
/// deployed commit, and for an issue the repository's own branch. None for a task that asks for no change of code.
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
        EventType::DeploymentFailed => deployed_commit(payload).map(str::to_owned),
        EventType::ReviewApproved
        | EventType::ReviewRequested
        | EventType::CommitsPushed
        | EventType::Mention
        | EventType::PullRequestMerged
        | EventType::InfrastructureFailure => None,
    }
}

/// The commit that was deployed. Its branch may have moved since, and a tag can be deployed, too.
fn deployed_commit(payload: &TaskPayload) -> Option<&str> {
    payload.context.get("commit_sha")?.as_str().filter(|commit| !commit.is_empty())
}

/// The one branch that a task pushes its work to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushBranch {
    /// That of this pull request.
    OfPull(u64),
    /// That of a build.
    OfBuild(String),
    /// A new one, for an issue or a deployment.
    New(String),
}

/// The branch that a task pushes its work to; none for a task that asks for no change of code.
pub fn push_branch(payload: &TaskPayload, subject: &Subject) -> Option<PushBranch> {
    let revision = workspace_revision(payload, subject)?;
    let event = EventType::from_text(&payload.event_type)?;
    if event == EventType::IssueAssigned {
        let brief = payload.context.get("brief")?.as_str()?;
        return Some(PushBranch::New(format!("fix/{}-{brief}", subject.number?)));
    }
    // What is deployed is mostly the default branch, to which no task pushes.
    if event == EventType::DeploymentFailed {
        let commit: String = deployed_commit(payload)?.chars().take(COMMIT_DIGITS).collect();
        return Some(PushBranch::New(format!("fix/deployment-{commit}")));
    }
    let pull = revision.strip_prefix("refs/pull/").and_then(|rest| rest.strip_suffix("/head"));
    match pull.and_then(|number| number.parse().ok()) {
        Some(number) => Some(PushBranch::OfPull(number)),
        None => revision.strip_prefix("refs/heads/").map(|it| PushBranch::OfBuild(it.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    const COMMIT: &str = "c308eeb1271af1f4d072cf79e2b4681f2eb88fbb";

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
            ("deployment_failed", "", None, false, None),
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

    #[test]
    fn work_is_pushed_to_the_branch_of_the_event() {
        let payload = |event: &str, context: serde_json::Value| TaskPayload {
            event_type: event.to_owned(),
            action_type: "x".to_owned(),
            steps: Vec::new(),
            from: "alice".to_owned(),
            context: context.as_object().cloned().unwrap_or_default(),
            source: "gitea".to_owned(),
        };
        let subject = |number, is_pull_request| Subject {
            server: String::new(),
            repo: "o/r".to_owned(),
            number,
            is_pull_request,
        };
        let pull = payload("changes_requested", json!({}));
        assert_eq!(push_branch(&pull, &subject(Some(7), true)), Some(PushBranch::OfPull(7)));
        let build = payload("ci_failed", json!({"branch": "fix/x"}));
        let of_build = Some(PushBranch::OfBuild("fix/x".to_owned()));
        assert_eq!(push_branch(&build, &subject(None, false)), of_build);
        let forgejo = payload("ci_failed", json!({"branch": "#9"}));
        assert_eq!(push_branch(&forgejo, &subject(None, false)), Some(PushBranch::OfPull(9)));
        let issue = payload("issue_assigned", json!({"brief": "slow-list"}));
        let of_issue = Some(PushBranch::New("fix/5-slow-list".to_owned()));
        assert_eq!(push_branch(&issue, &subject(Some(5), false)), of_issue);
        let deployment = payload("deployment_failed", json!({"commit_sha": COMMIT}));
        let of_deployment = Some(PushBranch::New("fix/deployment-c308eeb1271a".to_owned()));
        assert_eq!(push_branch(&deployment, &subject(None, false)), of_deployment);
        assert_eq!(workspace_revision(&deployment, &subject(None, false)).as_deref(), Some(COMMIT));
        let review = payload("review_requested", json!({}));
        assert_eq!(push_branch(&review, &subject(Some(7), true)), None);
    }
}
