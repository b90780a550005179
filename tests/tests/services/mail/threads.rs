//! An inform is accepted when it is read, a request when it is answered in its thread by its deadline.

use super::post::{Postbox, request, to};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1::{self, MailState};
use surety_e2e::agent::{AGENT, Agent, FOREIGN, OTHER, PERSON, secret, token_file};
use surety_e2e::harness::{Deployment, PATIENCE};
use tokio::time::timeout;

pub(super) fn code<T: std::fmt::Debug>(answer: Result<T>) -> Result<String> {
    let error = answer.err().context("it was answered")?;
    let status = error.downcast_ref::<tonic::Status>().context("no status")?;
    Ok(from_status(status).reason.as_str().to_owned())
}

#[tokio::test]
async fn messages_are_accepted_when_read_or_answered_and_fail_at_their_deadline() -> Result<()> {
    let tokens = token_file()?;
    let tokens = tokens.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &tokens)]).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    let url = deployment.planner.url();
    let (agent, other) = (Postbox::of(&url, AGENT)?, Postbox::of(&url, OTHER)?);
    let person = Postbox::of(&url, PERSON)?;

    let inform = agent.send(to(OTHER, "The build moved")).await?;
    assert_eq!((inform.state(), inform.from.as_str()), (MailState::Open, AGENT));
    let unread = v1::ListMailRequest { unread: true, ..Default::default() };
    let listed = other.list(unread.clone()).await?;
    assert_eq!(listed.iter().map(|mail| mail.id.as_str()).collect::<Vec<_>>(), [&inform.id]);
    assert!(listed.iter().all(|mail| mail.body.is_empty()), "{listed:#?}");
    // An operator reads it and it stays unread; an agent of another namespace finds nothing.
    assert_eq!(person.read(&inform.id).await?.mail.context("mail")?.state(), MailState::Open);
    assert_eq!(code(Postbox::of(&url, FOREIGN)?.read(&inform.id).await)?, "namespace_not_found");
    let read = other.read(&inform.id).await?.mail.context("a message")?;
    assert_eq!((read.state(), read.body.as_str()), (MailState::Accepted, "Line one.\nLine two."));
    assert!(other.list(unread).await?.is_empty());

    let asked = agent.send(request(OTHER, "Which port?", 3600)).await?;
    // It is handed to its receiver as work, with what to do.
    let driver = Agent::new(deployment.executors.first().context("an executor")?, OTHER, "w")?;
    let work = driver.work(&asked.id).await?;
    let handed = format!("{:?}", work.context);
    ensure!(handed.contains("surety mail reply") && !handed.contains("Line two."), "{handed}");
    assert_eq!(other.read(&asked.id).await?.mail.context("mail")?.state(), MailState::Open);
    let replied = other.reply(&asked.id, "7401").await?;
    let (answer, answered) = (replied.mail.context("a")?, replied.answered.context("b")?);
    assert_eq!(answered.state(), MailState::Accepted);
    assert_eq!((&answer.thread_id, &answer.in_reply_to), (&asked.thread_id, &asked.id));
    assert_eq!((answer.subject.as_str(), answer.to.as_str()), ("Re: Which port?", AGENT));
    assert_eq!(code(other.reply(&asked.id, "again").await)?, "wait_closed");
    assert_eq!(code(agent.reply(&asked.id, "to itself").await)?, "task_not_found");
    let thread = agent.read(&answer.id).await?;
    assert_eq!(thread.mail.context("mail")?.state(), MailState::Accepted);
    assert_eq!(thread.thread.len(), 2, "{:#?}", thread.thread);

    let first = v1::SendMailRequest { request_id: "r1".to_owned(), ..to(OTHER, "Once") };
    let sent = agent.send(first.clone()).await?;
    assert_eq!(agent.send(first.clone()).await?.id, sent.id);
    let changed = v1::SendMailRequest { subject: "Twice".to_owned(), ..first };
    assert_eq!(code(agent.send(changed).await)?, "request_id_conflict");
    assert_eq!(code(agent.send(to("", "x")).await)?, "field_missing");
    let forged = v1::SendMailRequest { from: PERSON.to_owned(), ..to(OTHER, "x") };
    assert_eq!(code(agent.send(forged).await)?, "permission_denied");
    fails_at_its_deadline(&agent, &other).await?;
    waits_for_its_answer_whatever_ends_its_run(&deployment, &agent, &other).await?;
    deployment.finish().await
}

async fn fails_at_its_deadline(agent: &Postbox, other: &Postbox) -> Result<()> {
    let late = agent.send(request(OTHER, "Quick?", 1)).await?;
    let failed = agent.sent_as(&late.id, MailState::Failed).await?;
    assert_eq!(failed.failure, "unanswered");
    assert_eq!(code(other.reply(&late.id, "too late").await)?, "wait_closed");
    let told = agent.inbox().await?.into_iter().find(|mail| mail.thread_id == late.thread_id);
    let told = agent.read(&told.context("the sender was not told")?.id).await?;
    let told = told.mail.context("a message")?;
    assert_eq!((told.from.as_str(), &told.in_reply_to), ("system", &late.id));
    ensure!(told.body.contains("unanswered"), "{}", told.body);
    Ok(())
}

async fn waits_for_its_answer_whatever_ends_its_run(
    deployment: &Deployment,
    agent: &Postbox,
    other: &Postbox,
) -> Result<()> {
    // A driver that says that it is done has not answered.
    let asked = agent.send(request(OTHER, "Which host?", 3600)).await?;
    let driver = Agent::new(deployment.executors.first().context("an executor")?, OTHER, "w")?;
    let work = driver.work(&asked.id).await?;
    driver.submit(&work, r#"{"action":"done","goal_check":"I know it."}"#).await?;
    deployment.wait_for_end(&asked.id).await?;
    let open = agent.sent_as(&asked.id, MailState::Open).await?;
    assert_eq!(open.failure, "");
    let answered = other.reply(&asked.id, "db-2").await?.answered.context("a message")?;
    assert_eq!(answered.state(), MailState::Accepted);
    let accepted = v1::ListMailRequest {
        sent: true,
        states: vec![MailState::Accepted.into()],
        ..Default::default()
    };
    ensure!(agent.list(accepted).await?.iter().any(|mail| mail.id == asked.id));

    // An operator cancels it: its sender is told at once.
    let asked = agent.send(request(OTHER, "Which user?", 3600)).await?;
    let cancel = v1::CancelRunRequest { run_id: asked.id.clone(), ..Default::default() };
    deployment.runs()?.cancel_run(cancel).await?;
    let failed = agent.sent_as(&asked.id, MailState::Failed).await?;
    let told = async {
        loop {
            let inbox = agent.inbox().await?;
            let of_thread = inbox.into_iter().find(|mail| mail.thread_id == failed.thread_id);
            if let Some(told) = of_thread {
                return agent.read(&told.id).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = timeout(PATIENCE, told).await.context("the sender was not told")??;
    let told = told.mail.context("a message")?;
    ensure!(told.body.contains("cancelled"), "{}", told.body);
    let failed = agent.sent_as(&asked.id, MailState::Failed).await?;
    assert_eq!(failed.failure, "cancelled");
    assert_eq!(code(other.reply(&asked.id, "too late").await)?, "wait_closed");
    Ok(())
}
