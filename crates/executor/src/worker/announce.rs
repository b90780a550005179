//! The announcement of a worker: what it may serve, and where.

use super::Workers;
use super::streams::Accepted;
use crate::tool::WorkerSpec;
use std::collections::{BTreeMap, BTreeSet};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Object;
use surety_common::domain::json::{self, sha256_hex};
use surety_common::domain::labels::check_labels;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::tool_workers::{check_tool_name, entry_of};
use surety_common::store::{self, OfferedTool, TakenTool, WorkerName};
use surety_common::wire::caller::Caller;
use surety_common::wire::v1;

/// The longest name of a worker, in bytes.
const MAX_WORKER_ID: usize = 200;
/// The most tools of a worker, and the most pairs of a tool and a namespace.
const MAX_TOOLS: usize = 100;
const MAX_OFFERS: usize = 2000;
/// The most namespaces that an announcement names.
const MAX_NAMESPACES: usize = 100;
/// The longest description, and the longest sample.
const MAX_TEXT: usize = 4 << 10;
/// The largest schema.
const MAX_SCHEMA: usize = 64 << 10;
/// The most bytes of the descriptions, samples and schemas of a worker's tools together: a model may be shown all of them with
/// each request.
const MAX_TEXTS: usize = 1 << 20;
/// The most concurrent calls of a worker.
const MAX_PARALLEL: u32 = 1000;
/// The shortest and the longest time limit of a call, in seconds.
const TIMEOUT_S: std::ops::RangeInclusive<i64> = 1..=30 * 24 * 3600;

/// An announcement that can be read.
struct Announcement {
    worker: WorkerName,
    tools: Vec<Described>,
    namespaces: Vec<String>,
    labels: BTreeMap<String, String>,
    max_parallel: usize,
}

struct Described {
    name: String,
    text: String,
    text_digest: String,
    schema_digest: String,
}

impl Workers {
    /// Checks an announcement, and stores what the worker offers.
    ///
    /// # Errors
    /// `field_missing`, `too_large`, `type_mismatch`, `limit_out_of_range`, `schema_invalid`, `tool_name_taken`,
    /// `tool_not_granted`, `namespace_not_found`, `database_unavailable`.
    pub(super) async fn accept(
        &self,
        caller: &Caller,
        announce: v1::Announce,
    ) -> Result<Accepted, Fault> {
        let announcement = read(caller.name(), announce)?;
        self.refuse_reserved(&announcement.tools)?;
        let offers = self.granted(caller, &announcement).await?;
        if offers.len() > MAX_OFFERS {
            let message = format!(
                "offers {} tools over its namespaces; at most {MAX_OFFERS} are kept, name fewer",
                offers.len()
            );
            return Err(Problem::at(Code::TooLarge, "announce.namespaces", message).into());
        }
        let Announcement { worker, max_parallel, labels, .. } = announcement;
        let taken = store::offer_tools(&self.0.setup.pool, &worker, &offers, self.times()).await?;
        if let Some(TakenTool { namespace, tool, identity }) = taken {
            let message = format!(
                "a worker of {identity:?} serves {tool:?} in the namespace {namespace:?} with another \
                 schema; use another name, or stop that worker first"
            );
            return Err(Fault::new(FaultCode::ToolNameTaken, message).with_field("announce.tools"));
        }
        let serves = offers.into_iter().map(|offer| (offer.namespace, offer.tool)).collect();
        Ok(Accepted { caller: caller.clone(), worker, serves, labels, max_parallel })
    }

    fn refuse_reserved(&self, tools: &[Described]) -> Result<(), Fault> {
        let toolbox = &self.0.setup.toolbox;
        match tools.iter().find(|tool| toolbox.is_reserved(&tool.name)) {
            None => Ok(()),
            Some(tool) => {
                let message = format!(
                    "{:?} is the name of a built-in tool or of one of an MCP server; use another one",
                    tool.name
                );
                Err(Fault::new(FaultCode::ToolNameTaken, message).with_field("announce.tools"))
            }
        }
    }

