//! The bound of a mailbox: a message that does not fit is refused and stored nowhere, and no other one is lost.

use super::post::{Postbox, request, to};
use super::threads::code;
use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use sqlx::PgPool;
use std::collections::BTreeSet;
use surety_common::domain::mail::MAX_UNREAD;
use surety_common::wire::status::from_status;
use surety_common::wire::v1::{self, MailState};
use surety_e2e::agent::{AGENT, OTHER, PERSON, token_file};
use surety_e2e::harness::Deployment;

/// Fills the mailbox of a message's receiver with copies of its row, until so many are unread. They are older than any
/// message that is sent.
async fn fill(pool: &PgPool, mail_id: &str, unread: i64) -> Result<()> {
    let copies = "
        insert into mail (run_id, thread_id, kind, sender, receiver, subject, body, sent_at, deadline_at, request_id,
                          request_digest)
        select copy, copy, kind, sender, receiver, 'Filler', body, sent_at, deadline_at, '', request_digest
        from mail, lateral (
            select ('00000000-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid as copy
            from generate_series(1, $2 - (select count(*) from mail as other
                                          where other.receiver = mail.receiver and other.read_at is null)) as number
        ) as copies
        where run_id = $1::uuid";
    sqlx::query(copies).bind(mail_id).bind(unread).execute(pool).await?;
    Ok(())
}

/// How many rows messages have, in each table that one is stored in.
async fn stored(pool: &PgPool) -> Result<(i64, i64, i64)> {
    let counts = "select (select count(*) from mail), (select count(*) from task), (select count(*) from run)";
    Ok(sqlx::query_as(counts).fetch_one(pool).await?)
}

/// The message of an answer that says that a mailbox is full.
fn refused<T: std::fmt::Debug>(answer: Result<T>) -> Result<String> {
    let error = answer.err().context("it was sent")?;
    let fault = from_status(error.downcast_ref::<tonic::Status>().context("no status")?);
    ensure!(fault.reason.as_str() == "mailbox_full", "{fault:?}");
    Ok(fault.message)
}

#[tokio::test]
async fn a_full_mailbox_refuses_what_does_not_fit_and_loses_nothing() -> Result<()> {
    let tokens = token_file()?;
    let tokens = tokens.path().to_string_lossy().into_owned();
    let deployment = Deployment::start_with(&[("SURETY_TOKEN_FILE", &tokens)]).await?;
    let url = deployment.planner.url();
    let (agent, other) = (Postbox::of(&url, AGENT)?, Postbox::of(&url, OTHER)?);
    let pool = deployment.database.pool().await?;
    let asked = other.send(request(AGENT, "Which port?", 3600)).await?;
    let named = v1::SendMailRequest { request_id: "first".to_owned(), ..to(OTHER, "First") };
    let first = agent.send(named.clone()).await?;
    fill(&pool, &first.id, MAX_UNREAD - 1).await?;
    let last = agent.send(to(OTHER, "The last one that fits")).await?;

    let before = stored(&pool).await?;
    let message = refused(agent.send(to(OTHER, "Too many")).await)?;
    ensure!(message.contains(OTHER) && message.contains(&MAX_UNREAD.to_string()), "{message}");
    let person = Postbox::of(&url, PERSON)?;
    let forged = v1::SendMailRequest { from: AGENT.to_owned(), ..to(OTHER, "Too many") };
    refused(person.send(forged).await)?;
    refused(agent.reply(&asked.id, "7401").await)?;
    assert_eq!(stored(&pool).await?, before, "a refused message is stored in part");
    // A repetition answers with the message that is there. The request stays open for its answer.
    assert_eq!(agent.send(named).await?.id, first.id);
    assert_eq!(agent.inbox().await?.first().map(v1::Mail::state), Some(MailState::Open));
    // Other mailboxes take messages, and the service's own notice arrives all the same.
    other.send(to(AGENT, "Yours has room")).await?;
    let late = other.send(request("away", "Quick?", 1)).await?;
    other.sent_as(&late.id, MailState::Failed).await?;
    let unread = v1::ListMailRequest { unread: true, page_size: 1000, ..Default::default() };
    let newest = other.list(unread.clone()).await?;
    let notice = newest.first().context("no message")?;
    assert_eq!((notice.from.as_str(), &notice.thread_id), ("system", &late.thread_id));
    refused(agent.send(to(OTHER, "Still too many")).await)?;

    // What was sent is read whole, and makes room.
    for (mail, from) in [(&first, AGENT), (&last, AGENT), (notice, "system")] {
        let read = other.read(&mail.id).await?.mail.context("a message")?;
        assert_eq!((read.state(), read.from.as_str()), (MailState::Accepted, from), "{read:#?}");
        ensure!(!read.body.is_empty(), "{read:#?}");
    }
    let replied = agent.reply(&asked.id, "7401").await?;
    let (answer, answered) = (replied.mail.context("a")?, replied.answered.context("b")?);
    assert_eq!(answered.state(), MailState::Accepted);
    let fits = agent.send(to(OTHER, "It fits again")).await?;
    let sent: BTreeSet<String> =
        other.list(unread).await?.into_iter().map(|mail| mail.id).collect();
    ensure!(sent.contains(&answer.id) && sent.contains(&fits.id), "a message is lost");

    many_at_once(&agent, &other).await?;
    pool.close().await;
    deployment.finish().await
}

/// Senders that meet at the bound: each is told whether its message was sent, and that is so.
async fn many_at_once(agent: &Postbox, other: &Postbox) -> Result<()> {
    let newest = || v1::ListMailRequest { page_size: 50, ..Default::default() };
    let read = other.list(newest()).await?;
    let read = read.iter().find(|mail| mail.subject == "It fits again").context("a message")?;
    other.read(&read.id).await?;
    let sending = (0..8).map(|number| agent.send(to(OTHER, &format!("Number {number}"))));
    let mut told = BTreeSet::new();
    for answer in join_all(sending).await {
        match answer {
            Ok(mail) => {
                told.insert(mail.id);
            }
            Err(error) => assert_eq!(code::<()>(Err(error))?, "mailbox_full"),
        }
    }
    let found = other.list(newest()).await?;
    let found = found.into_iter().filter(|mail| mail.subject.starts_with("Number "));
    let found: BTreeSet<String> = found.map(|mail| mail.id).collect();
    ensure!(!told.is_empty(), "the free place was not used");
    assert_eq!(found, told);
    Ok(())
}
