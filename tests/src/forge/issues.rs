//! Issues, comments, labels.

use super::call::{Answer, Call, Form, Reply, missing};
use super::pulls::since;
use super::show;
use super::state::{CommentState, State};
use serde_json::Value;

pub(super) fn get(state: &mut State, call: &Call) -> Answer {
    let (name, number) = (call.repo(), call.number(4)?);
    let Some(repo) = state.repo(&name) else { return missing() };
    let issue = show::issue_of(call.form, &call.host, &name, (repo, number));
    issue.map_or_else(missing, |issue| Ok(Reply::json(issue)))
}

pub(super) fn list(state: &mut State, call: &Call) -> Answer {
    let since = since(call)?;
    let name = call.repo();
    let Some(repo) = state.repo(&name) else { return missing() };
    let by = call.query.get(if call.is_github() { "creator" } else { "created_by" });
    let fits = |author: &String, updated| {
        by.is_none_or(|by| by == author) && since.is_none_or(|since| updated >= since)
    };
    let issues = repo.issues.iter().filter(|(_, it)| fits(&it.author, it.updated_at));
    let mut shown: Vec<(u64, Value)> = issues
        .map(|(number, it)| (*number, show::issue(call.form, &call.host, &name, (*number, it))))
        .collect();
    // To GitHub every pull request is an issue.
    if call.is_github() {
        let pulls = repo.pulls.iter().filter(|(_, it)| fits(&it.author, it.updated_at));
        shown.extend(pulls.map(|(number, it)| {
            (*number, show::pull_as_issue(call.form, &call.host, &name, (*number, it)))
        }));
    }
    shown.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    call.page(&shown.into_iter().map(|(_, value)| value).collect::<Vec<_>>())
}

pub(super) fn create(state: &mut State, call: &Call) -> Answer {
    call.needs(&["title"])?;
    let name = call.repo();
    let assignees = call.texts("assignees");
    if let Some(unknown) =
        assignees.iter().find(|it| !state.tokens.values().any(|known| known == *it))
    {
        return Err(Reply::refused(422, format!("Assignee does not exist: {unknown}")));
    }
    let Some(repo) = state.repo(&name) else { return missing() };
    let labels = match call.form {
        Form::Github => call.texts("labels"),
        Form::Gitea => {
            let ids =
                call.body.get("labels").and_then(Value::as_array).cloned().unwrap_or_default();
            let ids = ids.iter().filter_map(Value::as_u64);
            ids.filter_map(|id| repo.labels.get(&id).cloned()).collect()
        }
    };
    let (title, body) = (call.text("title"), call.text("body"));
    let texts = (title.as_str(), body.as_str());
    let Some(number) = state.open_issue(&name, &call.account, texts, (assignees, labels)) else {
        return missing();
    };
    let Some(repo) = state.repo(&name) else { return missing() };
    let issue = show::issue_of(call.form, &call.host, &name, (repo, number));
    issue.map_or_else(missing, |issue| Ok(Reply::created(issue)))
}

pub(super) fn comments(state: &mut State, call: &Call) -> Answer {
    let since = since(call)?;
    let (name, number) = (call.repo(), call.number(4)?);
    let Some(repo) = state.repo(&name) else { return missing() };
    if !repo.has(number) {
        return missing();
    }
    let fits = |it: &&CommentState| {
        it.number == number && it.line.is_none() && since.is_none_or(|since| it.at >= since)
    };
    let shown: Vec<Value> = repo
        .comments
        .iter()
        .filter(fits)
        .map(|it| show::comment(call.form, &call.host, &name, it))
        .collect();
    match call.form {
        // Gitea has no pages here.
        Form::Gitea => Ok(Reply::json(Value::Array(shown))),
        Form::Github => call.page(&shown),
    }
}

pub(super) fn add_comment(state: &mut State, call: &Call) -> Answer {
    call.needs(&["body"])?;
    let (name, number) = (call.repo(), call.number(4)?);
    if !state.repo(&name).is_some_and(|repo| repo.has(number)) {
        return missing();
    }
    let body = call.text("body");
    let id = state.comment(&name, &call.account, (number, &body));
    let Some(repo) = state.repo(&name) else { return missing() };
    let comment = repo.comments.iter().find(|it| Some(it.id) == id);
    comment.map_or_else(missing, |it| {
        Ok(Reply::created(show::comment(call.form, &call.host, &name, it)))
    })
}

/// Gitea: the labels of a repository.
pub(super) fn labels(state: &mut State, call: &Call) -> Answer {
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let shown = repo.labels.iter();
    call.page(&shown.map(|(id, name)| show::label(*id, name)).collect::<Vec<_>>())
}

pub(super) fn user(_state: &mut State, call: &Call) -> Answer {
    Ok(Reply::json(show::own_user(call.form, &call.account)))
}
