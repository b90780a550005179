//! The socket of the forge.

use super::call::{Answer, Call, Called, Form, Reply, Said};
use super::failure::{Failure, take};
use super::state::State;
use super::{Shared, builds, hooks, issues, locked, pulls, schema};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Extracted};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use chrono::Utc;
use futures::stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The largest body that is read.
const MAX_BODY: usize = 4 << 20;
/// What the primary limit of an account is said to be.
const LIMIT: u64 = 5_000;

type Handler = fn(&mut State, &Call) -> Answer;

pub(super) fn spawn(listener: TcpListener, shared: Arc<Shared>) -> JoinHandle<()> {
    let router = Router::new().fallback(answer).with_state(shared);
    tokio::spawn(async move { drop(axum::serve(listener, router).await) })
}

async fn answer(Extracted(shared): Extracted<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let method = parts.method.to_string();
    let host = parts.headers.get("host").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let host = format!("http://{host}");
    if let Some(rest) = path.strip_prefix("/storage/") {
        let rest: Vec<&str> = rest.split('/').collect();
        let with_credential = parts.headers.contains_key("authorization");
        let reply = match with_credential {
            true => Reply::refused(400, "a credential was sent to the storage"),
            false => builds::stored_log(&mut locked(&shared.state), &rest),
        };
        record(
            &shared,
            called(&method, &path, &query, ("stored_log", "", Value::Null)),
            reply.status,
        );
        return respond(reply, None, &parts.headers);
    }
    shared.arrived.fetch_add(1, Ordering::Relaxed);
    let read = read_path(&path);
    let form = read.as_ref().map(|(form, _)| *form);
    let route = read.as_ref().and_then(|(form, parts)| route(*form, &method, parts));
    let accept = parts.headers.get("accept").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let name = name_of(route.map_or("", |(name, _)| name), accept);
    let account = read.as_ref().and_then(|(form, _)| account(&shared, *form, &parts.headers));
    let entry = called(
        &method,
        &path,
        &query,
        (name, account.as_deref().unwrap_or_default(), body.clone()),
    );
    if let Some(refused) = form.and_then(|form| unpublished(&shared, form, &entry)) {
        record(&shared, entry, refused.status);
        return respond(refused, form, &parts.headers);
    }
    let failure = take(&mut locked(&shared.failures), name);
    if let Some(response) = fail_before(&failure, form, &parts.headers).await {
        record(&shared, entry, response.as_ref().map_or(0, |it| it.status().as_u16()));
        return response.unwrap_or_else(cut);
    }
    let reply = match (read, route, account) {
        (None, _, _) => Reply::refused(404, "Not Found"),
        (Some((form, _)), _, None) => {
            Reply::refused(401, bad_credentials(&parts.headers)).in_form(form, name)
        }
        (Some(_), None, Some(_)) => Reply::refused(404, "Not Found"),
        (Some((form, segments)), Some((_, handler)), Some(account)) => {
            let segments = segments.into_iter().map(str::to_owned).collect();
            let query = read_query(&query);
            let accept = accept.to_owned();
            let route = name;
            let call =
                Call { form, account, route, method, parts: segments, query, body, accept, host };
            work(&shared, handler, call).await
        }
    };
    if failure == Some(Failure::CutAfterWrite) {
        record(&shared, entry, 0);
        return cut();
    }
    record(&shared, entry, reply.status);
    respond(reply, form, &parts.headers)
}

