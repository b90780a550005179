//! `surety mail inbox|read|send|reply`

use std::time::Duration;

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::domain::mail::{MailKind, MailState};
use surety_common::wire::mail::{read_mail_kind, read_mail_state};
use surety_common::wire::v1;

use super::tokens::{read_duration, wire_duration};
use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{columns, day_and_time, harmless, one_line, shortened};
use crate::wire_json;

/// The most characters of a subject in a list.
const SUBJECT: usize = 60;

/// Sends and reads messages between agents.
#[derive(Debug, Args)]
pub struct Mail {
    #[command(subcommand)]
    command: MailCommand,
}

#[derive(Debug, Subcommand)]
enum MailCommand {
    /// List the messages that you received, newest first.
    Inbox(Inbox),
    /// Read a message with its thread.
    Read {
        /// The message's id, from `surety mail inbox`.
        #[arg(value_name = "MAIL_ID")]
        mail_id: String,

        #[command(flatten)]
        client: Box<ClientConfig>,
    },
    /// Send a message to an agent.
    Send(Send),
    /// Answer a message in its thread.
    Reply(Reply),
}

#[derive(Debug, Args)]
struct Inbox {
    /// The messages that you sent.
    #[arg(long)]
    sent: bool,

    /// Only messages that were not read.
    #[arg(long)]
    unread: bool,

    /// Only messages in one of these states: open, accepted, failed.
    #[arg(long, value_delimiter = ',', value_parser = state)]
    state: Vec<MailState>,

    /// The messages of another agent; only for operators.
    #[arg(long, value_name = "AGENT", default_value = "", hide_default_value = true)]
    agent: String,

    /// The most messages, 1..1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

#[derive(Debug, Args)]
struct Send {
    /// The agent that receives it.
    #[arg(value_name = "AGENT")]
    to: String,

    /// One line.
    #[arg(long)]
    subject: String,

    /// The text.
    #[arg(long, default_value = "", hide_default_value = true)]
    body: String,

    /// Ask for an answer.
    #[arg(long)]
    request: bool,

    /// The time for the answer, such as 90s, 30m, 12h or 7d; without it a day.
    #[arg(long, requires = "request", value_parser = read_duration)]
    answer_within: Option<Duration>,

    /// The thread that it continues, the id of its first message.
    #[arg(long, value_name = "MAIL_ID", default_value = "", hide_default_value = true)]
    thread: String,

    /// Your own name for this call: a repeat sends nothing.
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

#[derive(Debug, Args)]
struct Reply {
    /// The message's id.
    #[arg(value_name = "MAIL_ID")]
    mail_id: String,

    /// The answer.
    #[arg(value_name = "TEXT")]
    body: String,

    /// Your own name for this call: a repeat sends nothing.
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

fn state(text: &str) -> Result<MailState, String> {
    MailState::from_text(text).ok_or_else(|| "no state; use open, accepted or failed".to_owned())
}

impl Mail {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            MailCommand::Inbox(inbox) => inbox.run(output).await,
            MailCommand::Read { mail_id, client } => read(&client, mail_id, output).await,
            MailCommand::Send(send) => send.run(output).await,
            MailCommand::Reply(reply) => reply.run(output).await,
        }
    }
}

impl Inbox {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::ListMailRequest {
            agent: self.agent,
            sent: self.sent,
            states: self.state.into_iter().map(|one| v1::MailState::from(one).into()).collect(),
            unread: self.unread,
            thread_id: String::new(),
            page_size: self.limit,
            page_token: String::new(),
        };
        let answer = connection.tasks().list_mail(bounded(request)).await;
        let mail = answer.map_err(|status| connection.failure(&status))?.into_inner().mail;
        output.either(&wire_json::list("Mail", &mail), || {
            let other = if self.sent { "TO" } else { "FROM" };
            let row = |mail: &v1::Mail| {
                vec![
                    mail.id.clone(),
                    harmless(if self.sent { &mail.to } else { &mail.from }),
                    kind_word(mail).to_owned(),
                    shortened(&one_line(&mail.subject), SUBJECT),
                    day_and_time(mail.sent_at.as_ref()),
                    day_and_time(mail.read_at.as_ref()),
                    state_word(mail),
                ]
            };
            let heads = ["ID", other, "KIND", "SUBJECT", "SENT", "READ", "STATE"];
            columns(&heads, mail.iter().map(row).collect())
        })?;
        Ok(Exit::Done)
    }
}

fn kind_word(mail: &v1::Mail) -> &'static str {
    read_mail_kind("kind", mail.kind).map_or("unknown", MailKind::as_str)
}

fn state_word(mail: &v1::Mail) -> String {
    let state = read_mail_state("state", mail.state).map_or("unknown", MailState::as_str);
    if mail.failure.is_empty() { state.to_owned() } else { format!("{state}: {}", mail.failure) }
}

fn shown(mail: &v1::Mail) -> String {
    let body: String = mail.body.lines().map(|line| format!("> {}\n", harmless(line))).collect();
    format!(
        "{} {} from {} to {}, {}\nsubject: {}\nstate: {}, deadline {}\n{body}",
        kind_word(mail),
        mail.id,
        harmless(&mail.from),
        harmless(&mail.to),
        day_and_time(mail.sent_at.as_ref()),
        one_line(&mail.subject),
        state_word(mail),
        day_and_time(mail.deadline_at.as_ref()),
    )
}

async fn read(client: &ClientConfig, mail_id: String, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(client)?;
    let answer = connection.tasks().read_mail(bounded(v1::ReadMailRequest { mail_id })).await;
    let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
    output.either(&wire_json::message("ReadMailResponse", &answer), || {
        answer.thread.iter().map(shown).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

impl Send {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let kind = if self.request { MailKind::Request } else { MailKind::Inform };
        let request = v1::SendMailRequest {
            request_id: self.request_id,
            from: String::new(),
            to: self.to,
            subject: self.subject,
            body: self.body,
            kind: v1::MailKind::from(kind).into(),
            answer_within: self.answer_within.map(wire_duration),
            thread_id: self.thread,
        };
        let answer = connection.tasks().send_mail(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        let mail = answer.mail.unwrap_or_default();
        let said = || format!("message {} is sent to {}", mail.id, harmless(&mail.to));
        output.either(&wire_json::message("Mail", &mail), said)?;
        Ok(Exit::Done)
    }
}

impl Reply {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::ReplyMailRequest {
            request_id: self.request_id,
            mail_id: self.mail_id,
            body: self.body,
        };
        let answer = connection.tasks().reply_mail(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        output.either(&wire_json::message("ReplyMailResponse", &answer), || {
            let answered = answer.answered.clone().unwrap_or_default();
            let mail = answer.mail.clone().unwrap_or_default();
            format!("answer {} is sent; {} is {}", mail.id, answered.id, state_word(&answered))
        })?;
        Ok(Exit::Done)
    }
}
