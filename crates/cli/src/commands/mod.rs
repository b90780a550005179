//! The subcommands, one module for each. A new one is a module with an `Args` struct and a `run`, a
//! variant of [`Command`] and a line in `carry_out`.

mod agents;
mod answer;
mod approval;
mod audit;
mod budget;
mod config;
mod contract;
mod decision;
mod dev_postgres;
mod fork;
mod gate;
mod grants;
mod health;
mod keys;
mod mail;
mod mcp;
mod migrate;
mod named_run;
mod plan;
mod policy;
mod receipts;
mod replan;
mod run;
mod run_control;
mod runs;
mod show;
mod submission;
mod task;
mod tokens;
mod up;
mod verify;
mod verify_hook;
mod waits;
mod watch;
mod webhooks;

use std::ffi::OsString;
use std::thread::available_parallelism;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use surety_common::wire::server::block_on;

pub use agents::Agents;
pub use answer::Answer;
pub use approval::{Approval, Denial};
pub use audit::Audit;
pub use budget::Budget;
pub use config::Config;
pub use contract::ContractCommand;
pub use decision::Decision;
pub use dev_postgres::DevPostgres;
pub use fork::Fork;
pub use gate::Gate;
pub use grants::{Grants, Revoke};
pub use health::Health;
pub use keys::Keys;
pub use mail::Mail;
pub use mcp::Mcp;
pub use migrate::Migrate;
pub use named_run::NamedRun;
pub use plan::Plan;
pub use policy::Policy;
pub use receipts::Receipts;
pub use replan::{Replan, Submit};
pub use run::Run;
pub use run_control::RunControl;
pub use runs::Runs;
pub use show::Show;
pub use task::Task;
pub use tokens::Tokens;
pub use up::Up;
pub use verify::Verify;
pub use waits::Waits;
pub use watch::Watch;
pub use webhooks::Webhooks;

use crate::answering::Way;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::{Output, note};

/// Carries an agent's goal to a proven end.
#[derive(Debug, Parser)]
#[command(name = "surety", about = "Carries an agent's goal to a proven end", version, after_help = Exit::help())]
pub struct Cli {
    /// Write JSON, one value per line: results to standard output, errors to standard error.
    #[arg(long, global = true)]
    pub json: bool,

    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands of `surety`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start planner, executor and acceptgate in one process, with a private Postgres.
    Up(Box<Up>),
    /// Verify a workspace, or what a command changes in it, without a service.
    #[command(after_help = Exit::help())]
    Verify(Box<Verify>),
    /// Serve tools to an agent that speaks MCP: it works under a contract, and the runner observes it.
    Mcp(Box<Mcp>),
    /// Show, answer and renew the contract that `surety mcp` holds an agent to.
    Contract(Box<ContractCommand>),
    /// Submit a plan file and follow the run to its verdict.
    #[command(after_help = Exit::help())]
    Run(Box<Run>),
    /// Begin a new run at a step of an earlier one, with its plan and the steps done before, and follow it.
    #[command(after_help = Exit::help())]
    Fork(Fork),
    /// List runs, newest first.
    Runs(Runs),
    /// Show everything about one run: steps, turns, receipts, and the verdict with every reason.
    Show(Show),
    /// Follow a run from any event of its journal to its end.
    #[command(after_help = Exit::help())]
    Watch(Watch),
    /// Pause a run: running turns end, and no new ones start.
    Pause(RunControl),
    /// Resume a paused run.
    Resume(RunControl),
    /// Cancel a run.
    Cancel(RunControl),
    /// List the waits of runs, and how to answer each.
    Waits(Waits),
    /// Answer a question of a run.
    Answer(Answer),
    /// Show the call that waits for a confirmation, or what the verdict of a run is in doubt about, and approve it.
    Approve(Approval),
    /// Show the call that waits for a confirmation, or what the verdict of a run is in doubt about, and deny it.
    Deny(Denial),
    /// List what approvers granted for a run, and what is left of it.
    Grants(Grants),
    /// Revoke a grant of a run: later calls are asked about again.
    Revoke(Revoke),
    /// Raise the budgets of a run, or end a run that waits for one.
    Budget(Budget),
    /// Make, list and end bearer tokens.
    Tokens(Tokens),
    /// Show and set what a namespace asks of every run.
    Policy(Policy),
    /// List who changed tokens and policies.
    Audit(Audit),
    /// Check a plan without a service, or submit one for a run.
    Plan(Box<Plan>),
    /// Ask for another plan of a run at work.
    Replan(Replan),
    /// Check decisions without a service.
    Decision(Decision),
    /// List, show and report tasks, and check what a forge's events become.
    Task(Task),
    /// List, register and remove the agents that act on tasks.
    Agents(Agents),
    /// Manage hooks, at which forges deliver events, and the deliveries.
    Webhooks(Webhooks),
    /// Send and read messages between agents.
    Mail(Mail),
    /// Evaluate checks and receipts without a service.
    #[command(after_help = Exit::help())]
    Gate(Gate),
    /// Export a run's receipts, and check an export without a service.
    #[command(after_help = Exit::help())]
    Receipts(Receipts),
    /// List, replace and trust the keys that services sign with.
    Keys(Keys),
    /// Migrate the schema of a database, and make a role for each service.
    Migrate(Migrate),
    /// Check the settings without a service.
    Config(Box<Config>),
    /// Ask a service whether it is serving.
    Health(Health),
    /// Run a command with a temporary Postgres, for tests of Surety itself.
    #[command(hide = true)]
    DevPostgres(DevPostgres),
}

