//! Access: ports in use, addresses that are open to other machines, tokens between services.

use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::accept_gate_service_client::AcceptGateServiceClient;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_e2e::harness::{Database, Deployment, Process, Service, wait_for_yes};
use surety_e2e::script::{noop, plan, step};
use tonic::{Code, Status};

const SERVICES: [Service; 3] = [Service::Planner, Service::Executor, Service::Gate];
/// No process connects: these processes end before they would.
const NOWHERE: (&str, &str) = ("DATABASE_URL", "postgres://unused@127.0.0.1:1/none");
const SECRET: &str = "a-token-that-is-long-enough-to-be-one-0123456789";

#[tokio::test]
async fn a_port_in_use_ends_the_service_with_its_number_and_what_to_do() -> Result<()> {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?;
    for service in SERVICES {
        let (code, log) = Process::run_to_end(service, &address.to_string(), &[NOWHERE]).await?;
        assert_eq!(code, Some(1), "{service:?}: {log}");
        let said = format!("port {} is in use", address.port());
        assert!(log.contains(&said) && log.contains("choose another"), "{service:?}: {log}");
    }
    Ok(())
}

#[tokio::test]
async fn an_address_that_others_reach_is_refused_without_a_token() -> Result<()> {
    for service in SERVICES {
        let (code, log) = Process::run_to_end(service, "0.0.0.0:0", &[NOWHERE]).await?;
        assert_eq!(code, Some(1), "{service:?}: {log}");
        assert!(log.contains("callers are not authenticated"), "{service:?}: {log}");
    }
    Ok(())
}

fn token_file(folder: &std::path::Path, name: &str, token: &str) -> Result<String> {
    let path = folder.join(name);
    std::fs::write(&path, format!("{token}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(path.to_string_lossy().into_owned())
}

/// What each service answers to a caller with this token.
async fn answers(deployment: &Deployment, token: Option<&Token>) -> Result<Vec<Status>> {
    let executor = deployment.executors.first().context("an executor")?;
    let mut runs = RunServiceClient::new(channel(&deployment.planner.url(), token)?);
    let mut gate = AcceptGateServiceClient::new(channel(&deployment.gate.url(), token)?);
    let mut work = ExecutorServiceClient::new(channel(&executor.url(), token)?);
    let refused = [
        runs.list_runs(v1::ListRunsRequest::default()).await.err(),
        gate.evaluate(v1::EvaluateRequest::default()).await.err(),
        work.parse_decision(v1::ParseDecisionRequest::default()).await.err(),
    ];
    Ok(refused.into_iter().flatten().collect())
}

#[tokio::test]
async fn with_a_token_every_service_asks_every_caller_and_the_services_know_each_other()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = token_file(folder.path(), "token", SECRET)?;
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &file)]).await?;
    let wrong = Token::new("another-token-that-is-long-enough-0123456789abc")?;
    for token in [None, Some(&wrong)] {
        let refused = answers(&deployment, token).await?;
        assert_eq!(refused.len(), 3, "{refused:#?}");
        for status in refused {
            assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
            assert_eq!(from_status(&status).reason.as_str(), "unauthenticated");
            assert!(!format!("{status:?}").contains(SECRET), "the token leaks: {status:?}");
        }
    }
    let token = Token::new(SECRET)?;
    let unauthenticated = |status: &Status| status.code() == Code::Unauthenticated;
    assert!(!answers(&deployment, Some(&token)).await?.iter().any(unauthenticated));
    deployment.use_token(token);
    // The executor needs access to the gate for this.
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let processes = deployment.executors.iter().chain([&deployment.planner, &deployment.gate]);
    for process in processes {
        assert!(!process.log().concat().contains(SECRET), "a log holds the token");
    }
    deployment.finish().await
}

#[tokio::test]
async fn an_executor_whose_token_was_revoked_waits_and_one_with_another_finishes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let right = token_file(folder.path(), "right", SECRET)?;
    let revoked =
        token_file(folder.path(), "revoked", "another-token-that-is-long-enough-0123456789abc")?;
    let database = Database::create().await?;
    let mut deployment = Deployment::start_idle(database, &[("SURETY_TOKEN_FILE", &right)]).await?;
    deployment.use_token(Token::new(SECRET)?);
    let brief = ("SURETY_DRAIN_TIMEOUT_MS", "500");
    deployment.add_executor(&[("SURETY_TOKEN_FILE", &revoked), brief]).await?;
    // A planner that answers has made the schema, and the executor's start stores its token.
    deployment.runs()?.list_runs(v1::ListRunsRequest::default()).await?;
    let pool = deployment.database.pool().await?;
    wait_for_yes(&pool, "select count(*) = 2 from token").await?;
    let known = Token::new(SECRET)?.hash();
    let revoking = "update token set revoked_at = now() where hash <> $1";
    sqlx::query(revoking).bind(known.as_slice()).execute(&pool).await?;
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let waiting = |line: &str| line.contains("waiting for the gate") && line.contains("token");
    deployment.first_executor()?.wait_for_line(waiting).await?;
    let verifying = deployment.run(&run.id).await?;
    assert_eq!(verifying.state(), v1::RunState::Verifying, "{verifying:#?}");
    deployment.first_executor()?.stop().await?;
    deployment.add_executor(&[]).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn an_executor_without_a_token_for_the_gate_does_not_start() -> Result<()> {
    let (code, log) = Process::run_to_end(Service::Executor, "127.0.0.1:0", &[NOWHERE]).await?;
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("role service") && log.contains("SURETY_TOKEN_FILE"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_request_id_belongs_to_the_identity_that_chose_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let secrets = ["alice-s-token-that-is-long-enough-0123456789ab", SECRET];
    let file = format!(
        "{} alice viewer,submitter,operator *\n{} surety service,viewer,operator *",
        secrets[0], secrets[1]
    );
    let file = token_file(folder.path(), "tokens", &file)?;
    let database = Database::create().await?;
    let mut deployment = Deployment::start_idle(database, &[("SURETY_TOKEN_FILE", &file)]).await?;
    let mut paused = Vec::new();
    let mut run_id = String::new();
    for secret in secrets {
        deployment.use_token(Token::new(secret)?);
        if run_id.is_empty() {
            run_id = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?.id;
        }
        let mut runs = deployment.runs()?;
        let request_id = "the-same".to_owned();
        let pause =
            v1::PauseRunRequest { run_id: run_id.clone(), request_id, ..Default::default() };
        let run = runs.pause_run(pause).await?.into_inner().run.context("a run")?;
        assert_eq!(run.state(), v1::RunState::Blocked, "{run:#?}");
        paused.push(run.version);
        let resume = v1::ResumeRunRequest { run_id: run_id.clone(), ..Default::default() };
        runs.resume_run(resume).await?;
    }
    assert!(paused[0] < paused[1], "the second identity got the answer of the first: {paused:?}");
    deployment.finish().await
}
