//! The options of a plan file beside the plan.

use std::path::PathBuf;

use prost_types::Duration;
use surety_common::domain::json::Value;
use surety_common::domain::run::Policy;
use surety_common::wire::v1;

use super::content::PlanFile;
use super::near::{nearest, unknown_key};
use super::tools;
use super::values::{duration, invalid, object, text, texts};
use crate::failure::Failure;

/// The fields of a policy that a plan file has under another key: `tools`, and within `policy.network`.
const ELSEWHERE: [&str; 3] = ["hosts", "loopback_ports", "verify_tools"];

/// The keys of `policy` in a plan file.
fn policy_keys() -> Vec<&'static str> {
    Policy::KEYS.into_iter().filter(|key| !ELSEWHERE.contains(key)).collect()
}

/// Reads the value of an option; the planner reads the plan's own keys.
pub(super) fn take(plan_file: &mut PlanFile, key: &str, value: &Value) -> Result<(), Failure> {
    if value.is_null() {
        return Ok(());
    }
    match key {
        "goal" => plan_file.goal = text(key, value)?,
        "limits" => plan_file.limits = Some(limits(value)?),
        "policy" => {
            let verify_tools = plan_file.policy.take().unwrap_or_default().verify_tools;
            plan_file.policy = Some(v1::Policy { verify_tools, ..policy(value)? });
        }
        "tools" => {
            let policy = plan_file.policy.get_or_insert_default();
            policy.verify_tools = tools::verify_tools(value)?;
        }
        "workspace" => plan_file.workspace = Some(PathBuf::from(text(key, value)?)),
        "repository" => plan_file.repository = Some(repository(value)?),
        "labels" => plan_file.labels = labels(value)?,
        "driver" => plan_file.driver = word(key, value, &DRIVERS)?,
        "interactive" => plan_file.interactive = truth(key, value)?,
        "plan" => plan_file.without_plan = !truth(key, value)?,
        _ => {}
    }
    Ok(())
}

const DRIVERS: [(&str, v1::Driver); 3] =
    [("script", v1::Driver::Script), ("model", v1::Driver::Model), ("remote", v1::Driver::Remote)];
const VERIFY_COMMANDS: [(&str, v1::VerifyCommands); 2] =
    [("runner", v1::VerifyCommands::Runner), ("receipts_only", v1::VerifyCommands::ReceiptsOnly)];
const WORKSPACE_LOCK: [(&str, v1::WorkspaceLock); 2] =
    [("exclusive", v1::WorkspaceLock::Exclusive), ("shared", v1::WorkspaceLock::Shared)];
const ON_BUSY: [(&str, v1::OnBusy); 2] = [("wait", v1::OnBusy::Wait), ("fail", v1::OnBusy::Fail)];
const ON_DENIED: [(&str, v1::OnDenied); 2] =
    [("continue", v1::OnDenied::Continue), ("stop", v1::OnDenied::Stop)];
const ON_EXPIRED: [(&str, v1::OnExpired); 2] =
    [("stop", v1::OnExpired::Stop), ("continue", v1::OnExpired::Continue)];
const ON_BUDGET: [(&str, v1::OnBudget); 2] =
    [("block", v1::OnBudget::Block), ("fail", v1::OnBudget::Fail)];

/// The words of `in_doubt`, in plan files and in policies of namespaces.
pub(crate) const IN_DOUBT: [(&str, v1::InDoubt); 3] =
    [("ask", v1::InDoubt::Ask), ("refuse", v1::InDoubt::Refuse), ("allow", v1::InDoubt::Allow)];
const CANARIES: [(&str, v1::CanaryPolicy); 3] = [
    ("auto", v1::CanaryPolicy::Auto),
    ("always", v1::CanaryPolicy::Always),
    ("never", v1::CanaryPolicy::Never),
];
const NETWORKS: [(&str, v1::NetworkPolicy); 4] = [
    ("none", v1::NetworkPolicy::None),
    ("host_loopback", v1::NetworkPolicy::HostLoopback),
    ("hosts", v1::NetworkPolicy::Hosts),
    ("all", v1::NetworkPolicy::All),
];
const SANDBOXES: [(&str, v1::SandboxPolicy); 3] = [
    ("require_full", v1::SandboxPolicy::RequireFull),
    ("allow_partial", v1::SandboxPolicy::AllowPartial),
    ("none", v1::SandboxPolicy::None),
];

