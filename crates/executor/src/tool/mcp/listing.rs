//! What a server says it has, within bounds.

use super::text::{cut, line};
use crate::tool::{ErrorCode, ToolError};
use serde_json::Value;
use std::collections::BTreeSet;
use surety_common::config::SEPARATOR;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::tool_workers::check_tool_name;

/// The most tools of one server, and the most pages of its list.
pub(super) const MOST_TOOLS: usize = 256;
pub(super) const MOST_PAGES: usize = 64;
/// The longest description that is shown, in bytes.
const LONGEST_DESCRIPTION: usize = 4 << 10;
/// The largest schema, in bytes.
const LARGEST_SCHEMA: usize = 64 << 10;
/// The most bytes that the descriptions and schemas of one server have together: a model may be shown all of them with each
/// request.
const MOST_TEXT: usize = 1 << 20;

/// The names of the tools that read resources.
pub(super) const LIST_RESOURCES: &str = "list_resources";
pub(super) const READ_RESOURCE: &str = "read_resource";

/// What a server has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::tool) struct Listing {
    /// Its tools.
    pub(super) tools: Vec<Listed>,
    /// Whether it has resources.
    pub(super) has_resources: bool,
}

/// A tool in the words of its server.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::tool) struct Listed {
    /// The server's own name of it.
    pub(super) name: String,
    /// What it does.
    pub(super) description: String,
    /// The JSON Schema of its arguments.
    pub(super) input_schema: Value,
    /// The JSON Schema of its structured result.
    pub(super) output_schema: Option<Value>,
}

impl Listed {
    /// The bytes of its description and schemas.
    fn len(&self) -> usize {
        let schemas = std::iter::once(&self.input_schema).chain(&self.output_schema);
        schemas.map(|schema| schema.to_string().len()).sum::<usize>() + self.description.len()
    }

    /// Tells this description of the tool from any other.
    pub(super) fn digest(&self) -> String {
        let Self { name, description, input_schema, output_schema } = self;
        let parts = serde_json::json!([name, description, input_schema, output_schema]);
        // Maps of this crate's JSON may keep the order of their keys; that order tells nothing.
        sha256_hex(canonical(&parts).as_bytes())
    }
}

