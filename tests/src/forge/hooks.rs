//! Signed deliveries of what happens, as each forge sends them.

use super::call::Form;
use super::state::{Happened, State, What};
use super::{Shared, show};
use ring::hmac;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use surety_common::domain::toolchain::Forge;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

/// Where deliveries go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// As which forge they are sent.
    pub kind: Forge,
    /// `http://127.0.0.1:PORT/PATH`.
    pub url: String,
    /// What signs them.
    pub secret: String,
}

/// A delivery, and how it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Its id.
    pub id: String,
    /// The event.
    pub event: String,
    /// The headers, in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// The status of the answer; 0 where none came.
    pub status: u16,
}

/// Sends the deliveries of what happened, each in a task of its own.
pub(super) fn send(shared: &Arc<Shared>, state: &State, happened: Vec<Happened>) {
    let hooks = super::locked(&shared.hooks).clone();
    for one in &happened {
        for hook in &hooks {
            let Some((event, body)) = payload(state, hook, one) else { continue };
            let delivery = signed(hook, event, &body);
            let (shared, url) = (Arc::clone(shared), hook.url.clone());
            tokio::spawn(async move {
                let status = post(&url, &delivery).await.unwrap_or_default();
                shared.deliveries.send_modify(|all| all.push(Delivered { status, ..delivery }));
            });
        }
    }
}

/// The delivery of a body, with the headers of its forge.
fn signed(hook: &Hook, event: &'static str, body: &Value) -> Delivered {
    let body = body.to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, hook.secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let signature = tag.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    });
    let id = Uuid::now_v7().to_string();
    let mut headers = vec![
        ("x-github-delivery".to_owned(), id.clone()),
        ("x-github-event".to_owned(), event.to_owned()),
        ("x-hub-signature-256".to_owned(), format!("sha256={signature}")),
    ];
    let of = |name: &str| {
        [
            (format!("x-{name}-delivery"), id.clone()),
            (format!("x-{name}-event"), event.to_owned()),
            (format!("x-{name}-signature"), signature.clone()),
        ]
    };
    match hook.kind {
        Forge::Github => {}
        Forge::Gitea => headers.extend(of("gitea")),
        Forge::Forgejo => headers.extend(of("forgejo").into_iter().chain(of("gitea"))),
    }
    Delivered { id, event: event.to_owned(), headers, body, status: 0 }
}

/// Posts a delivery to an address of this machine, and returns the status of the answer.
async fn post(url: &str, delivery: &Delivered) -> std::io::Result<u16> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).await?;
    let mut head = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n",
        delivery.body.len()
    );
    for (name, value) in &delivery.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(delivery.body.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let line = String::from_utf8_lossy(&answer);
    Ok(line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default())
}