fn policy(value: &Value) -> Result<v1::Policy, Failure> {
    let mut policy = v1::Policy::default();
    for (key, value) in object("policy", value)? {
        let path = format!("policy.{key}");
        match key.as_str() {
            "verify_commands" => {
                policy.set_verify_commands(word(&path, value, &VERIFY_COMMANDS)?);
            }
            "repeatable_commands" => policy.repeatable_commands = texts(&path, value)?,
            "on_budget" => policy.set_on_budget(word(&path, value, &ON_BUDGET)?),
            "confirm_tools" => policy.confirm_tools = texts(&path, value)?,
            "confirm_destructive" => policy.confirm_destructive = truth(&path, value)?,
            "confirm_open_world" => policy.confirm_open_world = truth(&path, value)?,
            "on_denied" => policy.set_on_denied(word(&path, value, &ON_DENIED)?),
            "on_expired" => policy.set_on_expired(word(&path, value, &ON_EXPIRED)?),
            "workspace_lock" => {
                policy.set_workspace_lock(word(&path, value, &WORKSPACE_LOCK)?);
            }
            "approve_plan" => policy.approve_plan = truth(&path, value)?,
            "require_independent" => policy.require_independent = truth(&path, value)?,
            "on_busy" => policy.set_on_busy(word(&path, value, &ON_BUSY)?),
            "protect" => policy.protect = texts(&path, value)?,
            "may_change" => policy.may_change = texts(&path, value)?,
            "prepare" => policy.prepare = texts(&path, value)?,
            "in_doubt" => policy.set_in_doubt(word(&path, value, &IN_DOUBT)?),
            "secrets" => policy.secrets = texts(&path, value)?,
            "refuse_on" => policy.refuse_on = texts(&path, value)?,
            "canary" => policy.set_canary(word(&path, value, &CANARIES)?),
            "network" => network(&mut policy, &path, value)?,
            "sandbox" => policy.set_sandbox(word(&path, value, &SANDBOXES)?),
            _ => return Err(unknown_key("policy", key, &policy_keys())),
        }
    }
    Ok(policy)
}

/// The network as one word, or as the part of it that is opened: `{host_loopback: [5432]}`, `{hosts: [a.org]}`.
fn network(policy: &mut v1::Policy, path: &str, value: &Value) -> Result<(), Failure> {
    let Some(members) = value.as_object() else {
        policy.set_network(word(path, value, &NETWORKS)?);
        return Ok(());
    };
    let [(key, list)] = members else {
        return Err(invalid(path, "one of host_loopback and hosts", value));
    };
    let place = format!("{path}.{key}");
    match key.as_str() {
        "host_loopback" => {
            policy.set_network(v1::NetworkPolicy::HostLoopback);
            let items = list.as_array().ok_or_else(|| invalid(&place, "a list of ports", list))?;
            let port = |(at, item): (usize, &Value)| {
                let number = item.as_number().and_then(|number| number.parse::<u32>().ok());
                number.ok_or_else(|| invalid(&format!("{place}[{at}]"), "a port", item))
            };
            policy.loopback_ports = items.iter().enumerate().map(port).collect::<Result<_, _>>()?;
        }
        "hosts" => {
            policy.set_network(v1::NetworkPolicy::Hosts);
            policy.hosts = texts(&place, list)?;
        }
        _ => return Err(unknown_key(path, key, &["host_loopback", "hosts"])),
    }
    Ok(())
}

