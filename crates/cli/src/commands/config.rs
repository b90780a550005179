//! `surety config check`

use std::iter::once;

use clap::{ArgMatches, Args, Subcommand};
use surety_common::config::{
    AddressConfig, CommonConfig, DataDirConfig, Effective, ExecutorConfig, GateConfig,
    NamespaceDatabase, PlannerConfig, effective,
};
use surety_common::domain::json::Value;
use surety_common::tls::Tls;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{columns, harmless};
use crate::wire_json::{object, text};

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
    address: AddressConfig,
    #[command(flatten)]
    folder: DataDirConfig,
}

impl Config {
    pub(super) fn run(self, matches: &ArgMatches, output: Output) -> Result<Exit, Failure> {
        let ConfigCommand::Check(settings) = self.command;
        let Settings { common, planner, executor, gate: _, address: _, folder: _ } = *settings;
        executor.check()?;
        common.tokens()?;
        Tls::load((&common.tls).into())?;
        let databases = planner.namespace_databases()?;
        let in_force = effective(matches);
        let named = |setting: &Effective| match setting.setting.id().as_str() {
            "namespace_databases_file" => databases.as_slice(),
            _ => &[],
        };
        let value = |setting| as_value(setting, named(setting));
        let values = in_force.iter().map(value).collect();
        output.either(&Value::Array(values), || as_table(&in_force, &databases))?;
        Ok(Exit::Done)
    }
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
