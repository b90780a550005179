//! The time limits of the built-in tools.

use crate::fuse::timeout::{CallEnd, Timeouts, Timing};
use crate::tool::{BuiltinSettings, Registry, timing};
use surety_common::domain::json;
use surety_common::domain::plan::ToolCall;

fn timing_of(tool: &str, arguments: &str) -> Timing {
    let registry = Registry::with_builtin(&BuiltinSettings::default()).unwrap();
    let arguments = json::parse(arguments).unwrap().value;
    let call = ToolCall { name: tool.to_owned(), arguments };
    timing(registry.get(tool).unwrap().as_ref(), &call)
}

#[test]
fn scans_of_one_folder_share_a_budget_that_begins_at_a_minute() {
    let mut timeouts = Timeouts::default();
    let first = timing_of("grep", r#"{"pattern":"a","path":"src"}"#);
    assert_eq!(timeouts.budget_s(&first), 60);
    timeouts.record(&first, CallEnd::DeadlinePassed);
    let same_folder = timing_of("grep", r#"{"pattern":"b","path":"./src/"}"#);
    let other_folder = timing_of("grep", r#"{"pattern":"a"}"#);
    assert_eq!(timeouts.budget_s(&same_folder), 120);
    assert_eq!(timeouts.budget_s(&other_folder), 60);
}

#[test]
fn the_time_limit_in_the_arguments_is_used() {
    let asks = timing_of("run_command", r#"{"argv":["make"],"timeout_s":900}"#);
    assert_eq!(Timeouts::default().budget_s(&asks), 900);
    let does_not = timing_of("run_command", r#"{"argv":["make"]}"#);
    assert_eq!(Timeouts::default().budget_s(&does_not), 20);
}
