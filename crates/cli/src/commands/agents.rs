//! `surety agents list|put|remove`

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::domain::toolchain::{AgentDriver, Forge, Language, MAX_CONCURRENCY};
use surety_common::wire::v1;

use super::task::language;
use crate::connection::{Connection, bounded};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{columns, harmless};
use crate::wire_json;

/// Lists, registers and removes the agents that act on tasks.
#[derive(Debug, Args)]
pub struct Agents {
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// List agents.
    List {
        #[command(flatten)]
        client: ClientConfig,
    },
    /// Register an agent, in place of one with the same id.
    Put(Box<Put>),
    /// Remove an agent; its open tasks stay its own.
    Remove {
        /// The agent's id.
        #[arg(value_name = "ID")]
        id: String,

        #[command(flatten)]
        client: ClientConfig,
    },
}

#[derive(Debug, Args)]
struct Put {
    /// The name of the identity under which it calls, as in `surety tokens create NAME`.
    #[arg(value_name = "ID")]
    id: String,

    /// An account of it, as FORGE:LOGIN, such as gitea:alice. Repeat it for more.
    #[arg(long, value_parser = account)]
    account: Vec<(Forge, String)>,

    /// What it is asked for without being named: reviewer, developer (by no event), coordinator, infra.
    #[arg(long, value_delimiter = ',')]
    role: Vec<String>,

    /// The language of its instructions: en or zh.
    #[arg(long, default_value = "en", value_parser = language)]
    language: Language,

    /// How many open tasks it has before tasks of a role go to another agent.
    #[arg(long, default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONCURRENCY)))]
    concurrency: u32,

    /// The name of a configured secret with its own credential of the forge.
    #[arg(long, default_value = "", hide_default_value = true)]
    credential: String,

    /// How the turns of its tasks are decided: remote, by the agent itself, or model, by the model of the service.
    #[arg(long, default_value = "remote", value_parser = driver)]
    driver: AgentDriver,

    #[command(flatten)]
    client: ClientConfig,
}

fn driver(text: &str) -> Result<AgentDriver, String> {
    AgentDriver::from_text(text)
        .ok_or_else(|| format!("{text:?} is no driver; use remote or model"))
}

fn account(text: &str) -> Result<(Forge, String), String> {
    let refused = || {
        format!("{text:?} is no account; write it as gitea:LOGIN, forgejo:LOGIN or github:LOGIN")
    };
    let (forge, login) = text.split_once(':').ok_or_else(refused)?;
    Ok((Forge::from_text(forge).ok_or_else(refused)?, login.to_owned()))
}

impl Agents {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.command {
            AgentsCommand::List { client } => list(&client, output).await,
            AgentsCommand::Put(put) => put.run(output).await,
            AgentsCommand::Remove { id, client } => {
                let connection = Connection::open(&client)?;
                let request = v1::DeleteAgentRequest { id: id.clone() };
                let answer = connection.tasks().delete_agent(bounded(request)).await;
                let answer = answer.map_err(|status| connection.failure(&status))?.into_inner();
                output.either(&wire_json::message("DeleteAgentResponse", &answer), || {
                    format!("agent {} is removed", harmless(&id))
                })?;
                Ok(Exit::Done)
            }
        }
    }
}

impl Put {
    async fn run(self, output: Output) -> Result<Exit, Failure> {
        let connection = Connection::open(&self.client)?;
        let account =
            |(forge, login): (Forge, String)| v1::ForgeAccount { forge: forge.to_string(), login };
        let agent = v1::Agent {
            id: self.id,
            accounts: self.account.into_iter().map(account).collect(),
            roles: self.role,
            language: self.language.to_string(),
            concurrency: self.concurrency,
            credential: self.credential,
            driver: self.driver.to_string(),
        };
        let request = v1::PutAgentRequest { agent: Some(agent) };
        let answer = connection.tasks().put_agent(bounded(request)).await;
        let agent = answer.map_err(|status| connection.failure(&status))?.into_inner().agent;
        let agent = agent.unwrap_or_default();
        output.either(&wire_json::message("Agent", &agent), || {
            format!("agent {} is registered", harmless(&agent.id))
        })?;
        Ok(Exit::Done)
    }
}

async fn list(client: &ClientConfig, output: Output) -> Result<Exit, Failure> {
    let connection = Connection::open(client)?;
    let answer = connection.tasks().list_agents(bounded(v1::ListAgentsRequest {})).await;
    let agents = answer.map_err(|status| connection.failure(&status))?.into_inner().agents;
    output.either(&wire_json::list("Agent", &agents), || table(&agents))?;
    Ok(Exit::Done)
}

fn table(agents: &[v1::Agent]) -> String {
    let row = |agent: &v1::Agent| {
        let account = |account: &v1::ForgeAccount| format!("{}:{}", account.forge, account.login);
        vec![
            harmless(&agent.id),
            harmless(&agent.accounts.iter().map(account).collect::<Vec<_>>().join(",")),
            agent.roles.join(","),
            agent.language.clone(),
            agent.concurrency.to_string(),
            harmless(&agent.credential),
            agent.driver.clone(),
        ]
    };
    let heads = ["ID", "ACCOUNTS", "ROLES", "LANGUAGE", "CONCURRENCY", "CREDENTIAL", "DRIVER"];
    columns(&heads, agents.iter().map(row).collect())
}