/// The event and the body of what happened; none for what the forge sends no delivery of.
fn payload(state: &State, hook: &Hook, happened: &Happened) -> Option<(&'static str, Value)> {
    let Happened { repo: name, by, what } = happened;
    let repo = state.repos.get(name)?;
    let form = if hook.kind == Forge::Github { Form::Github } else { Form::Gitea };
    let host = "https://forge.example";
    let pull =
        |number: &u64| Some(show::pull(form, host, name, (*number, repo.pulls.get(number)?)));
    let (event, mut body) = match what {
        What::Opened(number) => ("pull_request", of_pull("opened", *number, pull(number)?)),
        What::Pushed(number) => {
            let action = if form == Form::Github { "synchronize" } else { "synchronized" };
            ("pull_request", of_pull(action, *number, pull(number)?))
        }
        What::Merged(number) => ("pull_request", of_pull("closed", *number, pull(number)?)),
        What::Reviewed(number, id) => {
            let review = repo.reviews.iter().find(|it| it.id == *id)?;
            reviewed(form, review, (*number, pull(number)?))
        }
        What::Commented(number, id) => {
            let comment = repo.comments.iter().find(|it| it.id == *id)?;
            let is_pull = repo.pulls.contains_key(number);
            let issue = show::issue_of(form, host, name, (repo, *number))?;
            let comment = show::comment(form, host, name, comment);
            let mut body = json!({"action": "created", "issue": issue, "comment": comment});
            if form == Form::Gitea {
                body["is_pull"] = json!(is_pull);
            }
            ("issue_comment", body)
        }
        // Gitea and Forgejo send the review alone.
        What::OnLine(number, id) if form == Form::Github => {
            let comment = repo.comments.iter().find(|it| it.id == *id)?;
            let comment = show::comment(form, host, name, comment);
            let body =
                json!({"action": "created", "comment": comment, "pull_request": pull(number)?});
            ("pull_request_review_comment", body)
        }
        What::OnLine(..) => return None,
        What::IssueOpened(number) => {
            let issue = show::issue_of(form, host, name, (repo, *number))?;
            ("issues", of_issue(form, "opened", (*number, issue)))
        }
        What::Assigned(number, to) => {
            let issue = show::issue_of(form, host, name, (repo, *number))?;
            let mut body = of_issue(form, "assigned", (*number, issue));
            if form == Form::Github {
                body["assignee"] = show::user(form, to);
            }
            ("issues", body)
        }
        What::Status(place) => ("status", status(form, repo, *place)?),
        What::Deployed(place) if form == Form::Github => {
            let deployment = repo.deployments.get(*place)?;
            let newest = deployment.states.last()?;
            let body = json!({"deployment": show::deployment(deployment),
                "deployment_status": show::deployment_status(newest)});
            ("deployment_status", body)
        }
        What::Deployed(_) => return None,
    };
    body["repository"] = show::repository(form, host, name);
    body["sender"] = show::user(form, by);
    Some((event, body))
}

/// GitHub has the number in the issue alone.
fn of_issue(form: Form, action: &str, (number, issue): (u64, Value)) -> Value {
    let mut body = json!({"action": action, "issue": issue});
    if form == Form::Gitea {
        body["number"] = json!(number);
    }
    body
}

fn of_pull(action: &str, number: u64, pull: Value) -> Value {
    json!({"action": action, "number": number, "pull_request": pull})
}

fn reviewed(
    form: Form,
    review: &super::ReviewState,
    (number, pull): (u64, Value),
) -> (&'static str, Value) {
    if form == Form::Github {
        let mut shown = show::review(form, "https://forge.example", "o/r", review);
        let word = shown["state"].as_str().unwrap_or_default().to_ascii_lowercase();
        shown["state"] = json!(word);
        let body = json!({"action": "submitted", "review": shown, "pull_request": pull});
        return ("pull_request_review", body);
    }
    let (event, kind) = match review.event.as_str() {
        "APPROVE" => ("pull_request_approved", "pull_request_review_approved"),
        "REQUEST_CHANGES" => ("pull_request_rejected", "pull_request_review_rejected"),
        _ => ("pull_request_comment", "pull_request_review_comment"),
    };
    let body = json!({
        "action": "reviewed", "number": number, "pull_request": pull, "commit_id": review.commit,
        "review": {"type": kind, "content": review.body},
    });
    (event, body)
}

fn status(form: Form, repo: &super::RepoState, place: usize) -> Option<Value> {
    let status = repo.statuses.get(place)?;
    let pull = repo.pulls.values().find(|pull| pull.commit == status.commit);
    let author = pull.map_or("", |pull| pull.author.as_str());
    let branch = pull.map_or("", |pull| pull.head.as_str());
    let mut body = json!({
        "id": place + 1, "sha": status.commit, "context": status.context,
        "state": status.state, "description": status.description, "target_url": "https://ci.example/1",
        "commit": {"author": {"login": author, "username": author}, "timestamp": show::time(status.at)},
        "created_at": show::time(status.at), "updated_at": show::time(status.at),
    });
    // Gitea names no branch of a commit.
    if form == Form::Github {
        body["branches"] = json!([{"name": branch}]);
    }
    Some(body)
}
