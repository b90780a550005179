//! The tools by name, and the validation of their arguments.

use crate::tool::aliases::{AliasError, Aliases};
use crate::tool::builtin::{self, BuiltinSettings};
use crate::tool::mcp::McpTool;
use crate::tool::{ALWAYS_ALLOWED, RunTool, Tool, ToolSpec, WorkerTool};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use surety_common::domain::confirmation::ConfirmPolicy;
use surety_common::domain::decision::ExecuteDecision;
use surety_common::domain::json::Value;
use surety_common::domain::problem::Warning;
use surety_common::schema::{self, Schema};

/// The provider of the tools that every executor has.
const BUILTIN: &str = "builtin";

/// Why a tool was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The name is already registered.
    #[error("a tool named {0:?} is registered already")]
    DuplicateName(String),
    /// The schema of its arguments is invalid, or refers to another document.
    #[error("the input schema of {name:?} does not compile: {reason}")]
    SchemaInvalid {
        /// The tool's name.
        name: String,
        /// What is wrong with the schema.
        reason: String,
    },
    /// An alias of the configuration cannot be used.
    #[error(transparent)]
    Alias(#[from] AliasError),
    /// The client of `http_get` could not be made.
    #[error("http_get: TLS cannot be used: {0}")]
    Tls(#[from] reqwest::Error),
}

/// Tools by name. Each schema is compiled once.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Entry>,
    aliases: Aliases,
}

#[derive(Debug, Clone)]
struct Entry {
    carrier: Carrier,
    schema: Arc<Schema>,
}

/// What carries out the calls of a tool.
#[derive(Debug, Clone)]
enum Carrier {
    Tool(Arc<dyn Tool>),
    StepLoop(RunTool, Arc<ToolSpec>),
    Worker(Arc<WorkerTool>),
}

impl Entry {
    const fn is_in_loop(&self) -> bool {
        matches!(self.carrier, Carrier::StepLoop(..))
    }

    fn spec(&self) -> &ToolSpec {
        match &self.carrier {
            Carrier::Tool(tool) => tool.spec(),
            Carrier::StepLoop(_, spec) => spec,
            Carrier::Worker(tool) => &tool.spec,
        }
    }
}

impl Registry {
    /// A registry with the built-in tools.
    ///
    /// # Errors
    /// [`RegistryError`] if a built-in tool's schema is invalid, TLS cannot be used, or an alias cannot be.
    pub fn with_builtin(settings: &BuiltinSettings<'_>) -> Result<Self, RegistryError> {
        let mut registry = Self::default();
        for tool in builtin::all(settings)? {
            registry.register(tool)?;
        }
        for tool in RunTool::ALL {
            let spec = Arc::new(tool.spec());
            registry.insert(Carrier::StepLoop(tool, Arc::clone(&spec)), &spec)?;
        }
        registry.aliases =
            Aliases::new(settings.aliases, |name| registry.tools.contains_key(name))?;
        Ok(registry)
    }

