//! `surety config check`

use std::error::Error;
use std::iter::once;

use clap::{ArgMatches, Args, Subcommand};
use surety_common::config::{
    AddressConfig, CommonConfig, DataDirConfig, Effective, ExecutorConfig, GateConfig, McpServer,
    McpSessionsConfig, ModelDriverConfig, NamespaceDatabase, PlannerConfig, PostgresConfig,
    effective,
};
use surety_common::domain::json::Value;
use surety_common::store::{SERVICE_ROLES, role_of};
use surety_common::wire::client::Transport;
use surety_common::wire::token::FileTokens;
use surety_sandbox::{Missing, Wanted, machine};

use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::text::{columns, harmless};
use crate::wire_json::{object, text};
use surety_common::wire::server::with_causes;

/// Checks the settings without a service.
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the effective settings and the source of each value, without secrets.
    Check(Box<Settings>),
}

/// All settings.
#[derive(Debug, Args)]
struct Settings {
    #[command(flatten)]
    common: CommonConfig,
    #[command(flatten)]
    planner: PlannerConfig,
    #[command(flatten)]
    executor: ExecutorConfig,
    #[command(flatten)]
    gate: GateConfig,
    #[command(flatten)]
    models: ModelDriverConfig,
    #[command(flatten)]
    address: AddressConfig,
    #[command(flatten)]
    folder: DataDirConfig,
    #[command(flatten)]
    postgres: PostgresConfig,
    #[command(flatten)]
    sessions: McpSessionsConfig,
}

impl Config {
    pub(super) fn run(self, matches: &ArgMatches, output: Output) -> Result<Exit, Failure> {
        let ConfigCommand::Check(settings) = self.command;
        let Settings { common, planner, executor, gate, models, .. } = *settings;
        gate.anchor.check()?;
        FileTokens::of(&common.tokens()?).map_err(invalid)?;
        let transport = Transport::of(&common.tls)?;
        surety_planner::check((&common, &planner, &models), &transport).map_err(invalid)?;
        surety_executor::check(&executor, &models).map_err(invalid)?;
        surety_acceptgate::check(&common, &gate).map_err(invalid)?;
        let sandbox = SandboxCheck::of(&executor)?;
        let databases = planner.namespace_databases()?;
        let servers = executor.mcp_servers()?;
        let in_force = effective(matches);
        let named = |setting: &Effective| match setting.setting.id().as_str() {
            "namespace_databases_file" => databases.as_slice(),
            _ => &[],
        };
        let value = |setting| as_value(setting, named(setting));
        let mut values: Vec<_> = in_force.iter().map(value).collect();
        values.push(sandbox.as_value());
        if !servers.is_empty() {
            let shown = servers.iter().map(|server| text(server.to_string()));
            values.push(object([("mcp_servers", Value::Array(shown.collect()))]));
        }
        let rights = rights(&common)?;
        values.push(object([("database_rights", text(&rights))]));
        output.either(&Value::Array(values), || {
            let rights = format!("\ndatabase rights: {rights}\n");
            as_table(&in_force, &databases)
                + &sandbox.as_text()
                + &servers_as_text(&servers)
                + &rights
        })?;
        Ok(Exit::Done)
    }
}

/// Whether the services share one role of the database, by the role in its URL.
///
/// # Errors
/// The URL does not read.
fn rights(common: &CommonConfig) -> Result<String, Failure> {
    let Some(url) = &common.database_url else {
        return Ok("one role for all services, in the private Postgres of `surety up`".to_owned());
    };
    let user = role_of(url.expose()).map_err(invalid)?;
    Ok(match SERVICE_ROLES.iter().find(|role| **role == user) {
        Some(role) => format!("the role {role} of one service"),
        None => "one role for all services, unless the login is a member of a service's role; \
                 `surety migrate --roles` makes one for each"
            .to_owned(),
    })
}

/// A setting that a service refuses at its start.
fn invalid(error: impl Error + 'static) -> Failure {
    Failure::new(Code::SettingInvalid, with_causes(&error), "")
}

/// What confines commands on this machine.
struct SandboxCheck {
    in_force: String,
    missing: Vec<Missing>,
    reasons: Vec<String>,
}

impl SandboxCheck {
    /// Tries it in a folder that goes away: nothing is written where the executor will work.
    fn of(executor: &ExecutorConfig) -> Result<Self, Failure> {
        let folder = std::env::temp_dir();
        let scratch = tempfile::tempdir().map_err(Failure::file(&folder))?;
        let wanted = Wanted::from_text(&executor.sandbox.sandbox).unwrap_or_default();
        let machine = machine(wanted, scratch.path())
            .map_err(|error| Failure::new(Code::SettingInvalid, error.to_string(), ""))?;
        Ok(Self {
            in_force: machine.in_force().to_string(),
            missing: machine.in_force().missing().to_vec(),
            reasons: machine.reasons().to_vec(),
        })
    }

    fn as_value(&self) -> Value {
        let missing = self
            .missing
            .iter()
            .map(|one| object([("name", text(one.as_str())), ("meaning", text(one.meaning()))]));
        object([
            ("sandbox", text(self.in_force.as_str())),
            ("missing", Value::Array(missing.collect())),
            ("reasons", Value::Array(self.reasons.iter().map(text).collect())),
        ])
    }

    fn as_text(&self) -> String {
        let head = format!("\nsandbox of commands: {}\n", self.in_force);
        let reasons = self.reasons.iter().map(|reason| format!("  {}\n", harmless(reason)));
        once(head).chain(reasons).collect()
    }
}

fn servers_as_text(servers: &[McpServer]) -> String {
    let line = |server: &McpServer| format!("\nMCP server {}\n", harmless(&server.to_string()));
    servers.iter().map(line).collect()
}

/// For the setting's file of databases, only the namespaces are shown.
fn as_value(setting: &Effective, databases: &[NamespaceDatabase]) -> Value {
    let flag = ("flag", text(setting.setting.flag));
    let variable = ("variable", text(setting.setting.env));
    let value = ("value", setting.value.as_deref().map_or(Value::Null, text));
    let source = ("source", text(setting.source.to_string()));
    if databases.is_empty() {
        return object([flag, variable, value, source]);
    }
    let names =
        |database: &NamespaceDatabase| Value::Array(database.namespaces.iter().map(text).collect());
    let namespaces = Value::Array(databases.iter().map(names).collect());
    object([flag, variable, value, source, ("namespaces", namespaces)])
}

fn as_table(in_force: &[Effective], databases: &[NamespaceDatabase]) -> String {
    let row = |setting: &Effective| {
        vec![
            format!("--{}", setting.setting.flag),
            setting.setting.env.to_owned(),
            setting.value.as_deref().map_or_else(|| "-".to_owned(), harmless),
            setting.source.to_string(),
        ]
    };
    let table = columns(&["FLAG", "VARIABLE", "VALUE", "FROM"], in_force.iter().map(row).collect());
    let named = databases.iter().map(|database| {
        format!(
            "\none database for these namespaces: {}",
            harmless(&database.namespaces.join(", "))
        )
    });
    once(table).chain(named).collect()
}
