//! Issues, comments and mentions.

use super::action::EventType;
use super::brief::brief;
use super::event::{Assignee, HEAD, Ignored, ToolchainEvent};
use super::mention::Said;
use super::payload::Payload;
use super::pulls::{Pull, head_of};
use super::reading::Reading;
use super::source::{Occurrence, Source, context};
use super::subject::Subject;
use super::withdrawal::WithdrawnFrom;
use crate::domain::problem::Problem;
use serde_json::{Value, json};

/// The event `issues`: an assignment asks the assignee; a new issue asks those that it mentions.
pub(super) fn issue(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    match payload.text("/action") {
        "assigned" => assigned(source),
        "unassigned" => unassigned(source),
        "opened" => opened(source),
        _ => Ok(Reading::Ignored(Ignored::ActionUnknown)),
    }
}

fn assigned(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    let from = payload.login("/sender/login")?;
    let number = payload.number("/issue/number")?;
    let title = payload.title("/issue/title");
    let labels: Vec<String> =
        payload.list("/issue/labels").map(|label| label.title("/name")).collect();
    let brief = brief(&title);
    let subject = source.subject(source.repo()?, Some(number), false);
    let happened_at = payload.time(&["/issue/updated_at", "/issue/created_at"])?;
    let body = payload.body("/issue/body");
    if source.is_own(&from, &body) {
        return Ok(Reading::Ignored(Ignored::OwnComment));
    }
    let occurrence = Occurrence {
        event_type: EventType::IssueAssigned,
        context: context([
            ("issue_number", json!(number)),
            ("repo", json!(subject.repo)),
            ("issue_title", json!(title)),
            ("labels", json!(labels)),
            ("issue_body", json!(body)),
            ("brief", json!(brief)),
            ("source_url", json!(payload.address("/issue/html_url"))),
        ]),
        subject,
        from,
        happened_at,
        mark: String::new(),
        brief,
    };
    let assignees = assignees(payload);
    let is_among_others = assignees.len() > 1;
    let mut reading = source.tasks(&occurrence, assignees.into_iter().map(Assignee::Account));
    if let Reading::Tasks(tasks) = &mut reading {
        tasks.iter_mut().for_each(|task| task.is_among_others = is_among_others);
    }
    Ok(reading)
}

/// GitHub names the one whose issue it was; Gitea only those whose it still is.
fn unassigned(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    let number = payload.number("/issue/number")?;
    let subject = source.subject(source.repo()?, Some(number), false);
    let happened_at = payload.time(&["/issue/updated_at", "/issue/created_at"])?;
    let from = match payload.optional_login("/assignee/login") {
        Some(one) => WithdrawnFrom::Accounts(vec![one]),
        None => WithdrawnFrom::AllBut(assignees(payload)),
    };
    Ok(source.withdrawn(Ignored::Unassigned, subject, (from, happened_at)))
}

/// GitHub names the one that was assigned; Gitea only all of them.
fn assignees(payload: Payload<'_>) -> Vec<String> {
    if let Some(one) = payload.optional_login("/assignee/login") {
        return vec![one];
    }
    let all = payload.list("/issue/assignees").filter_map(|user| user.optional_login("/login"));
    let mut all: Vec<String> = all.collect();
    if all.is_empty() {
        all.extend(payload.optional_login("/issue/assignee/login"));
    }
    all
}

fn opened(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    let text = payload.body("/issue/body");
    let author = payload.login("/issue/user/login")?;
    let number = payload.number("/issue/number")?;
    let subject = source.subject(source.repo()?, Some(number), false);
    let said = Said {
        source_type: "issue",
        address: payload.address("/issue/html_url"),
        mark: String::new(),
        text,
        author,
        happened_at: payload.time(&["/issue/created_at", "/issue/updated_at"])?,
    };
    Ok(mentioned(source, subject, said, None))
}

/// The event of a comment on a line of a pull request (GitHub).
pub(super) fn review_comment(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    if payload.text("/action") != "created" {
        return Ok(Reading::Ignored(Ignored::ActionUnknown));
    }
    let pull = Pull::read(source)?;
    let place = (payload.title("/comment/path"), line_of(payload));
    on_pull(source, &pull.subject, &pull.title, &pull.author, place)
}

