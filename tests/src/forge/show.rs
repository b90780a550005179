//! Objects as the forges show them.

use super::call::Form;
use super::git::CommitFact;
use super::state::{
    CommentState, DeploymentState, IssueState, PullState, RepoState, ReviewState, StatusState,
};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn id_of(text: &str) -> u64 {
    text.bytes().fold(7, |id: u64, byte| (id * 31 + u64::from(byte)) % 1_000_003)
}

/// When accounts and repositories were made, which the state does not keep.
const BEGINNING: &str = "2026-01-01T00:00:00Z";

pub(super) fn user(form: Form, login: &str) -> Value {
    let mut value = json!({
        "id": id_of(login), "login": login, "email": format!("{login}@forge.example"),
        "avatar_url": format!("https://forge.example/{login}.png"), "html_url": format!("https://forge.example/{login}"),
    });
    match form {
        Form::Gitea => {
            value["full_name"] = json!("");
            value["description"] = json!("");
        }
        Form::Github => value["type"] = json!("User"),
    }
    value
}

/// The account of the token: GitHub shows more of it than of others.
pub(super) fn own_user(form: Form, login: &str) -> Value {
    let mut value = user(form, login);
    if form == Form::Github {
        value["name"] = Value::Null;
        value["created_at"] = json!(BEGINNING);
        value["updated_at"] = json!(BEGINNING);
    }
    value
}

pub(super) fn label(id: u64, name: &str) -> Value {
    json!({"id": id, "name": name, "color": "ededed", "description": ""})
}

pub(super) fn repository(form: Form, host: &str, name: &str) -> Value {
    let (owner, short) = name.split_once('/').unwrap_or((name, name));
    let mut value = json!({
        "id": id_of(name), "name": short, "full_name": name, "owner": user(form, owner), "private": true,
        "html_url": format!("{host}/{name}"), "default_branch": "main", "description": "",
        "created_at": BEGINNING, "updated_at": BEGINNING,
    });
    if form == Form::Gitea {
        value["avatar_url"] = json!("");
    }
    value
}

/// The requested reviewers: a review takes its author from the list. Gitea and Forgejo list those that approved or asked for
/// changes all the same, because theirs is the list of the newest reviews and requests.
fn requested_reviewers(form: Form, it: &PullState) -> Vec<Value> {
    let reviewed =
        it.reviewed.iter().filter(|by| form == Form::Gitea && !it.reviewers.contains(by));
    it.reviewers.iter().chain(reviewed).map(|login| user(form, login)).collect()
}

pub(super) fn pull(form: Form, host: &str, repo: &str, (number, it): (u64, &PullState)) -> Value {
    let base_commit = it.merged.as_ref().map_or("", |(_, _, commit)| commit.as_str());
    let branch = |name: &str, commit: &str| {
        let mut of = json!({"label": name, "ref": name, "sha": commit, "repo": repository(form, host, repo)});
        if form == Form::Github {
            of["user"] = user(form, &it.author);
        }
        of
    };
    let mut value = json!({
        "id": 1_000 + number, "number": number, "title": it.title, "body": it.body, "user": user(form, &it.author),
        "state": if it.is_open { "open" } else { "closed" }, "draft": false, "mergeable": it.is_open,
        "labels": [], "assignee": null, "assignees": [], "milestone": null,
        "requested_reviewers": requested_reviewers(form, it),
        "head": branch(&it.head, &it.commit), "base": branch(&it.base, base_commit),
        // Numbers that no client reads.
        "comments": 0, "additions": 0, "deletions": 0,
        "merged_at": it.merged.as_ref().map(|(at, _, _)| time(*at)),
        "merged_by": it.merged.as_ref().map(|(_, by, _)| user(form, by)),
        "merge_commit_sha": it.merged.as_ref().map(|(_, _, commit)| commit.clone()),
        "created_at": time(it.created_at), "updated_at": time(it.updated_at), "closed_at": null,
        "html_url": format!("{host}/{repo}/pull{}/{number}", if form == Form::Github { "" } else { "s" }),
    });
    value["merged"] = json!(it.merged.is_some());
    value
}

/// An issue, or a pull request as one.
pub(super) fn issue(form: Form, host: &str, repo: &str, (number, it): (u64, &IssueState)) -> Value {
    let labels: Vec<Value> = it.labels.iter().map(|name| label(id_of(name), name)).collect();
    let mut value = json!({
        "id": 2_000 + number, "number": number, "title": it.title, "body": it.body, "state": "open",
        "user": user(form, &it.author), "labels": labels, "milestone": null, "comments": 0,
        "assignee": it.assignees.first().map(|it| user(form, it)),
        "assignees": it.assignees.iter().map(|it| user(form, it)).collect::<Vec<_>>(),
        "created_at": time(it.created_at), "updated_at": time(it.updated_at), "closed_at": null,
        "html_url": format!("{host}/{repo}/issues/{number}"),
    });
    // GitHub leaves it out.
    if form == Form::Gitea {
        value["pull_request"] = Value::Null;
        value["ref"] = json!("");
    }
    value
}

