//! Mail: a message is a task of the type `mail`, whose report is that it was read, or its answer.
//!
//! ```text
//!   send --> mail + task (one transaction) --> run --> its only step waits for the receiver
//!                                                        |-- inform: read ----> report --> the gate accepts
//!                                                        |-- request: answer -> report --> the gate accepts
//!                                                        +-- deadline, cancelled -> dead letter, run ended, sender told
//! ```
//!
//! A run that ends otherwise, because its driver said `done` without an answer, decides nothing: the message waits for its
//! reader, or its answer, until its deadline.
//!
//! ```text
//!   mail row: read_at, answered_at, failure --> its state
//! ```

mod upkeep;

pub(crate) use upkeep::run;

use crate::planner::Planner;
use crate::task::{self, Mail, TaskType};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value};
use std::time::Duration;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::json::sha256_hex;
use surety_common::domain::mail::{MAX_UNREAD, MailKind, Message, check_text};
use surety_common::domain::toolchain::{EntryKind, Language, Subject, TaskPayload};
use surety_common::store::{self, NewEntry, NewMail, NewTask, SentMail, StoredMail};
use tokio::time::timeout;
use uuid::Uuid;

/// How long the run of a message is followed before its call is answered.
const FOLLOWED: Duration = Duration::from_secs(5);

/// The sender's idempotency key, and the digest of its request.
pub(crate) type RequestKey = (String, String);

/// Sends a message that was checked.
///
/// # Errors
/// `mailbox_full`, `request_id_conflict`, `database_unavailable`.
pub(crate) async fn send(
    planner: &Planner,
    message: Message,
    thread_id: Option<Uuid>,
    key: RequestKey,
) -> Result<StoredMail, Fault> {
    let new = new_mail(message, (thread_id, None), key, planner.now());
    let sent = store::send_mail(&planner.pool, &new, MAX_UNREAD).await?;
    stored(planner, &new, sent).await
}

/// Notes that the receiver read a message, and follows its run to the verdict where that accepts it.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn read(planner: &Planner, mail: StoredMail) -> Result<StoredMail, Fault> {
    if mail.read_at.is_some() {
        return Ok(mail);
    }
    // A report counts once the run has begun.
    task::ensure_started(planner, mail.id).await?;
    let report = report(&mail, "The message was read.".to_owned(), planner.now());
    if store::read_mail(&planner.pool, &planner.keys.signing, &report).await? {
        follow(planner, mail.id).await?;
    }
    find(planner, mail.id).await
}

/// Answers a message in its thread. Returns the answer and what it answers.
///
/// # Errors
/// `too_large`, `wait_closed`, `mailbox_full`, `request_id_conflict`, `database_unavailable`.
pub(crate) async fn reply(
    planner: &Planner,
    asked: StoredMail,
    body: String,
    key: RequestKey,
) -> Result<(StoredMail, StoredMail), Fault> {
    check_text(&body)?;
    task::ensure_started(planner, asked.id).await?;
    let report = report(&asked, "The message was answered.".to_owned(), planner.now());
    let message = Message::answer(&asked.subject, &asked.to, &asked.from, body);
    let place = (Some(asked.thread_id), Some(asked.id));
    let new = new_mail(message, place, key, planner.now());
    let sent =
        store::reply_mail(&planner.pool, &planner.keys.signing, &new, &report, MAX_UNREAD).await?;
    let mail = stored(planner, &new, sent).await?;
    follow(planner, asked.id).await?;
    Ok((mail, find(planner, asked.id).await?))
}

/// Follows a reported message to the verdict of its run, for a moment: without an executor it stays open.
async fn follow(planner: &Planner, id: Uuid) -> Result<(), Fault> {
    match timeout(FOLLOWED, task::report::follow(planner, id)).await {
        Ok(followed) => followed.map(drop),
        Err(_) => Ok(()),
    }
}

