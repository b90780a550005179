//! `surety task check|submit|list|show|report|note`

mod check;
mod read;
mod write;

pub(super) use check::language;

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Lists, shows and reports tasks, and checks what a forge's events become.
#[derive(Debug, Args)]
pub struct Task {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    /// Print the tasks of a delivery, with the instructions of each, or why it is ignored, without a service.
    Check(check::Check),
    /// Hand a delivery of a forge over to the service, as the forge's hook would.
    Submit(write::Submit),
    /// List tasks, newest first.
    List(read::List),
    /// Show a task, what its assignee is handed, and its history.
    Show(read::Show),
    /// Submit the action report of a task, and wait for the verdict.
    #[command(after_help = Exit::help())]
    Report(write::Report),
    /// Add an entry to the history of a task.
    Note(write::Note),
}

impl Task {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            TaskCommand::Check(command) => command.run(output),
            TaskCommand::Submit(command) => command.run(output).await,
            TaskCommand::List(command) => command.run(output).await,
            TaskCommand::Show(command) => command.run(output).await,
            TaskCommand::Report(command) => command.run(output).await,
            TaskCommand::Note(command) => command.run(output).await,
        }
    }
}
