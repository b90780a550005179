//! Builds and deployments that fail.

use super::action::EventType;
use super::event::{Assignee, Ignored, MAX_SUMMARY};
use super::payload::{Payload, cut, one_line};
use super::reading::Reading;
use super::role::Role;
use super::source::{Occurrence, Source, context};
use crate::domain::problem::Problem;
use chrono::{DateTime, Utc};
use serde_json::json;

/// A failed build.
struct Build {
    repo: String,
    number: Option<u64>,
    branch: String,
    commit: String,
    account: Option<String>,
    summary: String,
    jobs: Vec<String>,
    happened_at: DateTime<Utc>,
    mark: String,
    /// Where its log is.
    address: String,
    /// The repository that has the branch, where it is another one, such as a fork; else empty.
    head_repo: String,
}

/// The event `workflow_run`.
pub(super) fn workflow_run(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    if payload.text("/action") != "completed" {
        return Ok(Reading::Ignored(Ignored::ActionUnknown));
    }
    if !is_failed(payload.text("/workflow_run/conclusion")) {
        return Ok(Reading::Ignored(Ignored::NotFailed));
    }
    let head_repo = one_line(payload.text("/workflow_run/head_repository/full_name"));
    let is_other = !head_repo.is_empty() && !head_repo.eq_ignore_ascii_case(&source.repo()?);
    // Gitea names the workflow beside the run.
    let name = one_line(payload.first_text(&[
        "/workflow_run/name",
        "/workflow/name",
        "/workflow_run/display_title",
        "/workflow_run/path",
    ]));
    failed(
        source,
        Build {
            repo: source.repo()?,
            number: first_pull(payload, "/workflow_run/pull_requests")
                .or_else(|| payload.number("/pull_request/number").ok()),
            // A branch of another repository is none of this one, whatever its name.
            branch: if is_other {
                String::new()
            } else {
                payload.title("/workflow_run/head_branch")
            },
            commit: payload.commit("/workflow_run/head_sha")?,
            account: first_login(
                payload,
                &["/pull_request/user/login", "/workflow_run/actor/login", "/sender/login"],
            ),
            summary: said(&name, payload.text("/workflow_run/conclusion")),
            jobs: vec![name],
            happened_at: payload.time(&[
                "/workflow_run/updated_at",
                "/workflow_run/completed_at",
                "/workflow_run/created_at",
                "/repository/updated_at",
            ])?,
            mark: run_mark(payload)?,
            address: payload.address("/workflow_run/html_url"),
            head_repo: if is_other { head_repo } else { String::new() },
        },
    )
}

/// The event `check_suite` of an app. GitHub's own workflows also send `workflow_run`, which has more facts.
pub(super) fn check_suite(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    if payload.text("/action") != "completed" {
        return Ok(Reading::Ignored(Ignored::ActionUnknown));
    }
    let is_workflow = payload.text("/check_suite/app/slug") == "github-actions";
    if is_workflow || !is_failed(payload.text("/check_suite/conclusion")) {
        return Ok(Reading::Ignored(Ignored::NotFailed));
    }
    let name = payload.title("/check_suite/app/name");
    failed(
        source,
        Build {
            repo: source.repo()?,
            number: first_pull(payload, "/check_suite/pull_requests"),
            branch: payload.title("/check_suite/head_branch"),
            commit: payload.commit("/check_suite/head_sha")?,
            account: first_login(payload, &["/sender/login"]),
            summary: said(&name, payload.text("/check_suite/conclusion")),
            jobs: vec![name],
            happened_at: payload.time(&["/check_suite/updated_at", "/check_suite/created_at"])?,
            mark: payload.number("/check_suite/id")?.to_string(),
            // GitHub names none for people.
            address: String::new(),
            head_repo: String::new(),
        },
    )
}

/// The event `status` of a commit.
pub(super) fn status(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    if !is_failed(payload.text("/state")) {
        return Ok(Reading::Ignored(Ignored::NotFailed));
    }
    let job = payload.title("/context");
    let commit = payload.commit("/sha")?;
    failed(
        source,
        Build {
            repo: source.repo()?,
            number: None,
            branch: payload.title("/branches/0/name"),
            account: first_login(
                payload,
                &["/commit/author/login", "/commit/author/username", "/sender/login"],
            ),
            summary: payload.body("/description"),
            mark: format!("{commit} {job}"),
            commit,
            jobs: vec![job],
            happened_at: payload.time(&["/updated_at", "/created_at", "/commit/timestamp"])?,
            address: payload.address("/target_url"),
            head_repo: String::new(),
        },
    )
}

