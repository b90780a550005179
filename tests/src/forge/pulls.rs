//! Pull requests and their reviews.

use super::call::{Answer, Call, Form, Reply, Said, missing};
use super::show;
use super::state::{CommentState, State, What};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

fn failed(error: &anyhow::Error) -> Reply {
    Reply::refused(500, format!("git: {error:#}"))
}

pub(super) fn get(state: &mut State, call: &Call) -> Answer {
    if call.accept.contains(".diff") || call.parts.last().is_some_and(|it| it.ends_with(".diff")) {
        return diff(state, call);
    }
    let (name, number) = (call.repo(), call.number(4)?);
    let Some(repo) = state.repo(&name) else { return missing() };
    let Some(pull) = repo.pulls.get(&number) else { return missing() };
    Ok(Reply::json(show::pull(call.form, &call.host, &name, (number, pull))))
}

fn diff(state: &mut State, call: &Call) -> Answer {
    let number = call.number(4)?;
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let Some(pull) = repo.pulls.get(&number) else { return missing() };
    let diff = repo.git.diff(&pull.base, &pull.commit).map_err(|error| failed(&error))?;
    Ok(Reply::new(200, Said::Text(diff)))
}

pub(super) fn files(state: &mut State, call: &Call) -> Answer {
    let number = call.number(4)?;
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let Some(pull) = repo.pulls.get(&number) else { return missing() };
    let files = repo.git.files(&pull.base, &pull.commit).map_err(|error| failed(&error))?;
    let shown = files.into_iter().map(|(letter, additions, deletions, path)| {
        let status = match letter {
            'A' => "added",
            'D' => "removed",
            _ => "modified",
        };
        let mut file = json!({"filename": path, "status": status, "additions": additions,
            "deletions": deletions, "changes": additions + deletions});
        if call.is_github() {
            file["sha"] = Value::Null;
        }
        file
    });
    call.page(&shown.collect::<Vec<_>>())
}

pub(super) fn list(state: &mut State, call: &Call) -> Answer {
    let name = call.repo();
    let Some(repo) = state.repo(&name) else { return missing() };
    let is_all = call.query.get("state").map(String::as_str) == Some("all");
    let mut pulls: Vec<_> = repo.pulls.iter().filter(|(_, it)| is_all || it.is_open).collect();
    pulls.sort_by_key(|(number, it)| std::cmp::Reverse((it.updated_at, **number)));
    let shown = pulls.into_iter().map(|(number, it)| {
        let mut value = show::pull(call.form, &call.host, &name, (*number, it));
        // GitHub leaves them out in lists.
        if let (Form::Github, Some(fields)) = (call.form, value.as_object_mut()) {
            for name in ["merged", "mergeable", "merged_by", "comments", "additions", "deletions"] {
                fields.remove(name);
            }
        }
        value
    });
    call.page(&shown.collect::<Vec<_>>())
}

pub(super) fn open(state: &mut State, call: &Call) -> Answer {
    call.needs(&["title", "head", "base"])?;
    let name = call.repo();
    let (head, base) = (call.text("head"), call.text("base"));
    let Some(repo) = state.repo(&name) else { return missing() };
    let same = |it: &super::PullState| it.is_open && it.head == head && it.base == base;
    if repo.pulls.values().any(same) {
        let status = if call.is_github() { 422 } else { 409 };
        let message = format!("A pull request already exists for {head}.");
        return Err(Reply::refused(status, message));
    }
    let commit = repo.git.head(&head).map_err(|error| failed(&error))?;
    let Some(commit) = commit else {
        let status = if call.is_github() { 422 } else { 404 };
        return Err(Reply::refused(status, format!("The head branch {head} does not exist.")));
    };
    let pull = super::PullState {
        title: call.text("title"),
        body: call.text("body"),
        base,
        ..State::pull_of(&call.account, &head, &commit)
    };
    let Some(number) = state.open_pull(&name, pull.clone()) else { return missing() };
    Ok(Reply::created(show::pull(call.form, &call.host, &name, (number, &pull))))
}

pub(super) fn reviews(state: &mut State, call: &Call) -> Answer {
    let (name, number) = (call.repo(), call.number(4)?);
    let Some(repo) = state.repo(&name) else { return missing() };
    if !repo.pulls.contains_key(&number) {
        return missing();
    }
    let of_pull = repo.reviews.iter().filter(|it| it.number == number);
    call.page(&of_pull.map(|it| show::review(call.form, &call.host, &name, it)).collect::<Vec<_>>())
}

pub(super) fn submit_review(state: &mut State, call: &Call) -> Answer {
    let events = match call.form {
        Form::Gitea => GITEA_EVENTS,
        Form::Github => GITHUB_EVENTS,
    };
    let (name, number) = (call.repo(), call.number(4)?);
    let event = call.text("event");
    // Without one of these the review is begun and not submitted, which no client of ours wants.
    if !events.contains(&event.as_str()) {
        return Err(Reply::refused(422, format!("[event]: {event} submits no review")));
    }
    call.commit("commit_id")?;
    let Some(repo) = state.repo(&name) else { return missing() };
    let Some(pull) = repo.pulls.get(&number) else { return missing() };
    let (is_comment, is_rejection) = (event == "COMMENT", event == "REQUEST_CHANGES");
    if !is_comment && pull.author == call.account {
        let why = match (call.form, is_rejection) {
            (Form::Gitea, false) => "approve your own pull is not allowed",
            (Form::Gitea, true) => "reject your own pull is not allowed",
            (Form::Github, false) => "Can not approve your own pull request",
            (Form::Github, true) => "Can not request changes on your own pull request",
        };
        return Err(Reply::refused(422, why));
    }
    if call.form == Form::Gitea && !is_comment && !pull.is_open {
        return Err(Reply::refused(422, "can't submit review for a closed or merged PR"));
    }
    if (is_rejection || is_comment) && call.text("body").trim().is_empty() {
        return Err(Reply::refused(422, "[body]: Required for this event"));
    }
    let event = if event == "APPROVED" { "APPROVE".to_owned() } else { event };
    let body = call.text("body");
    let id = state.review(&name, &call.account, (number, &event, &body));
    let Some(repo) = state.repo(&name) else { return missing() };
    let review = repo.reviews.iter().find(|it| Some(it.id) == id);
    let Some(review) = review else { return missing() };
    Ok(Reply::json(show::review(call.form, &call.host, &name, review)))
}

