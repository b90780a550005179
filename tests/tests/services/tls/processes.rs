//! The real services: every path of every port, services among themselves, and invalid settings.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::client::{ServiceChannel, Transport, channel_over};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::harness::{Database, Deployment, Process, Service, WRAPPER, wait_until};
use surety_e2e::script;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const SERVICES: [Service; 3] = [Service::Planner, Service::Executor, Service::Gate];

pub(crate) fn borrowed<'a>(variables: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// The answer to one HTTP/1.1 request over TLS.
pub(crate) async fn get(address: &str, transport: &Transport, path: &str) -> Result<String> {
    let tls = transport.tls.as_ref().context("certificates")?;
    let mut config = (*tls.client()).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = "127.0.0.1".try_into()?;
    let mut stream = TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn is_serving(address: &str, transport: &Transport) -> Result<bool> {
    let channel = channel_over(&format!("https://{address}"), None, transport)?;
    let request = HealthCheckRequest { service: String::new() };
    let answer = HealthClient::new(channel).check(request).await?.into_inner();
    Ok(answer.status() == ServingStatus::Serving)
}

#[tokio::test]
async fn every_path_of_every_port_needs_tls_and_a_certificate_where_one_is_required() -> Result<()>
{
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    ours.issue("alice", "alice.test", VALID)?;
    let mut variables = ours.environment("port")?;
    variables.push(("SURETY_TLS_CLIENT_CA_FILE", ours.path("ca.pem").to_string_lossy().into()));
    variables.push(("SURETY_TLS_REQUIRE_CLIENT_CERTIFICATE", "true".to_owned()));
    let (alice, nameless) = (ours.client_as("alice")?, ours.client()?);
    for service in SERVICES {
        let process = Process::start_stateless(service, &borrowed(&variables)).await?;
        let address = process.address();
        ensure!(is_serving(address, &alice).await?, "{service:?}");
        ensure!(is_serving(address, &nameless).await.is_err(), "{service:?}");
        for path in ["/healthz", "/metrics"] {
            let answer = get(address, &alice, path).await?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{service:?} {path}: {answer}");
            ensure!(get(address, &nameless, path).await.is_err(), "{service:?} {path}");
            let plain = process.get(path).await.unwrap_or_default();
            ensure!(!plain.contains("HTTP/1.1 200"), "{service:?} {path}: {plain}");
        }
    }
    Ok(())
}

/// Planner and gate with the certificate `port`, an executor with the certificate `executor` and without
/// a token file. The gate knows the executor by its certificate only.
async fn deployment_without_tokens(ours: &Authority) -> Result<Deployment> {
    ours.issue("port", "127.0.0.1", VALID)?;
    ours.issue("executor", "127.0.0.1", VALID)?;
    ours.issue("alice", "alice.test", VALID)?;
    let map = "cn:executor executor service *\ndns:alice.test alice viewer,submitter default\n";
    let map = ours.write("identities", map)?.to_string_lossy().into_owned();
    let with_clients = |name: &str| -> Result<Vec<(&'static str, String)>> {
        let mut variables = ours.environment(name)?;
        variables.push(("SURETY_TLS_CLIENT_CA_FILE", ours.path("ca.pem").to_string_lossy().into()));
        variables.push(("SURETY_TLS_IDENTITIES_FILE", map.clone()));
        Ok(variables)
    };
    let port = with_clients("port")?;
    let database = Database::create().await?;
    let gate = Process::start(Service::Gate, &database, &borrowed(&port)).await?;
    let planner = Process::start(Service::Planner, &database, &borrowed(&port)).await?;
    let gate_url = format!("https://{}", gate.address());
    let mut deployment = Deployment::of(database, planner, gate)?;
    let mut executor = with_clients("executor")?;
    executor.push(("SURETY_GATE_URL", gate_url));
    executor.push((WRAPPER, "env -u SURETY_TOKEN_FILE".to_owned()));
    deployment.add_executor(&borrowed(&executor)).await?;
    Ok(deployment)
}

fn runs(
    deployment: &Deployment,
    transport: &Transport,
) -> Result<RunServiceClient<ServiceChannel>> {
    let url = format!("https://{}", deployment.planner.address());
    Ok(RunServiceClient::new(channel_over(&url, None, transport)?))
}

#[tokio::test]
async fn a_run_is_accepted_over_mutual_tls_without_any_token() -> Result<()> {
    let ours = Authority::new()?;
    let deployment = deployment_without_tokens(&ours).await?;
    let mut runs = runs(&deployment, &ours.client_as("alice")?)?;
    let workspace = tempfile::tempdir()?;
    let plan = json!({
        "title": "Write a note",
        "steps": [script::step("write", &[], &[script::write("note.txt", "hello")])],
        "verify": [{"kind": "file_exists", "target": "note.txt"}]
    });
    let request = script::request(&plan, &workspace.path().to_string_lossy());
    let run = runs.create_run(request).await?.into_inner().run.context("a run")?;
    let request = v1::WatchRunRequest {
        run_id: run.id.clone(),
        from_sequence: 1,
        follow: true,
        progress: false,
    };
    let mut events = runs.watch_run(request).await?.into_inner();
    let mut journal = String::new();
    while let Some(response) = events.message().await? {
        journal.push_str(&format!("{response:?}\n"));
    }
    ensure!(journal.contains("planner/alice"), "the journal names the identity: {journal}");
    let request = v1::GetRunRequest { run_id: run.id, view: 0 };
    let run = runs.get_run(request).await?.into_inner().run.context("a run")?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(run.verdict.is_some_and(|verdict| verdict.accepted));
    deployment.finish_at_rest().await?;
    Ok(())
}

#[tokio::test]
async fn a_service_refuses_to_start_with_files_that_cannot_be_used() -> Result<()> {
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    ours.issue("other", "127.0.0.1", VALID)?;
    let missing = ours.path("missing.pem").to_string_lossy().into_owned();
    let other = ours.path("other.key").to_string_lossy().into_owned();
    for service in SERVICES {
        for (variable, path) in
            [("SURETY_TLS_CERT_FILE", &missing), ("SURETY_TLS_KEY_FILE", &other)]
        {
            let mut variables = ours.environment("port")?;
            variables.push((variable, path.clone()));
            let variables = borrowed(&variables);
            let (code, log) = Process::run_to_end(service, "127.0.0.1:0", &variables).await?;
            ensure!(code == Some(1), "{service:?}: {code:?} {log}");
            ensure!(log.contains(path.as_str()) && log.contains(variable), "{service:?}: {log}");
        }
    }
    Ok(())
}

/// The environment of an executor with a token for a gate at `url`.
fn calling(ours: &Authority, url: &str) -> Result<Vec<(&'static str, String)>> {
    let token = ours.write("token", &format!("{} executor service\n", "7".repeat(64)))?;
    Ok(vec![
        // Nothing listens there: the gate's address is verified before the database is called.
        ("DATABASE_URL", "postgres://surety@127.0.0.1:1/surety".to_owned()),
        ("SURETY_TOKEN_FILE", token.to_string_lossy().into_owned()),
        ("SURETY_GATE_URL", url.to_owned()),
    ])
}

#[tokio::test]
async fn an_executor_sends_its_token_without_tls_to_named_hosts_only() -> Result<()> {
    let ours = Authority::new()?;
    let variables = calling(&ours, "http://gate.test:7403")?;
    let (code, log) =
        Process::run_to_end(Service::Executor, "127.0.0.1:0", &borrowed(&variables)).await?;
    ensure!(code == Some(1), "{code:?} {log}");
    for part in ["plaintext_refused", "gate.test", "SURETY_PLAINTEXT_PEERS"] {
        ensure!(log.contains(part), "{part}: {log}");
    }

    let mut variables = calling(&ours, "http://gate.test:7403")?;
    variables.push(("SURETY_PLAINTEXT_PEERS", "other.test, gate.test".to_owned()));
    let process = Process::start_stateless(Service::Executor, &borrowed(&variables)).await?;
    let waits = |line: &str| line.contains("database");
    wait_until("the executor waits for its database", || {
        process.log().iter().any(|line| waits(line))
    })
    .await
}

#[tokio::test]
async fn a_token_is_accepted_over_tls_from_another_authority_of_the_clients() -> Result<()> {
    let (ours, clients) = (Authority::new()?, Authority::new()?);
    ours.issue("port", "127.0.0.1", VALID)?;
    let mut variables = ours.environment("port")?;
    variables.push(("SURETY_TLS_CLIENT_CA_FILE", clients.path("ca.pem").to_string_lossy().into()));
    let database = Database::create().await?;
    let planner = Process::start(Service::Planner, &database, &borrowed(&variables)).await?;
    let token = Token::new(surety_e2e::harness::TOKEN)?;
    let url = format!("https://{}", planner.address());
    let channel = channel_over(&url, Some(&token), &ours.client()?)?;
    RunServiceClient::new(channel).list_runs(v1::ListRunsRequest::default()).await?;
    drop(planner);
    database.drop().await
}
