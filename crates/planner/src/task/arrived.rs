//! A delivery that is read, with what the forge says beside it.

use super::find_agent::{Origin, find_agent};
use crate::planner::Planner;
use chrono::TimeDelta;
use serde_json::Value;
use surety_common::domain::fault::Fault;
use surety_common::domain::toolchain::{
    ActionType, Assignee, EventType, ToolchainEvent, authors_of,
};
use surety_common::store::Admission;

/// How long before its failure a build began at most: its pull request changed when the commit was pushed.
const LONGEST_BUILD: TimeDelta = TimeDelta::days(7);
/// The most earlier reviewers that new commits are handed to.
const MAX_REVIEWERS: usize = 10;

/// A delivery that is read.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    /// What names it.
    pub(super) origin_key: String,
    /// What it says happened, with what the forge says of it.
    pub(super) events: Vec<ToolchainEvent>,
    /// Who reviewed the pull request of pushed commits; none where the forge does not say.
    reviewers: Option<Vec<String>>,
}

impl Arrived {
    /// A delivery with these events, to which the forge adds what the delivery does not say. It is asked before a
    /// transaction begins, so that a slow forge holds no lock, and once for all events: they are about one subject.
    pub(crate) async fn new(
        planner: &Planner,
        origin_key: String,
        mut events: Vec<ToolchainEvent>,
    ) -> Self {
        let mut reviewers = None;
        let forge = events.first().and_then(|event| {
            planner.escalations.forge_of(event.source.as_str(), &event.subject.repo)
        });
        if let Some(forge) = forge {
            let asking = add_all(planner, &mut events, &mut reviewers);
            if planner.circuits.ask(&forge, asking).await.is_none() {
                tracing::warn!(forge, origin_key, "planner: tasks have what the delivery says");
            }
        }
        Self { origin_key, events, reviewers }
    }

    /// The events, where new commits also ask those that reviewed the pull request before: GitHub takes a reviewer from the
    /// list of the requested ones when the review is submitted. Where the forge does not say who they are, the results of
    /// reviews that are stored do. Only agents are asked so; the role is asked where no reviewer is named.
    pub(super) async fn events(
        &self,
        planner: &Planner,
        admission: &mut Admission,
    ) -> Result<Vec<ToolchainEvent>, Fault> {
        let mut events = self.events.clone();
        let is_push = |event: &&ToolchainEvent| event.event_type == EventType::CommitsPushed;
        let Some(push) = self.events.iter().find(is_push) else { return Ok(events) };
        let reviewers = match &self.reviewers {
            Some(reviewers) => reviewers.clone(),
            None => {
                let known = admission.known(push.source, &push.subject).await?;
                known.into_iter().map(|task| task.placed.reviewer).collect()
            }
        };
        let mut asked = authors_of(push.action_type(), &push.from, &push.context);
        asked.extend(events.iter().filter_map(|event| event.assignee.account().map(str::to_owned)));
        for login in reviewers.into_iter().filter(|login| !login.is_empty()).take(MAX_REVIEWERS) {
            if asked.iter().any(|it| it.eq_ignore_ascii_case(&login)) {
                continue;
            }
            let account = Assignee::Account(login.clone());
            let origin = Origin::of(push);
            if find_agent(planner, admission, origin, &account).await?.is_some() {
                events.push(push.for_reviewer(&login));
            }
            asked.push(login);
        }
        if events.iter().any(|event| event.assignee.account().is_some()) {
            events.retain(|event| !is_push(&event) || event.assignee.account().is_some());
        }
        Ok(events)
    }
}

/// Adds what the forge says to the events of one delivery, which ask for the same of different accounts.
async fn add_all(
    planner: &Planner,
    events: &mut [ToolchainEvent],
    reviewers: &mut Option<Vec<String>>,
) {
    let port = &planner.escalations;
    let mut files = None;
    // All events of a delivery that ask for one of these ask for the same.
    let mut is_asked = false;
    for event in events {
        let forge = event.source.as_str();
        match event.action_type() {
            ActionType::ReviewRequest => {
                if !is_asked {
                    is_asked = true;
                    files = port.changed_files(forge, &event.subject).await;
                }
                if let Some(files) = &files {
                    event.set_changed_files(files, planner.rules.risk());
                }
            }
            ActionType::CiFailure => add_build(planner, event).await,
            ActionType::ReviewUpdated => {
                if !is_asked {
                    is_asked = true;
                    *reviewers = port.reviewers(forge, &event.subject).await;
                }
            }
            ActionType::ReviewResult
            | ActionType::ReviewComment
            | ActionType::IssueAssigned
            | ActionType::DeployFailure
            | ActionType::Mention
            | ActionType::ReviewMerged
            | ActionType::InfrastructureFailure => {
                if event.lacks_head()
                    && let Some(commit) = port.pull_head(forge, &event.subject).await
                {
                    event.set_head(&commit);
                }
                if event.lacks_line_comments()
                    && let Some(comments) = port.line_comments(event).await
                {
                    event.set_line_comments(&comments);
                }
            }
        }
    }
}

/// A build is that of the open pull request whose newest commit it built. Deliveries name the account that pushed, and at
/// most the number of the pull request.
async fn add_build(planner: &Planner, event: &mut ToolchainEvent) {
    let Some(commit) = event.context.get("commit_sha").and_then(Value::as_str) else { return };
    let (forge, repo, commit) =
        (event.source.as_str(), event.subject.repo.clone(), commit.to_owned());
    let place = (repo.as_str(), commit.as_str());
    let since = event.happened_at - LONGEST_BUILD;
    let (pull, failed) = tokio::join!(
        planner.escalations.pull_of_commit(forge, place, since),
        planner.escalations.failed_checks(forge, place),
    );
    let is_named = |number: u64| event.subject.number.is_none_or(|named| named == number);
    if let Some(pull) = pull.filter(|pull| is_named(pull.number)) {
        event.set_pull(pull.number, &pull.branch, pull.author);
    }
    if let Some(failed) = failed.filter(|failed| !failed.is_empty()) {
        event.set_failed_checks(&failed);
    }
}