/// The event `action_run_failure` of Forgejo.
pub(super) fn action_run(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    let repo = source.repo().or_else(|_| payload.repository("/run/repository/full_name"))?;
    let workflow = payload.title("/run/workflow_id");
    failed(
        source,
        Build {
            repo,
            number: None,
            branch: payload.title("/run/prettyref"),
            commit: payload.commit("/run/commit_sha")?,
            account: first_login(payload, &["/run/trigger_user/login", "/sender/login"]),
            summary: said(&workflow, &payload.title("/run/title")),
            jobs: vec![workflow],
            happened_at: payload.time(&["/run/stopped", "/run/updated", "/run/created"])?,
            mark: payload.number("/run/id")?.to_string(),
            address: payload.address("/run/html_url"),
            head_repo: String::new(),
        },
    )
}

fn failed(source: &Source<'_>, build: Build) -> Result<Reading, Problem> {
    let Some(account) = build.account else { return Ok(Reading::Ignored(Ignored::NoAccount)) };
    let Build { repo, number, branch, commit, summary, jobs, happened_at, mark, .. } = build;
    let jobs: Vec<String> = jobs.into_iter().filter(|job| !job.is_empty()).collect();
    let mut occurrence = Occurrence {
        event_type: EventType::CiFailed,
        from: source.payload.optional_login("/sender/login").unwrap_or_else(|| account.clone()),
        happened_at,
        context: context([
            ("pr_number", json!(number)),
            ("repo", json!(repo)),
            ("branch", json!(branch)),
            ("error_summary", json!(cut(&summary, MAX_SUMMARY))),
            ("failed_jobs", json!(jobs)),
            ("commit_sha", json!(commit)),
            ("source_url", json!(build.address)),
        ]),
        subject: source.subject(repo, number, number.is_some()),
        mark,
        brief: String::new(),
    };
    if !build.head_repo.is_empty() {
        occurrence.add([("head_repo", json!(build.head_repo))]);
    }
    Ok(source.tasks(&occurrence, [Assignee::Account(account)]))
}

/// The event `deployment_status`.
pub(super) fn deployment(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    if !is_failed(payload.text("/deployment_status/state")) {
        return Ok(Reading::Ignored(Ignored::NotFailed));
    }
    let repo = source.repo()?;
    let reason = payload.body("/deployment_status/description");
    let log = ["/deployment_status/log_url", "/deployment_status/target_url"];
    let mut log = log.iter().map(|pointer| payload.address(pointer));
    let address = log.find(|address| !address.is_empty()).unwrap_or_default();
    let occurrence = Occurrence {
        event_type: EventType::DeploymentFailed,
        from: payload.login("/sender/login")?,
        happened_at: payload
            .time(&["/deployment_status/updated_at", "/deployment_status/created_at"])?,
        context: context([
            ("repo", json!(repo)),
            ("commit_sha", json!(payload.commit("/deployment/sha")?)),
            ("environment", json!(payload.title("/deployment/environment"))),
            ("reason", json!(cut(&reason, MAX_SUMMARY))),
            ("source_url", json!(address)),
        ]),
        subject: source.subject(repo, None, false),
        mark: payload.number("/deployment_status/id")?.to_string(),
        brief: String::new(),
    };
    Ok(source.tasks(&occurrence, [Assignee::Role(Role::Infra)]))
}

/// What a build says, behind its name.
fn said(name: &str, says: &str) -> String {
    if name.is_empty() { says.to_owned() } else { format!("{name}: {says}") }
}

/// The run of a workflow, and which attempt of it: a run that is started again keeps its id.
fn run_mark(payload: Payload<'_>) -> Result<String, Problem> {
    let id = payload.number("/workflow_run/id")?;
    let attempt = payload.number("/workflow_run/run_attempt").ok().filter(|attempt| *attempt > 1);
    Ok(attempt.map_or_else(|| id.to_string(), |attempt| format!("{id} {attempt}")))
}

fn is_failed(word: &str) -> bool {
    matches!(word, "failure" | "error" | "timed_out" | "startup_failure")
}

fn first_pull(payload: Payload<'_>, pointer: &str) -> Option<u64> {
    payload.list(pointer).find_map(|pull| pull.number("/number").ok())
}

fn first_login(payload: Payload<'_>, pointers: &[&str]) -> Option<String> {
    pointers.iter().find_map(|pointer| payload.optional_login(pointer))
}