    /// What the policies let the worker serve.
    async fn granted(
        &self,
        caller: &Caller,
        announcement: &Announcement,
    ) -> Result<Vec<OfferedTool>, Fault> {
        let Announcement { worker, tools, namespaces, .. } = announcement;
        for namespace in namespaces {
            caller.may(&Object::namespace(namespace), || {
                let message = format!("no namespace {namespace:?} is reached by this identity");
                Fault::new(FaultCode::NamespaceNotFound, message).with_field("announce.namespaces")
            })?;
        }
        let is_named = !namespaces.is_empty();
        let places = match (namespaces.as_slice(), caller.reached()) {
            ([], reached) if reached.is_empty() => {
                store::worker_namespaces(&self.0.setup.pool).await?
            }
            ([], reached) => reached,
            (named, _) => named.to_vec(),
        };
        let mut offers = Vec::new();
        let mut served = BTreeSet::new();
        for namespace in &places {
            let policy = self.0.policies.find(namespace).await?;
            for tool in tools {
                let entry = entry_of(&policy.tool_workers, &tool.name);
                if entry.is_some_and(|entry| entry.admits(&worker.identity)) {
                    served.insert(tool.name.as_str());
                    offers.push(tool.offered_in(namespace));
                } else if is_named {
                    return Err(not_granted(&tool.name, worker, Some(namespace)));
                }
            }
        }
        match tools.iter().find(|tool| !served.contains(tool.name.as_str())) {
            Some(tool) => Err(not_granted(&tool.name, worker, None)),
            None => Ok(offers),
        }
    }
}

impl Described {
    fn offered_in(&self, namespace: &str) -> OfferedTool {
        OfferedTool {
            namespace: namespace.to_owned(),
            tool: self.name.clone(),
            spec: self.text.clone(),
            spec_digest: self.text_digest.clone(),
            schema_digest: self.schema_digest.clone(),
        }
    }
}

fn not_granted(tool: &str, worker: &WorkerName, namespace: Option<&String>) -> Fault {
    let place = match namespace {
        Some(namespace) => format!("the policy of the namespace {namespace:?} does not let"),
        None => "no policy of its namespaces lets".to_owned(),
    };
    let message = format!(
        "{place} {:?} serve {tool:?}; an operator adds the tool and the identity to tool_workers",
        worker.identity
    );
    Fault::new(FaultCode::ToolNotGranted, message).with_field("announce.tools")
}

fn at(code: Code, field: &str, message: impl Into<String>) -> Fault {
    Problem::at(code, format!("announce.{field}"), message).into()
}

fn read(identity: &str, announce: v1::Announce) -> Result<Announcement, Fault> {
    let v1::Announce { worker_id, tools, max_parallel, namespaces, labels } = announce;
    let worker = WorkerName { identity: identity.to_owned(), worker_id: name_of(&worker_id)? };
    if tools.is_empty() {
        return Err(at(Code::FieldMissing, "tools", "is empty; announce at least one tool"));
    }
    if tools.len() > MAX_TOOLS {
        let message =
            format!("has {} tools; at most {MAX_TOOLS} are served by one worker", tools.len());
        return Err(at(Code::TooLarge, "tools", message));
    }
    let bytes: usize = tools.iter().map(text_bytes).sum();
    if bytes > MAX_TEXTS {
        let message = format!(
            "has {bytes} bytes of descriptions, samples and schemas; at most {MAX_TEXTS} are kept of one worker, shorten \
             them or serve fewer tools"
        );
        return Err(at(Code::TooLarge, "tools", message));
    }
    if namespaces.len() > MAX_NAMESPACES {
        let message = format!("names more than {MAX_NAMESPACES} namespaces");
        return Err(at(Code::TooLarge, "namespaces", message));
    }
    if namespaces.iter().any(|namespace| namespace.contains('\0')) {
        return Err(at(Code::TypeMismatch, "namespaces", "contains the character U+0000"));
    }
    check_labels("announce.labels", &labels)?;
    if max_parallel > MAX_PARALLEL {
        let message = format!("is {max_parallel}; a worker takes at most {MAX_PARALLEL} calls");
        return Err(at(Code::LimitOutOfRange, "max_parallel", message));
    }
    let mut names = BTreeSet::new();
    let mut described = Vec::new();
    for (place, tool) in tools.into_iter().enumerate() {
        let tool = describe(&format!("tools[{place}]"), tool)?;
        if !names.insert(tool.name.clone()) {
            let message = format!("{:?} is announced twice", tool.name);
            return Err(at(Code::TypeMismatch, &format!("tools[{place}].name"), message));
        }
        described.push(tool);
    }
    let namespaces: BTreeSet<String> = namespaces.into_iter().collect();
    Ok(Announcement {
        worker,
        tools: described,
        namespaces: namespaces.into_iter().collect(),
        labels,
        max_parallel: usize::try_from(max_parallel.max(1)).unwrap_or(1),
    })
}

