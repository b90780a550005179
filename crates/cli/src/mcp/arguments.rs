//! The arguments of the tools: bounded, and without unknown keys.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::fit::fault;
use super::tools::Tool;
use crate::contract::Outcome;
use crate::failure::{Code, Failure};

/// The longest proposal in bytes of JSON.
const MOST_PROPOSAL: usize = 256 << 10;
/// The longest text that is kept of an agent, in bytes.
pub(super) const MOST_TEXT: usize = 4 << 10;
/// The most answers to choose from.
const MOST_OPTIONS: usize = 16;

/// No arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// `surety_propose_plan`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Propose {
    title: String,
    #[serde(default)]
    goal: String,
    steps: Vec<Value>,
    checks: Vec<Value>,
}

impl Propose {
    /// The plan as the text of one object, as the reader of plans takes it.
    pub(super) fn into_plan(self) -> Result<String, Failure> {
        let Self { title, goal, steps, checks } = self;
        let plan =
            serde_json::json!({"title": title, "goal": goal, "steps": steps, "verify": checks});
        let text = plan.to_string();
        if text.len() > MOST_PROPOSAL {
            let message =
                format!("the plan has {} bytes, and {MOST_PROPOSAL} are allowed", text.len());
            return Err(Failure::new(Code::ValueInvalid, message, "Make it shorter."));
        }
        Ok(text)
    }
}

/// `surety_report`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportStep {
    pub(super) step_id: String,
    pub(super) outcome: Outcome,
    #[serde(default)]
    pub(super) note: String,
}

/// `surety_lease` and `surety_lease_plan`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lease {
    #[serde(default)]
    pub(super) wait_seconds: u64,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) run_id: String,
}

/// `surety_submit_plan`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitPlan {
    #[serde(default)]
    pub(super) plan: Option<Value>,
    #[serde(default)]
    pub(super) patch: Option<Value>,
}

/// `surety_decide`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decide {
    pub(super) decision: Value,
    #[serde(default, deserialize_with = "epoch")]
    pub(super) lease_epoch: Option<u64>,
}

/// `surety_release`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Release {
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default, deserialize_with = "epoch")]
    pub(super) lease_epoch: Option<u64>,
}

/// A lease_epoch as a number, or as the text that the JSON form of a lease has.
fn epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let read = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let wrong = || D::Error::custom(format!("lease_epoch: {value} is no whole number"));
    if value.is_null() { Ok(None) } else { read.map(Some).ok_or_else(wrong) }
}

/// `surety_ask_person`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) question: String,
    #[serde(default)]
    pub(super) options: Vec<String>,
}

impl Ask {
    pub(super) fn check(&self) -> Result<(), Failure> {
        within("question", &self.question)?;
        if self.question.trim().is_empty() {
            let message = "the question is empty";
            return Err(Failure::new(Code::ValueInvalid, message, "Write one.").at("question"));
        }
        if self.options.len() > MOST_OPTIONS {
            let message =
                format!("there are {} options, and {MOST_OPTIONS} are allowed", self.options.len());
            return Err(Failure::new(Code::ValueInvalid, message, "Name fewer.").at("options"));
        }
        self.options.iter().try_for_each(|option| within("options", option))
    }
}

/// Refuses a text that is too long.
pub(super) fn within(field: &str, text: &str) -> Result<(), Failure> {
    if text.len() <= MOST_TEXT {
        return Ok(());
    }
    let message = format!("`{field}` has {} bytes, and {MOST_TEXT} are allowed", text.len());
    Err(Failure::new(Code::ValueInvalid, message, "Make it shorter.").at(field))
}

/// A call of a tool, whose arguments were read.
#[derive(Debug)]
pub(super) enum Call {
    Status,
    Propose(Propose),
    Report(ReportStep),
    /// A round; whether it writes the verdict.
    Judge(bool),
    Ask(Ask),
    LeasePlan(Lease),
    SubmitPlan(SubmitPlan),
    Lease(Lease),
    Decide(Decide),
    Release(Release),
}