const GITEA_EVENTS: &[&str] = &["APPROVED", "REQUEST_CHANGES", "COMMENT"];
const GITHUB_EVENTS: &[&str] = &["APPROVE", "REQUEST_CHANGES", "COMMENT"];

pub(super) fn merge(state: &mut State, call: &Call) -> Answer {
    let expected = call.text(if call.is_github() { "sha" } else { "head_commit_id" });
    let (name, number) = (call.repo(), call.number(4)?);
    let Some(repo) = state.repo(&name) else { return missing() };
    let Some(pull) = repo.pulls.get(&number).cloned() else { return missing() };
    if !pull.is_open {
        return match (call.form, &pull.merged) {
            (Form::Gitea, None) => missing(),
            (Form::Gitea, Some(_)) => Err(Reply::refused(405, "The PR is already merged")),
            (Form::Github, _) => Err(Reply::refused(405, "Pull Request is not mergeable")),
        };
    }
    if !expected.is_empty() && expected != pull.commit {
        return Err(Reply::refused(
            409,
            match call.form {
                Form::Gitea => "head out of date",
                Form::Github => "Head branch was modified. Review and try the merge again.",
            },
        ));
    }
    let message = format!("Merge pull request #{number}");
    let merged =
        repo.git.merge(&pull.base, &pull.commit, &message).map_err(|error| failed(&error))?;
    let Some(commit) = merged else {
        // Gitea answers 409 where it tried the merge, and 405 where it knew before.
        let (status, why) = match call.form {
            Form::Gitea => (409, "merge conflict"),
            Form::Github => (405, "Pull Request is not mergeable"),
        };
        return Err(Reply::refused(status, why));
    };
    if let Some(pull) = repo.pulls.get_mut(&number) {
        pull.is_open = false;
        pull.merged = Some((State::now(), call.account.clone(), commit.clone()));
        pull.updated_at = State::now();
    }
    state.happen(&name, &call.account, What::Merged(number));
    Ok(match call.form {
        Form::Gitea => Reply::new(200, Said::Nothing),
        Form::Github => Reply::json(json!({"sha": commit, "merged": true, "message": "merged"})),
    })
}

/// GitHub: the comments on lines of a pull request.
pub(super) fn line_comments(state: &mut State, call: &Call) -> Answer {
    let (name, number) = (call.repo(), call.number(4)?);
    let Some(repo) = state.repo(&name) else { return missing() };
    if !repo.pulls.contains_key(&number) {
        return missing();
    }
    let on_lines = repo.comments.iter().filter(|it| it.number == number && it.line.is_some());
    call.page(
        &on_lines.map(|it| show::comment(call.form, &call.host, &name, it)).collect::<Vec<_>>(),
    )
}

/// Gitea: the comments of a review.
pub(super) fn comments_of_review(state: &mut State, call: &Call) -> Answer {
    let (name, number, review) = (call.repo(), call.number(4)?, call.number(6)?);
    let Some(repo) = state.repo(&name) else { return missing() };
    let of_review = |it: &&CommentState| it.number == number && it.review == Some(review);
    let shown = repo.comments.iter().filter(of_review);
    let shown: Vec<Value> =
        shown.map(|it| show::comment(call.form, &call.host, &name, it)).collect();
    Ok(Reply::json(Value::Array(shown)))
}

/// GitHub: a reply to a comment on a line.
pub(super) fn reply(state: &mut State, call: &Call) -> Answer {
    call.needs(&["body"])?;
    let (name, number, comment) = (call.repo(), call.number(4)?, call.number(6)?);
    let id = state.next_id();
    let Some(repo) = state.repo(&name) else { return missing() };
    let Some(first) = repo.comments.iter().find(|it| it.id == comment && it.line.is_some()) else {
        return missing();
    };
    let reply = CommentState {
        id,
        number,
        author: call.account.clone(),
        body: call.text("body"),
        at: State::now(),
        line: first.line.clone(),
        review: first.review,
        reply_to: Some(comment),
    };
    repo.comments.push(reply.clone());
    repo.touch(number);
    state.happen(&name, &call.account, What::Commented(number, id));
    Ok(Reply::created(show::comment(call.form, &call.host, &name, &reply)))
}

/// A time of a query.
pub(super) fn since(call: &Call) -> Result<Option<DateTime<Utc>>, Reply> {
    let Some(text) = call.query.get("since") else { return Ok(None) };
    let time = DateTime::parse_from_rfc3339(text)
        .map_err(|error| Reply::refused(422, format!("since: {error}")))?;
    Ok(Some(time.to_utc()))
}
