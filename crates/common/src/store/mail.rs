//! Mail between agents: rows beside tasks of the type `mail`.
//!
//! ```text
//!   send   --one transaction--> mail row + task row            --then--> the run is made
//!   read   --one transaction--> read_at (+ report of an inform)  --then--> the gate accepts
//!   reply  --one transaction--> mail row + task row of the answer + answered_at + report of the request
//! ```

use super::StoreError;
use super::pool::within;
use super::signing::Signing;
use super::task::{NewEntry, NewTask, insert_entry, insert_task};
use crate::crash;
use crate::domain::mail::{MailKind, MailState, Message};
use crate::domain::toolchain::Language;
use chrono::{DateTime, Utc};
use sqlx::{PgPool, PgTransaction};
use uuid::Uuid;

/// The messages of a thread that are shown with one of it.
const THREAD: i64 = 100;

/// A message to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMail {
    /// What it says.
    pub message: Message,
    /// The task that carries it, which has its id, in English.
    pub task: NewTask,
    /// The same task in Chinese.
    pub in_chinese: NewTask,
    /// The first message of its thread; its own id for a new thread.
    pub thread_id: Uuid,
    /// The message that it answers.
    pub in_reply_to: Option<Uuid>,
    /// Until when it has to be read, or answered.
    pub deadline_at: DateTime<Utc>,
    /// The sender's idempotency key; empty for none.
    pub request_id: String,
    /// Digest of the sender's request.
    pub request_digest: String,
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMail {
    /// Its id, and that of its run.
    pub id: Uuid,
    /// The first message of its thread.
    pub thread_id: Uuid,
    /// The message that it answers.
    pub in_reply_to: Option<Uuid>,
    /// Whether an answer is asked for.
    pub kind: MailKind,
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// One line.
    pub subject: String,
    /// The text; empty in lists.
    pub body: String,
    /// When it was sent.
    pub sent_at: DateTime<Utc>,
    /// Until when it has to be read, or answered.
    pub deadline_at: DateTime<Utc>,
    /// When it was read.
    pub read_at: Option<DateTime<Utc>>,
    /// When it was answered.
    pub answered_at: Option<DateTime<Utc>>,
    /// Why it failed; empty where it did not.
    pub failure: String,
    /// What became of it.
    pub state: MailState,
}

#[derive(sqlx::FromRow)]
struct MailRow {
    run_id: Uuid,
    thread_id: Uuid,
    in_reply_to: Option<Uuid>,
    kind: String,
    sender: String,
    receiver: String,
    subject: String,
    body: String,
    sent_at: DateTime<Utc>,
    deadline_at: DateTime<Utc>,
    read_at: Option<DateTime<Utc>>,
    answered_at: Option<DateTime<Utc>>,
    failure: String,
    run_state: String,
}

impl MailRow {
    fn into_mail(self) -> Result<StoredMail, StoreError> {
        let kind = MailKind::from_text(&self.kind)
            .ok_or_else(|| StoreError::corrupt(format!("mail {}", self.run_id), &self.kind))?;
        let is_done = match kind {
            MailKind::Inform => self.read_at.is_some(),
            MailKind::Request => self.answered_at.is_some(),
        };
        // A driver that ends the run without reading or answering decides nothing: the message waits until its deadline.
        let state = match self.run_state.as_str() {
            _ if !self.failure.is_empty() => MailState::Failed,
            "DONE" => MailState::Accepted,
            "FAILED" | "CANCELLED" if is_done => MailState::Accepted,
            "CANCELLED" => MailState::Failed,
            _ => MailState::Open,
        };
        Ok(StoredMail {
            id: self.run_id,
            thread_id: self.thread_id,
            in_reply_to: self.in_reply_to,
            kind,
            from: self.sender,
            to: self.receiver,
            subject: self.subject,
            body: self.body,
            sent_at: self.sent_at,
            deadline_at: self.deadline_at,
            read_at: self.read_at,
            answered_at: self.answered_at,
            failure: self.failure,
            state,
        })
    }
}

/// What came of sending a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentMail {
    /// It is stored.
    New,
    /// The sender's key stored this message before.
    Repeated {
        /// That message.
        id: Uuid,
        /// The digest of the request that stored it.
        digest: String,
    },
    /// The receiver has too many unread messages.
    Full,
    /// The message that it answers has an answer, or has failed without one.
    Closed,
}

/// Stores a message and its task.
///
/// # Errors
/// [`StoreError`]
pub async fn send_mail(
    pool: &PgPool,
    new: &NewMail,
    max_unread: i64,
) -> Result<SentMail, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let sent = insert(&mut transaction, new, Some(max_unread)).await?;
        commit(transaction, sent).await
    })
    .await
}

