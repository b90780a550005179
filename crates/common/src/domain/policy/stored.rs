//! The form in which the policy of a namespace is stored.

use super::{NamespacePolicy, of_operator};
use crate::domain::check::{AcceptCheck, Author, read_checks};
use crate::domain::json::Value;
use crate::domain::problem::{Code, Problem};
use crate::domain::run::InDoubt;
use crate::domain::tool_workers::{ToolWorkerPolicy, read_entries};
use crate::domain::verify_tool::VerifyTool;
use std::collections::BTreeMap;

impl NamespacePolicy {
    /// The form it is stored in.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self {
            ceilings,
            four_eyes,
            refuse_receipts_only,
            refuse_repeatable_commands,
            checks,
            refuse_network,
            refuse_unsandboxed,
            require_full_sandbox,
            require_independent,
            workspace_roots,
            in_doubt,
            refuse_on,
            protect,
            refuse_may_change,
            may_change_within,
            prepare,
            confirm_tools,
            confirm_destructive,
            confirm_open_world,
            tool_workers,
            verify_tools,
        } = self;
        let ceilings =
            ceilings.iter().map(|(name, value)| (name.clone(), Value::Number(value.to_string())));
        let texts =
            |texts: &[String]| Value::Array(texts.iter().cloned().map(Value::String).collect());
        let member = |key: &str, value| (key.to_owned(), value);
        let text = |text: &str| Value::String(text.to_owned());
        Value::Object(vec![
            member("ceilings", Value::Object(ceilings.collect())),
            member("four_eyes", Value::Bool(*four_eyes)),
            member("refuse_receipts_only", Value::Bool(*refuse_receipts_only)),
            member("refuse_repeatable_commands", Value::Bool(*refuse_repeatable_commands)),
            member("checks", Value::Array(checks.iter().map(AcceptCheck::to_json).collect())),
            member("refuse_network", Value::Bool(*refuse_network)),
            member("refuse_unsandboxed", Value::Bool(*refuse_unsandboxed)),
            member("require_full_sandbox", Value::Bool(*require_full_sandbox)),
            member("require_independent", Value::Bool(*require_independent)),
            member("workspace_roots", texts(workspace_roots)),
            member("in_doubt", in_doubt.map_or(Value::Null, |most| text(most.as_str()))),
            member("refuse_on", Value::Array(refuse_on.iter().map(|code| text(code)).collect())),
            member("protect", texts(protect)),
            member("refuse_may_change", Value::Bool(*refuse_may_change)),
            member("may_change_within", texts(may_change_within)),
            member("prepare", texts(prepare)),
            member("confirm_tools", texts(confirm_tools)),
            member("confirm_destructive", Value::Bool(*confirm_destructive)),
            member("confirm_open_world", Value::Bool(*confirm_open_world)),
            member(
                "tool_workers",
                Value::Array(tool_workers.iter().map(ToolWorkerPolicy::to_json).collect()),
            ),
            member(
                "verify_tools",
                Value::Array(verify_tools.iter().map(VerifyTool::to_json).collect()),
            ),
        ])
    }

    /// Reads the stored form, which has the digests of overlays alone.
    ///
    /// # Errors
    /// `type_mismatch`, or what is wrong with a check.
    pub fn from_json(value: &Value) -> Result<Self, Problem> {
        let truth = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
        let mut ceilings = BTreeMap::new();
        for (name, value) in value.get("ceilings").and_then(Value::as_object).unwrap_or_default() {
            let number = value.as_number().and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| {
                Problem::at(Code::TypeMismatch, format!("ceilings.{name}"), "is no whole number")
            })?;
            ceilings.insert(name.clone(), number);
        }
        let none = Value::Null;
        let stored = value.get("checks").unwrap_or(&none);
        let (checks, _) = read_checks(stored, "checks", Author::Operator)?;
        let texts = |key: &str| -> Vec<String> {
            let list = value.get(key).and_then(Value::as_array).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let tools = value.get("verify_tools").and_then(Value::as_array).unwrap_or_default();
        let in_doubt = value.get("in_doubt").and_then(Value::as_str);
        let in_doubt = in_doubt.map(|word| {
            let message = format!("{word:?} is none of refuse, ask, allow");
            let unknown = || Problem::at(Code::TypeMismatch, "in_doubt", message);
            InDoubt::from_text(word).ok_or_else(unknown)
        });
        Ok(Self {
            ceilings,
            four_eyes: truth("four_eyes"),
            refuse_receipts_only: truth("refuse_receipts_only"),
            refuse_repeatable_commands: truth("refuse_repeatable_commands"),
            checks: checks.into_iter().map(of_operator).collect(),
            refuse_network: truth("refuse_network"),
            refuse_unsandboxed: truth("refuse_unsandboxed"),
            require_full_sandbox: truth("require_full_sandbox"),
            require_independent: truth("require_independent"),
            workspace_roots: texts("workspace_roots"),
            in_doubt: in_doubt.transpose()?,
            refuse_on: texts("refuse_on"),
            protect: texts("protect"),
            refuse_may_change: truth("refuse_may_change"),
            may_change_within: texts("may_change_within"),
            prepare: texts("prepare"),
            confirm_tools: texts("confirm_tools"),
            confirm_destructive: truth("confirm_destructive"),
            confirm_open_world: truth("confirm_open_world"),
            tool_workers: read_entries(value),
            verify_tools: tools.iter().map(VerifyTool::from_json).collect::<Result<_, _>>()?,
        })
    }
}