    /// Registers a tool.
    ///
    /// # Errors
    /// [`RegistryError`] for a name that is already registered or a schema that does not compile.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        self.insert(Carrier::Tool(Arc::clone(&tool)), tool.spec())
    }

    /// The same tools with those of tasks: the report, and, where a forge is configured, those that act on it.
    ///
    /// # Errors
    /// [`RegistryError`] for a schema that does not compile.
    pub fn with_task_tools(&self, on_forge: bool) -> Result<Self, RegistryError> {
        let mut all = self.clone();
        all.register(Arc::new(builtin::report::SubmitReport::new()))?;
        if on_forge {
            for tool in builtin::forge::forge_tools() {
                all.register(tool)?;
            }
            all.register(Arc::new(builtin::forge_push::ForgePush::new()))?;
        }
        Ok(all)
    }

    fn insert(&mut self, carrier: Carrier, spec: &ToolSpec) -> Result<(), RegistryError> {
        let name = spec.name.clone();
        if self.tools.contains_key(&name) {
            return Err(RegistryError::DuplicateName(name));
        }
        let schema = schema::compile(&spec.input_schema)
            .map_err(|reason| RegistryError::SchemaInvalid { name: name.clone(), reason })?;
        let schema = Arc::new(schema);
        self.tools.insert(name, Entry { carrier, schema });
        Ok(())
    }

    /// The same tools with those of workers. A name of this registry stays what it is.
    #[must_use]
    pub fn with_workers(
        &self,
        tools: impl IntoIterator<Item = (Arc<WorkerTool>, Arc<Schema>)>,
    ) -> Self {
        let mut all = self.clone();
        for (tool, schema) in tools {
            if !self.is_reserved(&tool.spec.name) {
                let name = tool.spec.name.clone();
                all.tools.insert(name, Entry { carrier: Carrier::Worker(tool), schema });
            }
        }
        all
    }

    /// The same tools with those of MCP servers. A name of this registry stays what it is.
    #[must_use]
    pub(super) fn with_servers<'t>(
        &self,
        tools: impl IntoIterator<Item = &'t Arc<McpTool>>,
    ) -> Self {
        let mut all = self.clone();
        for tool in tools {
            let name = &tool.spec().name;
            if !self.is_reserved(name) {
                let schema = Arc::clone(tool.schema());
                let carrier = Carrier::Tool(Arc::clone(tool) as Arc<dyn Tool>);
                all.tools.insert(name.clone(), Entry { carrier, schema });
            }
        }
        all
    }

    /// Whether a name is that of a tool, or stands for one.
    pub fn is_reserved(&self, name: &str) -> bool {
        self.tools.contains_key(self.aliases.resolve(name))
    }

    /// The tool of workers with this name.
    pub fn worker_tool(&self, name: &str) -> Option<&Arc<WorkerTool>> {
        match &self.tools.get(name)?.carrier {
            Carrier::Worker(tool) => Some(tool),
            Carrier::Tool(_) | Carrier::StepLoop(..) => None,
        }
    }

    /// Who serves the tool with this name.
    pub fn provider_of(&self, name: &str) -> &str {
        self.outsider(name).unwrap_or(BUILTIN)
    }

    /// Who outside this executor serves the tool with this name, and writes its texts.
    pub fn outsider(&self, name: &str) -> Option<&str> {
        match &self.tools.get(name)?.carrier {
            Carrier::Worker(tool) => Some(&tool.provider),
            Carrier::Tool(tool) => tool.witness(),
            Carrier::StepLoop(..) => None,
        }
    }

    /// The tool with this name; none for one that the step loop or a worker carries out.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        match &self.tools.get(name)?.carrier {
            Carrier::Tool(tool) => Some(Arc::clone(tool)),
            Carrier::StepLoop(..) | Carrier::Worker(_) => None,
        }
    }

    /// The tool over the run's rows with this name.
    pub fn run_tool(&self, name: &str) -> Option<RunTool> {
        match self.tools.get(name)?.carrier {
            Carrier::StepLoop(tool, _) => Some(tool),
            Carrier::Tool(_) | Carrier::Worker(_) => None,
        }
    }

    /// Whether the tool of a name or an alias only reads.
    pub fn only_reads(&self, name: &str) -> bool {
        let entry = self.tools.get(self.aliases.resolve(name));
        entry.is_some_and(|entry| entry.spec().annotations.read_only)
    }

    /// The descriptions of all tools, sorted by name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(Entry::spec)
    }

    /// The descriptions of all tools, sorted by name, and whether the step loop carries them out.
    pub fn carried(&self) -> impl Iterator<Item = (&ToolSpec, bool)> {
        self.tools.values().map(|entry| (entry.spec(), entry.is_in_loop()))
    }

    /// The description of one tool, and whether the step loop carries it out.
    pub fn carried_as(&self, name: &str) -> Option<(&ToolSpec, bool)> {
        self.tools.get(name).map(|entry| (entry.spec(), entry.is_in_loop()))
    }

    /// The aliases of a tool, sorted.
    pub fn aliases_of<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a str> {
        self.aliases.of(tool)
    }

    /// The decision with the tool's own name in its call, and a warning where it had an alias.
    pub fn resolve(&self, decision: ExecuteDecision) -> (ExecuteDecision, Option<Warning>) {
        self.aliases.resolve_call(decision)
    }

    /// The tools that a step expects, by their own names.
    pub fn expected<'a>(&self, names: &'a [String]) -> Cow<'a, [String]> {
        self.aliases.resolve_all(names)
    }

    /// The descriptions of the tools that a step may call when it expects these, sorted by name.
    pub fn allowed(&self, expected: &[String]) -> Vec<&ToolSpec> {
        let expected = self.expected(expected);
        let allowed = |spec: &&ToolSpec| {
            expected.is_empty()
                || expected.contains(&spec.name)
                || ALWAYS_ALLOWED.contains(&spec.name.as_str())
        };
        self.specs().filter(allowed).collect()
    }

    /// Whether each call of a tool needs a confirmation: by a policy, or by the tools that a step names, under its own
    /// name or an alias. Tools over the run's own rows need none.
    pub fn needs_confirmation(
        &self,
        spec: &ToolSpec,
        policy: &ConfirmPolicy,
        named: &[String],
    ) -> bool {
        // Most runs name nothing, and every turn asks this of every tool.
        if policy.covers_nothing(named) {
            return false;
        }
        let covers = |name: &str| policy.covers(named, name, spec.annotations.effects());
        self.run_tool(&spec.name).is_none()
            && (covers(&spec.name) || self.aliases_of(&spec.name).any(covers))
    }

    /// Validates arguments against a tool's schema. An unknown tool accepts none.
    ///
    /// # Errors
    /// One sentence for each error, without the values: it may become the cause of a run's end,
    /// which is logged and traced.
    pub fn validate(&self, name: &str, arguments: &Value) -> Result<(), Vec<String>> {
        let Some(entry) = self.tools.get(name) else {
            return Err(vec![format!("there is no tool named {name:?}")]);
        };
        let wrong = schema::faults(&entry.schema, arguments);
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
