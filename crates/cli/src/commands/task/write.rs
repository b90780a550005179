//! `surety task submit`, `surety task report` and `surety task note`

use std::path::PathBuf;

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::domain::toolchain::{Forge, MAX_DELIVERY};
use surety_common::wire::v1;

use super::check::forge;
use super::read::state;
use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::plan_file::read_text_within;
use crate::text::harmless;
use crate::wire_json;

#[derive(Debug, Args)]
pub(super) struct Submit {
    /// The body of the delivery, JSON; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The forge: gitea, forgejo or github.
    #[arg(long, value_parser = forge)]
    forge: Forge,

    /// The event, as the forge's header names it, such as `pull_request`.
    #[arg(long)]
    event: String,

    #[command(flatten)]
    client: ClientConfig,
}

#[derive(Debug, Args)]
pub(super) struct Report {
    /// The id of the task's run.
    #[arg(value_name = "RUN")]
    run_id: String,

    /// What was done, which files changed and how, and the state on the forge.
    #[arg(value_name = "TEXT")]
    text: String,

    /// The agent that wrote it, for an operator who submits it.
    #[arg(long, default_value = "", hide_default_value = true)]
    author: String,

    /// A link that shows what was done. Repeat it for more.
    #[arg(long)]
    link: Vec<String>,

    /// Your own name for this call: a repeat stores no second report.
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,

    #[command(flatten)]
    client: ClientConfig,
}

#[derive(Debug, Args)]
pub(super) struct Note {
    /// The id of the task's run.
    #[arg(value_name = "RUN")]
    run_id: String,

    /// The text.
    #[arg(value_name = "TEXT")]
    text: String,

    /// note, handoff, observation or review.
    #[arg(long, default_value = "note")]
    kind: String,

    /// The name of the output that the text is, such as fix-plan.md.
    #[arg(long, default_value = "", hide_default_value = true)]
    attachment: String,

    /// What the assignee waits for, its own part being done, such as CI: the clock of the report stops.
    #[arg(long, default_value = "", hide_default_value = true)]
    waiting_for: String,

    /// A link that shows what was done. Repeat it for more.
    #[arg(long)]
    link: Vec<String>,

    /// Your own name for this call: a repeat adds nothing.
    #[arg(long, default_value = "", hide_default_value = true)]
    request_id: String,

    #[command(flatten)]
    client: ClientConfig,
}

impl Submit {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let most = u64::try_from(MAX_DELIVERY).unwrap_or(u64::MAX);
        let body_json = read_text_within(&self.file, most)?;
        let connection = Connection::open(&self.client)?;
        let request =
            v1::SubmitEventRequest { forge: self.forge.to_string(), event: self.event, body_json };
        let answer = connection.tasks().submit_event(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        output.either(&wire_json::message("SubmitEventResponse", &answer), || {
            if !answer.ignored.is_empty() {
                return format!("ignored: {}", harmless(&answer.ignored));
            }
            let line = |task: &v1::SubmittedEvent| match task.run_id.as_str() {
                "" => harmless(&task.result),
                run_id => {
                    format!("{run_id} {} {}", harmless(&task.result), harmless(&task.assignee))
                }
            };
            answer.tasks.iter().map(line).collect::<Vec<_>>().join("\n")
        })?;
        Ok(Exit::Done)
    }
}

impl Report {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::SubmitActionReportRequest {
            run_id: self.run_id,
            report: self.text,
            author: self.author,
            links: self.link,
            request_id: self.request_id,
        };
        let answer = connection.tasks().submit_action_report(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        let task = answer.task.clone().unwrap_or_default();
        output.either(
            &wire_json::message("SubmitActionReportResponse", &answer),
            || match answer.accepted {
                true => "accepted".to_owned(),
                false if answer.reason.is_empty() => state(&task),
                false => harmless(&answer.reason),
            },
        )?;
        if answer.accepted {
            return Ok(Exit::Done);
        }
        if task.terminal.is_none() {
            note(
                "The report is stored; the gate has not decided yet. `surety task show` says when it has.",
            );
            return Ok(Exit::Done);
        }
        Ok(Exit::NotAccepted)
    }
}

impl Note {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::AddTaskEntryRequest {
            run_id: self.run_id,
            kind: self.kind,
            body: self.text,
            links: self.link,
            attachment: self.attachment,
            waiting_for: self.waiting_for,
            request_id: self.request_id,
        };
        let answer = connection.tasks().add_task_entry(bounded(request)).await;
        let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
        output.either(&wire_json::message("AddTaskEntryResponse", &answer), || {
            format!("entry {}", answer.sequence)
        })?;
        Ok(Exit::Done)
    }
}