/// The field that a limit's number is written to.
enum Slot<'a> {
    Short(&'a mut Option<u32>),
    Long(&'a mut Option<u64>),
    Time(&'a mut Option<Duration>),
}

fn slots(limits: &mut v1::Limits) -> [(&'static str, Slot<'_>); 20] {
    use Slot::{Long, Short, Time};
    [
        ("max_plan_steps", Short(&mut limits.max_plan_steps)),
        ("planning_retry", Short(&mut limits.planning_retry)),
        ("max_step_tool_calls", Short(&mut limits.max_step_tool_calls)),
        ("max_step_rounds", Short(&mut limits.max_step_rounds)),
        ("max_run_rounds", Short(&mut limits.max_run_rounds)),
        ("max_replans", Short(&mut limits.max_replans)),
        ("max_repairs", Short(&mut limits.max_repairs)),
        ("max_consecutive_corrections", Short(&mut limits.max_consecutive_corrections)),
        ("max_missing_completion", Short(&mut limits.max_missing_completion)),
        ("max_thinking_only", Short(&mut limits.max_thinking_only)),
        ("max_repeat_cycle", Short(&mut limits.max_repeat_cycle)),
        ("max_parallel_steps", Short(&mut limits.max_parallel_steps)),
        ("step_deadline", Time(&mut limits.step_deadline)),
        ("run_deadline", Time(&mut limits.run_deadline)),
        ("token_budget", Long(&mut limits.token_budget)),
        ("cost_budget_micros", Long(&mut limits.cost_budget_micros)),
        ("confirm_ttl", Time(&mut limits.confirm_ttl)),
        ("command_timeout", Time(&mut limits.command_timeout)),
        ("max_turn_tokens", Long(&mut limits.max_turn_tokens)),
        ("max_turn_cost_micros", Long(&mut limits.max_turn_cost_micros)),
    ]
}

/// Numbers are taken as they are: the planner knows the ranges.
fn limits(value: &Value) -> Result<v1::Limits, Failure> {
    let mut limits = v1::Limits::default();
    let mut slots = slots(&mut limits);
    let known = slots.each_ref().map(|(name, _)| *name);
    for (key, value) in object("limits", value)? {
        let slot = slots.iter_mut().find(|(name, _)| name == key);
        let Some((_, slot)) = slot else { return Err(unknown_key("limits", key, &known)) };
        if value.is_null() {
            continue;
        }
        let path = format!("limits.{key}");
        let spelling = value.as_number().unwrap_or_default();
        let refused =
            |most: u64| invalid(&path, &format!("a whole number from 0 to {most}"), value);
        match slot {
            Slot::Short(slot) => {
                **slot = Some(spelling.parse().map_err(|_| refused(u32::MAX.into()))?);
            }
            Slot::Long(slot) => **slot = Some(spelling.parse().map_err(|_| refused(u64::MAX))?),
            Slot::Time(slot) => **slot = Some(duration(&path, value)?),
        }
    }
    Ok(limits)
}

/// An address alone, or `{url, revision, secret}`.
fn repository(value: &Value) -> Result<v1::Repository, Failure> {
    let mut repository = v1::Repository::default();
    if let Some(url) = value.as_str() {
        repository.url = url.to_owned();
        return Ok(repository);
    }
    for (key, value) in object("repository", value)? {
        let path = format!("repository.{key}");
        match key.as_str() {
            "url" => repository.url = text(&path, value)?,
            "revision" => repository.revision = text(&path, value)?,
            "secret" => repository.secret = text(&path, value)?,
            _ => return Err(unknown_key("repository", key, &["url", "revision", "secret"])),
        }
    }
    Ok(repository)
}

/// Plain numbers and booleans are read as the text that they are written with.
fn labels(value: &Value) -> Result<Vec<(String, String)>, Failure> {
    let label = |(key, value): &(String, Value)| {
        let text = match value {
            Value::String(text) | Value::Number(text) => text.clone(),
            Value::Bool(truth) => truth.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(invalid(&format!("labels.{key}"), "a text", value));
            }
        };
        Ok((key.clone(), text))
    };
    object("labels", value)?.iter().map(label).collect()
}

fn truth(path: &str, value: &Value) -> Result<bool, Failure> {
    value.as_bool().ok_or_else(|| invalid(path, "true or false", value))
}

fn word<T: Copy>(path: &str, value: &Value, known: &[(&str, T)]) -> Result<T, Failure> {
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let found = value.as_str().unwrap_or_default();
    let meant = known.iter().find(|(word, _)| *word == found);
    meant.map(|(_, meant)| *meant).ok_or_else(|| {
        let near = nearest(found, &words).map(|near| format!("; did you mean {near}?"));
        let wanted = format!("one of {}{}", words.join(", "), near.unwrap_or_default());
        invalid(path, &wanted, value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/cli.md");

    #[test]
    fn each_key_of_the_policy_is_read_and_is_in_the_page() {
        for key in policy_keys() {
            assert!(PAGE.contains(&format!("`policy.{key}`")), "docs/cli.md lacks policy.{key}");
            let number = Value::Number("7".to_owned());
            let file = Value::Object(vec![(key.to_owned(), number)]);
            let refused = policy(&file).unwrap_err();
            assert!(!refused.to_string().contains("unknown_key"), "{key} is not read: {refused}");
        }
    }
}