impl Call {
    /// Reads the arguments of a tool.
    pub(super) fn read(tool: Tool, arguments: Option<Map<String, Value>>) -> Result<Self, Failure> {
        Ok(match tool {
            Tool::Status => read::<Nothing>(tool, arguments).map(|_| Self::Status)?,
            Tool::Propose => Self::Propose(read(tool, arguments)?),
            Tool::Report => Self::Report(read(tool, arguments)?),
            Tool::Check => read::<Nothing>(tool, arguments).map(|_| Self::Judge(false))?,
            Tool::Verdict => read::<Nothing>(tool, arguments).map(|_| Self::Judge(true))?,
            Tool::Ask => Self::Ask(read(tool, arguments)?),
            Tool::LeasePlan => Self::LeasePlan(read(tool, arguments)?),
            Tool::SubmitPlan => Self::SubmitPlan(read(tool, arguments)?),
            Tool::Lease => Self::Lease(read(tool, arguments)?),
            Tool::Decide => Self::Decide(read(tool, arguments)?),
            Tool::Release => Self::Release(read(tool, arguments)?),
        })
    }
}

fn read<T: DeserializeOwned>(
    tool: Tool,
    arguments: Option<Map<String, Value>>,
) -> Result<T, Failure> {
    let arguments = arguments.unwrap_or_default();
    T::deserialize(&Value::Object(arguments.clone())).map_err(|_| {
        let fault = fault(&tool.schema(), &arguments);
        let fault =
            fault.unwrap_or_else(|| "one has a type or a value that it cannot have".to_owned());
        let message = format!("the arguments do not fit: {fault}");
        Failure::new(Code::ValueInvalid, message, "The tool's inputSchema names them.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Option<Map<String, Value>> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_no_tool_takes_is_named() {
        let long = "x".repeat(MOST_TEXT + 1);
        let path = read::<Nothing>(Tool::Status, object(r#"{"workspace": "/etc"}"#))
            .unwrap_err()
            .to_text();
        assert!(path.contains("[value_invalid]") && path.contains("workspace"), "{path}");
        let ask = |question: &str| Ask { question: question.to_owned(), options: Vec::new() };
        assert!(ask(&long).check().is_err() && ask(" ").check().is_err());
        assert!(ask("which?").check().is_ok());
        let many = Ask { options: vec![String::new(); MOST_OPTIONS + 1], ..ask("which?") };
        assert!(many.check().is_err());
        let plan =
            format!(r#"{{"title":"t","steps":[],"checks":["{}"]}}"#, "y".repeat(MOST_PROPOSAL));
        assert!(read::<Propose>(Tool::Propose, object(&plan)).unwrap().into_plan().is_err());
    }

    #[test]
    fn arguments_that_do_not_fit_are_named_with_what_they_must_be() {
        for (tool, arguments, said) in [
            (
                Tool::Status,
                r#"{"workspace": "/etc"}"#,
                "workspace is no argument of the tool; it takes none",
            ),
            (
                Tool::Propose,
                r#"{"title": "t", "checks": []}"#,
                "steps is missing; it must be a list",
            ),
            (
                Tool::Report,
                r#"{"step_id": "a", "outcome": "accepted"}"#,
                r#"outcome is the string "accepted"; it must be one of started, done, failed, blocked"#,
            ),
            (
                Tool::Lease,
                r#"{"wait_seconds": -1}"#,
                "wait_seconds is the number -1; it must be a whole number that is not negative",
            ),
            (
                Tool::Lease,
                r#"{"namespaces": ["a", 7]}"#,
                "namespaces[1] is the number 7; it must be a string",
            ),
            (Tool::Lease, r#"{"labels": {"a": null}}"#, "labels.a is null; it must be a string"),
            (
                Tool::Decide,
                r#"{"decision": {}, "lease_epoch": -1}"#,
                "lease_epoch is the number -1; it must be a whole number that is not negative, or its text",
            ),
            (
                Tool::Decide,
                r#"{"decision": {}, "lease_epoch": "x"}"#,
                "lease_epoch is the string \"x\"; it must be a whole number that is not negative, or its text",
            ),
        ] {
            let refused = Call::read(tool, object(arguments)).unwrap_err().to_text();
            assert!(refused.contains(&format!("the arguments do not fit: {said}")), "{refused}");
        }
    }
}
