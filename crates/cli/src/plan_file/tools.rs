//! The key `tools` of a plan file: verification commands by their names.
//!
//! ```yaml
//! tools:
//!   verify:
//!     lint: [npm, run, lint]
//!     types: {command: [npx, tsc, --project, "{scope}"], timeout: 5m}
//! ```

use surety_common::domain::json::Value;
use surety_common::wire::v1;

use super::near::unknown_key;
use super::values::{duration, invalid, object, texts};
use crate::failure::Failure;

/// Reads the verification commands; the planner knows their rules.
pub(super) fn verify_tools(value: &Value) -> Result<Vec<v1::VerifyTool>, Failure> {
    let mut tools = Vec::new();
    for (key, value) in object("tools", value)? {
        if key != "verify" {
            return Err(unknown_key("tools", key, &["verify"]));
        }
        for (name, value) in object("tools.verify", value)? {
            tools.push(tool(name, value)?);
        }
    }
    Ok(tools)
}

fn tool(name: &str, value: &Value) -> Result<v1::VerifyTool, Failure> {
    let path = format!("tools.verify.{name}");
    let name = name.to_owned();
    if value.as_array().is_some() {
        return Ok(v1::VerifyTool { name, argv: texts(&path, value)?, timeout: None });
    }
    let members = value.as_object();
    let members =
        members.ok_or_else(|| invalid(&path, "the program and its arguments as a list", value))?;
    let mut tool = v1::VerifyTool { name, ..v1::VerifyTool::default() };
    for (key, value) in members {
        let place = format!("{path}.{key}");
        match key.as_str() {
            "command" => tool.argv = texts(&place, value)?,
            "timeout" => tool.timeout = Some(duration(&place, value)?),
            _ => return Err(unknown_key(&path, key, &["command", "timeout"])),
        }
    }
    Ok(tool)
}