/// The message that a call stored, or had stored before, once its run is made.
async fn stored(planner: &Planner, new: &NewMail, sent: SentMail) -> Result<StoredMail, Fault> {
    match sent {
        SentMail::New => {
            // Its words are in the language that the receiver had when it was stored.
            task::ensure_started(planner, new.task.run_id).await?;
            find(planner, new.task.run_id).await
        }
        SentMail::Repeated { id, digest } if digest == new.request_digest => {
            find(planner, id).await
        }
        SentMail::Repeated { .. } => {
            let message = "the request_id was used for another message; use a new one";
            Err(Fault::new(FaultCode::RequestIdConflict, message).with_field("request_id"))
        }
        SentMail::Full => {
            let message = format!(
                "{} has {MAX_UNREAD} unread messages; send again when it has read some",
                new.message.to
            );
            Err(Fault::new(FaultCode::MailboxFull, message))
        }
        SentMail::Closed => {
            let message = "the message has an answer already, or failed without one";
            Err(Fault::new(FaultCode::WaitClosed, message))
        }
    }
}

async fn find(planner: &Planner, id: Uuid) -> Result<StoredMail, Fault> {
    let found = store::find_mail(&planner.pool, id).await?;
    found.ok_or_else(|| Fault::new(FaultCode::TaskNotFound, format!("no message has the id {id}")))
}

/// The report of the task of a message, by its receiver.
fn report(mail: &StoredMail, body: String, at: DateTime<Utc>) -> NewEntry {
    NewEntry {
        run_id: mail.id,
        kind: EntryKind::ActionReport,
        author: mail.to.clone(),
        body,
        links: Vec::new(),
        attachment: String::new(),
        at,
    }
}

/// The rows of a message.
fn new_mail(
    message: Message,
    (thread_id, in_reply_to): (Option<Uuid>, Option<Uuid>),
    (request_id, request_digest): RequestKey,
    now: DateTime<Utc>,
) -> NewMail {
    let run_id = Uuid::now_v7();
    let within = i64::try_from(message.within_s).unwrap_or(i64::MAX);
    let deadline_at = now + TimeDelta::try_seconds(within).unwrap_or(TimeDelta::days(14));
    let task = |language: Language| {
        let payload = payload(&message, (run_id, deadline_at), language);
        NewTask {
            run_id,
            task_type: Mail.name().to_owned(),
            namespace: Mail.namespace().to_owned(),
            event_key: sha256_hex(run_id.as_bytes()),
            origin_key: String::new(),
            instructions: Mail.text(&payload, language),
            payload,
            forge: String::new(),
            subject: Subject {
                server: String::new(),
                repo: String::new(),
                number: None,
                is_pull_request: false,
            },
            happened_at: now,
            addressee: format!("agent {}", message.to),
            assignee: message.to.clone(),
            is_notice: false,
            chain_id: run_id,
            caused_by: None,
            depth: 1,
            business_failures: 0,
            created_at: now,
            remind_after_s: 0,
        }
    };
    let (task, in_chinese) = (task(Language::En), task(Language::Zh));
    let thread_id = thread_id.unwrap_or(run_id);
    NewMail {
        message,
        task,
        in_chinese,
        thread_id,
        in_reply_to,
        deadline_at,
        request_id,
        request_digest,
    }
}

fn payload(
    message: &Message,
    (run_id, deadline_at): (Uuid, DateTime<Utc>),
    language: Language,
) -> TaskPayload {
    let until = deadline_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let (read, answer) = match language {
        Language::En => (
            format!("Read the message: surety mail read {run_id}."),
            format!("Answer it by {until}: surety mail reply {run_id} TEXT."),
        ),
        Language::Zh => (
            format!("阅读消息：surety mail read {run_id}。"),
            format!("在 {until} 之前回复：surety mail reply {run_id} TEXT。"),
        ),
    };
    let steps = match message.kind {
        MailKind::Inform => vec![read],
        MailKind::Request => vec![read, answer],
    };
    let context = Map::from_iter([("subject".to_owned(), Value::from(message.subject.as_str()))]);
    TaskPayload {
        event_type: "mail".to_owned(),
        action_type: message.kind.as_str().to_owned(),
        steps,
        from: message.from.clone(),
        context,
        source: "mail".to_owned(),
    }
}