fn line_of(payload: Payload<'_>) -> Value {
    let line = ["/comment/line", "/comment/original_line"];
    line.iter()
        .find_map(|pointer| payload.at(pointer))
        .filter(|line| line.is_u64())
        .cloned()
        .unwrap_or_default()
}

/// The event `issue_comment`, which is also that of a comment on a pull request.
pub(super) fn comment(source: &Source<'_>) -> Result<Reading, Problem> {
    let payload = source.payload;
    if payload.text("/action") != "created" {
        return Ok(Reading::Ignored(Ignored::ActionUnknown));
    }
    let is_pull_request = payload.is("/is_pull")
        || payload.at("/issue/pull_request").is_some()
        || payload.at("/pull_request").is_some();
    // A comment on a pull request has its number in the issue as well.
    let part = if payload.at("/issue").is_some() { "issue" } else { "pull_request" };
    let number = payload.number(&format!("/{part}/number"))?;
    let subject = source.subject(source.repo()?, Some(number), is_pull_request);
    let title = payload.title(&format!("/{part}/title"));
    if is_pull_request {
        let author = payload.login(&format!("/{part}/user/login"))?;
        return on_pull(source, &subject, &title, &author, (String::new(), Value::Null));
    }
    let said = said(payload, "issue_comment")?;
    Ok(mentioned(source, subject, said, None))
}

/// A comment on a pull request asks its author, and every other account that it mentions.
fn on_pull(
    source: &Source<'_>,
    subject: &Subject,
    title: &str,
    author: &str,
    (path, line): (String, Value),
) -> Result<Reading, Problem> {
    let payload = source.payload;
    let said = said(payload, "pull_request_comment")?;
    let occurrence = Occurrence {
        event_type: EventType::ReviewComment,
        subject: subject.clone(),
        from: said.author.clone(),
        happened_at: said.happened_at,
        context: context([
            ("pr_number", json!(subject.number)),
            ("repo", json!(subject.repo)),
            ("pr_title", json!(title)),
            ("commenter", json!(said.author)),
            ("comment_body", json!(said.text)),
            ("path", json!(path)),
            ("line", line),
            // A comment on the pull request as a whole has none in its payload.
            (HEAD, head_of(&payload.commit("/pull_request/head/sha")?)),
            ("source_url", json!(said.address)),
            ("pr_url", json!(pull_address(payload))),
        ]),
        mark: said.mark.clone(),
        brief: String::new(),
    };
    let asks_author = !said.author.eq_ignore_ascii_case(author);
    let of_author =
        asks_author.then(|| source.task(&occurrence, Assignee::Account(author.to_owned())));
    Ok(mentioned(source, subject.clone(), said, Some((author, of_author))))
}

/// The address of the pull request of a comment. As an issue it has its own address in GitHub and Gitea alike.
fn pull_address(payload: Payload<'_>) -> String {
    let pointers = ["/pull_request/html_url", "/issue/pull_request/html_url", "/issue/html_url"];
    let mut addresses = pointers.iter().map(|pointer| payload.address(pointer));
    addresses.find(|address| !address.is_empty()).unwrap_or_default()
}

/// The text of a comment.
fn said(payload: Payload<'_>, source_type: &'static str) -> Result<Said, Problem> {
    Ok(Said {
        source_type,
        address: payload.address("/comment/html_url"),
        mark: payload.number("/comment/id")?.to_string(),
        text: payload.body("/comment/body"),
        author: payload.login("/comment/user/login")?,
        happened_at: payload.time(&["/comment/created_at", "/comment/updated_at"])?,
    })
}

/// The tasks of the accounts that a text mentions, after that of the pull request's author.
fn mentioned(
    source: &Source<'_>,
    subject: Subject,
    said: Said,
    pull: Option<(&str, Option<ToolchainEvent>)>,
) -> Reading {
    if source.is_own(&said.author, &said.text) {
        return Reading::Ignored(Ignored::OwnComment);
    }
    let (author, of_author) = pull.map_or(("", None), |(author, task)| (author, task));
    let mut tasks: Vec<_> = of_author.into_iter().collect();
    tasks.extend(said.tasks(source, subject, &[author]));
    if !tasks.is_empty() {
        return Reading::Tasks(tasks);
    }
    Reading::Ignored(if author.is_empty() { Ignored::NoMention } else { Ignored::OwnPullRequest })
}