/// A value with the keys of its objects in order.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<_> = members.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            let members = keys
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::String(key.clone()), canonical(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The name of a server's tool in decisions.
pub(super) fn full_name(server: &str, tool: &str) -> String {
    format!("{server}{SEPARATOR}{tool}")
}

impl Listing {
    /// What of it can be offered as tools of `server`, and why the rest cannot.
    pub(super) fn offered(
        mut self,
        server: &str,
        resources: bool,
        allows: impl Fn(&str) -> bool,
    ) -> (Self, Vec<String>) {
        let mut seen = BTreeSet::new();
        let mut left_out = Vec::new();
        let mut space = MOST_TEXT;
        let mut keep = |tool: &mut Listed| {
            cut(&mut tool.description, LONGEST_DESCRIPTION);
            let why = match check_tool_name(&full_name(server, &tool.name)) {
                Err(problem) => Some(problem.message.clone()),
                Ok(()) if !seen.insert(tool.name.clone()) => Some("is listed twice".to_owned()),
                Ok(()) if resources && [LIST_RESOURCES, READ_RESOURCE].contains(&&*tool.name) => {
                    Some("has the name of a tool that reads resources".to_owned())
                }
                Ok(()) => schema_fault(tool).or_else(|| match space.checked_sub(tool.len()) {
                    Some(left) => {
                        space = left;
                        None
                    }
                    None => Some(format!(
                        "does not fit into the {MOST_TEXT} bytes of descriptions and schemas of one server"
                    )),
                }),
            };
            if let Some(why) = &why {
                left_out.push(format!("{}: {why}", line(&tool.name)));
            }
            why.is_none()
        };
        self.tools.retain(|tool| allows(&tool.name));
        self.tools.retain_mut(&mut keep);
        if self.tools.len() > MOST_TOOLS {
            left_out.push(format!("{} tools beyond {MOST_TOOLS}", self.tools.len() - MOST_TOOLS));
            self.tools.truncate(MOST_TOOLS);
        }
        self.has_resources &= resources;
        (self, left_out)
    }

    /// The tool with the server's own name `name`, as the driver was shown it.
    ///
    /// # Errors
    /// `mcp_tool_changed`
    pub(super) fn check(&self, server: &str, name: &str, digest: &str) -> Result<(), ToolError> {
        let changed = |how: &str| {
            let message = format!(
                "MCP server {server}: the tool {name:?} {how} since the driver was shown it, so nothing was called; \
                 look at the list of tools again"
            );
            Err(ToolError::new(ErrorCode::McpToolChanged, message))
        };
        match self.tools.iter().find(|tool| tool.name == name) {
            None => changed("is not listed any more"),
            Some(tool) => {
                let mut tool = tool.clone();
                cut(&mut tool.description, LONGEST_DESCRIPTION);
                if tool.digest() == digest {
                    Ok(())
                } else {
                    changed("has another description or schema")
                }
            }
        }
    }
}

fn schema_fault(tool: &Listed) -> Option<String> {
    for schema in std::iter::once(&tool.input_schema).chain(&tool.output_schema) {
        if schema.to_string().len() > LARGEST_SCHEMA {
            return Some(format!("has a schema of more than {LARGEST_SCHEMA} bytes"));
        }
        if let Err(reason) = surety_common::schema::compile(schema) {
            return Some(format!("has a schema that does not compile: {reason}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(name: &str, schema: Value) -> Listed {
        let description = "does".to_owned();
        Listed { name: name.to_owned(), description, input_schema: schema, output_schema: None }
    }

    #[test]
    fn what_cannot_be_offered_is_left_out_with_the_reason() {
        let object = || json!({"type": "object"});
        let tools = vec![
            listed("read", object()),
            listed("read", object()),
            listed("bad name", object()),
            listed(&"x".repeat(70), object()),
            listed("read_resource", object()),
            listed("broken", json!({"type": 7})),
            listed("remote", json!({"$ref": "https://schemas.example/x"})),
            listed("forbidden", object()),
        ];
        let listing = Listing { tools, has_resources: true };
        let (offered, left_out) = listing.offered("files", true, |name| name != "forbidden");
        let names: Vec<_> = offered.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["read"]);
        assert_eq!(left_out.len(), 6, "{left_out:?}");
        assert!(offered.has_resources);
    }

    #[test]
    fn descriptions_and_schemas_of_one_server_have_a_bound_together() {
        let large = json!({"type": "object", "description": "x".repeat(60 << 10)});
        let mut tools: Vec<_> =
            (0..100).map(|number| listed(&format!("t{number}"), large.clone())).collect();
        tools.push(listed("small", json!({"type": "object"})));
        let listing = Listing { tools, has_resources: false };
        let (offered, left_out) = listing.offered("files", false, |_| true);
        let bytes: usize = offered.tools.iter().map(Listed::len).sum();
        assert!(bytes <= MOST_TEXT, "{bytes}");
        assert_eq!((offered.tools.len(), left_out.len()), (18, 83));
        assert_eq!(offered.tools[17].name, "small", "what still fits is offered");
        assert!(
            left_out[0].starts_with("t17: does not fit into the 1048576 bytes"),
            "{left_out:?}"
        );
    }

    #[test]
    fn a_tool_is_called_only_as_it_was_shown() {
        let shown = listed("read", json!({"type": "object", "properties": {"a": {}, "b": {}}}));
        let digest = shown.digest();
        let same = listed("read", json!({"properties": {"b": {}, "a": {}}, "type": "object"}));
        let listing = |tool: Listed| Listing { tools: vec![tool], has_resources: false };
        assert!(listing(same).check("files", "read", &digest).is_ok());
        let mut other = shown.clone();
        other.description = "deletes".to_owned();
        for listing in [listing(other), Listing::default()] {
            let error = listing.check("files", "read", &digest).unwrap_err();
            assert_eq!(error.code, ErrorCode::McpToolChanged);
        }
    }
}
