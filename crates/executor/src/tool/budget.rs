//! How long a call may take: a call that ran into its deadline gets twice the time when it comes
//! again.

use crate::tool::{Tool, ToolSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use surety_common::domain::json::Value;

/// What a tool gets that says nothing else.
pub const DEFAULT: Duration = Duration::from_secs(20);

/// What a scan of a workspace gets at least.
pub const SCAN: Duration = Duration::from_secs(60);

/// What no doubling goes beyond.
pub const LONGEST: Duration = Duration::from_secs(160);

/// The budgets that grew, by call. Everything else has its tool's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budgets {
    grown_s: BTreeMap<String, u64>,
}

impl Budgets {
    /// What a call shares its budget with: the same call, or for a scan every scan of the same
    /// folder by the same tool.
    pub fn key(tool: &dyn Tool, args: &Value) -> String {
        let name = &tool.spec().name;
        match tool.scanned_folder(args) {
            Some(folder) if tool.spec().scan => format!("{name} in {folder}"),
            Some(_) | None => format!("{name} {}", args.digest()),
        }
    }

    /// How long this call may take. What the arguments ask for is granted, even beyond the
    /// longest budget that doubling reaches.
    pub fn budget(&self, tool: &dyn Tool, args: &Value) -> Duration {
        let grown = self.grown_s.get(&Self::key(tool, args));
        let grown = grown.map_or(Duration::ZERO, |grown| Duration::from_secs(*grown));
        match tool.requested_timeout(args) {
            Some(requested) => requested,
            None => base(tool.spec()),
        }
        .max(grown)
    }

    /// Takes the end of a call into account: only a passed deadline makes the next budget grow,
    /// anything else puts it back.
    pub fn record(&mut self, tool: &dyn Tool, args: &Value, timed_out: bool) {
        let key = Self::key(tool, args);
        if timed_out {
            let next = self.budget(tool, args).saturating_mul(2).min(LONGEST);
            self.grown_s.insert(key, next.as_secs());
        } else {
            self.grown_s.remove(&key);
        }
    }
}

fn base(spec: &ToolSpec) -> Duration {
    if spec.scan { spec.default_timeout.max(SCAN) } else { spec.default_timeout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::builtin::{grep::Grep, run_command::RunCommand};
    use surety_common::domain::json;

    fn args(text: &str) -> Value {
        json::parse(text).unwrap().value
    }

    #[test]
    fn a_call_that_timed_out_gets_twice_the_time_up_to_a_bound_and_loses_it_again() {
        let (tool, call) = (RunCommand::new(), args(r#"{"argv":["make"]}"#));
        let mut budgets = Budgets::default();
        let mut seen = vec![budgets.budget(&tool, &call).as_secs()];
        for _ in 0..4 {
            budgets.record(&tool, &call, true);
            seen.push(budgets.budget(&tool, &call).as_secs());
        }
        assert_eq!(seen, [20, 40, 80, 160, 160]);
        let other = args(r#"{"argv":["make","x"]}"#);
        assert_eq!(budgets.budget(&tool, &other).as_secs(), 20);
        budgets.record(&tool, &call, false);
        assert_eq!(budgets.budget(&tool, &call).as_secs(), 20);
    }

    #[test]
    fn scans_of_one_folder_share_a_budget_that_begins_at_a_minute() {
        let tool = Grep::new();
        let mut budgets = Budgets::default();
        let first = args(r#"{"pattern":"a","path":"src"}"#);
        assert_eq!(budgets.budget(&tool, &first).as_secs(), 60);
        budgets.record(&tool, &first, true);
        let same_folder = args(r#"{"pattern":"b","path":"./src/"}"#);
        let other_folder = args(r#"{"pattern":"a"}"#);
        assert_eq!(budgets.budget(&tool, &same_folder).as_secs(), 120);
        assert_eq!(budgets.budget(&tool, &other_folder).as_secs(), 60);
    }

    #[test]
    fn what_the_arguments_ask_for_is_granted() {
        let call = args(r#"{"argv":["make"],"timeout_s":900}"#);
        let granted = Budgets::default().budget(&RunCommand::new(), &call);
        assert_eq!(granted.as_secs(), 900);
    }
}