/// The name of a route. GitHub has one path for a pull request and its difference.
fn name_of(route: &'static str, accept: &str) -> &'static str {
    if route == "pull" && accept.contains(".diff") { "diff" } else { route }
}

/// The refusal of a call that is not as the API is published; the client is at fault.
fn unpublished(shared: &Shared, form: Form, call: &Called) -> Option<Reply> {
    let query = call.path.split_once('?').map_or("", |(_, query)| query);
    let asked =
        schema::Asked { form, route: &call.route, query: &read_query(query), body: &call.body };
    let why = schema::check_call(&asked).err()?;
    let why = format!("{} {}: the call is not as published: {why}", call.method, call.path);
    locked(&shared.faults).push(why.clone());
    Some(Reply::refused(422, why).in_form(form, &call.route))
}

/// Does the work of a call; git blocks.
async fn work(shared: &Arc<Shared>, handler: Handler, call: Call) -> Reply {
    let shared = Arc::clone(shared);
    let runtime = tokio::runtime::Handle::current();
    let working = tokio::task::spawn_blocking(move || {
        let _entered = runtime.enter();
        let mut state = locked(&shared.state);
        if state.denied.contains(&(call.account.clone(), call.route.to_owned())) {
            let reply = Reply::refused(403, "user should have a permission to do that");
            return published(&shared, (call.form, call.route), reply);
        }
        if call.method != "GET" && !call.body.is_object() {
            return Reply::refused(400, "Problems parsing JSON");
        }
        state.notice_pushes();
        let answer = handler(&mut state, &call);
        let happened = state.take_happened();
        hooks::send(&shared, &state, happened);
        drop(state);
        let (Ok(reply) | Err(reply)) = answer;
        published(&shared, (call.form, call.route), reply)
    });
    working.await.unwrap_or_else(|error| Reply::refused(500, error.to_string()))
}

/// The reply where it is as the API is published; else the double is at fault.
fn published(shared: &Shared, (form, route): (Form, &str), reply: Reply) -> Reply {
    let reply = reply.in_form(form, route);
    let body = match &reply.said {
        Said::Json(value) => Some(value),
        Said::Text(_) | Said::Nothing => None,
    };
    let Err(why) = schema::check_answer(form, route, (reply.status, body)) else { return reply };
    let why = format!("the double does not answer as published: {why}");
    locked(&shared.faults).push(why.clone());
    Reply::refused(500, why)
}

/// The API of a path, and its parts behind the prefix.
fn read_path(path: &str) -> Option<(Form, Vec<&str>)> {
    let of = |prefix: &str| Some(path.strip_prefix(prefix)?.split('/').collect());
    let gitea = of("/api/v1/").map(|parts| (Form::Gitea, parts));
    gitea.or_else(|| of("/api/v3/").map(|parts| (Form::Github, parts)))
}

fn route(form: Form, method: &str, parts: &[&str]) -> Option<(&'static str, Handler)> {
    let parts = match parts {
        ["user"] if method == "GET" => return Some(("current_user", issues::user)),
        ["repos", _, _, rest @ ..] => rest,
        _ => return None,
    };
    let is_github = form == Form::Github;
    let found: (&'static str, Handler) = match (method, parts) {
        ("GET", ["pulls"]) => ("pulls_since", pulls::list),
        ("POST", ["pulls"]) => ("open_pull", pulls::open),
        ("GET", ["pulls", number]) if number.ends_with(".diff") && !is_github => {
            ("diff", pulls::get)
        }
        ("GET", ["pulls", _]) => ("pull", pulls::get),
        ("GET", ["pulls", _, "files"]) => ("changed_files", pulls::files),
        ("GET", ["pulls", _, "reviews"]) => ("reviews", pulls::reviews),
        ("POST", ["pulls", _, "reviews"]) => ("submit_review", pulls::submit_review),
        ("POST", ["pulls", _, "merge"]) if !is_github => ("merge", pulls::merge),
        ("PUT", ["pulls", _, "merge"]) if is_github => ("merge", pulls::merge),
        ("GET", ["pulls", _, "comments"]) if is_github => ("review_comments", pulls::line_comments),
        ("POST", ["pulls", _, "comments", _, "replies"]) if is_github => ("reply", pulls::reply),
        ("GET", ["pulls", _, "reviews", _, "comments"]) => {
            ("review_comments", pulls::comments_of_review)
        }
        ("GET", ["issues"]) => ("issues_of", issues::list),
        ("POST", ["issues"]) => ("create_issue", issues::create),
        ("GET", ["issues", _]) => ("issue", issues::get),
        ("GET", ["issues", _, "comments"]) => ("comments", issues::comments),
        ("POST", ["issues", _, "comments"]) => ("add_comment", issues::add_comment),
        ("GET", ["labels"]) => ("labels", issues::labels),
        ("GET", ["commits", _, "status"]) => ("statuses", builds::combined),
        ("GET", ["commits", _, "check-runs"]) if is_github => ("check_runs", builds::check_runs),
        ("GET", ["commits", _]) if is_github => ("commit", builds::commit),
        ("GET", ["git", "commits", _]) if !is_github => ("commit", builds::commit),
        ("GET", ["branches", ..]) => ("branch_head", builds::branch),
        ("GET", ["actions", "runs"]) => ("ci_runs", builds::runs),
        ("GET", ["actions", "runs", _, "jobs"]) => ("ci_jobs", builds::jobs),
        ("GET", ["actions", "jobs", _, "logs"]) => ("ci_log", builds::log),
        ("GET", ["deployments"]) if is_github => ("deployments", builds::deployments),
        ("GET", ["deployments", _, "statuses"]) if is_github => {
            ("deployment_statuses", builds::deployment_statuses)
        }
        _ => return None,
    };
    Some(found)
}

/// The account of the token, in the form that each API documents.
fn account(shared: &Shared, form: Form, headers: &HeaderMap) -> Option<String> {
    let header = headers.get("authorization")?.to_str().ok()?;
    let token = match form {
        Form::Gitea => header.strip_prefix("token ")?,
        Form::Github => header.strip_prefix("Bearer ")?,
    };
    headers.get("user-agent")?;
    locked(&shared.state).tokens.get(token).cloned()
}

/// As some servers do: the wrong token stands in the message.
fn bad_credentials(headers: &HeaderMap) -> String {
    let shown = headers.get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
    format!("Bad credentials: {shown}")
}

fn read_query(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        match byte {
            b'%' => {
                let pair = (rest.next().and_then(hex), rest.next().and_then(hex));
                let (Some(high), Some(low)) = pair else { continue };
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The answer of a failure that comes before any work: `Some(None)` for a connection that is cut.
async fn fail_before(
    failure: &Option<Failure>,
    form: Option<Form>,
    headers: &HeaderMap,
) -> Option<Option<Response>> {
    let reply = match failure {
        None | Some(Failure::CutAfterWrite) => return None,
        Some(Failure::Cut) => return Some(None),
        Some(Failure::Slow(time)) => {
            tokio::time::sleep(*time).await;
            Reply::refused(504, "too slow")
        }
        Some(Failure::Status(status)) => Reply::refused(*status, "failed on demand"),
        Some(Failure::Limited(seconds)) => {
            let mut reply = Reply::refused(403, "API rate limit exceeded for user.");
            reply.headers.push(("x-ratelimit-remaining", "0".to_owned()));
            let reset = Utc::now().timestamp() + seconds;
            reply.headers.push(("x-ratelimit-reset", reset.to_string()));
            reply
        }
        Some(Failure::Secondary(seconds)) => {
            let mut reply = Reply::refused(403, "You have exceeded a secondary rate limit.");
            reply.headers.push(("retry-after", seconds.to_string()));
            reply
        }
        Some(Failure::Page) => Reply::new(200, Said::Text("<html>Sign in</html>".to_owned())),
        Some(Failure::Shape) => Reply::json(json!({"unexpected": true})),
        Some(Failure::Large(bytes)) => Reply::json(json!("x".repeat(*bytes))),
    };
    Some(Some(respond(reply, form, headers)))
}

/// An answer whose connection is closed in its middle.
fn cut() -> Response {
    let broken = stream::iter([Err::<Bytes, _>(io::Error::other("cut on demand"))]);
    let mut response = Response::new(Body::from_stream(broken));
    response
        .headers_mut()
        .insert("content-type", axum::http::HeaderValue::from_static("text/plain"));
    response
}

fn respond(reply: Reply, form: Option<Form>, headers: &HeaderMap) -> Response {
    let (kind, body) = match &reply.said {
        Said::Json(value) => ("application/json;charset=utf-8", value.to_string()),
        Said::Text(text) => ("text/plain;charset=utf-8", text.clone()),
        Said::Nothing => ("text/plain", String::new()),
    };
    let etag = format!("W/\"{:x}\"", super::stable_number(&body));
    let known = headers.get("if-none-match").and_then(|it| it.to_str().ok());
    let is_known = reply.status == 200 && known == Some(etag.as_str());
    let status = if is_known { 304 } else { reply.status };
    let mut builder = Response::builder()
        .status(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        .header("content-type", kind);
    // Gitea and Forgejo name no version of an answer.
    let is_github = form == Some(Form::Github);
    if is_github && reply.status == 200 {
        builder = builder.header("etag", etag);
    }
    // Gitea and Forgejo have no limits of their own.
    let is_limited = reply.headers.iter().any(|(name, _)| *name == "x-ratelimit-remaining");
    if is_github && !is_limited {
        builder = builder.header("x-ratelimit-remaining", (LIMIT - 1).to_string());
    }
    for (name, value) in &reply.headers {
        builder = builder.header(*name, value);
    }
    builder.body(if is_known { Body::empty() } else { Body::from(body) }).unwrap_or_default()
}

fn called(
    method: &str,
    path: &str,
    query: &str,
    (route, account, body): (&str, &str, Value),
) -> Called {
    let path = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    Called {
        method: method.to_owned(),
        path,
        route: route.to_owned(),
        account: account.to_owned(),
        body,
        status: 0,
    }
}

fn record(shared: &Shared, entry: Called, status: u16) {
    shared.calls.send_modify(|calls| calls.push(Called { status, ..entry }));
}