/// Runs the command line; reports a failure on standard error.
pub fn run(line: impl IntoIterator<Item = OsString>) -> Exit {
    let line: Vec<_> = line.into_iter().collect();
    // An invalid command line may still request JSON.
    let json = line.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let output = Output { json };
    let ended = match Cli::command().try_get_matches_from(line) {
        Ok(matches) => on_threads(&matches, output),
        Err(error) => unread(&error, output),
    };
    match ended {
        Ok(exit) => exit,
        Err(Failure::OutputClosed(_)) => Exit::OutputClosed,
        Err(failure) => {
            note(&if json { failure.to_json().to_compact() } else { failure.to_text() });
            Exit::Failed
        }
    }
}

/// Sets the number of threads for `surety up`. By default it is one per processor, because three
/// services share them; other commands use the same default.
fn on_threads(matches: &ArgMatches, output: Output) -> Result<Exit, Failure> {
    let cli = Cli::from_arg_matches(matches).map_err(|error| usage(&error))?;
    let wanted = match &cli.command {
        Command::Up(up) => up.worker_threads(),
        Command::Verify(_)
        | Command::Mcp(_)
        | Command::Contract(_)
        | Command::Run(_)
        | Command::Fork(_)
        | Command::Runs(_)
        | Command::Show(_)
        | Command::Watch(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Cancel(_)
        | Command::Waits(_)
        | Command::Answer(_)
        | Command::Approve(_)
        | Command::Deny(_)
        | Command::Grants(_)
        | Command::Revoke(_)
        | Command::Budget(_)
        | Command::Tokens(_)
        | Command::Policy(_)
        | Command::Audit(_)
        | Command::Plan(_)
        | Command::Replan(_)
        | Command::Decision(_)
        | Command::Task(_)
        | Command::Agents(_)
        | Command::Webhooks(_)
        | Command::Mail(_)
        | Command::Gate(_)
        | Command::Receipts(_)
        | Command::Keys(_)
        | Command::Migrate(_)
        | Command::Config(_)
        | Command::Health(_)
        | Command::DevPostgres(_) => None,
    };
    let all = available_parallelism().ok().and_then(|all| u32::try_from(all.get()).ok());
    block_on(wanted.or(all), carry_out(cli, matches, output))
        .map_err(|error| Failure::new(Code::Internal, error.to_string(), ""))?
}

async fn carry_out(cli: Cli, matches: &ArgMatches, output: Output) -> Result<Exit, Failure> {
    match cli.command {
        Command::Up(command) => command.run(innermost(matches), output).await,
        Command::Verify(command) => command.run(output).await,
        Command::Mcp(command) => command.run().await,
        Command::Contract(command) => command.run(output).await,
        Command::Run(command) => command.run(output).await,
        Command::Fork(command) => command.run(output).await,
        Command::Runs(command) => command.run(output).await,
        Command::Show(command) => command.run(output).await,
        Command::Watch(command) => command.run(output).await,
        Command::Pause(command) => command.run(Way::Pause, output).await,
        Command::Resume(command) => command.run(Way::Resume, output).await,
        Command::Cancel(command) => command.run(Way::Cancel, output).await,
        Command::Waits(command) => command.run(output).await,
        Command::Answer(command) => command.run(output).await,
        Command::Approve(command) => command.run(output).await,
        Command::Deny(command) => command.run(output).await,
        Command::Grants(command) => command.run(output).await,
        Command::Revoke(command) => command.run(output).await,
        Command::Budget(command) => command.run(output).await,
        Command::Tokens(command) => command.run(output).await,
        Command::Policy(command) => command.run(output).await,
        Command::Audit(command) => command.run(output).await,
        Command::Plan(command) => command.run(output).await,
        Command::Replan(command) => command.run(output).await,
        Command::Decision(command) => command.run(output),
        Command::Task(command) => command.run(output).await,
        Command::Agents(command) => command.run(output).await,
        Command::Webhooks(command) => command.run(output).await,
        Command::Mail(command) => command.run(output).await,
        Command::Gate(command) => command.run(output).await,
        Command::Receipts(command) => command.run(output).await,
        Command::Keys(command) => command.run(output).await,
        Command::Migrate(command) => command.run(output).await,
        Command::Config(command) => command.run(innermost(matches), output),
        Command::Health(command) => command.run(output).await,
        Command::DevPostgres(command) => command.run().await,
    }
}

/// The matches of the subcommand that has the settings.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches
}

/// Help and versions are answers; the rest are errors.
fn unread(error: &clap::Error, output: Output) -> Result<Exit, Failure> {
    let kind = error.kind();
    let exit = if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        Exit::Done
    } else if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !output.json {
        Exit::Failed
    } else {
        return Err(usage(error));
    };
    error.print().map_err(Failure::output)?;
    Ok(exit)
}

fn usage(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Failure::new(Code::Usage, text.trim_end(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