/// Stores the answer to a message, and with it the report of what it answers.
///
/// # Errors
/// [`StoreError`]
pub async fn reply_mail(
    pool: &PgPool,
    signing: &Signing,
    new: &NewMail,
    report: &NewEntry,
    max_unread: i64,
) -> Result<SentMail, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let sent = insert(&mut transaction, new, Some(max_unread)).await?;
        if sent != SentMail::New {
            return commit(transaction, sent).await;
        }
        let answered: Option<String> = sqlx::query_scalar(include_str!("sql/mail_answer.sql"))
            .bind(report.run_id)
            .bind(report.at)
            .fetch_optional(&mut *transaction)
            .await?;
        if answered.is_none() {
            return commit(transaction, SentMail::Closed).await;
        }
        accept(&mut transaction, signing, report).await?;
        commit(transaction, SentMail::New).await
    })
    .await
}

/// Notes that the receiver has read a message. Returns whether that accepts it.
///
/// # Errors
/// [`StoreError`]
pub async fn read_mail(
    pool: &PgPool,
    signing: &Signing,
    report: &NewEntry,
) -> Result<bool, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let accepts: Option<bool> = sqlx::query_scalar(include_str!("sql/mail_read.sql"))
            .bind(report.run_id)
            .bind(report.at)
            .fetch_optional(&mut *transaction)
            .await?;
        if accepts == Some(true) {
            accept(&mut transaction, signing, report).await?;
        }
        transaction.commit().await?;
        Ok(accepts == Some(true))
    })
    .await
}

/// Makes dead letters of messages whose deadline has passed or whose run was cancelled, each with what its sender is told.
///
/// # Errors
/// [`StoreError`]
pub async fn fail_overdue_mail(
    pool: &PgPool,
    now: DateTime<Utc>,
    limit: i64,
    notice: impl Fn(&StoredMail) -> Option<NewMail>,
) -> Result<Vec<StoredMail>, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let rows: Vec<MailRow> = sqlx::query_as(include_str!("sql/mail_overdue.sql"))
            .bind(now)
            .bind(limit)
            .fetch_all(&mut *transaction)
            .await?;
        let failed: Vec<StoredMail> =
            rows.into_iter().map(MailRow::into_mail).collect::<Result<_, _>>()?;
        for new in failed.iter().filter_map(notice) {
            // A notice of the service is never refused for a full inbox: nothing else tells the sender.
            insert(&mut transaction, &new, None).await?;
        }
        transaction.commit().await?;
        Ok(failed)
    })
    .await
}

/// Whether a deadline has passed, the run of a message was cancelled, or the run of a dead letter has not ended.
///
/// # Errors
/// [`StoreError`]
pub async fn mail_is_due(pool: &PgPool, now: DateTime<Utc>) -> Result<bool, StoreError> {
    let asking = sqlx::query_scalar(include_str!("sql/mail_is_due.sql")).bind(now);
    within(async { Ok(asking.fetch_one(pool).await?) }).await
}

/// The runs of dead letters that have not ended.
///
/// # Errors
/// [`StoreError`]
pub async fn unended_mail(pool: &PgPool, limit: i64) -> Result<Vec<Uuid>, StoreError> {
    let finding = sqlx::query_scalar(include_str!("sql/mail_unended.sql")).bind(limit);
    within(async { Ok(finding.fetch_all(pool).await?) }).await
}

async fn commit(transaction: PgTransaction<'_>, sent: SentMail) -> Result<SentMail, StoreError> {
    match sent {
        SentMail::New => {
            crash::point("planner.before_mail");
            transaction.commit().await?;
            crash::point("planner.after_mail");
        }
        SentMail::Repeated { .. } | SentMail::Full | SentMail::Closed => {
            transaction.rollback().await?;
        }
    }
    Ok(sent)
}

async fn insert(
    transaction: &mut PgTransaction<'_>,
    new: &NewMail,
    max_unread: Option<i64>,
) -> Result<SentMail, StoreError> {
    let Message { kind, from, to, subject, body, within_s: _ } = &new.message;
    if let Some(most) = max_unread {
        let unread: i64 = sqlx::query_scalar(
            "select count(*) from (select from mail \
             where receiver = $1 and read_at is null and failure = '' limit $2) as unread",
        )
        .bind(to)
        .bind(most)
        .fetch_one(&mut **transaction)
        .await?;
        if unread >= most && find_by_request(transaction, new).await?.is_none() {
            return Ok(SentMail::Full);
        }
    }
    let stored: Option<Uuid> = sqlx::query_scalar(include_str!("sql/mail_insert.sql"))
        .bind(new.task.run_id)
        .bind(new.thread_id)
        .bind(new.in_reply_to)
        .bind(kind.as_str())
        .bind(from)
        .bind(to)
        .bind(subject)
        .bind(body)
        .bind(new.task.created_at)
        .bind(new.deadline_at)
        .bind(&new.request_id)
        .bind(&new.request_digest)
        .fetch_optional(&mut **transaction)
        .await?;
    if stored.is_some() {
        let task = match language_of(transaction, to).await? {
            Language::En => &new.task,
            Language::Zh => &new.in_chinese,
        };
        insert_task(transaction, task).await?;
        return Ok(SentMail::New);
    }
    match find_by_request(transaction, new).await? {
        Some((id, digest)) => Ok(SentMail::Repeated { id, digest }),
        None => Err(StoreError::corrupt("mail", "it was deleted meanwhile")),
    }
}

