//! A repository behind HTTP with a credential, which stands in nothing that is stored, logged or answered.

use super::origin::Origin;
use super::{Hosts, LOG, on, three_steps};
use anyhow::{Context, Result, anyhow, ensure};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sqlx::{AssertSqlSafe, PgPool, Row};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use surety_common::wire::v1;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

/// The credential of the repository.
const USER: &str = "robot";
const PASSWORD: &str = "C4nary-of-a-forge-9zQ7xK";

/// A server of the repositories in a folder, by git's own program, for those with a credential.
pub(crate) struct Forge {
    pub(crate) address: String,
    refused: Arc<Mutex<usize>>,
}

#[derive(Clone)]
struct Served {
    root: PathBuf,
    /// The headers of those whom it serves.
    wanted: Vec<String>,
    refused: Arc<Mutex<usize>>,
}

impl Forge {
    /// Serves `root` to each `USER:PASSWORD`.
    pub(crate) async fn start(root: PathBuf, users: &[String]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let refused = Arc::default();
        let wanted = users.iter().map(|user| format!("Basic {}", STANDARD.encode(user))).collect();
        let state = Served { root, wanted, refused: Arc::clone(&refused) };
        let router = Router::new().fallback(serve).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, refused })
    }

    pub(crate) fn refused(&self) -> usize {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(State(served): State<Served>, request: Request) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    let is_known = |shown: &header::HeaderValue| {
        served.wanted.iter().any(|wanted| wanted.as_bytes() == shown.as_bytes())
    };
    if !shown.is_some_and(is_known) {
        *served.refused.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let mut response = Response::new(Body::from("who are you"));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        let realm = header::HeaderValue::from_static("Basic realm=\"git\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
        return response;
    }
    backend(&served.root, request).await.unwrap_or_else(|error| {
        let mut response = Response::new(Body::from(error.to_string()));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

/// One request, as the Common Gateway Interface has it.
async fn backend(root: &Path, request: Request) -> Result<Response> {
    let (head, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 64 << 20).await?;
    let of = |name: &str| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let mut child = Command::new("git")
        .args(["-c", "safe.directory=*", "-c", "http.receivepack=true", "http-backend"])
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", of("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", of("content-encoding"))
        .env("GIT_PROTOCOL", of("git-protocol"))
        .env("REMOTE_USER", USER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("an input")?;
    let writing = async move {
        input.write_all(&body).await?;
        input.shutdown().await
    };
    let (written, ended) = tokio::join!(writing, child.wait_with_output());
    let output = ended?.stdout;
    // A program that has read enough closes its input.
    drop(written);
    let end = output.windows(4).position(|it| it == b"\r\n\r\n").context("no head")?;
    let mut response =
        Response::new(Body::from(output.get(end + 4..).unwrap_or_default().to_vec()));
    for line in String::from_utf8_lossy(output.get(..end).unwrap_or_default()).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default().parse::<u16>()?;
            *response.status_mut() = StatusCode::from_u16(code)?;
        } else {
            let name = header::HeaderName::from_bytes(name.as_bytes())?;
            response.headers_mut().insert(name, value.parse()?);
        }
    }
    Ok(response)
}

/// The forms of the password that a reader could turn back.
fn ensure_clean(place: &str, text: &str) -> Result<()> {
    let pair = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let in_column = |form: &str| form.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let forms = [PASSWORD.to_owned(), pair.clone(), in_column(PASSWORD), in_column(&pair)];
    match forms.iter().find(|form| text.contains(form.as_str())) {
        Some(form) => Err(anyhow!("{place} has the credential as {form}")),
        None => Ok(()),
    }
}

async fn ensure_clean_tables(pool: &PgPool) -> Result<()> {
    let names = "select format('%I.%I', schemaname, tablename) from pg_tables \
                 where schemaname not in ('pg_catalog', 'information_schema')";
    for row in sqlx::query(names).fetch_all(pool).await? {
        let name: String = row.try_get(0)?;
        let text =
            format!("select coalesce(string_agg(to_jsonb(t)::text, E'\\n'), '') from {name} t");
        let text: String = sqlx::query_scalar(AssertSqlSafe(text)).fetch_one(pool).await?;
        ensure_clean(&name, &text)?;
    }
    Ok(())
}

/// Every file below a folder.
fn ensure_clean_files(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)?.filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            ensure_clean_files(&path)?;
        } else if let Ok(content) = std::fs::read(&path) {
            ensure_clean(&path.display().to_string(), &String::from_utf8_lossy(&content))?;
        }
    }
    Ok(())
}

fn with_secret(mut request: v1::CreateRunRequest, name: &str) -> v1::CreateRunRequest {
    request.repository.get_or_insert_default().secret = name.to_owned();
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_reaches_the_host_of_the_repository_and_nothing_else() -> Result<()> {
    let origin = Origin::new()?;
    let forge = Forge::start(origin.root(), &[format!("{USER}:{PASSWORD}")]).await?;
    let mut hosts = Hosts::start(&forge.address).await?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), format!("{USER}:{PASSWORD}\n"))?;
    let listed = format!("forge@default=file:{0};elsewhere@other=file:{0}", file.path().display());
    let own = [("SURETY_EXECUTOR_SECRETS", listed.as_str()), ("SURETY_LOG", "debug")];
    let crashing = [&own[..], &[("SURETY_CRASH_POINT", "executor.after_git_push:2")]].concat();
    hosts.add(&crashing).await?;
    let url = format!("{}/origin.git", forge.address);
    let mut plan = three_steps();
    // The commands of a step look for it where they can.
    let look =
        super::line("env; cat .git/config; git config --list; git log -1 --format=%H; ls -la ..");
    if let Some(script) = plan["steps"][2]["script"].as_array_mut() {
        script.push(look);
    }
    let run = hosts.deployment.create_run(with_secret(on(&url, "main", &plan), "forge")).await?;
    let deadline = std::time::Instant::now() + surety_e2e::harness::PATIENCE;
    while !hosts.deployment.first_executor()?.has_ended()? {
        ensure!(std::time::Instant::now() < deadline, "the first executor does not die");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    ensure_clean_files(hosts.folders[0].path())?;
    hosts.add(&own).await?;
    let run = hosts.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let commit = run.verdict.clone().and_then(|it| it.repository).context("a commit")?.commit;
    assert_eq!(origin.file(&commit, "log.txt")?, LOG);
    ensure!(forge.refused() > 0, "the server asks for the credential");
    ensure_clean("GetRun", &format!("{run:?}"))?;
    ensure_clean("WatchRun", &format!("{:?}", hosts.deployment.events(&run.id).await?))?;
    for words in [["show", "--json"], ["show", "--full"]] {
        let said = hosts.deployment.command_line(&[words[0], &run.id, words[1]]).await?;
        ensure_clean("the command line", &said)?;
    }
    let pool = hosts.deployment.database.pool().await?;
    ensure_clean_tables(&pool).await?;
    for process in hosts.deployment.executors.iter().chain([&hosts.deployment.planner]) {
        ensure_clean("a log", &process.log().join("\n"))?;
    }
    for (secret, code) in [("", "repository_denied"), ("elsewhere", "secret_unavailable")] {
        let refused = with_secret(on(&url, "main", &three_steps()), secret);
        let refused = hosts.deployment.create_run(refused).await?;
        let ended = hosts.deployment.wait_for_end(&refused.id).await?.terminal.context("an end")?;
        ensure!(ended.internal_reason == code, "{secret:?}: {ended:#?}");
    }
    pool.close().await;
    hosts.deployment.finish().await
}
