//! `surety runs`

use clap::Args;
use clap::builder::PossibleValuesParser;
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use crate::connection::{Connection, bounded};
use crate::contract::{Listed, Store, table};
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::output::{Output, note};
use crate::report;
use crate::wire_json;

const STATES: [&str; 9] = [
    "INTAKE",
    "PLANNING",
    "EXECUTING",
    "VERIFYING",
    "RECOVERING",
    "BLOCKED",
    "DONE",
    "FAILED",
    "CANCELLED",
];
/// The most runs in a page.
const PAGE_SIZE: u32 = 1_000;

/// Lists runs, newest first, and the open contracts of `surety mcp` on this machine.
#[derive(Debug, Args)]
pub struct Runs {
    /// Only runs of this namespace.
    #[arg(long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Only runs in one of these states.
    #[arg(long, value_delimiter = ',', ignore_case = true,
          value_parser = PossibleValuesParser::new(STATES))]
    state: Vec<String>,

    /// The most runs in the list.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,

    #[command(flatten)]
    client: ClientConfig,
}

impl Runs {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        if output.json {
            let (runs, _) = self.list(&connection).await?;
            output.value(&wire_json::list("Run", &runs))?;
            return Ok(Exit::Done);
        }
        let contracts = self.contracts()?;
        match self.list(&connection).await {
            Ok((runs, more)) => {
                match runs.as_slice() {
                    [] => note("No runs. `surety run PLAN.yaml` creates one."),
                    runs => output.line(&report::table(runs))?,
                }
                if more {
                    note("There are more runs; raise --limit to list them.");
                }
            }
            // A contract needs no service.
            Err(failure) if !contracts.is_empty() && is_unanswered(&failure) => {
                note(&failure.to_text());
            }
            Err(failure) => return Err(failure),
        }
        if !contracts.is_empty() {
            output.line(&table(&contracts))?;
        }
        Ok(Exit::Done)
    }

    /// The open contracts of this machine, where no filter is about runs alone.
    fn contracts(&self) -> Result<Vec<Listed>, Failure> {
        if !self.namespace.is_empty() || !self.state.is_empty() {
            return Ok(Vec::new());
        }
        let Ok(data) = DataFolder::choose(&self.client.folder) else { return Ok(Vec::new()) };
        listed(&data)
    }

    async fn list(&self, connection: &Connection) -> Result<(Vec<v1::Run>, bool), Failure> {
        let wanted = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let states = self.state.iter().filter_map(|word| {
            let name = format!("RUN_STATE_{}", word.to_ascii_uppercase());
            v1::RunState::from_str_name(&name).map(i32::from)
        });
        let mut request = v1::ListRunsRequest {
            namespace: self.namespace.clone(),
            states: states.collect(),
            page_size: self.limit.min(PAGE_SIZE),
            ..v1::ListRunsRequest::default()
        };
        let mut runs = Vec::new();
        loop {
            let answer = connection.runs().list_runs(bounded(request.clone())).await;
            let page = answer.map_err(|status| connection.failure(&status))?.into_inner();
            runs.extend(page.runs);
            for id in &page.unreadable_run_ids {
                note(&format!(
                    "The run {id} is not listed: its row in the database cannot be read. The planner's log names the column."
                ));
            }
            let more = !page.next_page_token.is_empty();
            if runs.len() >= wanted || !more {
                let cut = runs.len() > wanted;
                runs.truncate(wanted);
                return Ok((runs, more || cut));
            }
            request.page_token = page.next_page_token;
        }
    }
}

/// The open contracts of a data folder. One that does not read is named on standard error.
pub(super) fn listed(data: &DataFolder) -> Result<Vec<Listed>, Failure> {
    let (contracts, failures) = Store::list(data)?;
    failures.iter().for_each(|failure| note(&failure.to_text()));
    Ok(contracts)
}

fn is_unanswered(failure: &Failure) -> bool {
    matches!(failure, Failure::Said(said) if said.code == Code::ServiceUnreachable.as_str())
}
