//! `surety task list` and `surety task show`

use clap::Args;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{columns, day_and_time, harmless, run_state};
use crate::wire_json;

/// The entries on one page.
const PAGE_SIZE: u32 = 1_000;

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only tasks of this agent.
    #[arg(long, default_value = "", hide_default_value = true)]
    assignee: String,

    /// Tasks of this type: toolchain or mail.
    #[arg(long = "type", default_value = "toolchain")]
    task_type: String,

    /// Only tasks whose runs have not ended.
    #[arg(long)]
    open: bool,

    /// The most tasks, 1..1000.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,

    #[command(flatten)]
    client: ClientConfig,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The id of the task's run.
    #[arg(value_name = "RUN")]
    run_id: String,

    #[command(flatten)]
    client: ClientConfig,
}

impl List {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let open = [
            v1::RunState::Intake,
            v1::RunState::Planning,
            v1::RunState::Executing,
            v1::RunState::Verifying,
            v1::RunState::Recovering,
            v1::RunState::Blocked,
        ];
        let states = if self.open { open.map(i32::from).to_vec() } else { Vec::new() };
        let request = v1::ListTasksRequest {
            task_type: self.task_type,
            assignee: self.assignee,
            states,
            page_size: self.limit,
            page_token: String::new(),
        };
        let answer = connection.tasks().list_tasks(bounded(request)).await;
        let tasks = answer.map_err(|status| connection.failure(&status))?.into_inner().tasks;
        output.either(&wire_json::list("Task", &tasks), || table(&tasks))?;
        Ok(Exit::Done)
    }
}

fn table(tasks: &[v1::Task]) -> String {
    let row = |task: &v1::Task| {
        vec![
            task.run_id.clone(),
            harmless(&task.action_type),
            harmless(&about(task)),
            harmless(&task.assignee),
            state(task),
            day_and_time(task.created_at.as_ref()),
        ]
    };
    let heads = ["RUN", "ACTION", "ABOUT", "ASSIGNEE", "STATE", "CREATED"];
    columns(&heads, tasks.iter().map(row).collect())
}

fn about(task: &v1::Task) -> String {
    match task.number {
        Some(number) => format!("{}#{number}", task.repo),
        None => task.repo.clone(),
    }
}

/// How a task stands: its outcome, with the reason of a failure, or the state of its run.
pub(super) fn state(task: &v1::Task) -> String {
    match (task.outcome.as_str(), task.failure.as_str()) {
        ("", _) if !task.waiting_for.is_empty() => {
            format!("waits for {}", harmless(&task.waiting_for))
        }
        ("", _) => run_state(task.state()).to_owned(),
        (outcome, "") => outcome.to_owned(),
        (outcome, failure) => format!("{outcome}: {failure} ({})", task.failure_class),
    }
}

impl Show {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let request = v1::GetTaskRequest { run_id: self.run_id.clone() };
        let answer = connection.tasks().get_task(bounded(request)).await;
        let found = answer.map_err(|status| connection.failure(&status))?.into_inner();
        let entries = entries(&connection, &self.run_id).await?;
        if output.json {
            output.value(&wire_json::object([
                ("task", wire_json::message("GetTaskResponse", &found)),
                ("entries", wire_json::list("TaskEntry", &entries)),
            ]))?;
            return Ok(Exit::Done);
        }
        let task = found.task.unwrap_or_default();
        let mut lines = vec![
            format!("task {} ({})", task.run_id, harmless(&task.action_type)),
            format!("  about     {}", harmless(&about(&task))),
            format!("  assignee  {}", harmless(&task.assignee)),
            format!("  state     {}", state(&task)),
            format!("  created   {}", day_and_time(task.created_at.as_ref())),
        ];
        if let Some(at) = &task.remind_at {
            lines.push(format!(
                "  reminder  {} ({} before)",
                day_and_time(Some(at)),
                task.reminders
            ));
        }
        if !task.caused_by.is_empty() {
            lines.push(format!(
                "  follows   {} (chain {}, task {})",
                task.caused_by, task.chain_id, task.depth
            ));
        }
        lines.push(String::new());
        lines.push(harmless(&found.instructions));
        lines.extend(entries.iter().map(shown));
        output.line(&lines.join("\n"))?;
        Ok(Exit::Done)
    }
}

async fn entries(connection: &Connection, run_id: &str) -> Result<Vec<v1::TaskEntry>, Failure> {
    let mut request = v1::ListTaskEntriesRequest {
        run_id: run_id.to_owned(),
        page_size: PAGE_SIZE,
        page_token: String::new(),
    };
    let mut entries = Vec::new();
    loop {
        let answer = connection.tasks().list_task_entries(bounded(request.clone())).await;
        let page = answer.map_err(|status| connection.failure(&status))?.into_inner();
        entries.extend(page.entries);
        if page.next_page_token.is_empty() {
            return Ok(entries);
        }
        request.page_token = page.next_page_token;
    }
}

fn shown(entry: &v1::TaskEntry) -> String {
    let head = format!(
        "{}  {} by {}",
        day_and_time(entry.at.as_ref()),
        harmless(&entry.kind),
        harmless(&entry.author)
    );
    let output = match entry.attachment.as_str() {
        "" => String::new(),
        name => format!(" [{}]", harmless(name)),
    };
    let body = harmless(&entry.body).lines().map(|line| format!("\n  {line}")).collect::<String>();
    let links =
        entry.links.iter().map(|link| format!("\n  {}", harmless(link))).collect::<String>();
    format!("{head}{output}{body}{links}")
}
