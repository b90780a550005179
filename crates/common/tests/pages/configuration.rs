//! The settings' table, clap and the documentation agree.

use super::assert_page;
use std::collections::BTreeSet;

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser};
use surety_common::config::{
    Accepts, AddressConfig, CommonConfig, ConfigError, DataDirConfig, ExecutorConfig, GateConfig,
    McpSessionsConfig, ModelDriverConfig, PlannerConfig, PostgresConfig, Source, document,
    effective, settings,
};

#[derive(Debug, Parser)]
#[command(name = "surety-test")]
struct All {
    #[command(flatten)]
    common: CommonConfig,
    #[command(flatten)]
    planner: PlannerConfig,
    #[command(flatten)]
    executor: ExecutorConfig,
    #[command(flatten)]
    gate: GateConfig,
    #[command(flatten)]
    model: ModelDriverConfig,
    #[command(flatten)]
    address: AddressConfig,
    #[command(flatten)]
    folder: DataDirConfig,
    #[command(flatten)]
    postgres: PostgresConfig,
    #[command(flatten)]
    sessions: McpSessionsConfig,
}

/// The command without the variables of the machine the test runs on.
fn command() -> Command {
    All::command().mut_args(|arg| arg.env(None::<&str>))
}

fn read(flags: &[&str]) -> Result<All, clap::Error> {
    let line = std::iter::once(&"surety-test").chain(flags);
    command().try_get_matches_from(line).and_then(|matches| All::from_arg_matches(&matches))
}

#[test]
fn every_setting_of_the_table_is_a_flag_with_the_same_variable_default_and_help() {
    let command = All::command();
    for setting in settings() {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(setting.flag))
            .unwrap_or_else(|| panic!("no flag --{}", setting.flag));
        assert_eq!(arg.get_id().as_str(), setting.id());
        assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(setting.env));
        assert_eq!(arg.get_help().map(ToString::to_string).as_deref(), Some(setting.meaning));
        assert_eq!(arg.is_hide_env_values_set(), setting.secret, "--{}", setting.flag);
        let default = arg.get_default_values().first().and_then(|value| value.to_str());
        let switch = matches!(setting.accepts, Accepts::Switch);
        assert_eq!(default.unwrap_or(if switch { "false" } else { "" }), setting.default);
    }
}

#[test]
fn no_flag_is_missing_from_the_table_and_none_is_there_twice() {
    let table: Vec<_> = settings().iter().map(|setting| setting.flag).collect();
    let unique: BTreeSet<_> = table.iter().copied().collect();
    assert_eq!(unique.len(), table.len());
    let command = All::command();
    let known: BTreeSet<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    assert_eq!(known, unique);
}

#[test]
fn every_default_is_inside_its_own_range() {
    for setting in settings().iter().filter(|setting| !setting.default.is_empty()) {
        assert!(setting.accepts.allows(setting.default), "--{}", setting.flag);
    }
}

#[test]
fn the_documentation_is_what_the_table_says() {
    assert_page("configuration.md", &document());
}

#[test]
fn a_process_starts_with_no_flag_at_all() {
    let all = read(&[]).expect("the defaults");
    assert_eq!(all.planner.planner_listen.port(), 7401);
    assert_eq!(all.executor.executor_listen.port(), 7402);
    assert_eq!(all.gate.gate_listen.port(), 7403);
    assert!(all.common.database_url.is_none());
    all.executor.check().expect("the defaults fit each other");
}

#[test]
fn a_bad_value_names_the_flag_the_range_and_the_default() {
    let cases = [
        (["--executor-slots", "0"], "from 1 to 4096", "default, 64"),
        (["--executor-slots", "many"], "--executor-slots is \"many\"", "whole number of runs"),
        (["--planner-listen", "7401"], "IP address and a port", "default, 127.0.0.1:7401"),
        (["--log-format", "xml"], "one of text, json", "--log-format"),
        (["--log", "loud"], "off, error, warn", "default, info"),
        (["--max-message-bytes", "1"], "from 2097152", "bytes"),
    ];
    for (flags, first, second) in cases {
        let said = read(&flags).expect_err("a refusal").to_string();
        assert!(said.contains(first) && said.contains(second), "{said}");
    }
}

#[test]
fn a_bad_value_from_the_environment_names_the_variable() {
    // An existing variable replaces the real one, because setting a variable would affect other
    // tests.
    let command = command().mut_arg("executor_slots", |arg| arg.env("PATH"));
    let said = command.try_get_matches_from(["x"]).expect_err("a refusal").to_string();
    assert!(said.contains("the environment variable SURETY_EXECUTOR_SLOTS is"), "{said}");
}

#[test]
fn a_database_url_that_does_not_read_is_refused_without_showing_it() {
    let said = read(&["--database-url", "mysql://u:hunter2@h/d"]).expect_err("a refusal");
    assert!(!said.to_string().contains("hunter2"), "{said}");
    assert!(said.to_string().contains("postgres://"), "{said}");
}

#[test]
fn what_is_in_force_is_shown_with_its_source_and_without_secrets() {
    let flags = ["x", "--database-url", "postgres://u:hunter2@h/d", "--reflection"];
    let matches = command().try_get_matches_from(flags).expect("matches");
    let all = effective(&matches);
    assert_eq!(all.len(), settings().len());
    let find = |flag: &str| {
        let found = all.iter().find(|one| one.setting.flag == flag).expect("a setting");
        (found.value.clone(), found.source)
    };
    assert_eq!(find("database-url"), (Some("postgres://u:***@h/d".into()), Source::Flag));
    assert_eq!(find("reflection"), (Some("true".into()), Source::Flag));
    assert_eq!(find("executor-slots"), (Some("64".into()), Source::Default));
    assert_eq!(find("token-file"), (None, Source::Default));
    assert!(!format!("{:?}", read(&flags[1..])).contains("hunter2"));
}

#[test]
fn a_heartbeat_limit_below_twice_the_interval_is_refused_and_two_seconds_are_usable() {
    let limit = |interval: &str| {
        let flags =
            ["--executor-heartbeat-age-limit-ms", "2000", "--executor-heartbeat-interval-ms"];
        let flags: Vec<_> = flags.into_iter().chain([interval]).collect();
        read(&flags).expect("single values are fine").executor.check()
    };
    limit("1000").expect("twice the interval is enough");
    assert!(matches!(limit("1001"), Err(ConfigError::HeartbeatTooSlow { .. })));
}

#[test]
fn the_heartbeats_interval_follows_the_age_limit_unless_it_is_set() {
    for (limit, interval, expected) in [
        ("10000", None, 1000),
        ("3000", None, 1000),
        ("2000", None, 666),
        ("10000", Some("200"), 200),
    ] {
        let mut flags = vec!["--executor-heartbeat-age-limit-ms", limit];
        flags.extend(interval.into_iter().flat_map(|i| ["--executor-heartbeat-interval-ms", i]));
        let executor = read(&flags).expect("single values are fine").executor;
        executor.check().expect("the two fit");
        assert_eq!(executor.heartbeat_interval().as_millis(), expected, "{limit} {interval:?}");
    }
}

/// Each struct can also be used alone, by a single service.
#[test]
fn each_concern_can_be_flattened_alone() {
    for command in [
        CommonConfig::augment_args(Command::new("x")),
        PlannerConfig::augment_args(Command::new("x")),
        ExecutorConfig::augment_args(Command::new("x")),
        GateConfig::augment_args(Command::new("x")),
    ] {
        command.debug_assert();
    }
}