fn text_bytes(tool: &v1::Tool) -> usize {
    tool.description.len() + tool.return_sample.len() + tool.input_schema_json.len()
}

fn name_of(worker_id: &str) -> Result<String, Fault> {
    let name = worker_id.trim();
    if name.is_empty() {
        return Err(at(Code::FieldMissing, "worker_id", "is missing; set it"));
    }
    if name.len() > MAX_WORKER_ID {
        let message = format!("is longer than {MAX_WORKER_ID} bytes; shorten it");
        return Err(at(Code::TooLarge, "worker_id", message));
    }
    if name.contains(char::is_control) {
        let message = "contains a control character; use letters and digits";
        return Err(at(Code::TypeMismatch, "worker_id", message));
    }
    Ok(name.to_owned())
}

fn describe(field: &str, tool: v1::Tool) -> Result<Described, Fault> {
    // The annotations count where the policy repeats them; the rest is the service's.
    let v1::Tool { name, description, input_schema_json, return_sample, timeout, .. } = tool;
    let at = |code, part: &str, message: String| at(code, &format!("{field}.{part}"), message);
    check_tool_name(&name).map_err(|problem| at(problem.code, "name", problem.message))?;
    for (part, text, most) in [
        ("description", &description, MAX_TEXT),
        ("return_sample", &return_sample, MAX_TEXT),
        ("input_schema_json", &input_schema_json, MAX_SCHEMA),
    ] {
        if text.len() > most {
            let message = format!("of {name:?} has {} bytes; at most {most} are kept", text.len());
            return Err(at(Code::TooLarge, part, message));
        }
        if text.contains('\0') {
            let message = format!("of {name:?} contains the character U+0000; remove it");
            return Err(at(Code::TypeMismatch, part, message));
        }
    }
    let timeout_s = match timeout {
        None => None,
        Some(timeout) if TIMEOUT_S.contains(&timeout.seconds) => {
            u64::try_from(timeout.seconds).ok()
        }
        Some(timeout) => {
            let message = format!("of {name:?} is {} s; choose 1 s to 30 days", timeout.seconds);
            return Err(at(Code::LimitOutOfRange, "timeout", message));
        }
    };
    let schema_invalid = |reason: String| {
        let message = format!("the input schema of {name:?} does not compile: {reason}");
        Fault::new(FaultCode::SchemaInvalid, message)
            .with_field(format!("announce.{field}.input_schema_json"))
    };
    let schema = match input_schema_json.trim() {
        "" => r#"{"type":"object"}"#,
        text => text,
    };
    let value = json::parse(schema).map_err(|error| schema_invalid(error.to_string()))?.value;
    if value.as_object().is_none() {
        return Err(schema_invalid("it is no JSON object".to_owned()));
    }
    let spec = WorkerSpec { description, input_schema: value.to_serde(), return_sample, timeout_s };
    spec.compiled().map_err(schema_invalid)?;
    let text = serde_json::to_string(&spec).map_err(|error| schema_invalid(error.to_string()))?;
    Ok(Described {
        text_digest: sha256_hex(text.as_bytes()),
        schema_digest: value.digest(),
        name,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_all_tools_of_a_worker_have_a_bound_together() {
        let tool = |number: usize| v1::Tool {
            name: format!("t{number}"),
            input_schema_json: format!(r#"{{"description": "{}"}}"#, "x".repeat(60 << 10)),
            ..v1::Tool::default()
        };
        let announced = |tools: usize| {
            let tools = (0..tools).map(tool).collect();
            read("w", v1::Announce { worker_id: "a".to_owned(), tools, ..v1::Announce::default() })
        };
        assert_eq!(announced(17).map(|it| it.tools.len()).unwrap_or_default(), 17);
        let Err(fault) = announced(18) else { panic!("it is taken") };
        let said = format!("{fault:?}");
        assert!(said.contains("announce.tools") && said.contains("at most 1048576"), "{said}");
        assert!(said.contains("TooLarge"), "{said}");
    }
}