/// The language of a receiver; English where the registry does not know it.
async fn language_of(
    transaction: &mut PgTransaction<'_>,
    agent: &str,
) -> Result<Language, StoreError> {
    let finding = sqlx::query_scalar("select language from mail_language where agent = $1");
    let found: Option<String> = finding.bind(agent).fetch_optional(&mut **transaction).await?;
    Ok(found.as_deref().and_then(Language::from_text).unwrap_or(Language::En))
}

/// Keeps the language of an agent for the messages that it receives.
///
/// # Errors
/// [`StoreError`]
pub async fn put_mail_language(
    pool: &PgPool,
    agent: &str,
    language: Language,
) -> Result<(), StoreError> {
    let putting =
        sqlx::query(include_str!("sql/put_mail_language.sql")).bind(agent).bind(language.as_str());
    within(async { Ok(putting.execute(pool).await?) }).await.map(drop)
}

/// Drops the language of an agent.
///
/// # Errors
/// [`StoreError`]
pub async fn delete_mail_language(pool: &PgPool, agent: &str) -> Result<(), StoreError> {
    let deleting = sqlx::query("delete from mail_language where agent = $1").bind(agent);
    within(async { Ok(deleting.execute(pool).await?) }).await.map(drop)
}

async fn find_by_request(
    transaction: &mut PgTransaction<'_>,
    new: &NewMail,
) -> Result<Option<(Uuid, String)>, StoreError> {
    if new.request_id.is_empty() {
        return Ok(None);
    }
    Ok(sqlx::query_as(include_str!("sql/mail_by_request.sql"))
        .bind(&new.message.from)
        .bind(&new.request_id)
        .fetch_optional(&mut **transaction)
        .await?)
}

/// Stores the report of a message's task.
async fn accept(
    transaction: &mut PgTransaction<'_>,
    signing: &Signing,
    report: &NewEntry,
) -> Result<(), StoreError> {
    insert_entry(transaction, signing, report).await?;
    sqlx::query(include_str!("sql/report_task.sql"))
        .bind(report.run_id)
        .bind(report.at)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Which messages are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailFilter {
    /// Whose.
    pub agent: String,
    /// Those that the agent sent; else those that it received.
    pub sent: bool,
    /// In these states; empty for all.
    pub states: Vec<MailState>,
    /// Only those that the receiver has not read.
    pub unread: bool,
    /// Of this thread.
    pub thread_id: Option<Uuid>,
    /// Before this one.
    pub before: Option<Uuid>,
    /// At most so many.
    pub limit: i64,
}

/// A page of messages, the newest first, without their texts.
///
/// # Errors
/// [`StoreError`]
pub async fn list_mail(pool: &PgPool, filter: &MailFilter) -> Result<Vec<StoredMail>, StoreError> {
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let listing = sqlx::query_as(include_str!("sql/mail_list.sql"))
        .bind(&filter.agent)
        .bind(filter.sent)
        .bind(states)
        .bind(filter.unread)
        .bind(filter.thread_id)
        .bind(filter.before)
        .bind(filter.limit);
    let rows: Vec<MailRow> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(MailRow::into_mail).collect()
}

/// One message.
///
/// # Errors
/// [`StoreError`]
pub async fn find_mail(pool: &PgPool, id: Uuid) -> Result<Option<StoredMail>, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/mail_find.sql")).bind(id);
    let row: Option<MailRow> = within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    row.map(MailRow::into_mail).transpose()
}

/// Whether an agent sent or received a message of a thread.
///
/// # Errors
/// [`StoreError`]
pub async fn takes_part(pool: &PgPool, thread_id: Uuid, agent: &str) -> Result<bool, StoreError> {
    let asking = sqlx::query_scalar(include_str!("sql/mail_takes_part.sql"));
    let asking = asking.bind(thread_id).bind(agent);
    within(async { Ok(asking.fetch_one(pool).await?) }).await
}

/// The newest messages of a thread, the oldest first.
///
/// # Errors
/// [`StoreError`]
pub async fn mail_thread(pool: &PgPool, thread_id: Uuid) -> Result<Vec<StoredMail>, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/mail_thread.sql")).bind(thread_id).bind(THREAD);
    let rows: Vec<MailRow> = within(async { Ok(finding.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(MailRow::into_mail).collect()
}
