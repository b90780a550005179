//! Mail and the toolchain on two databases: while one is stopped, the other works.

use super::post::{Postbox, to};
use super::threads::code;
use crate::toolchain_intake::sender::assigned;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::token::Token;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_common::wire::v1::{self, MailState};
use surety_e2e::agent::{AGENT, OTHER, PERSON, secret, token_file};
use surety_e2e::harness::{Cluster, Database, Deployment, PATIENCE, Process, Service};
use surety_e2e::toolchain::delivery::{OLD, SECRETS, Sent, exchange, new_id};

/// A file that names the databases of both namespaces.
fn databases(mail: &str, toolchain: &str) -> Result<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    std::fs::write(file.path(), format!("_mail {mail}\n_toolchain {toolchain}\n"))?;
    Ok(file)
}

#[tokio::test]
async fn mail_works_without_the_toolchains_database_and_the_toolchain_without_mails() -> Result<()>
{
    let (mut mail, mut toolchain) = (Cluster::start().await?, Cluster::start().await?);
    let tokens = token_file()?;
    let tokens = tokens.path().to_string_lossy().into_owned();
    let of_tokens =
        [("SURETY_TOKEN_FILE", tokens.as_str()), ("SURETY_DATABASE_ACQUIRE_TIMEOUT_MS", "1000")];
    // The planner of this deployment is not called: the database needs its executor and its gate.
    let mail_side = Database::at(&mail.url()?)?;
    let mut mail_side = Deployment::start_idle(mail_side, &of_tokens).await?;
    mail_side.add_executor(&[]).await?;
    let file = databases(&mail.url()?, &toolchain.url()?)?;
    let file = file.path().to_string_lossy().into_owned();
    let home = Database::create().await?;
    let environment =
        [&SECRETS[..], &of_tokens, &[("SURETY_NAMESPACE_DATABASES_FILE", file.as_str())]].concat();
    let planner = Process::start(Service::Planner, &home, &environment).await?;
    let url = planner.url();
    let person = Token::new(&secret(PERSON))?;
    let hooks = ToolchainServiceClient::new(channel(&url, Some(&person))?);
    let hook = v1::Hook {
        name: "main".to_owned(),
        forge: v1::Forge::Gitea.into(),
        secrets: vec!["old".to_owned()],
        ..Default::default()
    };
    patiently(async || {
        Ok(hooks.clone().put_hook(v1::PutHookRequest { hook: Some(hook.clone()) }).await?)
    })
    .await?;
    let (agent, other) = (Postbox::of(&url, AGENT)?, Postbox::of(&url, OTHER)?);
    // Its registry is in the other database.
    let receiver = v1::Agent {
        id: OTHER.to_owned(),
        language: "zh".to_owned(),
        roles: vec!["coordinator".to_owned()],
        ..v1::Agent::default()
    };
    hooks.clone().put_agent(v1::PutAgentRequest { agent: Some(receiver) }).await?;
    let sent = patiently(async || agent.send(to(OTHER, "before")).await).await?;
    let handed = hooks.clone().get_task(of_run(&sent.id)).await?.into_inner().instructions;
    ensure!(handed.starts_with("你收到了 agent"), "the receiver reads Chinese: {handed}");

    toolchain.stop().await?;
    mail_is_found(&hooks, &sent.id).await?;
    let read = patiently(async || other.read(&sent.id).await).await?;
    assert_eq!(read.mail.context("a message")?.state(), MailState::Accepted);
    let delivery = Sent::gitea(&new_id(), "issues", &assigned(1), OLD);
    let refused = exchange(planner.address(), &delivery.to_bytes()).await?;
    assert_eq!(refused.code(), (503, "database_unavailable"));
    toolchain.again().await?;

    mail.stop().await?;
    let stored = patiently(async || {
        let answer = exchange(planner.address(), &delivery.to_bytes()).await?;
        ensure!(answer.status == 202, "{answer:?}");
        Ok(answer)
    })
    .await?;
    ensure!(stored.body["state"] == "stored", "{stored:?}");
    patiently(async || {
        let found = hooks.clone().list_deliveries(v1::ListDeliveriesRequest::default()).await?;
        let found = found.into_inner().deliveries;
        let processed = found.iter().all(|one| one.state() == v1::DeliveryState::Processed);
        ensure!(processed && found.len() == 1, "{found:#?}");
        Ok(())
    })
    .await?;
    ensure!(agent.send(to(OTHER, "while it is away")).await.is_err(), "mail was sent to nowhere");
    only_the_toolchain_is_found(&hooks, &sent.id).await?;
    mail.again().await?;
    patiently(async || agent.send(to(OTHER, "after")).await).await?;
    drop(planner);
    drop(mail_side);
    home.drop().await
}

type Calls = ToolchainServiceClient<ServiceChannel>;

fn of_run(run_id: &str) -> v1::GetTaskRequest {
    v1::GetTaskRequest { run_id: run_id.to_owned() }
}

/// The database of the toolchain is away.
async fn mail_is_found(calls: &Calls, mail_id: &str) -> Result<()> {
    let found = patiently(async || Ok(calls.clone().get_task(of_run(mail_id)).await?)).await?;
    assert_eq!(found.into_inner().task.context("a task")?.task_type, "mail");
    let entries = v1::ListTaskEntriesRequest { run_id: mail_id.to_owned(), ..Default::default() };
    calls.clone().list_task_entries(entries).await?;
    Ok(())
}

/// The database of mail is away.
async fn only_the_toolchain_is_found(calls: &Calls, mail_id: &str) -> Result<()> {
    let toolchain =
        v1::ListTasksRequest { task_type: "toolchain".to_owned(), ..Default::default() };
    let tasks = calls.clone().list_tasks(toolchain).await?.into_inner().tasks;
    let [task] = tasks.as_slice() else { anyhow::bail!("{tasks:#?}") };
    let found = calls.clone().get_task(of_run(&task.run_id)).await?.into_inner();
    assert_eq!(found.task.context("a task")?.task_type, "toolchain");
    // A run that no database in reach has may be in the one that is away.
    let unknown = calls.clone().get_task(of_run(mail_id)).await.map_err(Into::into);
    assert_eq!(code(unknown)?, "database_unavailable");
    Ok(())
}

/// Tries until it succeeds: a database that was just started takes connections a little later.
async fn patiently<T>(attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
    let trying = async {
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) => eprintln!("not yet: {error:#}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, trying).await.context("not in time")
}
