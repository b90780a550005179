//! A planner that dies around a message: it is sent once, and its sender is told once.

use super::post::{Postbox, request, to};
use anyhow::{Context, Result, ensure};
use surety_common::wire::token::Token;
use surety_common::wire::v1::{self, MailState};
use surety_e2e::agent::{AGENT, OTHER, PERSON, secret, token_file};
use surety_e2e::harness::Deployment;

const POINTS: [&str; 2] = ["planner.before_mail", "planner.after_mail"];

#[tokio::test]
async fn a_planner_that_dies_sends_a_message_once_and_tells_its_sender_once() -> Result<()> {
    let tokens = token_file()?;
    let tokens = tokens.path().to_string_lossy().into_owned();
    let mut deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &tokens)]).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    let url = deployment.planner.url();
    let (agent, other) = (Postbox::of(&url, AGENT)?, Postbox::of(&url, OTHER)?);
    for point in POINTS {
        deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
        let message = v1::SendMailRequest { request_id: point.to_owned(), ..to(OTHER, point) };
        ensure!(agent.send(message.clone()).await.is_err(), "{point}: it was answered");
        deployment.planner.wait_for_exit().await.context(point)?;
        deployment.replace_planner().await?;
        let sent = agent.send(message).await?;
        let found = other.inbox().await?;
        let own = found.iter().filter(|mail| mail.subject == point);
        assert_eq!(own.map(|mail| &mail.id).collect::<Vec<_>>(), [&sent.id], "{point}");
        other.read(&sent.id).await?;
        agent.sent_as(&sent.id, MailState::Accepted).await.context(point)?;
    }
    let late = agent.send(request(OTHER, "Quick?", 1)).await?;
    deployment.replace_planner_with(&[("SURETY_CRASH_POINT", "planner.after_dead_letter")]).await?;
    deployment.planner.wait_for_exit().await?;
    deployment.replace_planner().await?;
    agent.sent_as(&late.id, MailState::Failed).await?;
    deployment.wait_for_end(&late.id).await?;
    let told = agent.inbox().await?;
    let told = told.iter().filter(|mail| mail.thread_id == late.thread_id).count();
    ensure!(told == 1, "the sender was told {told} times");
    deployment.finish().await
}
