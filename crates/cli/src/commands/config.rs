//! `surety config check`

use clap::{ArgMatches, Args, Subcommand};
use surety_common::config::{
    AddressConfig, CommonConfig, DataDirConfig, Effective, ExecutorConfig, GateConfig,
    PlannerConfig, effective,
};
use surety_common::domain::json::Value;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::{columns, harmless};
use crate::wire_json::{object, text};

/// Looks at the settings without a service.
#[derive(Debug, Args)]
pub struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every setting that is in force and where it came from, without secrets.
    Check(Box<Settings>),
}

/// Everything that can be set.
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
        let Settings { common, planner: _, executor, gate: _, address: _, folder: _ } = *settings;
        executor.check()?;
        common.token()?;
        let in_force = effective(matches);
        let values = in_force.iter().map(as_value).collect();
        output.either(&Value::Array(values), || as_table(&in_force))?;
        Ok(Exit::Done)
    }
}

fn as_value(setting: &Effective) -> Value {
    object([
        ("flag", text(setting.setting.flag)),
        ("variable", text(setting.setting.env)),
        ("value", setting.value.as_deref().map_or(Value::Null, text)),
        ("source", text(setting.source.to_string())),
    ])
}

fn as_table(in_force: &[Effective]) -> String {
    let row = |setting: &Effective| {
        vec![
            format!("--{}", setting.setting.flag),
            setting.setting.env.to_owned(),
            setting.value.as_deref().map_or_else(|| "-".to_owned(), harmless),
            setting.source.to_string(),
        ]
    };
    columns(&["FLAG", "VARIABLE", "VALUE", "FROM"], in_force.iter().map(row).collect())
}
