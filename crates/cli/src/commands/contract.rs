//! `surety contract show|list|new|answer|close`

use std::io::{IsTerminal, stderr, stdin};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use surety_common::config::{ClientConfig, DataDirConfig, SandboxConfig};

use super::runs::listed;
use crate::contract::{Contract, Listed, Opening, Reader, Store, Wanted, as_json, as_text, table};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::{Output, note};
use crate::text::{one_line, warning_line};
use crate::verify::person;

/// Shows and changes the contract that `surety mcp` holds an agent to.
#[derive(Debug, Args)]
pub struct ContractCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the open contract: its base, checks, plan, questions, the last verdict, and what happened.
    Show(Place),
    /// Close the open contract, if there is one, and open a new one at a git revision.
    New(New),
    /// List the open contracts of all workspaces, and those whose agent stopped without a verdict.
    List(List),
    /// Answer a question that the agent asked.
    Answer(Answer),
    /// Close the open contract: the next `surety mcp` opens a new one.
    Close(Place),
}

/// The workspace of a contract.
#[derive(Debug, Args)]
struct Place {
    /// The folder that the agent works in; by default the current one.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    #[command(flatten)]
    sandbox: SandboxConfig,

    #[command(flatten)]
    client: Box<ClientConfig>,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    folder: DataDirConfig,
}

#[derive(Debug, Args)]
struct New {
    /// The git revision to compare with; by default HEAD.
    #[arg(long, value_name = "REV")]
    base: Option<String>,

    /// The file with the user's checks; by default `.surety/checks.yaml` of the revision, where it has one.
    #[arg(long, value_name = "FILE")]
    checks: Option<PathBuf>,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
struct Answer {
    /// The number of the question.
    #[arg(value_name = "NUMBER")]
    question: u32,

    /// The answer.
    #[arg(value_name = "TEXT")]
    text: String,

    #[command(flatten)]
    place: Place,
}

impl ContractCommand {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.action {
            Action::Show(place) => {
                let (_, store) = place.opening().at().await?;
                show(&store.open()?, output)?;
            }
            Action::New(new) => {
                let wanted = Wanted { base: new.base, checks: new.checks };
                let opening = new.place.opening();
                let (scene, store) = opening.at().await?;
                close(&store)?;
                let (contract, warnings) = opening.open(&scene, &store, &wanted, &person()).await?;
                warnings.iter().for_each(|it| note(&warning_line(&it.clone().into())));
                show(&contract, output)?;
            }
            Action::List(list) => {
                let contracts = listed(&DataFolder::choose(&list.folder)?)?;
                if output.json {
                    let rows = contracts.iter().map(in_short).collect::<Vec<_>>();
                    return output.line(&Value::Array(rows).to_string()).map(|()| Exit::Done);
                }
                match contracts.as_slice() {
                    [] => note("No contract is open. `surety mcp` opens one."),
                    contracts => output.line(&table(contracts))?,
                }
            }
            Action::Answer(answer) => {
                let (_, store) = answer.place.opening().at().await?;
                let by = person();
                let contract = store.change(|contract| {
                    contract.answer(answer.question, &answer.text, &by)?;
                    Ok(contract.clone())
                })?;
                show(&contract, output)?;
            }
            Action::Close(place) => {
                let (_, store) = place.opening().at().await?;
                if !close(&store)? {
                    store.open()?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

impl Place {
    fn opening(self) -> Opening {
        let folder = self.workspace.unwrap_or_else(|| PathBuf::from("."));
        Opening { folder, client: *self.client, sandbox: self.sandbox }
    }
}

/// Closes the open contract, which only a person at a terminal does. Answers whether there was one.
fn close(store: &Store) -> Result<bool, Failure> {
    if !store.path().exists() {
        return Ok(false);
    }
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        let message = "a contract is open, and only a person at a terminal closes it";
        let advice = "Run the command in a terminal; jobs without one use a data folder of their own \
                      (SURETY_DATA_DIR).";
        return Err(Failure::new(Code::PersonNeeded, message, advice));
    }
    let by = person();
    store.close(&by)?;
    note(&format!("surety: the open contract was closed by {}", one_line(&by)));
    Ok(true)
}

fn in_short(listed: &Listed) -> Value {
    let contract = &listed.contract;
    json!({
        "workspace": contract.workspace,
        "state": listed.outcome(),
        "rounds": contract.rounds,
        "opened_at": contract.opened_at,
        "verdict": contract.verdict,
    })
}

fn show(contract: &Contract, output: Output) -> Result<(), Failure> {
    if output.json {
        return output.line(&as_json(contract, Reader::Person)?.to_string());
    }
    output.line(&as_text(contract, Reader::Person)?)
}
