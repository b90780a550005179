//! The arguments of the tools: bounded, and without unknown keys.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

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
            Tool::Status => read::<Nothing>(arguments).map(|_| Self::Status)?,
            Tool::Propose => Self::Propose(read(arguments)?),
            Tool::Report => Self::Report(read(arguments)?),
            Tool::Check => read::<Nothing>(arguments).map(|_| Self::Judge(false))?,
            Tool::Verdict => read::<Nothing>(arguments).map(|_| Self::Judge(true))?,
            Tool::Ask => Self::Ask(read(arguments)?),
            Tool::LeasePlan => Self::LeasePlan(read(arguments)?),
            Tool::SubmitPlan => Self::SubmitPlan(read(arguments)?),
            Tool::Lease => Self::Lease(read(arguments)?),
            Tool::Decide => Self::Decide(read(arguments)?),
            Tool::Release => Self::Release(read(arguments)?),
        })
    }
}

fn read<T: DeserializeOwned>(arguments: Option<Map<String, Value>>) -> Result<T, Failure> {
    let value = Value::Object(arguments.unwrap_or_default());
    T::deserialize(value).map_err(|error| {
        let mut message = format!("the arguments do not fit: {error}");
        // An unknown key may be as long as a message.
        if let Some((end, _)) = message.char_indices().nth(400) {
            message.truncate(end);
        }
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
        let path = read::<Nothing>(object(r#"{"workspace": "/etc"}"#)).unwrap_err().to_text();
        assert!(path.contains("[value_invalid]") && path.contains("workspace"), "{path}");
        let ask = |question: &str| Ask { question: question.to_owned(), options: Vec::new() };
        assert!(ask(&long).check().is_err() && ask(" ").check().is_err());
        assert!(ask("which?").check().is_ok());
        let many = Ask { options: vec![String::new(); MOST_OPTIONS + 1], ..ask("which?") };
        assert!(many.check().is_err());
        let plan =
            format!(r#"{{"title":"t","steps":[],"checks":["{}"]}}"#, "y".repeat(MOST_PROPOSAL));
        assert!(read::<Propose>(object(&plan)).unwrap().into_plan().is_err());
        let report = read::<ReportStep>(object(r#"{"step_id":"a","outcome":"accepted"}"#));
        assert!(report.unwrap_err().to_text().contains("accepted"));
    }
}