pub(super) fn pull_as_issue(
    form: Form,
    host: &str,
    repo: &str,
    (number, it): (u64, &PullState),
) -> Value {
    let as_issue = IssueState {
        title: it.title.clone(),
        body: it.body.clone(),
        author: it.author.clone(),
        assignees: Vec::new(),
        labels: Vec::new(),
        created_at: it.created_at,
        updated_at: it.updated_at,
    };
    let mut value = issue(form, host, repo, (number, &as_issue));
    let merged_at = it.merged.as_ref().map(|(at, _, _)| time(*at));
    let address = format!("{host}/{repo}/pull/{number}");
    value["pull_request"] = match form {
        Form::Gitea => json!({
            "merged": it.merged.is_some(), "merged_at": merged_at, "draft": false, "html_url": address,
        }),
        Form::Github => json!({"merged_at": merged_at, "html_url": address}),
    };
    value
}

pub(super) fn review(form: Form, host: &str, repo: &str, it: &ReviewState) -> Value {
    let state = match (form, it.event.as_str()) {
        (_, "APPROVE") => "APPROVED",
        (Form::Github, "REQUEST_CHANGES") => "CHANGES_REQUESTED",
        (Form::Github, _) => "COMMENTED",
        (Form::Gitea, event) => event,
    };
    let mut value = json!({
        "id": it.id, "user": user(form, &it.author), "state": state, "body": it.body, "commit_id": it.commit,
        "submitted_at": time(it.at), "html_url": format!("{host}/{repo}/pulls/{}#review-{}", it.number, it.id),
    });
    if form == Form::Gitea {
        for (name, flag) in [("stale", false), ("official", true), ("dismissed", false)] {
            value[name] = json!(flag);
        }
        value["updated_at"] = value["submitted_at"].clone();
    }
    value
}

pub(super) fn comment(form: Form, host: &str, repo: &str, it: &CommentState) -> Value {
    let mut value = json!({
        "id": it.id, "user": user(form, &it.author), "body": it.body, "created_at": time(it.at),
        "updated_at": time(it.at), "html_url": format!("{host}/{repo}/issues/{}#issuecomment-{}", it.number, it.id),
    });
    let Some((path, line)) = &it.line else { return value };
    value["path"] = json!(path);
    // The commit that the line is of, which no client reads.
    value["commit_id"] = json!("");
    value["position"] = json!(line);
    match form {
        Form::Gitea => value["pull_request_review_id"] = json!(it.review.unwrap_or_default()),
        Form::Github => {
            value["pull_request_review_id"] = json!(it.review);
            value["line"] = json!(line);
            if let Some(first) = it.reply_to {
                value["in_reply_to_id"] = json!(first);
            }
        }
    }
    value
}

pub(super) fn status(form: Form, it: &StatusState) -> Value {
    let word = if form == Form::Github { "state" } else { "status" };
    let mut value = json!({
        "id": 1, "context": it.context, "description": it.description, "target_url": "https://ci.example/1",
        "created_at": time(it.at), "updated_at": time(it.at),
    });
    value[word] = json!(it.state);
    if form == Form::Github {
        value["avatar_url"] = Value::Null;
    }
    value
}

pub(super) fn check_run(it: &StatusState) -> Value {
    let (status, conclusion) = match it.state.as_str() {
        "pending" => ("in_progress", Value::Null),
        "success" => ("completed", json!("success")),
        _ => ("completed", json!("failure")),
    };
    json!({
        "id": 1, "name": it.context, "head_sha": it.commit, "status": status, "conclusion": conclusion,
        "html_url": "https://ci.example/1", "started_at": time(it.at), "completed_at": null,
        "output": {"title": it.description, "summary": null, "text": null},
    })
}

pub(super) fn commit(it: &CommitFact) -> Value {
    let person = json!({"name": it.author, "email": "x@forge.example", "date": time(it.at)});
    json!({
        "sha": it.commit, "html_url": "https://forge.example",
        "commit": {"message": it.message, "author": person, "committer": person},
        "author": null, "committer": null, "parents": [],
    })
}

pub(super) fn deployment(it: &DeploymentState) -> Value {
    json!({
        "id": it.id, "sha": it.commit, "ref": it.commit, "environment": it.environment, "task": "deploy",
        "description": null,
        "created_at": time(it.at), "updated_at": time(it.at),
    })
}

pub(super) fn deployment_status((state, at): &(String, DateTime<Utc>)) -> Value {
    json!({
        "id": 1, "state": state, "description": state, "target_url": "", "created_at": time(*at),
        "updated_at": time(*at),
    })
}

/// The issue of a comment.
pub(super) fn issue_of(
    form: Form,
    host: &str,
    repo: &str,
    (state, number): (&RepoState, u64),
) -> Option<Value> {
    let as_pull = || Some(pull_as_issue(form, host, repo, (number, state.pulls.get(&number)?)));
    let as_issue = state.issues.get(&number).map(|it| issue(form, host, repo, (number, it)));
    as_issue.or_else(as_pull)
}
