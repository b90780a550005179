//! A tool of a server as the executor offers it.

use super::content;
use super::error::CallFailure;
use super::host::Server;
use super::listing::{LIST_RESOURCES, Listed, Listing, READ_RESOURCE, full_name};
use super::{Answer, Asked, Request, WITNESS};
use crate::tool::{Annotations, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use surety_common::config::{McpAnnotations, McpTransport};
use surety_common::domain::json::Value;
use surety_common::schema::{self, Schema};
use surety_common::telemetry;

/// The most attempts of a call that may be repeated.
const ATTEMPTS: u32 = 3;

/// A tool of a server.
pub(in crate::tool) struct McpTool {
    spec: ToolSpec,
    schema: Arc<Schema>,
    server: Arc<Server>,
    witness: String,
    what: What,
}

/// What it asks of its server.
enum What {
    /// To call the tool of this name, as it was described when it was listed.
    Call { name: String, digest: String, result: Option<Schema> },
    /// To list its resources.
    ListResources,
    /// To read one.
    ReadResource,
}

impl McpTool {
    /// The tools that a server offers, and why some of those that it lists are left out.
    pub(super) fn of_server(server: &Arc<Server>, listing: Listing) -> (Vec<Self>, Vec<String>) {
        let config = &server.config;
        let allows = |tool: &str| config.allows(tool);
        let (listing, mut left_out) = listing.offered(&config.name, config.resources, allows);
        let mut tools = Vec::new();
        let resources = [LIST_RESOURCES, READ_RESOURCE].map(|name| resource_tool(server, name));
        let resources = resources.into_iter().filter(|_| listing.has_resources);
        for (name, described) in listing
            .tools
            .iter()
            .map(|listed| (&*listed.name, described(server, listed)))
            .chain(resources)
        {
            let (what, spec) = described;
            match schema::compile(&spec.input_schema) {
                Ok(schema) => tools.push(Self {
                    schema: Arc::new(schema),
                    server: Arc::clone(server),
                    witness: format!("{WITNESS}{}", config.name),
                    what,
                    spec,
                }),
                Err(why) => left_out.push(format!("{name}: {why}")),
            }
        }
        (tools, left_out)
    }

    /// The compiled schema of its arguments.
    pub(in crate::tool) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether runs of a namespace may call it; none asks for those that name no server.
    pub(in crate::tool) fn serves(&self, namespace: Option<&str>) -> bool {
        match namespace {
            Some(namespace) => self.server.config.serves(namespace),
            None => self.server.config.namespaces.is_none(),
        }
    }

    /// The namespaces that its server names.
    pub(in crate::tool) fn namespaces(&self) -> &[String] {
        self.server.config.namespaces.as_deref().unwrap_or_default()
    }

    fn asked(&self, args: &Value) -> Asked {
        let text = |key: &str| args.get(key).and_then(Value::as_str).map(str::to_owned);
        match &self.what {
            What::Call { name, .. } => {
                let arguments = args.to_serde().as_object().cloned().unwrap_or_default();
                Asked::Tool { name: name.clone(), arguments }
            }
            What::ListResources => Asked::Resources(text("cursor")),
            What::ReadResource => Asked::Resource(text("uri").unwrap_or_default()),
        }
    }

    fn may_repeat(&self) -> bool {
        self.spec.annotations.may_repeat()
    }

    async fn work(&self, ctx: &ToolContext, args: &Value) -> Result<ToolOutcome, ToolError> {
        let name = &self.server.config.name;
        let shown = match &self.what {
            What::Call { name, digest, .. } => Some((name.as_str(), digest.as_str())),
            What::ListResources | What::ReadResource => None,
        };
        let request = Request {
            what: self.asked(args),
            call_id: ctx.call_id,
            deadline: ctx.deadline,
            cancel: ctx.cancel.clone(),
        };
        let mut attempt = 1;
        loop {
            let client = ctx.servers.acquire(&self.server, ctx, shown).await?;
            let sandbox = client.sandbox().to_owned();
            let failure = match ctx.servers.call(&self.server, ctx, (&client, &request)).await {
                Ok(answer) => return Ok(ToolOutcome { sandbox, ..self.outcome(answer) }),
                Err(failure) => failure,
            };
            let may_repeat = self.may_repeat();
            if !(may_repeat && attempt < ATTEMPTS && matches!(failure, CallFailure::Lost(_))) {
                let outcome = ToolOutcome::from(failure.into_error(name, may_repeat));
                return Ok(ToolOutcome { sandbox, ..outcome });
            }
            tracing::warn!(server = %name, attempt, ?failure, "mcp: a call was lost and is made again");
            attempt += 1;
        }
    }

    fn outcome(&self, answer: Answer) -> ToolOutcome {
        let result = match &self.what {
            What::Call { result, .. } => result.as_ref(),
            What::ListResources | What::ReadResource => None,
        };
        content::outcome(&self.spec.name, answer, result)
    }
}

fn described(server: &Server, listed: &Listed) -> (What, ToolSpec) {
    let McpAnnotations { read_only, destructive, idempotent, open_world } =
        server.config.tools.get(&listed.name).copied().unwrap_or_default();
    let spec = ToolSpec {
        name: full_name(&server.config.name, &listed.name),
        description: listed.description.clone(),
        input_schema: listed.input_schema.clone(),
        annotations: Annotations { read_only, destructive, idempotent, open_world },
        scan: false,
        default_timeout: server.config.timeout,
        return_sample: Cow::Borrowed(""),
    };
    // It compiled when the list was looked through.
    let result = listed.output_schema.as_ref().and_then(|schema| schema::compile(schema).ok());
    (What::Call { name: listed.name.clone(), digest: listed.digest(), result }, spec)
}

fn resource_tool<'n>(server: &Server, name: &'n str) -> (&'n str, (What, ToolSpec)) {
    let (what, description, input_schema) = if name == READ_RESOURCE {
        let uri = json!({"type": "string", "minLength": 1, "description": "The address of the resource."});
        let schema = json!({
            "type": "object", "properties": {"uri": uri}, "required": ["uri"], "additionalProperties": false
        });
        (What::ReadResource, "Reads one resource of the server.", schema)
    } else {
        let cursor =
            json!({"type": "string", "description": "Where the next part of a long list begins."});
        let schema = json!({
            "type": "object", "properties": {"cursor": cursor}, "additionalProperties": false
        });
        (What::ListResources, "Lists the resources of the server: names and addresses.", schema)
    };
    let open_world = matches!(server.config.transport, McpTransport::Url(_));
    let spec = ToolSpec {
        name: full_name(&server.config.name, name),
        description: description.to_owned(),
        input_schema,
        annotations: Annotations { open_world, ..Annotations::READS },
        scan: false,
        default_timeout: server.config.timeout,
        return_sample: Cow::Borrowed(""),
    };
    (name, (what, spec))
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let begun = Instant::now();
            let outcome = self.work(ctx, args).await.unwrap_or_else(ToolOutcome::from);
            let ended = match outcome.error_code {
                Some(code) => code.as_str(),
                None if outcome.success => "ok",
                None => "failed",
            };
            telemetry::record_mcp_call(&self.server.config.name, ended, begun.elapsed());
            outcome
        })
    }

    fn may_write(&self) -> bool {
        let writes = match &self.server.config.transport {
            // Whatever its tool is said to do, a process that can write may.
            McpTransport::Command(command) => command.may_write,
            McpTransport::Url(_) => false,
        };
        writes || !self.spec.annotations.read_only
    }

    fn runs_code(&self) -> bool {
        self.server.is_process()
    }

    fn witness(&self) -> Option<&str> {
        Some(&self.witness)
    }
}
