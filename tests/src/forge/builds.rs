//! Commits, branches, statuses, builds and deployments.

use super::call::{Answer, Call, Form, Reply, Said, missing};
use super::show;
use super::state::{JobState, State, StatusState};
use serde_json::{Value, json};

const CI: &str = "https://ci.example/1";

/// The newest status of each name.
fn newest<'s>(all: &'s [StatusState], commit: &str, is_check_run: bool) -> Vec<&'s StatusState> {
    let mut found: Vec<&StatusState> = Vec::new();
    let of_commit = |it: &&StatusState| it.commit == commit && it.is_check_run == is_check_run;
    for status in all.iter().rev().filter(of_commit) {
        if !found.iter().any(|it| it.context == status.context) {
            found.push(status);
        }
    }
    found
}

pub(super) fn combined(state: &mut State, call: &Call) -> Answer {
    let commit = call.parts.get(4).cloned().unwrap_or_default();
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let mut statuses = newest(&repo.statuses, &commit, false);
    if call.form == Form::Gitea {
        // Gitea shows its own builds as statuses.
        statuses.extend(newest(&repo.statuses, &commit, true));
    }
    let all: Vec<Value> = statuses.iter().map(|it| show::status(call.form, it)).collect();
    let (shown, headers) = call.part(&all);
    // Gitea looks at those of the page alone.
    let looked_at = if call.is_github() { &all } else { shown };
    let has = |word: &str| looked_at.iter().any(|it| it["state"] == word || it["status"] == word);
    let word = match () {
        () if has("failure") || has("error") => "failure",
        () if has("pending") || all.is_empty() => "pending",
        () => "success",
    };
    let total = if call.is_github() { all.len() } else { shown.len() };
    let value = json!({"state": word, "sha": commit, "total_count": total, "statuses": shown});
    Ok(Reply { headers, ..Reply::json(value) })
}

/// GitHub: the check runs of a commit.
pub(super) fn check_runs(state: &mut State, call: &Call) -> Answer {
    let commit = call.parts.get(4).cloned().unwrap_or_default();
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let runs = newest(&repo.statuses, &commit, true);
    let all: Vec<Value> = runs.into_iter().map(show::check_run).collect();
    let (shown, headers) = call.part(&all);
    let value = json!({"total_count": all.len(), "check_runs": shown});
    Ok(Reply { headers, ..Reply::json(value) })
}

pub(super) fn branch(state: &mut State, call: &Call) -> Answer {
    let name = call.rest(4);
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let Ok(commits) = repo.git.commits(&format!("refs/heads/{name}")) else {
        return missing();
    };
    let Some(newest) = commits.first() else { return missing() };
    let person = json!({"name": newest.author, "email": "x@forge.example", "username": ""});
    let commit = match call.form {
        Form::Github => show::commit(newest),
        Form::Gitea => json!({
            "id": newest.commit, "message": newest.message, "timestamp": show::time(newest.at),
            "author": person, "committer": person,
        }),
    };
    Ok(Reply::json(json!({"name": name, "commit": commit, "protected": false})))
}

pub(super) fn commit(state: &mut State, call: &Call) -> Answer {
    let name = call.parts.last().cloned().unwrap_or_default();
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let commits = repo.git.commits(&name).unwrap_or_default();
    commits.first().map_or_else(missing, |it| Ok(Reply::json(show::commit(it))))
}

fn run(form: Form, it: &JobState) -> Value {
    let mut value = json!({"id": it.id, "display_title": "test", "head_sha": it.commit, "status": "completed",
        "conclusion": it.conclusion, "path": "test.yml", "html_url": CI});
    let times = match form {
        Form::Gitea => ["started_at", "completed_at"],
        Form::Github => ["created_at", "updated_at"],
    };
    for name in times {
        value[name] = json!(show::time(State::now()));
    }
    value
}

fn job(it: &JobState) -> Value {
    let at = show::time(State::now());
    json!({"id": it.id, "run_id": it.id, "name": "test", "head_sha": it.commit, "status": "completed",
        "conclusion": it.conclusion, "html_url": CI, "labels": [], "created_at": at, "started_at": at,
        "completed_at": at})
}

pub(super) fn runs(state: &mut State, call: &Call) -> Answer {
    let commit = call.query.get("head_sha").cloned().unwrap_or_default();
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let of_commit = repo.jobs.iter().filter(|it| it.commit == commit);
    let shown: Vec<Value> = of_commit.map(|it| run(call.form, it)).collect();
    let (part, headers) = call.part(&shown);
    let value = json!({"total_count": shown.len(), "workflow_runs": part});
    Ok(Reply { headers, ..Reply::json(value) })
}

pub(super) fn jobs(state: &mut State, call: &Call) -> Answer {
    let id = call.number(5)?;
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let of_run = repo.jobs.iter().filter(|it| it.id == id);
    let shown: Vec<Value> = of_run.map(job).collect();
    let (part, headers) = call.part(&shown);
    let value = json!({"total_count": shown.len(), "jobs": part});
    Ok(Reply { headers, ..Reply::json(value) })
}

/// The log of a job: GitHub redirects to a storage that takes no credential.
pub(super) fn log(state: &mut State, call: &Call) -> Answer {
    let id = call.number(5)?;
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let Some(job) = repo.jobs.iter().find(|it| it.id == id) else { return missing() };
    Ok(match call.form {
        Form::Gitea => Reply::new(200, Said::Text(job.log.clone())),
        Form::Github => {
            let mut reply = Reply::new(302, Said::Nothing);
            let address = format!("{}/storage/{}/{id}?signature=x", call.host, call.repo());
            reply.headers.push(("location", address));
            reply
        }
    })
}

/// The storage of logs.
pub(super) fn stored_log(state: &mut State, parts: &[&str]) -> Reply {
    let &[owner, name, id] = parts else { return Reply::refused(404, "Not Found") };
    let repo = state.repo(&format!("{owner}/{name}"));
    let jobs = repo.map(|repo| &repo.jobs).into_iter().flatten();
    let found = jobs.into_iter().find(|it| it.id.to_string() == id);
    found.map_or_else(
        || Reply::refused(404, "Not Found"),
        |job| Reply::new(200, Said::Text(job.log.clone())),
    )
}

/// GitHub: deployments, the newest first.
pub(super) fn deployments(state: &mut State, call: &Call) -> Answer {
    let environment = call.query.get("environment");
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let all = repo.deployments.iter().rev();
    let fitting = all.filter(|it| environment.is_none_or(|name| *name == it.environment));
    call.page(&fitting.map(show::deployment).collect::<Vec<_>>())
}

pub(super) fn deployment_statuses(state: &mut State, call: &Call) -> Answer {
    let id = call.number(4)?;
    let Some(repo) = state.repo(&call.repo()) else { return missing() };
    let Some(found) = repo.deployments.iter().find(|it| it.id == id) else { return missing() };
    call.page(&found.states.iter().rev().map(show::deployment_status).collect::<Vec<_>>())
}
